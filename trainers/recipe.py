"""Running a recipe from the command line."""

from __future__ import annotations

import sys

from agentgym.cli import main as run_command


def main(algorithm: str) -> None:
    """Run ``agentgym train ALGORITHM`` with the program's words, and exit."""
    sys.exit(run_command(["train", algorithm, *sys.argv[1:]]))
