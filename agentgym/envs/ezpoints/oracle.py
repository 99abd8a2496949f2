"""The policy that always wins EZPoints from a position that can be won."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.core.types import Completion, Request
from agentgym.envs.ezpoints.cards import pair_of
from agentgym.envs.ezpoints.formula import END, best_action
from agentgym.errors import UsageError


class EZPointsOracle:
    """Plays a shortest way to 12; ends the episode where there is none."""

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer each request from its snapshot, which it must carry."""
        return [Completion(self._action(request)) for request in requests]

    def _action(self, request: Request) -> str:
        if request.snapshot is None:
            raise UsageError("the oracle reads Request.snapshot: build requests with one")
        snapshot = request.snapshot()
        return best_action(pair_of(snapshot.task.content), snapshot.state) or END
