"""``agentgym play ENV``: play one episode in the terminal, or watch an agent play it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

from agentgym.agents.screen import show_end, show_state, show_step
from agentgym.agents.table import AGENTS, check_agent, make_agent
from agentgym.cli.parser import Commands, Parser, add_command, parse_options, seconds, seed
from agentgym.cli.session import Session, script_line
from agentgym.cli.terminal import is_interactive, open_console
from agentgym.errors import UsageError
from agentgym.registration import open_vector
from agentgym.types import Completion, Policy, Request
from agentgym.vector.core import AgentVectorEnv

if TYPE_CHECKING:
    from rich.console import Console

ABOUT = "Play an episode in the terminal, or watch an agent play it."
FLAGS = {"split": "--split", "dataset": "--dataset"}
WATCHING_DELAY = 0.3
"""Seconds between the steps of an agent that a person watches."""


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "play",
        run,
        about=ABOUT,
        example="agentgym play agentgym/Sokoban-v0 --seed 1 --option reward=sparse",
    )
    parser.add_argument("env", metavar="ENV", help="an id that `agentgym envs` lists")
    parser.add_argument("--split", default="train", help="whose tasks to play (default: train)")
    parser.add_argument("--dataset", help="a data set's name, or a path (default: the built-in one)")
    parser.add_argument("--task", metavar="ID", help="the task, by id or source id (default: one is drawn)")
    parser.add_argument("--seed", type=seed, default=0, help="draws the task and later chance (default: 0)")
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="of the environment; TOML values"
    )
    parser.add_argument(
        "--agent",
        default="human",
        metavar="KIND",
        help="who plays: " + "; ".join(f"{name}: {entry.about}" for name, entry in AGENTS.items()),
    )
    parser.add_argument(
        "--agent-option", action="append", default=[], metavar="KEY=VALUE", help="of the agent; TOML values"
    )
    parser.add_argument("--delay", type=seconds, metavar="SECONDS", help="between the steps of an agent")
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="write the actions to FILE (.jsonl), for --agent scripted"
    )


def run(arguments: argparse.Namespace) -> int:
    """Play."""
    options = parse_options(arguments.option, FLAGS)
    agent_options = parse_options(arguments.agent_option)
    check_agent(arguments.agent, agent_options)
    if arguments.dataset is not None:
        options["dataset"] = arguments.dataset
    if arguments.record is not None:
        _check_record(arguments.record)
    with closing(open_vector(arguments.env, 1, split=arguments.split, options=options)) as envs:
        if arguments.agent == "human":
            _play(envs, arguments)
        else:
            _watch(envs, arguments, agent_options)
    return 0


def _play(envs: AgentVectorEnv, arguments: argparse.Namespace) -> None:
    if is_interactive():
        import readline  # noqa: F401 (importing it gives input() line editing and history)
    session = Session(envs, open_console(), _read_line, env_id=arguments.env, seed=arguments.seed)
    try:
        session.play(arguments.task)
    finally:  # what was played before Ctrl-C counts
        _write(arguments.record, session.records)


def _watch(envs: AgentVectorEnv, arguments: argparse.Namespace, agent_options: dict[str, Any]) -> None:
    """Let an agent play one episode and show each step."""
    from agentgym.rollout import EpisodeSpec, RolloutWorker

    console = open_console()
    agent = make_agent(arguments.agent, envs, **agent_options)
    _, infos = envs.reset_at([0], [arguments.task], [arguments.seed])  # draws the task
    task = infos["task_id"][0]
    delay = arguments.delay
    if delay is None:
        delay = WATCHING_DELAY if sys.stdout.isatty() else 0.0
    policy = _Shown(agent, console, f"{arguments.env}, task {task}", envs.max_steps, delay)
    worker = RolloutWorker(envs, policy, env_id=arguments.env)
    (trajectory,) = worker.run([EpisodeSpec(task, arguments.seed, rollout=0)])
    if trajectory.steps:
        show_step(console, trajectory.steps[-1])
    last_hash = trajectory.state_hashes[-1]
    show_state(console, "the end", trajectory.final_observation, (), last_hash)
    show_end(console, trajectory)
    actions = [step.action for step in trajectory.steps]
    _write(arguments.record, [script_line(arguments.env, task, arguments.seed, actions)])


class _Shown:
    """A policy whose one episode is shown while it plays."""

    def __init__(self, policy: Policy, console: Console, title: str, max_steps: int, delay: float):
        self._policy = policy
        self._console = console
        self._title = title
        self._max_steps = max_steps
        self._delay = delay

    def act(self, requests: Sequence[Request]) -> Sequence[Completion]:
        """Show the state, then pass the question on."""
        (request,) = requests
        if request.history:
            show_step(self._console, request.history[-1])
        title = f"{self._title}, turn {request.turn} of {self._max_steps}"
        show_state(self._console, title, request.observation, request.admissible_actions, request.state_hash)
        sleep(self._delay)
        return self._policy.act(requests)


def _check_record(path: Path) -> None:
    if path.suffix != ".jsonl":
        raise UsageError(f"--record writes JSON lines: name a file that ends in .jsonl, not {path.name!r}")
    if path.exists():
        raise UsageError(f"--record would overwrite {path}: name a new file")
    if not path.resolve().parent.is_dir():
        raise UsageError(f"--record: there is no folder {path.resolve().parent}")


def _write(path: Path | None, records: Sequence[dict[str, Any]]) -> None:
    if path is not None and records:
        from agentgym.files import replace_file

        replace_file(path, "".join(json.dumps(record) + "\n" for record in records))


def _read_line() -> str:
    # the prompt only where a person sees it: a pipe's output stays the game's
    return input("> " if is_interactive() else "")
