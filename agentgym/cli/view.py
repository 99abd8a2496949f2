"""``agentgym view RUN``: list a run's episodes, or replay one in the terminal."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from agentgym.agents.screen import printable, show_state, show_step
from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import Commands, Parser, add_allow, add_command, seconds
from agentgym.cli.terminal import is_interactive, open_console
from agentgym.core.suite_spec import ScreenHints
from agentgym.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym.evaluation.log.frames import EpisodeFrame
    from agentgym.evaluation.log.results import EvalSample
    from agentgym.evaluation.log.transcripts import TranscriptRecord

LISTED = 30
"""Episodes listed where none is named, shared among the environments."""


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "view",
        run,
        about=COMMANDS["view"],
        example="agentgym view results/quick/oracle-1a2b3c4d5e6f --episode Sokoban/00c4 --delay 0.2",
    )
    parser.add_argument(
        "run_folder", type=Path, metavar="RUN", help="folder of a run, a packed run, or an archive"
    )
    parser.add_argument(
        "--episode",
        metavar="ID",
        help="LABEL/TASK/ROLLOUT, or a part only one episode has (default: list some)",
    )
    parser.add_argument(
        "--delay", type=seconds, metavar="SECONDS", help="time between steps, instead of waiting for Enter"
    )
    parser.add_argument("--step", type=int, metavar="N", help="show only the state after step N and stop")
    parser.add_argument(
        "--regret", action="store_true", help="show the steps that each step loses against a shortest way"
    )
    parser.add_argument(
        "--export",
        type=Path,
        metavar="FILE",
        help="write a file instead: .html, a page that needs nothing else; .gif, a film; .png, the step of "
        "--step, or a sheet of several",
    )
    add_allow(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replay, or list; 1 when the replay differs from the record."""
    from agentgym.io.optional import only_trusted

    if arguments.episode is None and (arguments.export, arguments.step) != (None, None):
        raise UsageError(
            f"name the episode with --episode ID: `agentgym view {arguments.run_folder}` lists them"
        )
    with only_trusted(arguments.allow):
        return _view(arguments)


def _view(arguments: argparse.Namespace) -> int:
    from agentgym.credit.regret import RegretFrame, regret_frames
    from agentgym.evaluation.log.frames import frames
    from agentgym.evaluation.log.replay import ReplayGames
    from agentgym.evaluation.log.transcripts import find_transcript
    from agentgym.evaluation.verify.archives import open_run

    if arguments.export is not None:
        return _export(arguments)
    run = open_run(arguments.run_folder, allow=arguments.allow)
    if arguments.episode is None:
        _list(arguments.run_folder, run.samples)
        return 0
    env, episode = run.sample(arguments.episode)
    if arguments.step is not None and not 0 <= arguments.step <= episode.length:
        raise UsageError(f"the episode has steps 0 to {episode.length}: choose one, not {arguments.step}")
    # runs may be published without their transcripts
    transcript = find_transcript(run.folder, episode.transcript) if run.has_transcripts else None
    console = open_console()
    waits = is_interactive() and arguments.delay is None and arguments.step is None
    title = printable(f"{run.log.agent.display_name}, {episode.id}")
    with ExitStack() as stack:
        game, _ = ReplayGames([env], run.answers, stack, run.log.state_schemas).of(env.label)
        played: Iterable[EpisodeFrame | RegretFrame] = frames(game, env, episode)
        if arguments.regret:
            played = regret_frames(game, frames(game, env, episode))
        for turn, each in enumerate(played):
            frame = each.frame if isinstance(each, RegretFrame) else each
            if turn and waits and not _wait():
                return 0
            if turn and arguments.delay:
                sleep(arguments.delay)
            if arguments.step in (None, turn):
                if turn and transcript is not None:
                    _show_exchange(console, transcript, turn - 1)
                _show(console, f"{title}, turn {turn} of {episode.length}", frame, game.suite_spec.screen)
                if isinstance(each, RegretFrame):
                    console.print(str(each), style="cyan", soft_wrap=True)
            if frame.link != episode.hash_chain[turn]:
                console.print(f"the replay differs from the record at step {turn}", style="bold red")
                return 1
    if arguments.step is None and transcript is not None:
        for number in range(episode.length, len(transcript.steps)):
            _show_exchange(console, transcript, number)
        for found in transcript.redactions:
            console.print(f"redacted: {found.pattern}, {found.count} times", style="dim", markup=False)
    _show_outcome(console, episode)
    return 0


