"""What the vector form costs: ``python -m benchmarks.speed.vector``.

Every contestant plays the same recorded episodes in one process, in several rounds; a ratio compares two
contestants within a round. Seconds are the processor's, resets are part of them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import cycle
from pathlib import Path

from gymnasium.vector import AutoresetMode, SyncVectorEnv

import agentgym
from agentgym.agents.table import make_agent
from agentgym.rollout.worker import RolloutWorker
from agentgym.vector.core import AgentVectorEnv
from benchmarks.speed.report import Texts, machine, markdown
from benchmarks.speed.rounds import Discipline, Run, measure

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

    return _timed(once)


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

    return _timed(once)


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

    return _timed(once)


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


def _timed(once: Callable[[], int]) -> Run:
    """As `rounds.timed`, by the processor's time."""

    def run(seconds: float) -> float:
        done = 0
        began = time.process_time()
        while (took := time.process_time() - began) < seconds:
            done += once()
        return done / took

    return run


def main() -> int:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a contestant in a round")
    parser.add_argument("--only", nargs="*", default=ENVIRONMENTS, choices=ENVIRONMENTS)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    given = parser.parse_args()
    named = (each for name in given.only for each in disciplines(name))
    rows = [row for each in named for row in measure(each, given.rounds, given.seconds)]
    about = machine()
    text = markdown(rows, {}, about, "python -m benchmarks.speed.vector", TEXTS)
    given.out.write_text(
        json.dumps({"machine": about, "rows": [asdict(row) for row in rows]}, indent=1) + "\n"
    )
    given.out.with_suffix(".md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
