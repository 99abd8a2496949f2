"""``agentgym verify RUN``: play a run's actions again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.agents.screen import printable
from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import Commands, Parser, add_allow, add_command, add_limits, chosen_limits, seed
from agentgym.cli.terminal import open_console, open_progress_console
from agentgym.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym.evaluation.verify.model_check import ModelSample
    from agentgym.evaluation.verify.verdicts import Verdict

PROBLEMS_SHOWN = 20


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "verify",
        run,
        about=COMMANDS["verify"],
        example="agentgym verify results/quick/random-1a2b3c4d5e6f",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of a run, or a packed run")
    parser.add_argument(
        "--suite",
        metavar="SUITE",
        help="suite of the runs: the name of a shipped suite, or a TOML file (default: by the name in "
        "the run)",
    )
    parser.add_argument(
        "--rerun",
        action="store_true",
        default=None,
        help="let the agent play everything again (default: only random, oracle, rules and similar)",
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="recompute random responses with this model, a directory or OWNER/NAME of the hub, from the "
        "run's transcripts",
    )
    parser.add_argument(
        "--sample", type=int, metavar="N", help="with --model: number of recomputed responses (default: 200)"
    )
    parser.add_argument(
        "--sample-seed", type=seed, metavar="SEED", help="with --model: seed of the sample (default: random)"
    )
    add_allow(parser)
    add_limits(parser)


def run(arguments: argparse.Namespace) -> int:
    """Verify each run; 1 when one does not verify. What cannot be verified is an error, a line each."""
    from agentgym.evaluation.suites import suite_file
    from agentgym.evaluation.verify.box import boxed
    from agentgym.evaluation.verify.submissions import run_places
    from agentgym.evaluation.verify.verification import verify_run

    suite = None if arguments.suite is None else suite_file(arguments.suite)
    suites = {} if suite is None else {"": suite}
    model, limits, console = _model_sample(arguments), chosen_limits(arguments), open_console()
    given: Any = {"suite": suite, "allow": arguments.allow, "console": open_progress_console()}
    sound, errors = True, []
    for path in arguments.runs:
        try:
            if model is None and not arguments.rerun:
                verdict = boxed(verify_run, path, **run_places(path, suites), limits=limits, **given)
            else:  # the user's own files and servers, of any size
                verdict = verify_run(path, rerun=arguments.rerun, model=model, **given)
        except (UsageError, OSError) as error:
            errors.append(f"{path}: {error}")
        else:
            sound &= report(path, verdict, console)
    if errors:
        raise UsageError("\n".join(errors))
    return 0 if sound else 1


def _model_sample(arguments: argparse.Namespace) -> ModelSample | None:
    """Return the model sample of ``--model`` and its flags."""
    from agentgym.evaluation.verify.model_check import ModelSample
    from agentgym.io.hub import model_directory

    chosen = {"sample": arguments.sample, "seed": arguments.sample_seed}
    given = {name: value for name, value in chosen.items() if value is not None}
    if arguments.model is None:
        if given:
            raise UsageError("--sample and --sample-seed go with --model: name the model's directory")
        return None
    return ModelSample(model_directory(arguments.model), **given)


def report(folder: Path, verdict: Verdict, console: Console) -> bool:
    """Print a verdict; return whether it is good."""
    checked = f"{verdict.episodes:,} episodes, {verdict.steps:,} steps"
    if verdict.model is not None:
        found = verdict.model
        checked += (
            f"; {found.sampled:,} of {found.responses:,} responses recomputed, log-probabilities differ by "
            f"at most {found.largest_difference:.1g}"
        )
        checked += ", draws are the engine's own" if found.tolerance.draw >= 1 else ""
    if verdict.answers is not None:
        answers = verdict.answers
        checked += f"; {answers.recorded:,} answers recorded, {answers.recomputed:,} recomputed"
        checked += f", {answers.attested:,} attested" if answers.attested else ""
        checked += "".join(f"; {reason}" for reason in answers.absent)
    if verdict.ok:
        line = printable(f"{verdict.earned}: {folder} ({checked})")
        console.print(line, style="green", markup=False, soft_wrap=True)
        return True
    line = printable(f"not verified: {folder} ({checked}), {len(verdict.problems)} problems")
    console.print(line, style="red", markup=False, soft_wrap=True)
    for problem in verdict.problems[:PROBLEMS_SHOWN]:
        console.print(f"  {printable(str(problem))}", markup=False, soft_wrap=True)
    more = len(verdict.problems) - PROBLEMS_SHOWN
    if more > 0:
        line = printable(f"  and {more} more in {folder / 'verify.json'}")
        console.print(line, markup=False, soft_wrap=True)
    return False
