"""``agentgym submit pack`` and ``check``: a run as one file to send in, and whether such a file is whole."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym.agents.screen import printable
from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import (
    Commands,
    Parser,
    add_allow,
    add_command,
    add_groups,
    add_limits,
    add_suites,
    chosen_limits,
    chosen_suites,
)
from agentgym.cli.terminal import open_console, open_progress_console
from agentgym.errors import UsageError


def add_to(commands: Commands[Parser]) -> None:
    """Declare the commands."""
    group = add_groups(
        add_command(
            commands,
            "submit",
            None,
            about=COMMANDS["submit"],
            example="agentgym submit pack results/quick/oracle-1a2b3c4d5e6f --out benchmarks/submissions",
        )
    )
    pack = add_command(
        group,
        "pack",
        run_pack,
        about="Verify runs and write an archive of each: the packed run, the result of verification, a "
        "card, and the transcripts if all tasks are built in. The same run gives the same bytes.",
        example="agentgym submit pack results/quick/gigpo-1a2b3c4d5e6f --contact me@example.org",
    )
    pack.add_argument(
        "run_folders",
        type=Path,
        nargs="+",
        metavar="RUN",
        help="folder of a complete run; to join several in one row, such as the training seeds of one "
        "agent, pack them in one command",
    )
    pack.add_argument(
        "--out",
        type=Path,
        default=Path("benchmarks/submissions"),
        metavar="FOLDER",
        help="the file goes to FOLDER/SUITE/ (default: benchmarks/submissions)",
    )
    for flag, about in (
        ("--contact", "address of the person responsible for the run"),
        ("--licence", "licence of the agent and its weights"),
        ("--training-data", "training data of the agent, in words"),
    ):
        pack.add_argument(flag, metavar="TEXT", help=f"{about} (default: as the run's agent states)")
    add_allow(pack)
    check = add_command(
        group,
        "check",
        run_check,
        about="Replay the runs of archives, and print a line for everything that is missing or does "
        "not replay; the exit code is then 1.",
        example="agentgym submit check benchmarks/submissions/quick/oracle-1a2b3c4d5e6f.submission.zip",
    )
    check.add_argument("archives", type=Path, nargs="+", metavar="ARCHIVE")
    add_suites(check)
    add_allow(check)
    add_limits(check)


def run_pack(arguments: argparse.Namespace) -> int:
    """Pack."""
    from agentgym.evaluation.log.stored_run import read_stored_run
    from agentgym.evaluation.suites import NAMES
    from agentgym.evaluation.suites.suite_text import write_suite
    from agentgym.evaluation.verify.submission_card import CARD_FIELDS, CardFields
    from agentgym.evaluation.verify.submit import pack_submission

    runs = [read_stored_run(folder) for folder in arguments.run_folders]
    given = {name: text for name in CARD_FIELDS if (text := getattr(arguments, name)) is not None}
    together = {run.log.record_id or "" for run in runs} if len(runs) > 1 else ()
    for run in runs:
        path = pack_submission(
            run,
            arguments.out,
            fields=replace(CardFields.of(run.log), **given),
            together=together,
            allow=arguments.allow,
            console=open_progress_console(),
        )
        lines = [f"{path} ({path.stat().st_size:,} bytes)"]
        if run.suite.name not in NAMES:  # `check` looks for it in this folder
            write_suite(arguments.out / "suites", run.suite)
            suite = arguments.out / "suites" / f"{run.suite.name}.toml"
            lines.append(f"{suite} (the suite, which does not ship with agentgym: send it too)")
        open_console().print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
    return 0


def run_check(arguments: argparse.Namespace) -> int:
    """Check; 1 where anything is missing or does not replay."""
    from agentgym.evaluation.verify.box import boxed
    from agentgym.evaluation.verify.submissions import run_places
    from agentgym.evaluation.verify.submit import CheckedSubmission, check_submission

    suites = chosen_suites(arguments)
    box: Any = {
        "allow": arguments.allow,
        "limits": chosen_limits(arguments),
        "console": open_progress_console(),
    }
    console, code = open_console(), 0
    for path in arguments.archives:
        try:
            found = boxed(check_submission, path, suites, **run_places(path, suites), **box)
        except (UsageError, OSError) as error:
            found = CheckedSubmission((f"cannot be checked here: {error}",))
        for problem in found.problems:
            line = printable(f"{path}: {problem}")
            console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
            code = 1
        if found.ok and found.verdict is not None:
            line = f"{path}: {found.verdict.earned} ({found.verdict.episodes:,} episodes)"
            console.print(line, style="green", markup=False, highlight=False, soft_wrap=True)
    return code
