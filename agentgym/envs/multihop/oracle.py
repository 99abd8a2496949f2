"""The policy that finds the supporting passages, then gives the gold answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from agentgym.core.calls import Call, read_calls, write_calls
from agentgym.core.policies import SnapshotPolicy
from agentgym.core.tasks import Task
from agentgym.core.types import Passage, Request, Snapshot
from agentgym.envs.multihop.candidates import base_title
from agentgym.envs.multihop.corpora import Corpus
from agentgym.envs.multihop.data.questions import StoredQuestion
from agentgym.envs.multihop.forms import ANSWER, CALLS, SEARCH, Form, normal_query
from agentgym.envs.multihop.scoring import AnswerRule, score_answer


class MultihopGame(Protocol):
    """The part of an environment that the oracle reads; environments import this module."""

    corpus: Corpus
    form: Form
    rule: AnswerRule
    enumerates: bool
    max_steps: int

    @property
    def task(self) -> Task:
        """The task being played."""


class MultihopOracle(SnapshotPolicy):
    """Searches for the titles of the supporting passages, then for their texts, and answers.

    It looks at the question through the request's snapshot. In the last step it answers, whatever is missing.
    Where actions are enumerated it chooses among them: by name what is listed, and the best answer of all.
    """

    def __init__(self, game: MultihopGame):
        """Take what the game is played with."""
        self._game = game

    def _choose(self, request: Request, snapshot: Snapshot) -> str:
        question: StoredQuestion = snapshot.task.content
        passages, queries = snapshot.state.passages, snapshot.state.queries
        made = frozenset(normal_query(query) for query in queries)
        missing = (
            [] if request.turn + 1 >= self._game.max_steps else self._game.corpus.missing(question, passages)
        )
        if self._game.enumerates:
            return self._chosen(request.admissible_actions, question, missing)
        chosen = [query for one in missing if (query := _next_query(one, made)) is not None]
        if chosen:
            return write_calls(Call(SEARCH, query) for query in chosen[: self._game.form.searches])
        return write_calls([Call(ANSWER, question.answer)])

    def _chosen(
        self, listed: Sequence[str], question: StoredQuestion, missing: Sequence[Passage | str]
    ) -> str:
        """Return a listed action: a search for what is missing, the question's own, or the best answer."""
        calls = [(action, call) for action in listed for call in read_calls(action, CALLS) or ()]
        wanted = {normal_query(name) for one in missing for name in _called(one)}
        wanted |= {name.removeprefix("the ") for name in wanted}
        if missing:
            wanted.add(normal_query(question.question))
        searches = [
            action for action, call in calls if call.name == SEARCH and normal_query(call.text) in wanted
        ]
        if searches:
            return searches[-1]
        answers = [(action, call.text) for action, call in calls if call.name == ANSWER]
        return max(answers, key=lambda each: self._worth(each[1], question))[0]

    def _worth(self, text: str, question: StoredQuestion) -> tuple[float, float]:
        score = score_answer(text, question.answer, question.aliases, self._game.rule)
        return score.em, score.f1


def oracle_texts(env: MultihopGame) -> Iterator[str]:
    """Yield what the oracle may type in the task being played, whether or not it was ever shown."""
    question: StoredQuestion = env.task.content
    yield question.answer
    for one in env.corpus.missing(question, ()):
        yield from _queries(one)


def _next_query(one: Passage | str, made: frozenset[str]) -> str | None:
    return next((query for query in _queries(one) if normal_query(query) not in made), None)


def _queries(one: Passage | str) -> Iterator[str]:
    """Yield queries that may find a passage, short ones first."""
    if isinstance(one, str):
        yield one
        return
    yield one.title
    yield f"{one.title} {one.text[:200]}".strip()
    yield f"{one.title} {one.text[:1_500]}".strip()


def _called(one: Passage | str) -> tuple[str, str]:
    title = one if isinstance(one, str) else one.title
    return title, base_title(title)
