"""``agentgym bench SUITE``: run a suite."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.cli.parser import Commands, Parser, add_command
from agentgym.cli.terminal import open_console, open_progress_console
from agentgym.cli.verify import report
from agentgym.errors import UsageError

if TYPE_CHECKING:
    from agentgym.evaluation.suite import SuiteAgent

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
    parser.add_argument(
        "suite", metavar="SUITE", help="the name of a shipped suite, such as quick, or a TOML file"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results"),
        metavar="FOLDER",
        help="output directory (default: results)",
    )
    parser.add_argument(
        "--agent",
        action="append",
        metavar="NAME",
        help="who plays; repeat for several (default: all)",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="FOLDER[:NAME]",
        help="a saved model to play too, named as its training run by default; repeat for several",
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


def _model_agent(text: str) -> SuiteAgent:
    """Return the agent that ``--model`` names."""
    from agentgym.evaluation.suite import SuiteAgent
    from agentgym.training.policy.saved import read_agent

    path, colon, name = text.rpartition(":")
    if not colon or Path(text).is_dir():
        path, name = text, ""
    saved = read_agent(Path(path))
    if saved is None:
        raise UsageError(
            f'{path} has no agent.json, which says how the model is asked: add an [[agent]] of kind "model" '
            "to a suite, with the options path, wording and answer"
        )
    return SuiteAgent(name or saved.training.run, "model", options={"path": path})


def run(arguments: argparse.Namespace) -> int:
    """Run, then verify and rank as asked; 1 when a run does not verify."""
    from agentgym.evaluation.bench import run_bench
    from agentgym.evaluation.suite import load_suite
    from agentgym.evaluation.suites import suite_file
    from agentgym.evaluation.verify import verify_run

    console, progress = open_console(), open_progress_console()
    suite = suite_file(arguments.suite)
    known = load_suite(suite)
    folders = run_bench(
        suite,
        arguments.out,
        agents=arguments.agent,
        further=[_model_agent(text) for text in arguments.model],
        num_envs=arguments.num_envs,
        transcripts=arguments.transcripts,
        redact=arguments.redact,
        console=progress,
    )
    sound = True
    for folder in folders:
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
