"""Topic of a task: its query and its gold papers."""

from __future__ import annotations

from typing import NamedTuple

from agentgym.core.hashing import content_id


class Topic(NamedTuple):
    """A query, and the papers that answer it.

    Example:
        >>> Topic("Which papers study river ice?", ("a", "b"), 20150300).id
        'cb117d086606dced60640ef38faab8dd'
    """

    query: str
    gold: tuple[str, ...]
    """Ids without versions, sorted; also those that the corpus lacks."""
    date: int = 0
    """Date of the query: ``year * 10000 + month * 100 + day``, with 0 for unknown parts."""
    hidden: tuple[str, ...] = ()
    """Ids of papers that are never found."""

    @property
    def id(self) -> str:
        """32 hex digits that name it."""
        return content_id(tuple(self))
