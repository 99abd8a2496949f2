"""Findings of an action, new or not: searches, citations, scores.

Everything that another machine may compute otherwise is asked for here, in two rounds: what the searches
find, and how well each paper that may come into the pool answers the query.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from agentgym.core.calls import Call
from agentgym.core.queries import Query
from agentgym.envs.papersearch.engine.pool import Pool
from agentgym.envs.papersearch.engine.selectors import Selector, read_score
from agentgym.envs.papersearch.engine.world import PaperWorld, View
from agentgym.envs.papersearch.topics import Topic
from agentgym.retrieval.searcher import read_hits

SEARCH: Final = "search"
EXPAND: Final = "expand"

Queries: TypeAlias = Sequence[Query]


class Findings(NamedTuple):
    """Papers found by an action."""

    hits: dict[str, list[int]]
    """Papers in view that a query finds, best first."""
    scores: dict[int, float]
    """Score of each paper that may come into the pool."""


def normalised(query: str) -> str:
    """Return the normal form of a query.

    Example:
        >>> normalised("  River  ICE ") == normalised("river ice")
        True
    """
    return " ".join(query.casefold().split())


class Finder:
    """Runs the queries of actions."""

    def __init__(self, world: PaperWorld, selector: Selector, k: int):
        """Set what is searched; ``selector`` scores papers, at most ``k`` of a search."""
        self._world = world
        self._selector = selector
        self._k = k

    def find(
        self, calls: Iterable[Call], pool: Pool, queries: Iterable[str], topic: Topic, view: View
    ) -> Generator[Queries, tuple[Any, ...], Findings]:
        """Query for an action's calls, in order.

        ``pool`` and the normalised ``queries`` are those of the episode so far; ``view`` bounds the papers
        that may be found.
        """
        calls = tuple(calls)
        made = set(queries)
        wanted: dict[str, str] = {}
        for call in calls:
            if call.name == SEARCH and (query := normalised(call.text)) not in made:
                wanted.setdefault(query, call.text)
        hits = yield from self._search(list(wanted.values()), view)
        candidates = dict.fromkeys(self._candidates(calls, hits, pool, view))
        selections = [Query("selector", self._selector.question(topic, number)) for number in candidates]
        answers = yield selections
        return Findings(hits, dict(zip(candidates, map(read_score, answers), strict=True)))

    def _search(
        self, queries: list[str], view: View
    ) -> Generator[Queries, tuple[Any, ...], dict[str, list[int]]]:
        """Query the best papers in view; a round is sent even without any query.

        So the rounds of all slots of a vector environment are of one kind, and one call each.
        """
        world, k = self._world, self._k
        depth = world.first_depth(k, view)
        hits: dict[str, list[int]] = {}
        while True:
            answers = yield [Query("search", (query, depth)) for query in queries]
            short = []
            for query, answer in zip(queries, answers, strict=True):
                found = read_hits(answer, world.corpus.passages).documents.tolist()
                hits[query] = world.visible(found, view)[:k]
                if world.is_short(len(hits[query]), len(found), k, depth):
                    short.append(query)
            if not short:
                return hits
            queries, depth = short, world.next_depth(depth)

    def _candidates(
        self, calls: Sequence[Call], hits: dict[str, list[int]], pool: Pool, view: View
    ) -> Iterator[int]:
        """Yield the papers that may come into the pool.

        Whether a paper that an earlier call of the action finds may be expanded depends on its score, which
        is asked for here: so what it leads to is asked for too.
        """
        near = set(pool.scores)
        for name, text in calls:
            if name == SEARCH:
                found: Sequence[int] = hits.get(text, ())
            else:
                number = self._world.corpus.number_of(text)
                expandable = number is not None and number in near and number not in pool.expanded
                found = self._world.neighbours(number, view) if expandable and number is not None else ()
            near.update(found)
            yield from (number for number in found if number not in pool.scores)
