"""What the vector form costs: ``python -m benchmarks.speed.vector``.

Every contestant plays the same recorded episodes in one process, in several rounds; a ratio compares two
contestants within a round. Seconds are the processor's, resets are part of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from gymnasium.vector import AutoresetMode, SyncVectorEnv

import agentgym
from agentgym.agents.table import make_agent
from agentgym.rollout.worker import RolloutWorker
from agentgym.vector.core import AgentVectorEnv
from benchmarks.speed.report import Row, Texts, machine, markdown
from benchmarks.speed.rounds import Discipline, Run, measure, timed

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
    rows = [Row(**row) for row in record["rows"]]
    lines = ["", "What a step of a single environment takes, resets aside:", ""]
    names = list(record["limits"])
    whats = list(record["limits"][names[0]])
    lines += [f"| | {' | '.join(whats)} |", "|---|" + "---:|" * len(whats)]
    for name in names:
        cells = [f"{record['limits'][name][what]:,.0f}" for what in whats]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return markdown(rows, {}, record["machine"], "python -m benchmarks.speed.vector", TEXTS) + "\n".join(
        [*lines, ""]
    )


def main() -> int:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a contestant in a round")
    parser.add_argument("--only", nargs="*", default=ENVIRONMENTS, choices=ENVIRONMENTS)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    given = parser.parse_args()
    named = (each for name in given.only for each in disciplines(name))
    rows = [asdict(row) for each in named for row in measure(each, given.rounds, given.seconds)]
    found = {"machine": machine(), "rows": rows, "limits": {name: limits(name) for name in given.only}}
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    given.out.with_suffix(".md").write_text(page(found))
    print(page(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
