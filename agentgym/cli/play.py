"""``agentgym play ENV``: play one episode in the terminal, or watch an agent play it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

from agentgym.agents.screen import end_of, printable, text_of
from agentgym.agents.table import AGENTS, check_agent, make_agent
from agentgym.cli.board import Frame, FrameDisplay, FrameLog, PlayScreen
from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import (
    Commands,
    Parser,
    add_command,
    add_env_options,
    env_options,
    parse_options,
    seconds,
    seed,
)
from agentgym.cli.prompt import LineReader, PipedLines
from agentgym.cli.terminal import is_interactive, open_console
from agentgym.cli.terminal_session import Session, script_line
from agentgym.core.text_image import FAINT, blank, check_packages, columns_of, enlarged, gif, page, wrapped
from agentgym.core.types import Completion, Policy, Request, Snapshot, Step, Trajectory
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.registration import open_vector
from agentgym.vector.core import AgentVectorEnv

if TYPE_CHECKING:
    from rich.console import Console

WATCHING_DELAY = 0.3
"""Seconds between the steps of an agent that a person watches."""

FORMATS = {".jsonl": "JSON lines", ".gif": "GIF pictures"}
"""Format of a recording, by suffix."""

KEYS = "arrow keys or w a s d: move   Backspace: undo   :help   :quit"
LINES = "type an action or its number, Tab completes   :undo   :help   :quit"
"""Last line of the legend, where keys act at once and where they do not."""


FRAME_MILLISECONDS = 500

END_MILLISECONDS = 2000

_MIN_HEIGHT = 320
"""Pixels: smaller pictures are enlarged by a whole number to about this height."""

_MIN_COLUMNS = 30
"""Characters a line of a caption below a narrow picture."""


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "play",
        run,
        about=COMMANDS["play"],
        example="agentgym play agentgym/Sokoban-v0 --seed 1 --option reward=sparse",
    )
    parser.add_argument("env", metavar="ENV", help="an id that `agentgym envs` lists, or module:id")
    parser.add_argument("--split", default="train", help="split of the task (default: train)")
    parser.add_argument("--task", metavar="ID", help="task, by id or source id (default: a random one)")
    parser.add_argument("--seed", type=seed, default=0, help="random seed (default: 0)")
    add_env_options(parser)
    parser.add_argument(
        "--agent",
        default="human",
        metavar="KIND",
        help="who plays: "
        + "; ".join(f"{name}: {entry.about}" for name, entry in AGENTS.items())
        + "; or module:function",
    )
    parser.add_argument(
        "--agent-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="option of the agent, a TOML value; repeat for several",
    )
    parser.add_argument("--delay", type=seconds, metavar="SECONDS", help="time between the steps of an agent")
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="write the actions to FILE (.jsonl), for --agent scripted"
    )
    parser.add_argument(
        "--gif", type=Path, metavar="FILE", help="save the last episode as an animated picture (.gif)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Play."""
    options = env_options(arguments)
    agent_options = parse_options(arguments.agent_option)
    check_agent(arguments.agent, agent_options)
    for flag, path, suffix in (("--record", arguments.record, ".jsonl"), ("--gif", arguments.gif, ".gif")):
        if path is not None:
            _check_file(flag, path, suffix)
    if arguments.gif is not None:
        check_packages()
    with closing(open_vector(arguments.env, 1, split=arguments.split, options=options)) as envs:
        if arguments.agent == "human":
            _play(envs, arguments)
        else:
            _watch(envs, arguments, agent_options)
    return 0


def _play(envs: AgentVectorEnv, arguments: argparse.Namespace) -> None:
    """Let a person play."""
    console = open_console()
    with ExitStack() as opened:
        display, lines = _open_display(envs, console, opened)
        session = Session(envs, display, lines, env_id=arguments.env, seed=arguments.seed)
        opened.callback(lambda: _write(arguments.record, session.records))  # also written after Ctrl-C
        opened.callback(lambda: _film(arguments.gif, envs, session.states, session.steps))
        session.play(arguments.task)


def _open_display(
    envs: AgentVectorEnv, console: Console, opened: ExitStack
) -> tuple[FrameDisplay, LineReader]:
    """Return a person's display and input: a terminal's screen, or lines."""
    hints = envs.prototype.suite_spec.screen
    if not is_interactive():
        return FrameLog(console, hints), PipedLines()
    from agentgym.cli.prompt import TerminalPrompt

    if console.is_dumb_terminal:
        return FrameLog(console, hints), opened.enter_context(TerminalPrompt(None))
    screen = opened.enter_context(PlayScreen(console, hints, KEYS if hints.keys else LINES))
    return screen, opened.enter_context(TerminalPrompt(screen))


