"""Write each recipe with its parts as one file: ``python -m tools.resolved_recipes``, or ``make pages``.

``trainers/resolved/PAPER/NAME.toml`` has the settings that ``agentgym recipes show PAPER/NAME`` prints, each
with its source. The files are for readers: no command takes them, and they are not in the wheel.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentgym.evaluation.suites.suite_text import toml_value
from agentgym.recipes import Recipe, find_recipe, recipe_names, root
from agentgym.recipes.comparison import compared

FOLDER = root() / "resolved"

HEAD = """\
# trainers/{name}.toml with the parts that it extends, written by `make pages`: change the recipe instead.

algorithm = {algorithm}
env = {env}

"""


def resolved(recipe: Recipe) -> str:
    """Return a recipe as TOML: a table for each section, a comment for each source and departure."""
    algorithm, env = toml_value(recipe.algorithm), toml_value(recipe.env_id)
    return HEAD.format(name=recipe.name, algorithm=algorithm, env=env) + "\n".join(_lines(recipe))


def _lines(recipe: Recipe) -> Iterator[str]:
    section = ""
    for row in compared(recipe):
        table, _, key = row.name.rpartition(".")
        if table != section:
            yield f"\n[{table}]"
            section = table
        if row.setting.departs:
            yield f"# The paper: {row.paper}"
            yield f"# Otherwise here: {row.setting.why}"
        yield f"{key} = {toml_value(row.setting.value)}  # {row.setting.source}"
    yield ""


def files(paper: str) -> dict[Path, str]:
    """Return what the files of a paper's recipes hold.

    Args:
        paper: a folder of ``trainers``.
    """
    names = [name for name in recipe_names() if name.startswith(f"{paper}/")]
    return {FOLDER / f"{name}.toml": resolved(find_recipe(name)) for name in names}


def papers() -> tuple[str, ...]:
    """Return the folders of ``trainers`` that have recipes."""
    return tuple(dict.fromkeys(name.partition("/")[0] for name in recipe_names()))


def main() -> None:
    """Write the files, and remove those whose recipe is gone."""
    texts = {path: text for paper in papers() for path, text in files(paper).items()}
    for path in set(FOLDER.rglob("*.toml")) - texts.keys():
        path.unlink()
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
