"""A pool that hands out groups as they end and drops the old ones, as agentgym's once did."""

from itertools import count

from agentgym.core.types import Group
from agentgym.training.pool import RolloutPool
from agentgym.training.rollout_batch import Collected


class DroppingPool(RolloutPool):
    """Begins groups without end; each update takes the next ones to end that are not too old."""

    def collect(self, version):
        """Return the groups of one update."""
        if self.config.max_staleness == 0:
            return super().collect(version)
        if not hasattr(self, "_ends"):
            self._ends = self._groups()
        fresh = []
        while len(fresh) < self.config.tasks:
            group = next(self._ends)
            steps = [step for member in group for step in member.steps]
            if version - min(step.completion.version for step in steps) > self.config.max_staleness:
                self.counts.left_out += 1
            else:
                fresh.append(group)
        self.counts.trained += len(fresh)
        return Collected([Group(each[0].task_id, each[0].initial_hash, tuple(each)) for each in fresh])

    def _groups(self):
        members = {}
        for trajectory in self.worker.run(self._endless()):
            self.counts.episodes += 1
            group = members.setdefault(trajectory.seed, [])
            group.append(trajectory)
            if len(group) == self.config.group_size:
                yield members.pop(trajectory.seed)

    def _endless(self):
        for position in count():
            self.counts.begun += 1
            yield from self.order.episodes(position, self.config.group_size)
