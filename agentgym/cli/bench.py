"""``agentgym bench SUITE``: run a suite."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.agents.screen import printable
from agentgym.cli.bench_agents import add_agents, check_scaffold, chosen_agents
from agentgym.cli.bench_protocols import add_what_is_played, chosen_suite, print_protocols
from agentgym.cli.commands import COMMANDS
from agentgym.cli.endpoints import add_endpoint_settings, endpoint_settings, print_calls
from agentgym.cli.estimate import print_estimate
from agentgym.cli.parser import Commands, Parser, add_command, add_limits, chosen_limits
from agentgym.cli.terminal import open_console, open_progress_console
from agentgym.cli.verify import report
from agentgym.errors import UsageError
from agentgym.interrupts import Interrupt

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym.evaluation.suites.suite import Suite, SuiteAgent


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "bench",
        run,
        about=COMMANDS["bench"],
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
        "--baselines",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="play the suite's or protocol's floor and oracle too, without which most suites rank nothing "
        "(default: yes)",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="LABEL",
        help="play this environment of the suite, as a suite of its own; repeat for several (default: all)",
    )
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
    _add_outputs(parser)


def _add_outputs(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="verify the runs afterwards, and print their table (default: yes)",
    )
    add_limits(parser)
    parser.add_argument(
        "--leaderboard",
        type=Path,
        metavar="FILE.md",
        help="write the leaderboard of all runs in the output directory afterwards",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run, then verify and rank; 1 when a run does not verify."""
    from agentgym.evaluation.play.bench import run_bench
    from agentgym.evaluation.suites.suite import load_suite, part_of

    console, progress = open_console(), open_progress_console()
    if arguments.protocols:
        return print_protocols(console)
    suite, asked, required = chosen_suite(arguments)
    known = load_suite(suite)
    check_scaffold(arguments, [agent.name for agent in known.agent])
    further, names = chosen_agents(arguments, asked)
    names, baselines = _with_baselines(known, further, names, wanted=arguments.baselines)
    played = part_of(known, arguments.env, arguments.limit)
    settings = endpoint_settings(arguments, probe=not arguments.no_probe)
    if arguments.estimate:
        return print_estimate(arguments, played, further, names, console)
    try:
        folders = run_bench(
            suite,
            arguments.out,
            agents=names,
            further=further,
            envs=arguments.env,
            limit=arguments.limit,
            baselines=baselines,
            required=required,
            num_envs=arguments.num_envs,
            transcripts=arguments.transcripts,
            redact=arguments.redact,
            endpoints=settings,
            console=progress,
        )
    except KeyboardInterrupt:
        raise Interrupt(": what has ended is kept, and the same command plays the rest") from None
    for folder in folders:
        print_calls(folder, progress)
        _print_errors(folder, progress)
        _print_unreadable(folder, progress)
        if not arguments.verify:
            console.print(str(folder), markup=False, soft_wrap=True)
    kept = arguments.out / "suites" / f"{played.name}.toml"
    return _rank(arguments, folders, played, suite if played == known else kept, console, progress)


def _with_baselines(
    suite: Suite, further: Sequence[SuiteAgent], names: list[str] | None, *, wanted: bool
) -> tuple[list[str] | None, tuple[str, ...]]:
    """Return the agents, with or without the suite's floor and oracle, and the names that were added."""
    scale = tuple(agent.name for agent in suite.agent if agent.name in suite.anchors)
    if wanted and names is not None:
        return [*scale, *names], tuple(name for name in scale if name not in names)
    if wanted and not suite.floor:  # ranked without them
        return None, scale
    if not wanted and names is None:
        names = [agent.name for agent in (*suite.agent, *further) if agent.name not in scale]
        if not names:
            raise UsageError(f"--no-baselines leaves no agent of suite {suite.name}: add one to play")
    return names, ()


def _rank(
    arguments: argparse.Namespace,
    folders: Sequence[Path],
    played: Suite,
    suite: Path,
    console: Console,
    progress: Console,
) -> int:
    """Verify the runs of a suite, and print their table or write the leaderboard of all; the exit code."""
    from agentgym.cli.leaderboard import build, print_boards
    from agentgym.evaluation.board.boards import make_boards
    from agentgym.evaluation.verify.submissions import examine_below

    suites, sound, found = {played.name: suite}, True, []
    box: Any = {"allow": played.references, "limits": chosen_limits(arguments)}
    if arguments.verify:
        for run in examine_below(arguments.out / played.name, suites=suites, console=progress, **box):
            found.append(run.found)
            if run.path in folders:
                sound &= run.verdict is not None and report(run.path, run.verdict, console)
    if arguments.leaderboard is not None:
        build(arguments.out, arguments.leaderboard, console, suites=suites, **box)
    elif arguments.verify:
        print_boards(*make_boards(found), console)
    return 0 if sound else 1


def _print_unreadable(folder: Path, console: Console) -> None:
    """Print the share of unreadable replies of each model, with the first one; nothing where none was."""
    from agentgym.evaluation.log.stored_run import read_stored_run
    from agentgym.evaluation.log.unreadable import unreadable_answers, unreadable_responses

    run = read_stored_run(folder)
    for each in (*unreadable_responses(run), *unreadable_answers(run)):
        line = printable(f"{folder.name}: {each}")
        console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)


def _print_errors(folder: Path, console: Console) -> None:
    """Print the number of episodes without a result, and the remedy; nothing where all have one."""
    from agentgym.evaluation.log.results import RETRIED, latest
    from agentgym.evaluation.log.runfiles import read_episodes

    ends = Counter(episode.end_reason for episode in latest(read_episodes(folder)))
    failed = {end: ends[end] for end in RETRIED if ends[end]}
    if failed:
        kinds = ", ".join(f"{count:,} {end}" for end, count in failed.items())
        line = f"{folder.name}: {sum(failed.values()):,} of {ends.total():,} episodes ended in an error "
        line += f"({kinds}) and count 0: the same command plays them again"
        console.print(printable(line), style="yellow", markup=False, highlight=False, soft_wrap=True)
