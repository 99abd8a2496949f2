"""Whom training on stale rollouts leaves out: ``python -m benchmarks.staleness``.

A scripted policy plays the built-in ALFWorld: of a third of the tasks each it wins 5, 50 and 95 % of the
episodes as the oracle does, and loses the others by looking around for 50 steps. An update takes no time, the
hardest case: what a pool hands out depends on nothing but how long episodes are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from agentgym.algos.filters import varies
from agentgym.core.hashing import content_id
from agentgym.core.types import Completion, Group, Policy, Request
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.config import RolloutConfig
from agentgym.training.pool import RolloutPool, TaskOrder

ENV = "agentgym/ALFWorld-v0"
TASKS, GROUP_SIZE, UPDATES = 16, 8, 30
FORMS = ((128, 0), (128, 1), (128, 2), (512, 0), (512, 1), (512, 2))
"""Numbers of slots, and of updates that a step may be old."""


class Scripted:
    """Wins as the oracle does, or looks around to the end."""

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


def success(groups: Sequence[Group]) -> float:
    """Return the share of episodes that were won."""
    won = [member.won for group in groups for member in group.trajectories]
    return sum(won) / len(won)


def row(num_envs: int, staleness: int, true: float | None) -> tuple[str, float]:
    """Return a line of the table, and the success of what was trained on."""
    config = RolloutConfig(
        tasks=TASKS, group_size=GROUP_SIZE, num_envs=num_envs, max_staleness=staleness, overlap=False
    )
    envs = open_vector(ENV, num_envs)
    policy = Scripted(envs.prototype.oracle())
    pool = RolloutPool(RolloutWorker(envs, policy, env_id=ENV), TaskOrder(envs.tasks, seed=0), config)
    groups: list[Group] = []
    oldest = 0
    for version in range(UPDATES):
        policy.version = version
        trained = pool.collect(version).groups
        members = [member for group in trained for member in group.trajectories]
        ages = [version - step.completion.version for member in members for step in member.steps]
        oldest, groups = max(oldest, *ages), groups + trained
    mixed = sum(map(varies, groups)) / len(groups)
    counts, found = pool.counts, success(groups)
    envs.close()
    numbers = f"{counts.begun} | {counts.trained} | {counts.dropped} | {counts.pending} | {oldest}"
    shown = found if true is None else true
    return f"| {num_envs} | {staleness} | {numbers} | {shown:.1%} | {found:.1%} | {mixed:.0%} |", found


def main() -> int:
    """Print the table."""
    heads = (
        "slots | S | begun | trained | dropped | pending | oldest step | success | of the trained | varied"
    )
    print(f"| {heads} |\n|{'---|' * 10}")
    true = None
    for num_envs, staleness in FORMS:
        line, found = row(num_envs, staleness, true)
        true = found if true is None else true
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
