"""``agentgym bench SUITE``: run a suite."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.agents.screen import printable
from agentgym.cli.bench_agents import add_agents, check_scaffold, chosen_agents
from agentgym.cli.bench_protocols import add_what_is_played, chosen_suite, print_protocols
from agentgym.cli.endpoints import add_endpoint_settings, endpoint_settings, print_calls
from agentgym.cli.estimate import print_estimate
from agentgym.cli.parser import Commands, Parser, add_command
from agentgym.cli.terminal import open_console, open_progress_console
from agentgym.cli.verify import report

if TYPE_CHECKING:
    from rich.console import Console

ABOUT = "Run a benchmark suite; resumes an interrupted run."


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "bench",
        run,
        about=ABOUT,
        example="agentgym bench quick --agent random --verify",
    )
    add_what_is_played(parser)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results"),
        metavar="FOLDER",
        help="output directory (default: results)",
    )
    add_agents(parser)
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="play the first N tasks of each environment, as a suite of its own (default: all)",
    )
    parser.add_argument(
        "--estimate",
        action="store_true",
        help="print calls, tokens and price of models behind endpoints, and ask nothing",
    )
    add_endpoint_settings(parser)
    parser.add_argument(
        "--no-probe", action="store_true", help="do not ask endpoints first which parameters they take"
    )
    parser.add_argument(
        "--num-envs", type=int, default=64, metavar="N", help="episodes played side by side (default: 64)"
    )
    parser.add_argument(
        "--transcripts",
        action=argparse.BooleanOptionalAction,
        help="keep what agents were sent and said in transcripts.jsonl (default: of models only)",
    )
    parser.add_argument(
        "--redact",
        action="append",
        default=[],
        metavar="PATTERN",
        help="regular expression of what transcripts must not hold, besides keys; repeat for several",
    )
    parser.add_argument("--verify", action="store_true", help="verify the runs afterwards")
    parser.add_argument(
        "--leaderboard", type=Path, metavar="FILE.md", help="rank the runs in the output directory afterwards"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run, then verify and rank as asked; 1 when a run does not verify."""
    from agentgym.evaluation.bench import run_bench
    from agentgym.evaluation.suite import load_suite
    from agentgym.evaluation.verify import verify_run

    console, progress = open_console(), open_progress_console()
    if arguments.protocols:
        return print_protocols(console)
    suite, asked, required = chosen_suite(arguments)
    known = load_suite(suite)
    check_scaffold(arguments, [agent.name for agent in known.agent])
    further, names = chosen_agents(arguments, asked)
    settings = endpoint_settings(arguments, probe=not arguments.no_probe)
    if arguments.estimate:
        return print_estimate(arguments, known, further, names, console)
    folders = run_bench(
        suite,
        arguments.out,
        agents=names,
        further=further,
        limit=arguments.limit,
        required=required,
        num_envs=arguments.num_envs,
        transcripts=arguments.transcripts,
        redact=arguments.redact,
        endpoints=settings,
        console=progress,
    )
    if arguments.limit is not None:
        known = known.first(arguments.limit)
        suite = arguments.out / "suites" / f"{known.name}.toml"
    sound = True
    for folder in folders:
        print_calls(folder, progress)
        _print_errors(folder, progress)
        if arguments.verify:
            verdict = verify_run(folder, suite=suite, allow=known.references, console=progress)
            sound &= report(folder, verdict, console)
        else:
            console.print(str(folder), markup=False, soft_wrap=True)
    if arguments.leaderboard is not None:
        from agentgym.cli.leaderboard import build

        build(
            arguments.out,
            arguments.leaderboard,
            console,
            suites={known.name: suite},
            allow=known.references,
        )
    return 0 if sound else 1


def _print_errors(folder: Path, console: Console) -> None:
    """Say how many episodes of a run have no result, and how they get one; nothing where all have."""
    from agentgym.evaluation.results import RETRIED, latest
    from agentgym.evaluation.runfiles import read_episodes

    ends = Counter(episode.end_reason for episode in latest(read_episodes(folder)))
    failed = {end: ends[end] for end in RETRIED if ends[end]}
    if failed:
        kinds = ", ".join(f"{count:,} {end}" for end, count in failed.items())
        line = f"{folder.name}: {sum(failed.values()):,} of {ends.total():,} episodes ended in an error "
        line += f"({kinds}) and count 0: the same command plays them again"
        console.print(printable(line), style="yellow", markup=False, highlight=False, soft_wrap=True)
