"""Whom training on stale rollouts leaves out: ``python -m benchmarks.staleness``.

A scripted policy plays built-in tasks: of a third of the tasks each it wins 5, 50 and 95 % of the episodes
as the oracle does, and loses the others by doing nothing to the step limit. An update takes no time, the
hardest case: what a pool hands out depends on nothing but how long episodes are. What an episode does follows
from its task and seeds alone, so each is played once; pools of every size and staleness then have them played
again by a clock of turns, in which every slot takes a step a turn.

The second table of an environment compares the pool's order, in which groups begin, with another one, in
which they end; as many may be under way, and none is dropped. There an update takes as long as half of the
longest episode.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from statistics import mean, stdev
from typing import TypeAlias

from agentgym.core.hashing import content_id
from agentgym.core.types import Completion, Group, Policy, Request, Trajectory
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.training.config import RolloutConfig
from agentgym.training.learner.distributed import Ranks
from agentgym.training.pool import GroupQueue, PoolCounts, RolloutPool
from agentgym.training.task_order import TaskOrder

ENVS = ("agentgym/ALFWorld-v0", "agentgym/Sokoban-v0", "agentgym/WebShop-v0")
TASKS, GROUP_SIZE = 16, 4
STALENESS, SLOTS = range(9), (128, 512)
AHEAD, STARTS, UPDATES, FIRST = (1, 2, 4), 10, 30, 5
"""Of the comparison of orders: staleness, parts of the recorded groups, updates in each, and those that are
first."""
HEADS = (
    "slots", "S", "begun", "trained", "dropped", "lost", "pending", "oldest step", "success of the trained",
    "difference",
)  # fmt: skip


Recorded: TypeAlias = Mapping[tuple[int, int], tuple[int, Trajectory]]
"""Lengths and episodes, each with its first step, by seed and attempt."""


class Scripted:
    """Wins as the oracle does, or does nothing to the end."""

    def __init__(self, oracle: Policy):
        """Bind the one who wins."""
        self.oracle = oracle

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer requests."""
        winning = [request for request in requests if wins(request.task_id, request.seed)]
        answers = dict(zip((each.episode for each in winning), self.oracle.act(winning), strict=True))
        return [answers.get(request.episode, Completion("look")) for request in requests]


def wins(task: str, seed: int) -> bool:
    """Return whether an episode is won, by its task and sampling seed."""
    rate = (5, 50, 95)[int(content_id(task)[:8], 16) % 3]
    return int(content_id((task, seed))[:8], 16) % 100 < rate


class Turns(RolloutWorker):
    """Plays recorded episodes again, a turn of all slots after the other."""

    def __init__(self, recorded: Recorded, num_envs: int):
        """Bind lengths and episodes, by seed and attempt."""
        self.recorded = recorded
        self.num_envs = num_envs
        self.version = 0

    def run(self, episodes: Iterable[EpisodeSpec | None]) -> Iterator[Trajectory]:
        """Yield each episode in the turn in which it ends; its step says which weights began it."""
        queue, number, turn = iter(episodes), count(), 0
        running: list[tuple[int, int, int, EpisodeSpec]] = []
        while True:
            while len(running) < self.num_envs and (spec := next(queue, None)) is not None:
                length, _ = self.recorded[spec.seed, spec.rollout]
                heappush(running, (turn + length, next(number), self.version, spec))
            if not running:
                return
            turn, _, version, spec = heappop(running)
            yield aged(self.recorded[spec.seed, spec.rollout][1], version)


def record(env_id: str, groups: int) -> tuple[TaskOrder, Recorded]:
    """Play the first groups, each episode once."""
    envs = open_vector(env_id, 128)
    order = TaskOrder(envs.tasks, seed=0)
    worker = RolloutWorker(envs, Scripted(envs.prototype.oracle()), env_id=env_id)
    recorded = {
        (episode.seed, episode.rollout): (len(episode.steps), replace(episode, steps=episode.steps[:1]))
        for episode in worker.run(specs(order, groups))
    }
    envs.close()
    return order, recorded


class CompletionQueue(GroupQueue):
    """Hands out groups in the order in which they end."""

    def add(self, trajectory: Trajectory) -> None:
        """Take an episode that is over."""
        self._counts.episodes += 1
        position, members = self._open[trajectory.seed]
        members.append(trajectory)
        if len(members) == self._config.group_size:
            del self._open[trajectory.seed]
            self._complete.append(
                (position, Group(trajectory.task_id, trajectory.initial_hash, tuple(members)))
            )


class Part(TaskOrder):
    """A part of an order of tasks."""

    def __init__(self, order: TaskOrder, start: int):
        """Bind the whole, and where the part begins."""
        super().__init__(order.tasks, order.seed)
        self.start = start

    def episodes(self, position: int, group_size: int) -> list[EpisodeSpec]:
        """Return the episodes of a group."""
        return super().episodes(self.start + position, group_size)


def paced(
    queue: GroupQueue, recorded: Recorded, num_envs: int, update_turns: int
) -> tuple[float, list[list[Group]], int]:
    """Play and train by a clock of turns; return turns an update, its groups, and the oldest step's age."""
    trained: list[list[Group]] = []
    running: list[tuple[int, int, int, EpisodeSpec]] = []
    waiting: list[EpisodeSpec] = []
    clock, number, oldest, until = 0, count(), 0, 0
    queue.update = 0
    while True:
        while len(running) < num_envs and (waiting or (waiting := queue.begin()[::-1])):
            spec = waiting.pop()
            length, _ = recorded[spec.seed, spec.rollout]
            heappush(running, (clock + length, next(number), queue.update, spec))
        if not until and queue.ready:
            trained.append(queue.take())
            ages = (queue.update - each.steps[0].completion.version for each in members(trained[-1:]))
            oldest, until = max(oldest, *ages), clock + update_turns
        if until and (not running or until <= running[0][0]):
            clock, until = until, 0
            queue.update += 1
            if queue.update == UPDATES:
                return clock / UPDATES, trained, oldest
            continue
        clock, _, version, spec = heappop(running)
        queue.add(aged(recorded[spec.seed, spec.rollout][1], version))