def _watch(envs: AgentVectorEnv, arguments: argparse.Namespace, agent_options: dict[str, Any]) -> None:
    """Let an agent play one episode and show each step."""
    from agentgym.rollout.worker import EpisodeSpec, RolloutWorker

    console = open_console()
    agent = make_agent(arguments.agent, envs, **agent_options)
    _, infos = envs.reset_at([0], [arguments.task], [arguments.seed])  # the reset draws the task
    task = infos["task_id"][0]
    on_screen = sys.stdout.isatty() and not console.is_dumb_terminal
    delay = arguments.delay
    if delay is None:
        delay = WATCHING_DELAY if sys.stdout.isatty() else 0.0
    hints = envs.prototype.suite_spec.screen
    with ExitStack() as opened:
        if is_interactive():
            from agentgym.cli.keyboard import Keyboard

            opened.enter_context(Keyboard())  # keys typed meanwhile are neither shown nor read later
        display: FrameDisplay = FrameLog(console, hints)
        if on_screen:
            display = opened.enter_context(PlayScreen(console, hints, "Ctrl-C ends"))
        policy = _Shown(agent, display, envs, arguments.env, delay)
        worker = RolloutWorker(envs, policy, env_id=arguments.env)
        (trajectory,) = worker.run([EpisodeSpec(task, arguments.seed, rollout=0)])
        policy.show_end(trajectory)
    actions = [step.action for step in trajectory.steps]
    _write(arguments.record, [script_line(arguments.env, task, arguments.seed, actions)])
    _film(arguments.gif, envs, [*policy.states, envs.snapshot(0)], trajectory.steps)


class _Shown:
    """A policy whose one episode is shown while it plays."""

    def __init__(
        self, policy: Policy, display: FrameDisplay, envs: AgentVectorEnv, env_id: str, delay: float
    ):
        self._policy = policy
        self._hints = envs.prototype.suite_spec.screen
        self._display = display
        self._env_id = env_id
        self._max_steps = envs.max_steps
        self._delay = delay
        self.states: list[Snapshot] = []

    def act(self, requests: Sequence[Request]) -> Sequence[Completion]:
        """Show the state, then pass the question on."""
        (request,) = requests
        if request.snapshot is not None:
            self.states.append(request.snapshot())
        first = request.history[0].observation if request.history else request.observation
        turn = f"turn {request.turn} of {self._max_steps}"
        self._display.show(
            Frame(
                title=f"{self._env_id}, task {request.task_id}, {turn}",
                short_title=f"{self._env_id}, task {request.task_id[:8]}, {turn}",
                observation=request.observation,
                actions=request.admissible_actions,
                state_hash=request.state_hash,
                step=request.history[-1] if request.history else None,
                pinned=self._hints.pinned_line(text_of(first)),
            )
        )
        sleep(self._delay)
        return self._policy.act(requests)

    def show_end(self, trajectory: Trajectory) -> None:
        """Show the last state."""
        self._display.show(
            Frame(
                title="the end",
                short_title=f"{self._env_id}, task {trajectory.task_id[:8]}, the end",
                observation=trajectory.final_observation,
                actions=(),
                state_hash=trajectory.state_hashes[-1],
                step=trajectory.steps[-1] if trajectory.steps else None,
                pinned=self._hints.pinned_line(text_of(trajectory.steps[0].observation))
                if trajectory.steps
                else "",
                end=end_of(trajectory),
                won=trajectory.won,
            )
        )


def _check_file(flag: str, path: Path, suffix: str) -> None:
    if path.suffix != suffix:
        raise UsageError(
            f"{flag} writes {FORMATS[suffix]}: name a file that ends in {suffix}, not {path.name!r}"
        )
    if path.exists():
        raise UsageError(f"{flag} would overwrite {path}: name a new file")
    if not path.resolve().parent.is_dir():
        raise UsageError(f"{flag}: there is no folder {path.resolve().parent}; make it first")


def _film(path: Path | None, envs: AgentVectorEnv, states: Sequence[Snapshot], steps: Sequence[Step]) -> None:
    if path is not None and states:
        from agentgym.io.files import writing

        picture = film(envs.prototype.spawn(), states, steps)
        with writing(path):
            path.write_bytes(picture)


def _write(path: Path | None, records: Sequence[dict[str, Any]]) -> None:
    if path is not None and records:
        from agentgym.io.files import replace_file

        replace_file(path, "".join(json.dumps(record) + "\n" for record in records))


def film(env: AgentEnv[Any], states: Sequence[Snapshot], steps: Sequence[Step]) -> bytes:
    """Draw an episode as an endless GIF: a picture of each state, with the step that led there.

    ``env``: of the episode's suite and data, whose own episode is lost; ``states``: T + 1; ``steps``: the T
    between them.
    """
    return gif(list(_pictures(env, states, steps)), [FRAME_MILLISECONDS] * len(steps) + [END_MILLISECONDS])


def _pictures(env: AgentEnv[Any], states: Sequence[Snapshot], steps: Sequence[Step]) -> Iterator[Any]:
    """Yield each state as a picture with its caption."""
    env.render_mode = "rgb_array"
    captions = ["the beginning", *(_caption(number, step) for number, step in enumerate(steps, start=1))]
    for state, caption in zip(states, captions, strict=True):
        env.restore(state)
        board = enlarged(env.render(), _MIN_HEIGHT)
        words = page(wrapped(caption, max(columns_of(board.width), _MIN_COLUMNS)), FAINT)
        picture = blank(max(board.width, words.width), board.height + words.height)
        picture.paste(board, (0, 0))
        picture.paste(words, (0, board.height))
        yield picture


def _caption(number: int, step: Step) -> str:
    rejected = "" if step.valid else ", rejected"
    return f"{number}: {printable(step.action)}, reward {step.reward:g}{rejected}"
