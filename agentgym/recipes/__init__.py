"""Presets of the papers: one module per algorithm, whose ``PAPER`` holds its published settings."""

from __future__ import annotations

from importlib.util import find_spec

from agentgym.errors import UsageError
from agentgym.extras import load_reference
from agentgym.training.config import PLAIN, TINY, Preset

PRESETS = ("tiny", "paper", "plain")
"""Names that `preset` takes."""


def has_paper(algorithm: str) -> bool:
    """Return whether there is a recipe of the algorithm's paper."""
    return algorithm.isidentifier() and find_spec(f"{__name__}.{algorithm}") is not None


def preset(name: str, algorithm: str) -> Preset:
    """Return a preset by name.

    Args:
        name: one of `PRESETS`.
        algorithm: whose paper is meant.

    Raises:
        UsageError: there is no recipe for the algorithm.
    """
    if name != "paper":
        return {"tiny": TINY, "plain": PLAIN}[name]
    if not has_paper(algorithm):
        raise UsageError(f"there is no recipe of a paper for {algorithm}: use --preset plain")
    paper: Preset = load_reference(f"{__name__}.{algorithm}:PAPER")
    return paper
