"""``agentgym train bc``: behaviour cloning from an environment's oracle or rules."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.cli.parser import Commands, Parser, add_command, parse_options, seed
from agentgym.cli.terminal import open_console, open_progress_console
from agentgym.errors import UsageError

if TYPE_CHECKING:
    from agentgym.training.cloning.clone import Cloned
    from agentgym.training.cloning.config import CloningConfig
    from agentgym.training.cloning.supervised import EpochMetrics
    from agentgym.training.config import TrainConfig

ABOUT = "Clone an environment's oracle or rules into a model (behaviour cloning), as a warm start."

_FLAGS = {
    "env_id": "--env",
    "model": "--model",
    "seed": "--seed",
    "teacher": "--teacher",
    "tasks": "--tasks",
    "epochs": "--epochs",
}

_GENTLE = 1e-5
"""Learning rate for pretrained models."""


def add_bc(commands: Commands[Parser]) -> None:
    """Declare the command within ``agentgym train``."""
    parser = add_command(
        commands,
        "bc",
        run,
        about=ABOUT,
        example="agentgym train bc --env agentgym/Sokoban-v0 --model tiny --tasks 1000 --epochs 10",
    )
    parser.add_argument(
        "--env", required=True, metavar="ID", help="environment id, for example agentgym/Sokoban-v0"
    )
    parser.add_argument(
        "--model", default="tiny", help="tiny, tiny:SIZE or a model directory (default: tiny)"
    )
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="random seed (default: 0)")
    parser.add_argument(
        "--teacher", metavar="AGENT", help="agent to clone: oracle or rules (default: oracle)"
    )
    parser.add_argument("--tasks", type=int, metavar="N", help="number of training tasks the teacher plays")
    parser.add_argument("--epochs", type=int, metavar="N", help="number of epochs")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="KEY=VALUE",
        help="change a setting, for example batch=128 or env_options.num_boxes=2; repeat for several",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="output directory, a model directory (default: under runs/)",
    )
    parser.add_argument("--resume", action="store_true", help="continue the interrupted run in --out")


def run(arguments: argparse.Namespace) -> int:
    """Clone."""
    config = _config(arguments)

    from agentgym.training.cloning.clone import clone  # torch, after the settings were checked
    from agentgym.training.learner.distributed import Ranks
    from agentgym.training.machine.resources import Machine

    folder = arguments.out or default_folder(config, "bc")
    with Ranks.join(Machine.here(config.device).device) as ranks:
        with epochs_bar(config, shown=ranks.is_first) as report:
            cloned = clone(config, folder, report=report, resume=arguments.resume, ranks=ranks)
        if ranks.is_first:
            _report(cloned, folder)
    return 0


def _config(arguments: argparse.Namespace) -> CloningConfig:
    from agentgym.inference.models.tiny_names import tiny_size
    from agentgym.inference.policy.saved import default_prompting
    from agentgym.io.records import parse
    from agentgym.registration import suite_spec
    from agentgym.training.cloning.config import CloningConfig

    table: dict[str, Any] = {"env_id": arguments.env, "model": arguments.model, "seed": arguments.seed}
    for name in ("teacher", "tasks", "epochs"):
        if getattr(arguments, name) is not None:
            table[name] = getattr(arguments, name)
    if tiny_size(arguments.model) is None:
        table["learning_rate"] = _GENTLE
    groups: dict[str, dict[str, Any]] = {"env_options": {}, "prompting": {}}
    for key, value in parse_options(arguments.settings, _FLAGS, dotted=True).items():
        group, dot, name = key.partition(".")
        if bool(dot) != (group in groups):
            parts = " and ".join(f"{known}.NAME" for known in groups)
            raise UsageError(f"setting {key!r}: settings with parts are {parts}, and no others")
        if dot:
            groups[group][name] = value
        else:
            table[key] = value
    table["env_options"] = groups["env_options"]
    if "evaluation.split" in (
        recommended := suite_spec(arguments.env).tiny
    ):  # a suite without a split `valid`
        table.setdefault("held_out_split", recommended["evaluation.split"])
    prompting = default_prompting(arguments.model, arguments.env).replaced(groups["prompting"])
    return parse(CloningConfig, {**table, "prompting": asdict(prompting)}, "settings")


def default_folder(config: CloningConfig | TrainConfig, algorithm: str) -> Path:
    """Return the default output directory, named after the algorithm, the environment and the seed."""
    env = config.env_id.rpartition("/")[2].rpartition("-v")[0].lower()
    return Path("runs") / f"{algorithm}-{env}-seed{config.seed}"


@contextmanager
def epochs_bar(config: CloningConfig, *, shown: bool = True) -> Iterator[Callable[[EpochMetrics], None]]:
    """Show a progress bar of a run of behaviour cloning, on a terminal; yield what moves it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("epochs"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    console = open_progress_console()
    with Progress(*columns, console=console, disable=not (shown and console.is_terminal)) as bars:
        bar = bars.add_task("", total=config.epochs + config.rounds, note="the teacher plays")
        yield lambda metrics: bars.update(bar, advance=1, note=f"loss {metrics.loss:.3f}")


def _report(cloned: Cloned, folder: Path) -> None:
    console = open_console()
    shown, held_out = cloned.demonstrations, cloned.held_out
    lines = [
        f"shown: {len(shown.rows):,} steps of the {shown.episodes:,} episodes that the teacher won, of "
        f"{shown.played:,} played",
        f"loss: {cloned.epochs[0].loss:.3f} in the first epoch, {cloned.epochs[-1].loss:.3f} in the last",
    ]
    if held_out is not None:
        lines.append(
            f"held out: does what the teacher does at {held_out.agreement:.1%} of {held_out.steps:,} steps; "
            f"wins {held_out.play.success:.1%} of {held_out.play.episodes} tasks"
        )
    for line in (*lines, f"model: {folder}"):
        console.print(line, markup=False, soft_wrap=True)
