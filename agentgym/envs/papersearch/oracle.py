"""Oracle policy, with the gold papers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from agentgym.core.calls import Call, read_calls, write_calls
from agentgym.core.policies import SnapshotPolicy
from agentgym.core.tasks import Task
from agentgym.core.types import Request, Snapshot
from agentgym.envs.papersearch.engine.findings import EXPAND, SEARCH, normalised
from agentgym.envs.papersearch.engine.state import PaperSearchState
from agentgym.envs.papersearch.engine.world import PaperWorld, View
from agentgym.envs.papersearch.topics import Topic

QUERY_WORDS = 30
"""Largest number of an abstract's words in a query of the oracle."""


class _Way(NamedTuple):
    """A call, and the gold papers that it finds."""

    call: Call
    found: frozenset[int]


class PaperOracle(SnapshotPolicy):
    """Makes, one after another, the calls that find most of the gold papers, and then stops.

    It looks at the labels through the request's snapshot, expands papers of the pool and searches for the
    titles of papers that are missing; where actions are listed, it makes one of those. Greedy: fewer calls
    may sometimes do, and what only a selector or the list of actions keeps away is never found.
    """

    def __init__(
        self,
        world: PaperWorld,
        view_of: Callable[[Task], View],
        k: int,
        max_calls: int,
        *,
        enumerates: bool = False,
    ):
        """Set what is played; ``view_of`` bounds the papers that a task may find."""
        self._world = world
        self._view_of = view_of
        self._k = k
        self._max_calls = 1 if enumerates else max_calls
        self._enumerates = enumerates

    def _choose(self, request: Request, snapshot: Snapshot) -> str:
        view, topic = self._view_of(snapshot.task), snapshot.task.content
        missing = self._missing(topic, view, snapshot.state)
        ways: list[_Way] = []
        if missing and self._enumerates:
            ways = list(self._listed(request.admissible_actions, missing, view))
        elif missing:
            ways = list(self._ways(missing, view, snapshot.state))
        calls: list[Call] = []
        while len(calls) < self._max_calls:
            best = max(ways, key=lambda way: len(way.found & missing), default=None)
            if best is None or not best.found & missing:
                break
            calls.append(best.call)
            missing -= best.found
        return write_calls(calls) if calls else "stop"

    def _missing(self, topic: Topic, view: View, state: PaperSearchState) -> frozenset[int]:
        """Return the gold papers that can be found and have not been."""
        numbers = (self._world.corpus.number_of(id) for id in topic.gold)
        known = [number for number in numbers if number is not None]
        return frozenset(self._world.visible(known, view)) - {paper.number for paper in state.papers}

    def _ways(self, missing: frozenset[int], view: View, state: PaperSearchState) -> Iterator[_Way]:
        """Yield the calls that find some of the papers."""
        corpus = self._world.corpus
        for number, _ in state.papers:
            found = missing.intersection(self._world.neighbours(number, view))
            if found and number not in state.expanded:
                yield _Way(Call(EXPAND, corpus.paper(number).id), found)
        made = {normalised(call.text) for call in state.calls if call.name == SEARCH}
        queries = [
            query
            for number in sorted(missing)
            for query in queries_for(self._world, number)
            if normalised(query) not in made
        ]
        for query, hits in zip(queries, self._world.best(queries, self._k, view), strict=True):
            yield _Way(Call(SEARCH, query), missing.intersection(hits))

    def _listed(self, actions: Sequence[str], missing: frozenset[int], view: View) -> Iterator[_Way]:
        """Yield the papers of each listed call."""
        calls = [call for action in actions for call in read_calls(action, (SEARCH, EXPAND)) or ()]
        searches = [call for call in calls if call.name == SEARCH]
        hits = self._world.best([call.text for call in searches], self._k, view)
        yield from (
            _Way(call, missing.intersection(found)) for call, found in zip(searches, hits, strict=True)
        )
        for call in calls:
            number = self._world.corpus.number_of(call.text) if call.name == EXPAND else None
            if number is not None:
                yield _Way(call, missing.intersection(self._world.neighbours(number, view)))


class _Game(Protocol):
    """The part of an environment that the oracle reads; environments import this module."""

    world: PaperWorld

    @property
    def task(self) -> Task: ...


def oracle_texts(env: _Game) -> Iterator[str]:
    """Yield what the oracle may search for in the task being played, whether or not it was ever shown."""
    for id in env.task.content.gold:
        number = env.world.corpus.number_of(id)
        if number is not None:
            yield from queries_for(env.world, number)


def queries_for(world: PaperWorld, number: int) -> Iterator[str]:
    """Yield queries that may find a paper."""
    paper = world.corpus.paper(number)
    yield from filter(None, (paper.title, " ".join(paper.contents.split()[:QUERY_WORDS])))
