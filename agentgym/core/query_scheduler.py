"""Query scheduler: runs games with open queries until each is done.

A game with queries is a generator (`agentgym.core.queries.QueryGenerator`). Questions to a plain
`QueryBackend` that come up at once are one call; those to an `AsyncQueryBackend` are futures, and every game
proceeds when its own are done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from agentgym.core.queries import (
    LIVE,
    UNKNOWN,
    AnswerSource,
    Query,
    QueryBackend,
    QueryContext,
    QueryGenerator,
    UnansweredError,
    answers_later,
)
from agentgym.core.tasks import Task


class EpisodeQueries(NamedTuple):
    """A game with queries, and its episode."""

    generator: QueryGenerator
    task_id: str
    rollout: int
    turn: int


class QueryHandler(Protocol):
    """The environment's query_backends, and their source: a `QueryingEnv`."""

    @property
    def query_backends(self) -> Mapping[str, QueryBackend]:
        """Backends by the name in queries."""

    @property
    def answer_source(self) -> AnswerSource:
        """Records or replays."""


@dataclass(slots=True, eq=False)
class _Round:
    """One game's pending queries."""

    queries: Sequence[Query]
    answers: list[Any]
    missing: int
    futures: list[Future[Any]] = field(default_factory=list)


class _Arrival(NamedTuple):
    """An answer that came later."""

    game: int
    round: _Round
    place: int
    backend: QueryBackend
    context: QueryContext
    future: Future[Any]


def run_queries(episodes: Sequence[EpisodeQueries], handler: QueryHandler) -> list[Any]:
    """Answer the queries of games until each is done; return each one's result or `UnansweredError`.

    Every round makes one call per kind of plain query_backends, whatever the number of games and of their
    queries.
    """
    driver = QueryScheduler(handler)
    results: dict[int, Any] = {}
    try:
        driver.begin(dict(enumerate(episodes)))
        while len(results) < len(episodes):
            results.update(driver.collect(wait=True))
    finally:
        driver.close()
    return [results[game] for game in range(len(episodes))]


class QueryScheduler:
    """Concurrent games with queries, each identified by a number."""

    def __init__(self, handler: QueryHandler, wake: Callable[[], object] | None = None):
        """Start without games.

        ``wake`` is called, from any thread, when `collect` may have more.
        """
        self._handler = handler
        self._wake = wake
        self._games: dict[int, EpisodeQueries] = {}
        self._rounds: dict[int, _Round] = {}
        self._counts: dict[int, int] = {}
        self._results: dict[int, Any] = {}
        self._arrivals: SimpleQueue[_Arrival] = SimpleQueue()

    def begin(self, games: Mapping[int, EpisodeQueries]) -> None:
        """Start further games, by number."""
        for game, queries in games.items():
            self._games[game] = queries
            self._counts[game] = 0
        self._proceed(games)
        if self._results and self._wake is not None:
            self._wake()

    def collect(self, *, wait: bool = False) -> dict[int, Any]:
        """Return the results of games since the last call, or the `UnansweredError` of each.

        ``wait``: whether to wait for at least one, where games are waiting.
        """
        while True:
            try:
                while True:
                    self._receive(self._arrivals.get_nowait())
            except Empty:
                pass
            if self._results or not (wait and self._rounds):
                break
            self._receive(self._arrivals.get())
        results, self._results = self._results, {}
        return results

    def drop(self, games: Iterable[int]) -> None:
        """Cancel the games' pending queries."""
        for game in games:
            self._results.pop(game, None)
            if game in self._games:
                self._end(game)

    def close(self) -> None:
        """Drop all games."""
        self.drop(list(self._games))

    # ---- inside ----------------------------------------------------------------------------

    def _proceed(self, games: Iterable[int]) -> None:
        """Send games their answers, and open their next queries."""
        fresh = list(games)
        while fresh:
            asking = {}
            for game in fresh:
                if (opened := self._next(game)) is not None:
                    asking[game] = opened
            self._ask(asking)
            fresh = [game for game, opened in asking.items() if self._rounds.get(game) is opened]
            fresh = [game for game in fresh if asking[game].missing == 0]

    def _next(self, game: int) -> _Round | None:
        """Return a game's next queries; None where it is done."""
        before = self._rounds.pop(game, None)
        generator = self._games[game].generator
        try:
            queries = next(generator) if before is None else generator.send(tuple(before.answers))
        except StopIteration as end:
            self._end(game)
            self._results[game] = end.value
            return None
        opened = _Round(queries, [UNKNOWN] * len(queries), len(queries))
        self._rounds[game] = opened
        return opened

    def _ask(self, rounds: Mapping[int, _Round]) -> None:
        """Submit newly opened queries; immediate answers are filled in."""
        places: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for game, opened in rounds.items():
            for place, query in enumerate(opened.queries):
                places[query.name].append((game, place))
        for name, where in places.items():
            backend, contexts = self._handler.query_backends[name], []
            for game, place in where:
                _, task_id, rollout, turn = self._games[game]
                question = rounds[game].queries[place].question
                contexts.append(QueryContext(question, task_id, rollout, turn, self._counts[game]))
                self._counts[game] += 1
            self._ask_one(backend, contexts, [(game, rounds[game], place) for game, place in where])

    def _ask_one(
        self, backend: QueryBackend, contexts: list[QueryContext], where: list[tuple[int, _Round, int]]
    ) -> None:
        source = self._handler.answer_source
        found = list(source.find(backend, contexts))
        unknown = [n for n, answer in enumerate(found) if answer is UNKNOWN]
        later = set()
        if unknown and answers_later(backend):
            later = set(unknown)
        elif unknown:
            new = [contexts[n] for n in unknown]
            for n, answer in zip(unknown, _answers(backend, new, source), strict=True):
                found[n] = answer
        for n, (game, opened, place) in enumerate(where):
            if n not in later:
                self._fill(game, opened, place, found[n])
            elif self._rounds.get(game) is opened:
                self._submit(backend, contexts[n], game, opened, place)

    def _submit(
        self, backend: QueryBackend, context: QueryContext, game: int, opened: _Round, place: int
    ) -> None:
        assert answers_later(backend)
        future = backend.submit(context.question)
        opened.futures.append(future)

        def answer_arrived(done: Future[Any]) -> None:
            self._arrivals.put(_Arrival(game, opened, place, backend, context, done))
            if self._wake is not None:
                self._wake()

        future.add_done_callback(answer_arrived)

    def _receive(self, arrival: _Arrival) -> None:
        """Take an answer that came later."""
        if self._rounds.get(arrival.game) is not arrival.round:
            return  # the game was dropped, or another answer of the round failed
        try:
            answer = arrival.future.result()
        except UnansweredError as error:
            answer = error
        if not isinstance(answer, UnansweredError) or answer.recorded is not None:
            (answer,) = self._handler.answer_source.keep(arrival.backend, [arrival.context], [answer])
        self._fill(arrival.game, arrival.round, arrival.place, answer)
        if self._rounds.get(arrival.game) is arrival.round and arrival.round.missing == 0:
            self._proceed([arrival.game])

    def _fill(self, game: int, opened: _Round, place: int, answer: Any) -> None:
        if self._rounds.get(game) is not opened:
            return
        if isinstance(answer, UnansweredError):
            self._end(game)
            self._results[game] = answer
            return
        opened.answers[place] = answer
        opened.missing -= 1

    def _end(self, game: int) -> None:
        self._games.pop(game).generator.close()
        del self._counts[game]
        if (opened := self._rounds.pop(game, None)) is not None:
            for future in opened.futures:
                future.cancel()


