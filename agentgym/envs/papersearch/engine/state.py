"""Snapshot state of an episode."""

from __future__ import annotations

from typing import NamedTuple

from agentgym.core.calls import Call
from agentgym.envs.papersearch.engine.pool import FoundPaper


class PaperSearchState(NamedTuple):
    """Snapshot state of an episode."""

    papers: tuple[FoundPaper, ...] = ()
    """Pool, in the order in which its papers came."""
    expanded: tuple[int, ...] = ()
    """Papers that were expanded, in order."""
    calls: tuple[Call, ...] = ()
    """Calls in order."""
    last: int = 0
    """Number of calls in the last accepted action."""
