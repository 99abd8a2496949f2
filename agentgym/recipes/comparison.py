"""A recipe beside its paper, and two recipes beside each other: rows, JSON and a Markdown table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentgym.core.hashing import canonical_json
from agentgym.recipes.environments import short_name
from agentgym.recipes.reader import SECTIONS, AlgorithmRecipes, Recipe, RecipeSetting


@dataclass(frozen=True, slots=True)
class ComparedSetting:
    """A setting, and the environments whose runs have it."""

    name: str
    envs: tuple[str, ...]
    setting: RecipeSetting

    @property
    def preset(self) -> str:
        """The recipe's value as text."""
        return value_text(self.setting.value)

    @property
    def paper(self) -> str:
        """The paper's own value as text."""
        return self.setting.paper or self.preset


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


def compared(recipe: Recipe) -> list[ComparedSetting]:
    """Return a recipe's settings in order."""
    return [ComparedSetting(name, (recipe.env_id,), setting) for name, setting in recipe.settings.items()]


def compared_everywhere(recipes: AlgorithmRecipes) -> list[ComparedSetting]:
    """Return the settings of an algorithm on every environment; equal ones are one row."""
    names = dict.fromkeys(name for each in recipes.by_env.values() for name in each.settings)
    in_order = sorted(names, key=lambda name: SECTIONS.index(name.partition(".")[0]))
    return [row for name in in_order for row in _rows(recipes, name)]


def _rows(recipes: AlgorithmRecipes, name: str) -> Iterator[ComparedSetting]:
    """Yield a row for each value, source or departure that the environments have of one setting."""
    found: dict[str, tuple[RecipeSetting, list[str]]] = {}
    for env_id, recipe in recipes.by_env.items():
        if name in recipe.settings:
            setting = recipe.settings[name]
            key = canonical_json([setting.value, setting.source, setting.paper, setting.why])
            found.setdefault(key, (setting, []))[1].append(env_id)
    for setting, envs in found.values():
        yield ComparedSetting(name, tuple(envs), setting)


def differences(one: Recipe, other: Recipe) -> list[tuple[str, RecipeSetting | None, RecipeSetting | None]]:
    """Return the settings whose values differ between two recipes, in order; None where one has no value."""
    names = {**one.settings, **other.settings}
    in_order = sorted(names, key=lambda name: SECTIONS.index(name.partition(".")[0]))
    pairs = [(name, one.settings.get(name), other.settings.get(name)) for name in in_order]
    return [(name, a, b) for name, a, b in pairs if a is None or b is None or a.value != b.value]


def as_json(recipes: AlgorithmRecipes, recipe: Recipe, env_id: str) -> dict[str, Any]:
    """Return a recipe's settings for an environment as JSON."""
    return {
        "algorithm": recipes.algorithm,
        "algorithm_paper": recipes.paper,
        "tables": recipes.tables,
        "recipe": recipe.name,
        "env": env_id,
        "trained_by_a_paper": recipe.env_id == env_id,
        "lines": [
            {
                "setting": row.name,
                "preset": row.setting.value,
                "paper": row.setting.paper or row.setting.value,
                "source": row.setting.source,
                "departs": row.setting.departs,
                "why": row.setting.why,
            }
            for row in compared(recipe)
        ],
    }


def markdown(recipes: AlgorithmRecipes) -> str:
    """Return an algorithm's recipes as a table a paper for its page; in bold where one departs from it."""
    papers = dict.fromkeys(each.table for each in recipes.recipes)
    own = {name: tuple(each for each in recipes.recipes if each.table == name) for name in papers}
    tables = [_table(replace(recipes, recipes=own[name]), f" --table {name}") for name in papers]
    return f"The runs of: {recipes.tables}.\n\n" + "\n".join(tables)


def _table(recipes: AlgorithmRecipes, flag: str) -> str:
    everywhere = tuple(recipes.by_env)
    on = ", ".join(map(short_name, everywhere))
    lines = [
        f"`agentgym train {recipes.algorithm} --preset paper{flag}` on {on}:",
        "",
        "| setting | environments | preset | paper | source |",
        "|---|---|---|---|---|",
    ]
    for row in compared_everywhere(recipes):
        where = "all" if row.envs == everywhere else ", ".join(map(short_name, row.envs))
        paper = f"**{row.paper}**: {row.setting.why}" if row.setting.departs else "the same"
        lines.append(f"| `{row.name}` | {where} | `{row.preset}` | {paper} | {row.setting.source} |")
    return "\n".join(lines) + "\n"
