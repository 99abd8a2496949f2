"""The commands there are, as one parser."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from agentgym.cli.parser import Parser, add_debug
from agentgym.version import __version__

COMMANDS = {
    "envs": "List the environments with their data sets, splits and sizes.",
    "play": "Play an episode in the terminal, or watch an agent play it.",
    "bench": "Run a benchmark suite; resumes an interrupted run.",
    "verify": "Verify runs by playing every recorded action again.",
    "judge": "Ask a run's judge again, and measure how much its ratings of one transcript vary.",
    "leaderboard": "Build the leaderboard of a folder of runs, or pack runs.",
    "audit": "Compare results: their tasks, the difference, and what choosing checkpoints adds by chance.",
    "submit": "Pack a run into one file to send in, or check such files.",
    "view": "Replay a saved episode in the terminal, step by step, with the model's prompts and responses.",
    "credit": "Measure the value of steps: the regret of a run, or the error of advantage estimators.",
    "site": "Build the leaderboard as static pages, with a viewer of every step, and serve them.",
    "serve": "Serve a web site for human players, or an environment, a search index or a model for trainers.",
    "train": "Train a model by reinforcement learning, or by cloning an oracle.",
    "recipes": "Show the recipes of the papers, each setting beside the paper's own value.",
    "plot": "Draw learning curves of training runs: mean and band over the seeds of each algorithm. "
    "With --what, draw a diagnostic of one or several runs, and write its numbers beside it as JSON.",
    "data": "List, download, import and verify official data; write demonstrations; manage data pools.",
    "import": "Replay somebody else's log, compare every value that it states, and store it as a run.",
    "index": "Download, build, take over, inspect, query and verify search indexes.",
    "doctor": "Check the installation, or whether a model's tool calls can be read. With --cpu or "
    "--gpu, run at least one iteration of each learner path on this machine, and report as JSON.",
}
"""Description of each command, in the order of ``--help``. A new command is a module, and its name here."""

MODULES = {"import": "imports"}
"""Modules of commands whose name is a keyword of Python."""


def make_parser(words: Sequence[str] = ()) -> Parser:
    """Return the parser of the command line: for ``words``, with the arguments of the command they name."""
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
    for name in [named] if named in COMMANDS else COMMANDS:
        if words and name != named:
            commands.add_parser(name, help=COMMANDS[name])  # importing them all takes 0.2 seconds
        else:
            import_module(f"agentgym.cli.{MODULES.get(name, name)}").add_to(commands)
    return parser
