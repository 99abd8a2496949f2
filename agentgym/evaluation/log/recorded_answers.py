"""Recorded answers of a run, which other machines may not reproduce: recorded, replayed, recomputed.

``answers.jsonl`` holds the answers of query backends outside the package: one line per question, by the
digest of the question. Replaying takes answers from there and never asks; where the part that answered is at
hand, verification asks it once more and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentgym.core.hashing import canonical_json, sha256_json
from agentgym.core.queries import (
    UNKNOWN,
    AnswerKind,
    QueryBackend,
    QueryContext,
    Reproducibility,
    UnansweredError,
)
from agentgym.errors import MissingDataError, MissingPackageError, UsageError
from agentgym.io.records import parse
from agentgym.io.untrusted import MAX_LINES_SIZE, loads_json, read_file

ANSWERS_FILE = "answers.jsonl"

_AT_ONCE = 256
"""Most queries that are recomputed in one call."""


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """A line of ``answers.jsonl``."""

    env: str
    """Label of the environment in the suite."""
    kind: str
    """Kind and fingerprint of the backend, its `agentgym.core.queries.AnswerKind.name`."""
    key: str
    """sha256 of the query; for sampled kinds also of the episode and the query's place in it."""
    value: Any
    """Answer, as JSON."""

    @property
    def line(self) -> str:
        """JSON on one line."""
        return canonical_json(asdict(self))


@dataclass(frozen=True, slots=True)
class AnswerPin:
    """Identity of an environment's outside answers: part of a run's request."""

    name: str
    """Key of `agentgym.env.AgentEnv.query_backends`."""
    kind: str
    """Kind and fingerprint of the backend, its `agentgym.core.queries.AnswerKind.name`."""
    standing: Reproducibility
    """Basis on which its answers can be checked."""
    sampled: bool
    """Whether equal queries may have different answers."""


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """Verification of the answers of a run."""

    recorded: int
    """Number of answers in ``answers.jsonl`` that episodes rest on."""
    recomputed: int
    """Number of these that were recomputed here and agreed."""
    attested: int
    """Number of these that nobody can recompute."""
    absent: tuple[str, ...] = ()
    """Reasons why recomputable answers were not recomputed, such as a missing index."""

    @property
    def badge(self) -> str:
        """Suffix of a run's badge."""
        if self.recorded == 0:
            return ""
        return ", answers recomputed" if self.recomputed == self.recorded else ", answers recorded"


def answer_pins(query_backends: Mapping[str, QueryBackend]) -> tuple[AnswerPin, ...]:
    """Return the identities of a game's outside answers, by name."""
    kinds = sorted((name, backend.kind) for name, backend in query_backends.items())
    return tuple(
        AnswerPin(name, kind.name, kind.standing, kind.sampled)
        for name, kind in kinds
        if kind.standing != "exact"
    )


def question_key(kind: AnswerKind, context: QueryContext) -> str:
    """Return the sha256 that a question is recorded under.

    Example:
        >>> first, again = QueryContext("who?", "t", 0, 1, 0), QueryContext("who?", "t", 1, 1, 0)
        >>> encoder, partner = AnswerKind("encoder"), AnswerKind("partner", sampled=True)
        >>> question_key(encoder, first) == question_key(encoder, again)
        True
        >>> question_key(partner, first) == question_key(partner, again)
        False
    """
    place = [*context[1:]] if kind.sampled else []
    return sha256_json([kind.name, context.question, *place])


def lost_key(key: str) -> str:
    """Return the key under which a query's unreadable replies are recorded; the query is repeated."""
    return sha256_json([key])


class RecordedAnswers:
    """The answers of a run."""

    def __init__(self, answers: Iterable[RecordedAnswer] = ()):
        """Hold answers; UsageError where a question has two."""
        self._answers: dict[tuple[str, str], RecordedAnswer] = {}
        for answer in answers:
            if not self.add(answer):
                raise UsageError(f"{ANSWERS_FILE} answers question {answer.key[:12]} twice: get it again")

    def __len__(self) -> int:
        """Number of answers."""
        return len(self._answers)

    def __iter__(self) -> Iterator[RecordedAnswer]:
        """Yield the answers in the order in which they were given."""
        return iter(self._answers.values())

    def add(self, answer: RecordedAnswer) -> bool:
        """Hold an answer; return whether its question had none."""
        return self._answers.setdefault((answer.env, answer.key), answer) is answer

    def find(self, env: str, kind: AnswerKind, key: str) -> RecordedAnswer | None:
        """Return the answer to a question, or None."""
        answer = self._answers.get((env, key))
        return answer if answer is not None and answer.kind == kind.name else None


def read_answers(path: Path) -> RecordedAnswers:
    """Read ``answers.jsonl``; without the file there are no answers."""
    if not path.exists():
        return RecordedAnswers()
    lines = read_file(path, largest=MAX_LINES_SIZE).split(b"\n")
    if lines[-1]:
        raise UsageError(f"{path}, line {len(lines)}: the line is cut off; get it again whole")
    return RecordedAnswers(
        parse_answer(line, f"{path}, line {n}") for n, line in enumerate(lines[:-1], start=1)
    )


