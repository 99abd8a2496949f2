"""``agentgym credit board``: how near estimators of advantages come to the truth."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, get_args

from agentgym.cli.parser import Commands, Parser, add_command
from agentgym.cli.terminal import open_console, say
from agentgym.core.options import UNIT_INTERVAL, check_choice
from agentgym.errors import UsageError

if TYPE_CHECKING:
    from agentgym.credit.board import CreditRow
    from agentgym.credit.standings import Standing

HEADINGS = {
    "correlation": "correlation",
    "rank": "of ranks",
    "wrong_signs": "wrong signs",
    "no_signal": "no signal",
    "bias": "bias",
    "variance": "variance",
    "cosine": "cosine",
}
"""Headings of the measures' columns."""


def add_to(actions: Commands[Parser]) -> None:
    """Declare the command, in the group ``credit``."""
    from agentgym.credit.board import Matching

    about = (
        "Compare advantage estimators with the true advantages of a known policy. These are exact if "
        "all states can be listed, else estimated from continuations."
    )
    example = "agentgym credit board ezpoints --algorithm gigpo mine:ALGORITHM"
    parser = add_command(actions, "board", run, about=about, example=example)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="suites (default: all)")
    parser.add_argument(
        "--algorithm",
        nargs="+",
        default=[],
        metavar="NAME",
        help="algorithms, by name, entry point, module:attribute or FILE.py:attribute (default: all)",
    )
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds (default: %(default)s)")
    parser.add_argument(
        "--success", type=float, default=0.6, metavar="P", help="share of wins (default: %(default)s)"
    )
    parser.add_argument(
        "--group-size", type=int, default=8, metavar="N", help="episodes of a group (default: %(default)s)"
    )
    parser.add_argument("--penalty", action="store_true", help="send rejected actions, at a penalty")
    parser.add_argument(
        "--match", choices=get_args(Matching), default="state", help="criterion of equal states"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, a record for each seed")


def run(arguments: argparse.Namespace) -> int:
    """Measure the estimators, and print a table for each suite."""
    from agentgym.credit.board import SUITES, CreditCell, default_algorithms, measure
    from agentgym.credit.standings import standings

    for suite in arguments.suites:
        check_choice("SUITE", suite, tuple(SUITES))
    if arguments.seeds < 1 or arguments.group_size < 2:
        raise UsageError("--seeds must be at least 1, and --group-size at least 2")
    UNIT_INTERVAL.check("--success", arguments.success)
    for suite in arguments.suites or SUITES:
        if arguments.seeds > SUITES[suite].max_seeds:
            raise UsageError(f"{suite} has tasks for {SUITES[suite].max_seeds} seeds: lower --seeds")
    names = [_reference(name) for name in arguments.algorithm] or list(default_algorithms())
    records = []
    for suite in arguments.suites or SUITES:
        cell = CreditCell(
            suite=suite,
            success=arguments.success,
            group_size=arguments.group_size,
            penalty=arguments.penalty,
            match=arguments.match,
        )
        rows: list[CreditRow] = []
        for seed in range(arguments.seeds):
            rows += measure(suite, [cell], seed, algorithms=names)
        if arguments.json:
            records += [row.record() for row in rows]
        else:
            conditions = f"policy wins {cell.success:.4g} of its episodes, groups of {cell.group_size}"
            conditions += ", rejected actions punished" if cell.penalty else ""
            conditions += ", states by text" if cell.match == "text" else ""
            if continuations := SUITES[suite].continuations:
                conditions += f", advantages from {continuations} continuations of each state"
            say(f"{suite}: {conditions}; seeds: {arguments.seeds}")
            _print(standings(rows))
    if arguments.json:
        open_console().print(json.dumps(records, allow_nan=False), markup=False, soft_wrap=True)
    return 0


def _reference(name: str) -> str:
    """Return ``module:attribute`` for ``FILE.py:attribute``, and other names as they are."""
    file, colon, attribute = name.partition(".py:")
    if colon and file.startswith(("/", "..")):
        raise UsageError(f"{name}: run from the folder of the file, and name the file without folders")
    return f"{file.removeprefix('./').replace('/', '.')}:{attribute}" if colon else name


def _print(found: list[Standing]) -> None:
    from rich.table import Table

    from agentgym.credit.standings import figure

    table = Table("rank", "algorithm", "learned", *HEADINGS.values(), box=None, pad_edge=False)
    for standing in found:
        figures = [figure(standing.measures[name].value) for name in HEADINGS]
        learned = str(standing.iterations or "")
        table.add_row(str(standing.rank), standing.algorithm, learned, *figures)
    open_console().print(table, markup=False, soft_wrap=True)
