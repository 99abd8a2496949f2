"""Base classes of policies whose action follows from one request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from agentgym.core.types import Completion, Request, Snapshot
from agentgym.errors import UsageError


class RequestPolicy(ABC):
    """Policy that answers each request on its own."""

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request, in order."""
        return [Completion(self._action(request)) for request in requests]

    @abstractmethod
    def _action(self, request: Request) -> str:
        """Return the next action of a request's episode."""


class SnapshotPolicy(RequestPolicy):
    """Policy that reads the game's state from the request's snapshot, as oracles do."""

    def _action(self, request: Request) -> str:
        if request.snapshot is None:
            raise UsageError("the oracle reads Request.snapshot: build requests with one")
        return self._choose(request, request.snapshot())

    @abstractmethod
    def _choose(self, request: Request, snapshot: Snapshot) -> str:
        """Return the next action in the state of a snapshot."""
