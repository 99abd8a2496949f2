"""Whom training on stale rollouts leaves out: ``python -m benchmarks.staleness``.

A scripted policy plays built-in tasks: of a third of the tasks each it wins 5, 50 and 95 % of the episodes as
the oracle does, and loses the others by doing nothing to the step limit. An update takes no time, the hardest
case: what a pool hands out depends on nothing but how long episodes are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentgym.algos.filters import varies
from agentgym.core.hashing import content_id
from agentgym.core.types import Completion, Group, Policy, Request
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.config import RolloutConfig
from agentgym.training.pool import RolloutPool, TaskOrder

ENVS = ("agentgym/ALFWorld-v0", "agentgym/Sokoban-v0", "agentgym/WebShop-v0")
TASKS, GROUP_SIZE = 16, 4
STALENESS, SLOTS = (0, 1, 2, 4, 8), (128, 512)
HEADS = (
    "slots", "S", "begun", "trained", "dropped", "lost", "pending", "oldest step", "success of the trained",
    "difference",
)  # fmt: skip


class Scripted:
    """Wins as the oracle does, or does nothing to the end."""

    version = 0

    def __init__(self, oracle: Policy):
        """Bind the one who wins."""
        self.oracle = oracle

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer with the version of the weights."""
        winning = [request for request in requests if wins(request.task_id, request.seed)]
        said = dict(zip((each.episode for each in winning), self.oracle.act(winning), strict=True))
        return [
            replace(said.get(request.episode, Completion("look")), version=self.version)
            for request in requests
        ]


def wins(task: str, seed: int) -> bool:
    """Return whether an episode is won, by its task and sampling seed."""
    rate = (5, 50, 95)[int(content_id(task)[:8], 16) % 3]
    return int(content_id((task, seed))[:8], 16) % 100 < rate


@dataclass
class Played:
    """What a pool handed out."""

    line: str
    won: int = 0
    episodes: int = 0
    varied: int = 0
    groups: int = 0
    longest: int = 0

    def add(self, groups: Sequence[Group]) -> None:
        """Count the groups of an update."""
        members = [member for group in groups for member in group.trajectories]
        self.won += sum(member.won for member in members)
        self.episodes += len(members)
        self.groups += len(groups)
        self.varied += sum(map(varies, groups))

    @property
    def success(self) -> float:
        """The share of the episodes that were won."""
        return self.won / self.episodes


def play(env_id: str, num_envs: int, staleness: int, updates: int) -> Played:
    """Return what a pool hands out, and the beginning of a line about it."""
    config = RolloutConfig(
        tasks=TASKS, group_size=GROUP_SIZE, num_envs=num_envs, max_staleness=staleness, overlap=False
    )
    envs = open_vector(env_id, num_envs)
    policy = Scripted(envs.prototype.oracle())
    pool = RolloutPool(RolloutWorker(envs, policy, env_id=env_id), TaskOrder(envs.tasks, seed=0), config)
    played = Played("")
    oldest, lost = 0.0, 0.0
    for version in range(updates):
        policy.version = version
        collected = pool.collect(version)
        report = collected.diagnostics.get("pool", {"age": 0, "lost": 0})
        oldest, lost = max(oldest, report["age"]), max(lost, report["lost"])
        played.add(collected.groups)
    counts = pool.counts
    envs.close()
    played.line = (
        f"| {num_envs} | {staleness} | {counts.begun:,} | {counts.trained:,} | {counts.dropped} "
        f"| {lost:.0f} | {counts.pending} | {oldest:.0f}"
    )
    return played


def table(env_id: str, updates: int) -> list[str]:
    """Return the table of an environment; rounds that are played to their ends are the truth."""
    lines = [f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}"]
    true = None
    for staleness in STALENESS:
        for num_envs in SLOTS if staleness else SLOTS[:1]:
            played = play(env_id, num_envs, staleness, updates)
            true = played.success if true is None else true
            gap = 100 * (played.success - true)
            lines.append(f"{played.line} | {played.success:.2%} | {gap:+.2f} points |")
            print(lines[-1], flush=True)
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
    lines += [
        f"{TASKS} tasks an update, {GROUP_SIZE} episodes a group. With S = 0 a round is played to its end",
        "before it is trained on: that is the truth, since nothing chooses among its episodes.",
    ]
    for env_id in options.env or ENVS:
        print(env_id, flush=True)
        lines += ["", f"## {env_id.rpartition('/')[2]}", "", *table(env_id, -(-options.groups // TASKS))]
        if options.out:
            options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
