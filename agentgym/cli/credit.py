"""``agentgym credit run RUN``: regret of every step of a run; and the group of commands about credit."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.agents.screen import printable
from agentgym.cli import credit_board
from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import Commands, Parser, add_allow, add_command, add_groups
from agentgym.cli.terminal import open_console, say

if TYPE_CHECKING:
    from agentgym.credit.regret import EpisodeRegret
    from agentgym.evaluation.log.results import EvalSample


def add_to(commands: Commands[Parser]) -> None:
    """Declare the commands."""
    example = "agentgym credit run results/quick/rules-1a2b3c4d5e6f"
    groups = add_groups(add_command(commands, "credit", None, about=COMMANDS["credit"], example=example))
    about = "Print the regret of episodes: steps lost compared with a shortest way, and the decisive one."
    parser = add_command(groups, "run", run, about=about, example=example)
    parser.add_argument(
        "run_folder", type=Path, metavar="RUN", help="folder of a run, a packed run, or an archive"
    )
    parser.add_argument("--env", metavar="LABEL", help="an environment of the run (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON, with the figures of every step")
    add_allow(parser)
    credit_board.add_to(groups)


def run(arguments: argparse.Namespace) -> int:
    """Replay the run, and print its regret."""
    from agentgym.credit.regret import regret_of_run
    from agentgym.evaluation.verify.archives import open_run
    from agentgym.io.optional import only_trusted
    from agentgym.registration import suite_spec

    with only_trusted(arguments.allow):
        stored = open_run(arguments.run_folder, allow=arguments.allow)
        results = [each for each in stored.results if arguments.env in (None, each.env)]
        proven = {each.env.label for each in stored.log.envs if suite_spec(each.env.id).distance}
        measured = [each for each in results if each.env in proven] or results  # of none, the error says why
        found = list(regret_of_run(stored, measured))
    if arguments.json:
        table = [_table(episode, regret) for episode, regret in found]
        open_console().print(json.dumps(table, allow_nan=False), markup=False, soft_wrap=True)
    else:
        _print(found)
        for label in sorted({each.env for each in results} - {each.env for each in measured}):
            say(f"{printable(label)}: left out, since no shortest way to a win can be proven")
    return 0


def _print(found: list[tuple[EvalSample, EpisodeRegret]]) -> None:
    from rich.table import Table

    from agentgym.credit.regret import RegretSummary, total

    names = ("episode", "ended", "steps", "shortest", "regret", "of belief", "undone", "decisive step")
    table = Table(*names, box=None, pad_edge=False)
    for episode, regret in found:
        sums = map(str, (regret.left[0], total(regret.known), total(regret.belief), sum(regret.undone)))
        ended = episode.end_reason.replace("_", " ")
        row = episode.id, ended, str(episode.length), *sums, str(regret.decisive or "")
        table.add_row(*map(printable, row))
    open_console().print(table, markup=False, soft_wrap=True)
    for name, won in (("won", True), ("lost", False)):
        summary = RegretSummary.of([regret for episode, regret in found if episode.won == won])
        if summary.episodes:
            say(f"{name}: {summary.sentence}")


def _table(episode: EvalSample, regret: EpisodeRegret) -> dict[str, Any]:
    kinds = ("left", "known", "belief")
    figures = {kind: [each.as_json for each in getattr(regret, kind)] for kind in kinds}
    marks = {"undone": list(regret.undone), "decisive": regret.decisive}
    return {"episode": episode.id, "won": episode.won, "limit": regret.limit, **figures, **marks}