def _list(folder: Path, episodes: Sequence[EvalSample]) -> None:
    """Print the first episodes of each environment, and how one is opened."""
    from rich.table import Table

    by_env: dict[str, list[tuple[int, EvalSample]]] = {}
    for number, episode in enumerate(episodes, 1):
        by_env.setdefault(episode.env, []).append((number, episode))
    table = Table("no.", "episode", "ended", "steps", "score", box=None, pad_edge=False)
    for found in list(by_env.values())[:LISTED]:
        for number, episode in found[: max(1, LISTED // len(by_env))]:
            row = episode.id, episode.end_reason.replace("_", " "), str(episode.length), f"{episode.score:g}"
            table.add_row(str(number), *map(printable, row))
    console = open_console()
    console.print(table, markup=False, soft_wrap=True)
    opened = shlex.join(("agentgym", "view", str(folder), "--episode", "1"))
    line = f"{table.row_count} of {len(episodes):,} episodes; one is shown by: {opened}"
    console.print(printable(line), markup=False, soft_wrap=True)


def _export(arguments: argparse.Namespace) -> int:
    """Write the episode to a file; 1 when its replay differs from the record."""
    from agentgym.site.export import export_episode

    differs = export_episode(
        arguments.run_folder,
        arguments.episode,
        arguments.export,
        step=arguments.step,
        regret=arguments.regret,
        allow=arguments.allow,
    )
    console = open_console()
    if differs is not None:
        console.print(f"the replay differs from the record at step {differs}", style="bold red")
    console.print(f"written to {arguments.export}", markup=False, soft_wrap=True)
    return 0 if differs is None else 1


def _show_outcome(console: Console, episode: EvalSample) -> None:
    outcome = episode.end_reason.replace("_", " ")
    console.print(
        f"{outcome} after {episode.length} steps: score {episode.score:g}, return {episode.episode_return:g}",
        style="bold green" if episode.won else "bold yellow",
    )
    if episode.measures:
        measures = ", ".join(f"{name} {value:g}" for name, value in episode.measures.items())
        console.print(f"measures: {printable(measures)}", markup=False, soft_wrap=True)


def _show(console: Console, title: str, frame: EpisodeFrame, hints: ScreenHints) -> None:
    if frame.step is not None:
        show_step(console, frame.step)
    show_state(console, title, frame.observation, frame.admissible_actions, frame.state_hash, hints=hints)


def _show_exchange(console: Console, transcript: TranscriptRecord, number: int) -> None:
    """Show a step's messages to and from the model, and the parsed action."""
    from rich.text import Text

    if number >= len(transcript.steps):
        return  # a transcript of another episode, which verification reports
    step = transcript.steps[number]
    for message in transcript.messages(number):
        console.print(Text(f"[{printable(message.role)}]", style="bold"), soft_wrap=True)
        console.print(Text(printable(message.text), style="dim"), soft_wrap=not console.is_terminal)
    if step.error:
        console.print(Text(f"no answer: {printable(step.error)}", style="bold red"), soft_wrap=True)
        return
    console.print(Text("[response]", style="bold"), soft_wrap=True)
    console.print(Text(printable(step.response)), soft_wrap=not console.is_terminal)
    read = f"read as {printable(step.action)}"
    if step.note:
        read += f", {printable(step.note)}"
    if step.format_error:
        read = f"format error: {printable(step.format_error)}"
    spent = f"{step.prompt_tokens:,} + {step.completion_tokens:,} tokens, {step.seconds:.3g} seconds"
    console.print(Text(f"{read}  ({spent})", style="red" if step.format_error else "green"), soft_wrap=True)


def _wait() -> bool:
    """Wait for Enter; False when the person has seen enough."""
    try:
        return input("Enter: next step, q: quit > ").strip().lower() != "q"
    except EOFError:
        return False
