"""Actions for agents that choose rather than write: single calls, enumerated."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from agentgym.core.calls import Call, write_calls
from agentgym.core.types import Passage
from agentgym.envs.papersearch.engine.findings import EXPAND, SEARCH, normalised
from agentgym.envs.papersearch.engine.selectors import ASKING
from agentgym.retrieval.analysis import STOP_WORDS

MAX_SEARCHES = 40

_PIECE = re.compile(r"[\w'-]+|[^\w\s'-]")
_LEFT_OUT = (
    ASKING
    | STOP_WORDS
    | frozenset(["from", "its", "out", "to", "towards", "was", "we", "were", "within", "without"])
)


def candidate_actions(
    query: str, papers: Sequence[tuple[Passage, bool]], made: Collection[str]
) -> tuple[str, ...]:
    """Return the offered calls: searches not made yet, and expansions.

    The query is searched as it is, and by its phrases; so are the phrases of titles. ``papers``: those shown,
    best first, and whether each has been expanded; ``made``: normalised queries of earlier searches.

    Example:
        >>> paper = Passage("p1", "River ice, revisited", "")
        >>> candidate_actions("Is there work on frozen channels?", [(paper, False)], {"river ice"})[1:]
        ('search[frozen channels]', 'search[revisited]', 'expand[p1]')
    """
    queries: dict[str, str] = {}
    for text in _queries(query, papers):
        if (known := normalised(text)) not in made and len(queries) < MAX_SEARCHES:
            queries.setdefault(known, text)
    calls = [Call(SEARCH, text) for text in queries.values()]
    calls += [Call(EXPAND, paper.id) for paper, expanded in papers if not expanded]
    return tuple(write_calls([call]) for call in calls)


def _queries(query: str, papers: Iterable[tuple[Passage, bool]]) -> Iterator[str]:
    yield query
    yield from phrases(query)
    for paper, _ in papers:
        yield from phrases(paper.title)


def phrases(text: str) -> Iterator[str]:
    """Yield the runs of words that say something.

    Example:
        >>> list(phrases("Find work that applies Kalman filters to river ice, please!"))
        ['Kalman filters', 'river ice']
    """
    run: list[str] = []
    for piece in (*_PIECE.findall(text), "."):
        if piece[0].isalnum() and piece.lower() not in _LEFT_OUT:
            run.append(piece)
        elif run:
            yield " ".join(run)
            run = []