def _answers(backend: QueryBackend, contexts: Sequence[QueryContext], source: AnswerSource) -> Sequence[Any]:
    """Ask a backend in one call; equal questions once, where equal answers are due and cost something."""
    kind = backend.kind
    once = kind.standing != "exact" and not kind.sampled
    names = [repr(each.question) for each in contexts] if once else list(map(str, range(len(contexts))))
    distinct: dict[str, QueryContext] = {}
    for name, each in zip(names, contexts, strict=True):
        distinct.setdefault(name, each)
    try:
        given = backend.answer([each.question for each in distinct.values()])
    except UnansweredError as error:
        return [error] * len(contexts)
    if len(given) != len(distinct):
        raise ValueError(f"{kind.name!r} gave {len(given)} answers to {len(distinct)} questions")
    by_name = dict(zip(distinct, given, strict=True))
    answers = [by_name[name] for name in names]
    good = [n for n, answer in enumerate(answers) if not isinstance(answer, UnansweredError)]
    stored = source.keep(backend, [contexts[n] for n in good], [answers[n] for n in good])
    for n, answer in zip(good, stored, strict=True):
        answers[n] = answer
    return answers


class QueryingEnv:
    """Base of environments: the part that issues queries."""

    query_backends: Mapping[str, QueryBackend] = MappingProxyType({})
    """Backends that answer the game's queries, by the name that `_action_queries` uses; empty without
    queries."""
    answer_source: AnswerSource = LIVE
    """Source that is tried before `query_backends`; benchmarks record and replay answers through it."""
    answers: Any = None
    """Result of `_action_queries` or `_load_queries` for the present action or task; None for a restore."""
    rollout: int = 0
    """Index of the attempt at the task, which distinguishes equal episodes."""
    _turn: int

    if TYPE_CHECKING:

        @property
        def task(self) -> Task:
            """The task being played."""

    def _load_queries(self, task: Task) -> QueryGenerator:
        """Yield the queries that loading a task needs, as `_action_queries`; no episode has begun yet."""
        yield from ()

    def _action_queries(self, action: str) -> QueryGenerator:
        """Yield the queries of playing an action as `Query`s, receive their answers, return `answers`.

        Changes no state: an answer that cannot be had leaves the episode where it stands. Actions that are
        too long for `_apply` ask nothing.
        """
        yield from ()

    def _load_episode_queries(self, task: Task, rollout: int) -> EpisodeQueries:
        return EpisodeQueries(self._load_queries(task), task.id, rollout, 0)

    def _action_episode_queries(self, action: str) -> EpisodeQueries:
        return EpisodeQueries(self._action_queries(action), self.task.id, self.rollout, self._turn + 1)

    def _answers_of(self, queries: EpisodeQueries) -> Any:
        """Return the result of a single game's queries; an UnansweredError is raised."""
        (answers,) = run_queries([queries], self)
        if isinstance(answers, UnansweredError):
            raise answers
        return answers
