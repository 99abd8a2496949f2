"""A recipe beside its papers: every line with its source, as rows, as JSON and as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.hashing import canonical_json
from agentgym.recipes.environments import short_name
from agentgym.recipes.lines import Line, Recipe, in_order


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """A line, and the environments whose runs have it."""

    setting: str
    envs: tuple[str, ...]
    line: Line

    @property
    def preset(self) -> str:
        """The preset's value as text."""
        return value_text(self.line.value)

    @property
    def paper(self) -> str:
        """The paper's own value as text."""
        return self.line.paper or self.preset


def value_text(value: Any) -> str:
    """Return a value as the command line takes it.

    Example:
        >>> value_text("sparse10"), value_text([6, 6]), value_text(0.0003), value_text(True)
        ('sparse10', '[6, 6]', '0.0003', 'true')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {value_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(value_text, value)) + "]"
    return canonical_json(value) if isinstance(value, bool) else f"{value:g}"


def compared(recipe: Recipe, env_id: str | None = None) -> list[ComparedLine]:
    """Return a recipe's lines in order.

    Args:
        recipe: any.
        env_id: whose lines; None for those of every environment, where equal ones are one row.
    """
    if env_id is not None:
        return [ComparedLine(name, (env_id,), line) for name, line in recipe.lines(env_id).items()]
    names: dict[str, Line] = {}
    for lines in recipe.by_env.values():
        names |= lines
    return [row for name in in_order(names) for row in _rows(recipe, name)]


def _rows(recipe: Recipe, name: str) -> Iterator[ComparedLine]:
    """Yield a row for each line that the environments have of one setting, told apart by what they say."""
    found: dict[str, tuple[Line, list[str]]] = {}
    for env_id, lines in recipe.by_env.items():
        if name in lines:
            line = lines[name]
            key = canonical_json([line.value, line.source, line.paper, line.why])
            found.setdefault(key, (line, []))[1].append(env_id)
    for line, envs in found.values():
        yield ComparedLine(name, tuple(envs), line)


def as_json(recipe: Recipe, env_id: str) -> dict[str, Any]:
    """Return a recipe's lines for an environment as JSON."""
    return {
        "algorithm": recipe.algorithm,
        "algorithm_paper": recipe.paper,
        "tables": recipe.tables,
        "env": env_id,
        "trained_by_a_paper": env_id in recipe.by_env,
        "lines": [
            {
                "setting": row.setting,
                "preset": row.line.value,
                "paper": row.line.paper or row.line.value,
                "source": row.line.source,
                "departs": row.line.departs,
                "why": row.line.why,
            }
            for row in compared(recipe, env_id)
        ],
    }


def markdown(recipe: Recipe) -> str:
    """Return a recipe as a table for its page; in bold where the preset departs from the paper."""
    everywhere = tuple(recipe.by_env)
    lines = [
        f"`agentgym train {recipe.algorithm} --preset paper` on {', '.join(map(short_name, everywhere))}; "
        f"the runs of: {recipe.tables}.",
        "",
        "| setting | environments | preset | paper | source |",
        "|---|---|---|---|---|",
    ]
    for row in compared(recipe):
        where = "all" if row.envs == everywhere else ", ".join(map(short_name, row.envs))
        paper = f"**{row.paper}**: {row.line.why}" if row.line.departs else "the same"
        lines.append(f"| `{row.setting}` | {where} | `{row.preset}` | {paper} | {row.line.source} |")
    return "\n".join(lines) + "\n"
