"""Write the short table of recipes into each algorithm's page: ``python -m tools.recipe_tables``.

The settings of each recipe beside its paper are pages of the site (`tools/build_site.py`), and
``agentgym recipes show NAME`` prints them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentgym.algos.table import ALGORITHMS
from agentgym.recipes import algorithms_with_recipes, recipes_of
from agentgym.recipes.environments import short_name
from agentgym.recipes.reader import Recipe
from tools.blocks import replaced, section_block

PAGES = Path(__file__).resolve().parents[1] / "docs" / "algorithms"

TITLE = "Recipes"
BLOCK = section_block(TITLE)

ABOUT = "`agentgym recipes show {0}` prints each setting with its source."
HEAD = "| paper | recipes | settings that depart from the paper |\n|---|---|---|"


def names_of(page: str) -> list[str]:
    """Return the algorithms of a page that have recipes.

    Args:
        page: its name, without ``.md``.
    """
    return [name for name in algorithms_with_recipes() if ALGORITHMS[name].page == page]


def table(name: str) -> str:
    """Return an algorithm's recipes as a table: a line a paper, with links to the recipes' files."""
    by_paper: dict[str, list[Recipe]] = {}
    for recipe in recipes_of(name).recipes:
        by_paper.setdefault(recipe.table, []).append(recipe)
    return "\n".join([HEAD, *(_line(paper, recipes) for paper, recipes in by_paper.items())]) + "\n"


def _line(paper: str, recipes: list[Recipe]) -> str:
    links = (f"[{short_name(each.env_id)}](../../trainers/{each.name}.toml)" for each in recipes)
    departing = dict.fromkeys(
        name for each in recipes for name, setting in each.settings.items() if setting.departs
    )
    settings = ", ".join(f"`{name}`" for name in departing) or "none"
    return f"| {paper} | {', '.join(links)} | {settings} |"


def section(page: str) -> str:
    """Return the section of a page that lists the recipes of its algorithms.

    Args:
        page: its name, without ``.md``.
    """
    names = names_of(page)
    parts = [f"## {TITLE}", ABOUT.format(recipes_of(names[0]).recipes[0].name).rstrip()]
    for name in names:
        parts += [f"### {ALGORITHMS[name].title}"] * (len(names) > 1) + [table(name).rstrip()]
    return "\n\n".join(parts) + "\n"


def updated(page: Path) -> str:
    """Return a page's text with its recipes as they should be."""
    return replaced(page.read_text(encoding="utf-8"), BLOCK, section(page.stem))


def with_links(page: Path, text: str) -> str:
    """Return a page's text as the site shows it: its recipes have links to their pages of settings.

    Args:
        page: its path in the checkout.
        text: its text; other pages than those of algorithms stay as they are.
    """
    if page.parts[:2] != ("docs", "algorithms") or not (names := names_of(page.stem)):
        return text
    links = ", ".join(f"[{ALGORITHMS[name].title}](../../recipes/{name}.md)" for name in names)
    return replaced(text, BLOCK, f"{section(page.stem)}\nEach setting beside its paper: {links}.\n")


def pages() -> Iterator[Path]:
    """Yield the pages of algorithms that have a recipe."""
    yield from sorted({PAGES / f"{ALGORITHMS[name].page}.md" for name in algorithms_with_recipes()})


if __name__ == "__main__":
    for path in pages():
        path.write_text(updated(path), encoding="utf-8")
