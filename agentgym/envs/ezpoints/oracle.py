"""The policy that always wins EZPoints from a position that can be won."""

from __future__ import annotations

from agentgym.core.policies import SnapshotPolicy
from agentgym.core.types import Request, Snapshot
from agentgym.envs.ezpoints.cards import pair_of
from agentgym.envs.ezpoints.formula import END, best_action


class EZPointsOracle(SnapshotPolicy):
    """Plays a shortest way to 12; ends the episode where there is none."""

    def _choose(self, request: Request, snapshot: Snapshot) -> str:
        return best_action(pair_of(snapshot.task.content), snapshot.state) or END