def orders(order: TaskOrder, recorded: Recorded) -> list[str]:
    """Return the table that compares the two orders."""
    longest = max(length for length, _ in recorded.values())
    rows = [
        "| slots | S | order | turns an update | oldest step | first updates | all updates |",
        "|---|---|---|---|---|---|---|",
    ]
    for num_envs in (64, 256):
        for staleness in AHEAD:
            config = RolloutConfig(tasks=TASKS, group_size=GROUP_SIZE, max_staleness=staleness)
            for name, kind in (("beginning", GroupQueue), ("completion", CompletionQueue)):
                turns, ages, early, late = [], [], [], []
                for start in range(0, STARTS * UPDATES * TASKS, UPDATES * TASKS):
                    part = Part(order, start)
                    queue = kind(part, config, Ranks(), PoolCounts())
                    pace, trained, oldest = paced(queue, recorded, num_envs, longest // 2)
                    true = won(recorded[spec.seed, spec.rollout][1] for spec in specs(part, UPDATES * TASKS))
                    turns.append(pace)
                    ages.append(oldest)
                    early.append(won(members(trained[:FIRST])) - true)
                    late.append(won(members(trained)) - true)
                shares = " | ".join(
                    f"{100 * mean(each):+.1f} \u00b1 {100 * stdev(each) / STARTS**0.5:.1f}"
                    for each in (early, late)
                )
                rows.append(
                    f"| {num_envs} | {staleness} | {name} | {mean(turns):.1f} | {max(ages)} | {shares} |"
                )
    return rows


def specs(order: TaskOrder, groups: int) -> Iterator[EpisodeSpec]:
    """Yield the episodes of the first groups."""
    return (spec for position in range(groups) for spec in order.episodes(position, GROUP_SIZE))


def members(updates: Iterable[Iterable[Group]]) -> Iterator[Trajectory]:
    """Yield the episodes of updates."""
    return (member for groups in updates for group in groups for member in group.trajectories)


def won(episodes: Iterable[Trajectory]) -> float:
    """Return the share of episodes that are won."""
    return mean(float(episode.won) for episode in episodes)


def aged(episode: Trajectory, version: int) -> Trajectory:
    """Return an episode whose step says which weights began it."""
    first = episode.steps[0]
    return replace(episode, steps=(replace(first, completion=replace(first.completion, version=version)),))


def table(
    env_id: str,
    updates: int,
    pool_class: type[RolloutPool] = RolloutPool,
    *,
    ahead: int = (max(STALENESS) + 1) * TASKS,
    compared: bool = False,
) -> list[str]:
    """Return the table of an environment.

    ``ahead``: groups that a pool may begin beyond those of the updates; ``compared``: with the table that
    compares the orders.
    """
    groups = updates * TASKS
    order, recorded = record(env_id, groups + ahead)
    true = won(recorded[spec.seed, spec.rollout][1] for spec in specs(order, groups))
    lines = [
        f"{groups:,} groups are trained on; {true:.2%} of the episodes of the first {groups:,} are won.",
        "",
        f"| {' | '.join(HEADS)} |",
        f"|{'---|' * len(HEADS)}",
    ]
    for staleness in STALENESS:
        for num_envs in SLOTS:
            worker = Turns(recorded, num_envs)
            config = RolloutConfig(tasks=TASKS, group_size=GROUP_SIZE, max_staleness=staleness, overlap=False)
            pool = pool_class(worker, order, config)
            trained = []
            oldest = lost = 0.0
            for worker.version in range(updates):
                collected = pool.collect(worker.version)
                report = collected.diagnostics.get("pool", {"age": 0, "lost": 0})
                oldest, lost = max(oldest, report["age"]), max(lost, report["lost"])
                trained.append(collected.groups)
            counts, found = pool.counts, won(members(trained))
            numbers = (
                f"{num_envs} | {staleness} | {counts.begun:,} | {counts.trained:,} | {counts.left_out} "
                f"| {lost:.0f} | {counts.pending} | {oldest:.0f}"
            )
            lines.append(f"| {numbers} | {found:.2%} | {100 * (found - true):+.2f} points |")
    if compared:
        lines += [
            "",
            f"Points of success above that of the first groups to begin, in the first {FIRST} and in all "
            f"{UPDATES} updates: mean of {STARTS} parts of the groups, and its standard error.",
            "",
            *orders(order, recorded),
        ]
    return lines


def main() -> int:
    """Print the tables, and write them where they are to be kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--groups", type=int, default=5_008, help="trained on in each row (default: 5008)")
    parser.add_argument("--env", action="append", choices=ENVS, help="default: all")
    parser.add_argument("--out", type=Path, help="a file to write, such as benchmarks/staleness.md")
    options = parser.parse_args()
    command = f"python -m benchmarks.staleness --groups {options.groups}"
    lines = ["# Whom training on stale rollouts leaves out", "", f"`{command}`", ""]
    lines += [*(__doc__ or "").splitlines()[2:], ""]
    lines += [f"{TASKS} tasks an update, {GROUP_SIZE} episodes a group."]
    for env_id in options.env or ENVS:
        lines += [
            "",
            f"## {env_id.rpartition('/')[2]}",
            "",
            *table(env_id, -(-options.groups // TASKS), compared=True),
        ]
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
