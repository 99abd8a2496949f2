"""What the vector form costs: ``python -m benchmarks.speed.vector``.

Every contestant plays the same recorded episodes in one process, in several rounds; a ratio compares two
contestants within a round. Seconds are the processor's, resets are part of them.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from gymnasium.vector import AutoresetMode, SyncVectorEnv

import agentgym
from agentgym.agents.table import make_agent
from agentgym.rollout.worker import RolloutWorker
from agentgym.vector.core import AgentVectorEnv
from benchmarks.harness.report import Texts, machine, markdown, parser, publish, table
from benchmarks.harness.rounds import Discipline, Run, measure_all, timed

OUT = Path(__file__).with_suffix(".json")
EPISODES = 64
"""Tasks played."""

MANY = 128
"""Slots of the large form."""

STEPS = 24
"""Of an episode that does not end before."""

ENVIRONMENTS = ("ALFWorld", "WebShop", "HotpotQA", "EZPoints", "Sokoban")

TEXTS = Texts(
    "Speed of the vector form",
    f"{EPISODES} episodes of each built-in environment, random moves, recorded once and played by everyone.\n"
    "Everything the contract asks for is handed out: observations, admissible actions, state hashes, infos.\n"
    "Seconds are the processor's.",
    "*single* is one environment, *SyncVectorEnv* Gymnasium's over one of ours. A vector environment resets\n"
    "with `reset_at` the slots that have ended, and steps all with `step`.",
)

Script = tuple[str, list[str]]
"""A task by id, and the actions played."""


def record(name: str) -> list[Script]:
    """Let the random agent play; return what it did."""
    envs = _vector(name, EPISODES)
    worker = RolloutWorker(envs, make_agent("random", envs), env_id=_id(name))
    groups = worker.collect([task.id for task in envs.tasks[:EPISODES]], group_size=1, seed=0)
    played = [trajectory for group in groups for trajectory in group.trajectories]
    return [(episode.task_id, [step.action for step in episode.steps]) for episode in played]


def single(name: str, scripts: list[Script]) -> Run:
    """Step one environment."""
    env = agentgym.make(_id(name), max_steps=STEPS)
    turns = cycle(scripts)

    def once() -> int:
        task, actions = next(turns)
        env.reset(options={"task": task})
        for action in actions:
            env.step(action)
        return len(actions)

    return timed(once, time.process_time)


def synchronous(name: str, scripts: list[Script]) -> Run:
    """Step Gymnasium's vector environment of one of ours."""
    envs = SyncVectorEnv(
        [lambda: agentgym.make(_id(name), max_steps=STEPS)], autoreset_mode=AutoresetMode.DISABLED
    )
    turns = cycle(scripts)

    def once() -> int:
        task, actions = next(turns)
        envs.reset(options={"task": task})
        for action in actions:
            envs.step([action])
        return len(actions)

    return timed(once, time.process_time)


def batched(name: str, scripts: list[Script], num: int) -> Run:
    """Step a vector environment, all slots at once."""
    envs = _vector(name, num)
    turns = cycle(scripts)
    slots = range(num)
    left: list[list[str]] = [[] for _ in slots]

    def once() -> int:
        ended = [i for i in slots if not left[i]]
        if ended:
            begun = [next(turns) for _ in ended]
            envs.reset_at(ended, [task for task, _ in begun])
            for i, (_, actions) in zip(ended, begun, strict=True):
                left[i] = actions[::-1]
        envs.step([actions.pop() for actions in left])
        return num

    return timed(once, time.process_time)


def disciplines(name: str) -> list[Discipline]:
    """Return what is measured of an environment."""
    scripts = record(name)
    one = {"agentgym": partial(batched, name, scripts, 1)}
    many = {"agentgym": partial(batched, name, scripts, MANY)}
    alone = {"single": partial(single, name, scripts)}
    return [
        Discipline(
            f"{name}, N = 1",
            "steps/s",
            {**one, "SyncVectorEnv": partial(synchronous, name, scripts), **alone},
        ),
        Discipline(f"{name}, N = {MANY}", "steps/s", {**many, **alone}),
    ]


def _id(name: str) -> str:
    return f"agentgym/{name}-v0"


def _vector(name: str, num: int) -> AgentVectorEnv:
    mode = AutoresetMode.DISABLED
    return agentgym.make_vec(_id(name), num_envs=num, max_steps=STEPS, autoreset_mode=mode)


def limits(name: str) -> dict[str, float]:
    """Count what a step of one environment takes: calls of the interpreter, and characters handed out."""
    scripts = record(name)
    env = agentgym.make(_id(name), max_steps=STEPS)
    found = {"calls of Python's": 0.0, "calls of C's": 0.0, "characters handed out": 0.0}
    steps = 0

    def count(frame: object, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            found["calls of Python's" if event == "call" else "calls of C's"] += 1

    for again in range(2):  # the first time, games and pages are not remembered yet
        found = dict.fromkeys(found, 0.0)
        for task, actions in scripts:
            env.reset(options={"task": task})
            for action in actions:
                sys.setprofile(count if again else None)
                observation, _, _, _, info = env.step(action)
                sys.setprofile(None)
                steps += again
                found["characters handed out"] += len(observation) + sum(map(len, info["admissible_actions"]))
    found["calls of C's"] -= steps  # the profile's own
    return {what: round(number / steps, 1) for what, number in found.items()}


def page(record: dict[str, Any]) -> str:
    """Write the report."""
    limits = record["limits"]
    whats = list(next(iter(limits.values())))
    cells = [(name, *(f"{limits[name][what]:,.0f}" for what in whats)) for name in limits]
    lines = ["", "What a step of a single environment takes, resets aside:", ""]
    lines += [*table(("", *whats), cells, len(whats)), ""]
    command = f"python -m {__spec__.name}"
    return markdown(record["rows"], {}, record["machine"], command, TEXTS) + "\n".join(lines)


def main() -> int:
    """Measure, and write the report."""
    arguments = parser(__spec__.name, __doc__, OUT, rounds=9, seconds=0.5)
    arguments.add_argument("--only", nargs="*", default=ENVIRONMENTS, choices=ENVIRONMENTS)
    given = arguments.parse_args()
    rows = measure_all((each for name in given.only for each in disciplines(name)), given)
    found = {"machine": machine(), "rows": rows, "limits": {name: limits(name) for name in given.only}}
    publish(given.out, found, page(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
