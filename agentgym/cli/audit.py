"""``agentgym audit A B``: what two results have in common, and what choosing gives for nothing."""

from __future__ import annotations

import argparse
import json

from agentgym.agents.screen import printable
from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import Commands, Parser, add_allow, add_command
from agentgym.cli.terminal import open_console, say
from agentgym.errors import UsageError


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    example = "agentgym audit GRPO=77.6,n=128,seeds=3 GiGPO=90.8,n=128,seeds=3,best-of=30"
    parser = add_command(commands, "audit", run, about=COMMANDS["audit"], example=example)
    parser.add_argument(
        "results",
        nargs="+",
        metavar="RESULT",
        help="two or more results; each is compared with the first. A result is a run, packed or not; "
        "NAME=PERCENT; or FILE.toml#PAPER#TABLE#METHOD#COLUMN[#MODEL], a paper's number. Add what "
        "you know: ,n=TASKS,seeds=SEEDS,spread=PERCENT,best-of=CHECKPOINTS",
    )
    parser.add_argument("--env", metavar="LABEL", help="environment, if the runs have several")
    parser.add_argument(
        "--best-of",
        type=int,
        default=30,
        metavar="K",
        help="number of checkpoints to choose from, if no result states it (default: %(default)s, every "
        "fifth of 150)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, an object for each comparison")
    add_allow(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print a table of facts and a verdict for each result against the first."""
    from rich.table import Table
    from rich.text import Text

    from agentgym.evaluation.board.audit import FACTS, MET, NOT_SAID, audit, read_result
    from agentgym.io.optional import only_trusted

    if len(arguments.results) < 2 or not 2 <= arguments.best_of <= 10_000:
        raise UsageError("give two results or more, and --best-of from 2 to 10,000")
    with only_trusted(arguments.allow):
        first, *others = (read_result(text, arguments.env, arguments.allow) for text in arguments.results)
    findings = [audit(first, other, arguments.best_of) for other in others]
    if arguments.json:
        say(json.dumps([finding.record() for finding in findings], allow_nan=False))
        return 0
    for finding in findings:
        one, other = finding.first, finding.second
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_row("", *(Text(printable(each.name)) for each in (one, other)))
        table.add_row("success", *(f"{100 * each.success:.1f} %" for each in (one, other)))
        known = [name for name in (*FACTS, MET) if name in {*one.facts, *other.facts}]
        for name in known:
            stated = (Text(printable(each.facts.get(name, NOT_SAID))) for each in (one, other))
            table.add_row(name, *stated, finding.facts.get(name, ""))
        open_console().print(table)
        unknown = [name for name in (*FACTS, MET) if name not in known]
        say(
            f"neither says: {', '.join(unknown)}"
            if unknown
            else "each fact is stated by at least one of them"
        )
        say(printable(finding.verdict))
    return 0
