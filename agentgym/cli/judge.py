"""``agentgym judge RUN``: repeat a run's ratings, and report the judge's spread."""

from __future__ import annotations

import argparse
from pathlib import Path

from agentgym.agents.screen import printable
from agentgym.cli.commands import COMMANDS
from agentgym.cli.endpoints import add_endpoint_settings, endpoint_settings
from agentgym.cli.parser import Commands, Parser, add_allow, add_command, seed
from agentgym.cli.terminal import open_console


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "judge",
        run,
        about=COMMANDS["judge"],
        example="agentgym judge results/sotopia/react-1a2b3c4d5e6f --ratings 3 --sample 50",
    )
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder of a complete run")
    parser.add_argument(
        "--ratings", type=int, default=3, metavar="N", help="ratings of each transcript (default: 3)"
    )
    parser.add_argument(
        "--sample",
        type=int,
        default=50,
        metavar="N",
        help="transcripts of each environment, drawn at random (default: 50)",
    )
    parser.add_argument(
        "--sample-seed", type=seed, default=0, metavar="SEED", help="sampling seed (default: 0)"
    )
    parser.add_argument(
        "--suite", metavar="SUITE", help="the run's suite: a shipped one's name, or a TOML file"
    )
    add_endpoint_settings(parser)
    add_allow(parser)


def run(arguments: argparse.Namespace) -> int:
    """Judge again, and print the spread of each environment."""
    from agentgym.evaluation.log.stored_run import read_stored_run
    from agentgym.evaluation.suites import suite_file
    from agentgym.evaluation.suites.suite import load_suite
    from agentgym.evaluation.verify.rejudging import judge_again

    run = read_stored_run(arguments.run_folder)
    if arguments.suite is not None:
        run = run.against(load_suite(suite_file(arguments.suite)))
    spread = judge_again(
        run,
        ratings=arguments.ratings,
        sample=arguments.sample,
        seed=arguments.sample_seed,
        allow=arguments.allow,
        endpoints=endpoint_settings(arguments, probe=False),
    )
    console = open_console()
    for label, judged in spread.envs.items():
        deviations = ", ".join(f"{name} {value:.3f}" for name, value in judged.deviations.items())
        lost = f", {judged.unanswered} unanswered" if judged.unanswered else ""
        line = (
            f"{label}: {spread.ratings} ratings of {len(judged.episodes)} transcripts{lost}: SD {deviations}"
        )
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
    return 0
