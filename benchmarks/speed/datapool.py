"""How long a data pool takes to take and to hand out groups: ``python -m benchmarks.speed.datapool``.

A pool is filled with episodes of EZPoints' size. Then groups are leased, an update at a time, and episodes
are added one by one, each on the disk before the next. Times are of the clock on the wall, since the disk
counts.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import TypeVar

from agentgym.core.types import Completion, Step, Trajectory
from agentgym.rollout.datapool import DataPool
from agentgym.rollout.pool_tables import ADD, POOL_FILE, connect
from agentgym.rollout.stored_episode import pack
from benchmarks.speed.report import machine

_T = TypeVar("_T")


def episode(group: int, rollout: int, *, steps: int, tokens: int) -> Trajectory:
    """Return an episode of so many steps, each of so many prompt tokens."""
    played = tuple(
        Step(
            observation=f"cards 3 5 2 1, formula {'3 + 5 '[: turn + 1]}",
            state_hash=f"{turn:032x}",
            admissible_actions=("1", "2", "3", "5", "+", "*", "="),
            completion=Completion(
                action="+",
                text="<action>+</action>",
                prompt_ids=tuple(range(tokens)),
                response_ids=(7, 8, 9),
                logprobs=(-0.1, -1 / 3, -0.7),
                prompt_tokens=tokens,
                completion_tokens=3,
            ),
            reward=0.0,
            next_state_hash=f"{turn + 1:032x}",
            valid=True,
            terminated=turn == steps - 1,
            truncated=False,
        )
        for turn in range(steps)
    )
    return Trajectory(
        env_id="agentgym/EZPoints-v0",
        task_id=f"{group:032x}",
        task_type="",
        seed=group,
        rollout=rollout,
        initial_hash=f"{0:032x}",
        steps=played,
        final_observation="over",
        won=False,
        score=0.0,
        progress=0.0,
        end_reason="failure",
    )


def fill(folder: Path, groups: int, size: int, steps: int, tokens: int) -> None:
    """Put the same complete group into a pool so many times, all at once."""
    members = [episode(0, rollout, steps=steps, tokens=tokens) for rollout in range(size)]
    packed = [pack(member) for member in members]
    about = {"size": size, "labels": "[]", "trainable": True, "now": 0.0, "oldest": 0, "newest": 0}
    folder.mkdir()
    with closing(connect(folder / POOL_FILE)) as pool, pool:
        pool.execute("BEGIN")
        for group in range(groups):
            for member, text in zip(members, packed, strict=True):
                values = about | {"group": str(group), "id": f"{group}-{member.rollout}", "trajectory": text}
                for name in ("env_id", "task_id", "initial_hash", "rollout", "won", "score"):
                    values[name] = getattr(member, name)
                for statement in ADD:
                    pool.execute(statement, values)


def timed(call: Callable[[], _T]) -> tuple[float, _T]:
    """Return the seconds of a call, and its result."""
    began = perf_counter()
    result = call()
    return perf_counter() - began, result


def measure(folder: Path, *, groups: int, size: int, steps: int, tokens: int) -> list[tuple[str, str]]:
    """Fill a pool and use it; return names and times."""
    fill(folder, groups, size, steps, tokens)
    leases, added = [], []
    with DataPool(folder) as pool:
        for update in range(1, 11):
            seconds, found = timed(partial(pool.lease, "run", update, 128, oldest_version=0))
            assert found is not None
            leases.append(seconds)
        polled, _ = timed(partial(pool.lease, "other", 1, 2 * groups, oldest_version=0))
        for number in range(200):
            played = episode(groups + number, 0, steps=steps, tokens=tokens)
            added.append(timed(partial(pool.add, played, group=f"+{number}", size=1))[0])

    def spread(values: list[float]) -> str:
        low, median, high = (1000 * value for value in quantiles(values, n=4))
        return f"{median:.1f} ms ({low:.1f} to {high:.1f}), at most {1000 * max(values):.1f}"

    return [
        (f"128 of {groups:,} groups leased: {128 * size:,} episodes of {steps} steps", spread(leases)),
        (f"a look at {groups:,} groups for more than there are", f"{1000 * polled:.0f} ms"),
        ("an episode added, on the disk", spread(added)),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=40, help="of a prompt")
    arguments = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        for name, value in measure(Path(folder) / "pool", **vars(arguments)):
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()
