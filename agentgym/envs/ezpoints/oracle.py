"""The policy that always wins EZPoints from a position that can be won."""

from __future__ import annotations

from typing import Any

from agentgym.core.distances import NO_WAY, GoalDistance, StepBounds
from agentgym.core.policies import SnapshotPolicy
from agentgym.core.types import Request, Snapshot
from agentgym.env import AgentEnv
from agentgym.envs.ezpoints.cards import pair_of
from agentgym.envs.ezpoints.formula import END, Tokens, best_action, shortest_way


class EZPointsOracle(SnapshotPolicy):
    """Plays a shortest way to 12; ends the episode where there is none."""

    def _choose(self, request: Request, snapshot: Snapshot) -> str:
        return best_action(pair_of(snapshot.task.content), snapshot.state) or END


def goal_distance(env: AgentEnv[Any]) -> GoalDistance:
    """Return the distance to 12 from the positions of a deal, by trying everything."""
    pair = pair_of(env.task.content)

    def left(tokens: Tokens) -> StepBounds:
        way = shortest_way(pair, tokens)
        return NO_WAY if way is None else StepBounds(len(way), len(way))

    return GoalDistance(left)
