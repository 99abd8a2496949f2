"""Write each recipe beside its papers into the pages of the algorithms: ``python -m tools.recipe_tables``."""

from __future__ import annotations

from pathlib import Path

from agentgym.algos.table import ALGORITHMS
from agentgym.recipes import algorithms_with_recipes, recipes_of
from agentgym.recipes.comparison import markdown
from tools.blocks import replaced, section_block

PAGES = Path(__file__).resolve().parents[1] / "docs" / "algorithms"

TITLE = "The recipe beside its papers"
BLOCK = section_block(TITLE)


def section(page: str) -> str:
    """Return what a page says of the recipes of its algorithms.

    Args:
        page: its name, without ``.md``.
    """
    names = [name for name in algorithms_with_recipes() if ALGORITHMS[name].page == page]
    parts = []
    for name in names:
        head = f"### {ALGORITHMS[name].title}\n\n" if len(names) > 1 else ""
        parts.append(head + markdown(recipes_of(name)))
    return "\n".join(parts)


def updated(page: Path) -> str:
    """Return a page's text with its recipes as they should be."""
    return replaced(page.read_text(encoding="utf-8"), BLOCK, f"## {TITLE}\n\n{section(page.stem)}")


def pages() -> list[Path]:
    """Return the pages of algorithms that have a recipe."""
    return sorted({PAGES / f"{ALGORITHMS[name].page}.md" for name in algorithms_with_recipes()})


if __name__ == "__main__":
    for path in pages():
        path.write_text(updated(path), encoding="utf-8")
