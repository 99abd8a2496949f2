"""Running a recipe from the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from agentgym.cli import answer
from agentgym.cli.training import parse_recipe, train
from agentgym.training.presets import TINY, Preset


def main(algorithm: str, paper: Preset) -> None:
    """Train as the command line says, and exit.

    Args:
        algorithm: its name.
        paper: the preset called ``paper``.
    """
    presets = {"tiny": TINY, "paper": paper}

    def run(words: Sequence[str]) -> int:
        return train(parse_recipe(list(words), algorithm, tuple(presets)), presets)

    sys.exit(answer(run, sys.argv[1:], f"trainers.{algorithm}"))