def parse_answer(line: bytes, where: str) -> RecordedAnswer:
    """Read a line of ``answers.jsonl``."""
    answer = parse(RecordedAnswer, loads_json(line, where), where)
    if answer.line.encode() != line:
        raise UsageError(f"{where}: the line is not written as records are; get it again whole")
    return answer


class RecordingAnswers:
    """Answer source of a run being played, `agentgym.core.queries.AnswerSource`: records new answers."""

    def __init__(self, book: RecordedAnswers, env: str, append: Callable[[str], object]):
        """Record into a book; ``append`` writes a line durably: no episode may outlast its answers."""
        self._book = book
        self._env = env
        self._append = append

    def find(self, backend: QueryBackend, contexts: Sequence[QueryContext]) -> Sequence[Any]:
        """Return the answers that were recorded before."""
        kind = backend.kind
        if kind.standing == "exact":
            return [UNKNOWN] * len(contexts)
        records = (self._book.find(self._env, kind, question_key(kind, each)) for each in contexts)
        return [UNKNOWN if record is None else record.value for record in records]

    def keep(
        self, backend: QueryBackend, contexts: Sequence[QueryContext], answers: Sequence[Any]
    ) -> Sequence[Any]:
        """Record answers; return them as they will be read again: a replay must see the very same values."""
        kind = backend.kind
        if kind.standing == "exact":
            return answers
        return [
            self._recorded(kind, question_key(kind, each), value)
            for each, value in zip(contexts, answers, strict=True)
        ]

    def _recorded(self, kind: AnswerKind, key: str, value: Any) -> Any:
        before = self._book.find(self._env, kind, key)
        if isinstance(value, UnansweredError):  # information only: the query stays open
            self._recorded(kind, lost_key(key), value.recorded)
            return value
        if before is not None:
            return before.value  # the answer to an equal query of the same time
        answer = RecordedAnswer(self._env, kind.name, key, loads_json(canonical_json(value), "answer"))
        self._append(answer.line)
        self._book.add(answer)
        return answer.value


class ReplayedAnswers:
    """Answers from a book and from nowhere else: an `agentgym.core.queries.AnswerSource`."""

    def __init__(self, book: RecordedAnswers, env: str):
        """Replay the answers of a book."""
        self._book = book
        self._env = env
        self._used: dict[str, tuple[QueryBackend, Any, Any]] = {}

    def find(self, backend: QueryBackend, contexts: Sequence[QueryContext]) -> Sequence[Any]:
        """Return the recorded answers; an UnansweredError for each query without one."""
        kind = backend.kind
        if kind.standing == "exact":
            return [UNKNOWN] * len(contexts)
        answers: list[Any] = []
        for each in contexts:
            key = question_key(kind, each)
            found = self._book.find(self._env, kind, key)
            if found is None:
                reason = f"{ANSWERS_FILE} has no answer of {kind.name!r} to a question of turn {each.turn}"
                answers.append(UnansweredError(reason))
            else:
                self._used[key] = backend, each.question, found.value
                answers.append(found.value)
        return answers

    def keep(
        self, backend: QueryBackend, contexts: Sequence[QueryContext], answers: Sequence[Any]
    ) -> Sequence[Any]:
        """Return the answers unchanged: the package computes them itself."""
        return answers

    @property
    def recorded(self) -> int:
        """Number of different questions with an answer."""
        return len(self._used)

    def check(self) -> tuple[AnswerCheck, list[str]]:
        """Repeat recomputable questions; return their number and the disagreements."""
        kinds: dict[str, tuple[QueryBackend, list[tuple[Any, Any]]]] = {}
        for backend, question, recorded in self._used.values():
            kinds.setdefault(backend.kind.name, (backend, []))[1].append((question, recorded))
        recomputed, attested = 0, 0
        absent: list[str] = []
        problems: list[str] = []
        for backend, pairs in kinds.values():
            if backend.kind.standing == "attested":
                attested += len(pairs)
            elif backend.kind.sampled:
                absent.append(f"{backend.kind.name} samples: nothing to compare with")
            else:
                try:
                    differing = list(_differing(backend, pairs))
                except (MissingDataError, MissingPackageError, UnansweredError) as error:
                    absent.append(str(error))
                    continue
                recomputed += len(pairs) - len(differing)
                problems += differing
        return AnswerCheck(len(self._used), recomputed, attested, tuple(absent)), problems


def merged(checks: Iterable[AnswerCheck]) -> AnswerCheck:
    """Return the sum of the checks of several environments."""
    found = list(checks)
    return AnswerCheck(
        sum(check.recorded for check in found),
        sum(check.recomputed for check in found),
        sum(check.attested for check in found),
        tuple(dict.fromkeys(reason for check in found for reason in check.absent)),
    )


def _differing(backend: QueryBackend, pairs: Sequence[tuple[Any, Any]]) -> Iterator[str]:
    for begin in range(0, len(pairs), _AT_ONCE):
        some = pairs[begin : begin + _AT_ONCE]
        for (question, recorded), computed in zip(
            some, backend.answer([question for question, _ in some]), strict=True
        ):
            if isinstance(computed, UnansweredError):
                raise computed
            if not backend.agrees(recorded, computed):
                yield f"{backend.kind.name} answers {str(question)!r:.60} otherwise here"
