"""The commands there are, as one parser."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from agentgym.cli.parser import Parser, add_debug
from agentgym.version import __version__

COMMANDS = (
    *("envs", "play", "bench", "verify", "judge", "leaderboard", "submit", "view", "site", "serve", "train"),
    *("recipes", "plot", "data", "export", "imports", "index", "doctor"),
)
"""In the order of ``--help``. A new command is a module, and its name here."""


def make_parser(words: Sequence[str] = ()) -> Parser:
    """Return the parser of the command line, with the one command that ``words`` name, or with all."""
    parser = Parser(
        prog="agentgym",
        description="Environments and a re-executable leaderboard for language agents.",
        epilog="example: agentgym play agentgym/Sokoban-v0",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"agentgym {__version__}")
    add_debug(parser, default=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    named = next((word for word in words if not word.startswith("-")), None)
    # importing and declaring them all takes a fifth of a second
    for name in [name for name in COMMANDS if name == named] or COMMANDS:
        import_module(f"agentgym.cli.{name}").add_to(commands)
    return parser
