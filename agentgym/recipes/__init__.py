"""Recipes of the papers: one module per algorithm, whose ``RECIPE`` holds what is published about its runs.

The modules are data and need no torch; only `preset` does.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from agentgym.algos.table import ALGORITHMS
from agentgym.errors import UsageError, nearest
from agentgym.extras import load_reference
from agentgym.recipes.lines import Lines, Recipe

if TYPE_CHECKING:
    from agentgym.training.config import Preset

PRESETS = ("tiny", "paper", "plain")
"""Names that `preset` takes."""

RECIPES = tuple(name for name in ALGORITHMS if find_spec(f"{__name__}.{name}") is not None)
"""Algorithms that have a recipe."""


def has_paper(algorithm: str) -> bool:
    """Return whether there is a recipe of the algorithm's paper."""
    return algorithm in RECIPES


def recipe(algorithm: str) -> Recipe:
    """Return the recipe of an algorithm.

    Raises:
        UsageError: there is none.

    Example:
        >>> recipe("hgpo").lines("agentgym/WebShop-v0")["switches.std"].value
        False
    """
    if not has_paper(algorithm):
        raise UsageError(
            f"there is no recipe of a paper for {algorithm}{nearest(algorithm, RECIPES)}: choose one of "
            f"{', '.join(RECIPES)}, or train with --preset plain"
        )
    found: Recipe = load_reference(f"{__name__}.{algorithm}:RECIPE")
    return found


def preset(name: str, algorithm: str) -> Preset:
    """Return a preset by name.

    Args:
        name: one of `PRESETS`.
        algorithm: whose paper is meant.

    Raises:
        UsageError: there is no recipe for the algorithm.
    """
    from agentgym.training.config import PLAIN, TINY, Preset

    if name != "paper":
        return {"tiny": TINY, "plain": PLAIN}[name]
    found = recipe(algorithm)
    by_env = {env: _values(lines) for env, lines in found.by_env.items()}
    return Preset(settings=_values(found.elsewhere), by_env=by_env, apart=True)


def _values(lines: Lines) -> dict[str, Any]:
    return {name: line.value for name, line in lines.items()}
