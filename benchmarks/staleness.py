"""Whom training on stale rollouts leaves out: ``python -m benchmarks.staleness``.

A scripted policy plays built-in tasks: of a third of the tasks each it wins 5, 50 and 95 % of the episodes
as the oracle does, and loses the others by doing nothing to the step limit. An update takes no time, the
hardest case: what a pool hands out depends on nothing but how long episodes are. What an episode does follows
from its task and seeds alone, so each is played once; pools of every size and staleness then have them played
again by a clock of turns, in which every slot takes a step a turn.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from pathlib import Path

from agentgym.core.hashing import content_id
from agentgym.core.types import Completion, Policy, Request, Trajectory
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.training.config import RolloutConfig
from agentgym.training.pool import RolloutPool, TaskOrder

ENVS = ("agentgym/ALFWorld-v0", "agentgym/Sokoban-v0", "agentgym/WebShop-v0")
TASKS, GROUP_SIZE = 16, 4
STALENESS, SLOTS = range(9), (128, 512)
HEADS = (
    "slots", "S", "begun", "trained", "dropped", "lost", "pending", "oldest step", "success of the trained",
    "difference",
)  # fmt: skip


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

    def __init__(self, recorded: Mapping[tuple[int, int], tuple[int, Trajectory]], num_envs: int):
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
            _, episode = self.recorded[spec.seed, spec.rollout]
            first = episode.steps[0]
            step = replace(first, completion=replace(first.completion, version=version))
            yield replace(episode, steps=(step,))


def record(env_id: str, groups: int) -> tuple[TaskOrder, dict[tuple[int, int], tuple[int, Trajectory]]]:
    """Play the first groups, each episode once."""
    envs = open_vector(env_id, 128)
    order = TaskOrder(envs.tasks, seed=0)
    worker = RolloutWorker(envs, Scripted(envs.prototype.oracle()), env_id=env_id)
    specs = (spec for position in range(groups) for spec in order.episodes(position, GROUP_SIZE))
    recorded = {
        (episode.seed, episode.rollout): (len(episode.steps), replace(episode, steps=episode.steps[:1]))
        for episode in worker.run(specs)
    }
    envs.close()
    return order, recorded


def table(env_id: str, updates: int) -> list[str]:
    """Return the table of an environment."""
    groups = updates * TASKS
    order, recorded = record(env_id, groups + (max(STALENESS) + 1) * TASKS)
    first = [spec for position in range(groups) for spec in order.episodes(position, GROUP_SIZE)]
    true = sum(recorded[spec.seed, spec.rollout][1].won for spec in first) / len(first)
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
            pool = RolloutPool(worker, order, config)
            members: list[Trajectory] = []
            oldest = lost = 0.0
            for worker.version in range(updates):
                collected = pool.collect(worker.version)
                report = collected.diagnostics.get("pool", {"age": 0, "lost": 0})
                oldest, lost = max(oldest, report["age"]), max(lost, report["lost"])
                members += [member for group in collected.groups for member in group.trajectories]
            counts, found = pool.counts, sum(member.won for member in members) / len(members)
            numbers = (
                f"{num_envs} | {staleness} | {counts.begun:,} | {counts.trained:,} | {counts.dropped} "
                f"| {lost:.0f} | {counts.pending} | {oldest:.0f}"
            )
            lines.append(f"| {numbers} | {found:.2%} | {100 * (found - true):+.2f} points |")
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
        lines += ["", f"## {env_id.rpartition('/')[2]}", "", *table(env_id, -(-options.groups // TASKS))]
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
