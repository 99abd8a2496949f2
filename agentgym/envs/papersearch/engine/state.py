"""Snapshot state of an episode."""

from __future__ import annotations

from typing import NamedTuple

from agentgym.core.calls import Call
from agentgym.envs.papersearch.engine.pool import FoundPaper


class PaperSearchState(NamedTuple):
    """Snapshot state of an episode."""

    papers: tuple[FoundPaper, ...] = ()
    """The pool, in the order they came."""
    expanded: tuple[int, ...] = ()
    """Those that were expanded, in order."""
    calls: tuple[Call, ...] = ()
    """All that were made, in order."""
    last: int = 0
    """How many of them the last accepted action made."""
