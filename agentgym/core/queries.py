"""Queries of games to encoders, models, indexes and partners, and the backends that answer them.

A game never computes what another machine may compute otherwise. It asks (`agentgym.core.query_scheduler`):
it yields `Query`s before an action is played, and is sent their answers. A vector environment gathers the
queries of all its slots, so that a `QueryBackend` is called once per kind and round; an `AsyncQueryBackend`
is given them one by one, so that a slow answer holds up its own episode only. What stands between, an
`AnswerSource`, may record the answers of a run, or give recorded ones.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeGuard, runtime_checkable

from agentgym.errors import UsageError

Reproducibility: TypeAlias = Literal["exact", "recomputable", "attested"]
"""Basis of an answer. ``exact``: this package computes it bit for bit on any machine. ``recomputable``: the
same model or index computes it again within a tolerance. ``attested``: nobody else can compute it."""


@dataclass(frozen=True, slots=True)
class AnswerKind:
    """Identity of a kind of answers; a part of the environment's specification."""

    name: str
    """Kind and fingerprint of the backend that answers, such as ``search exact 1a2b3c4d``."""
    standing: Reproducibility = "exact"
    sampled: bool = False
    """Whether equal queries may have different answers, as from a model at a temperature."""
    tolerance: float = 0.0
    """Largest difference between a recorded number and the same one recomputed."""


class Query(NamedTuple):
    """A game's query."""

    name: str
    """Key of `AgentEnv.query_backends`: the backend that answers."""
    question: Any
    """Plain data: strings, numbers, None, and tuples or lists of them."""


class QueryContext(NamedTuple):
    """A question, and which one of an episode it is."""

    question: Any
    task_id: str
    rollout: int
    """Index of the attempt at the task."""
    turn: int
    """Steps played before."""
    number: int
    """Index among the queries of that turn."""


QueryGenerator: TypeAlias = Generator[Sequence[Query], tuple[Any, ...], Any]
"""Game that yields lists of queries, receives their answers in order, and returns its result."""


class UnansweredError(UsageError):
    """No answer could be had: a machine's fault, which ends the episode and no other.

    Example:
        >>> str(UnansweredError("the server at 127.0.0.1:8000 does not answer"))
        'the server at 127.0.0.1:8000 does not answer'
    """

    recorded: Any = None
    """Record of the unreadable replies, under `UNREADABLE`; None without any."""
    slots: tuple[int, ...] = ()
    """Slots of a vector environment whose queries have no answer; no slot has changed."""

    @classmethod
    def at(cls, failed: Sequence[tuple[int, str]]) -> Self:
        """Return the error of slots, at least one, each with the reason."""
        error = cls(failed[0][1])
        error.slots = tuple(slot for slot, _ in failed)
        return error


UNREADABLE: Final = "unreadable"
"""Key of the unreadable replies in a recorded answer; the only key where no reply was readable."""


class QueryBackend(Protocol):
    """Answers questions of one kind. Safe to ask from many threads."""

    @property
    def kind(self) -> AnswerKind:
        """The kind of its answers."""

    def answer(self, questions: Sequence[Any]) -> Sequence[Any]:
        """Return an answer to each question: JSON values, with lists for sequences.

        An answer must not depend on the questions beside it. One that cannot be had is an
        `UnansweredError` in its place, or raised where none can.
        """

    def agrees(self, recorded: Any, computed: Any) -> bool:
        """Return whether an answer that was recorded is the one computed here, within the tolerance."""


@runtime_checkable
class AsyncQueryBackend(QueryBackend, Protocol):
    """Answers every question in its own time, as a model behind an endpoint does."""

    def submit(self, question: Any) -> Future[Any]:
        """Return the answer's future: a result of `QueryBackend.answer`, or an UnansweredError."""


def answers_later(backend: QueryBackend) -> TypeGuard[AsyncQueryBackend]:
    """Return whether a backend is an `AsyncQueryBackend`; `isinstance` takes ten times as long."""
    return hasattr(backend, "submit")


class Unknown(Enum):
    """The type of `UNKNOWN`."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN
"""Marker that an answer source has no answer, so the backend is queried."""


class AnswerSource(Protocol):
    """Layer between games and query backends: records answers, or replays them."""

    def find(self, backend: QueryBackend, contexts: Sequence[QueryContext]) -> Sequence[Any]:
        """Return known answers; others are `UNKNOWN`, or an UnansweredError where no query is allowed."""

    def keep(
        self, backend: QueryBackend, contexts: Sequence[QueryContext], answers: Sequence[Any]
    ) -> Sequence[Any]:
        """Record the backend's answers to unknown queries; return them in the form that games receive."""


class LiveAnswers:
    """Source that sends every query to the backends, and records nothing."""

    def find(self, backend: QueryBackend, contexts: Sequence[QueryContext]) -> Sequence[Any]:
        """Know nothing."""
        return [UNKNOWN] * len(contexts)

    def keep(
        self, backend: QueryBackend, contexts: Sequence[QueryContext], answers: Sequence[Any]
    ) -> Sequence[Any]:
        """Pass answers on."""
        return answers


LIVE = LiveAnswers()
