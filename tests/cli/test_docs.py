"""The commands that the pages on evaluation show are commands that there are."""

import re
import shlex
from pathlib import Path

import pytest

from agentgym.cli.commands import make_parser

ROOT = Path(__file__).parents[2]
PAGES = (
    "docs/evaluation.md",
    "docs/trust.md",
    "docs/endpoints.md",
    "docs/tutorials/endpoint.md",
    "benchmarks/suites/endpoints.toml",
)


def commands(page: str) -> list[str]:
    """Return the command lines of a page, in blocks, in comments and between backticks."""
    text = re.sub(r"\\\n\s*", "", (ROOT / page).read_text(encoding="utf-8"))
    lines = re.findall(
        r"^(?:#\s+)?(agentgym (?:bench|verify|judge|leaderboard|view) .*)$", text, re.MULTILINE
    )
    return [line.partition("  #")[0] for line in lines]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_is_understood(page: str) -> None:
    for line in commands(page):
        arguments = make_parser().parse_args(shlex.split(line)[1:])
        assert callable(arguments.run), line
    assert commands(page) or page == "docs/endpoints.md"
