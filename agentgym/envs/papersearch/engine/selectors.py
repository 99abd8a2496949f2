"""Selectors: scores of a paper for a query.

A selector is an `agentgym.core.queries.QueryBackend` whose answers are numbers from 0 to 1, and which says
what it wants to be asked (`Selector.question`). Agents never see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

from agentgym.core.queries import AnswerKind, QueryBackend
from agentgym.envs.papersearch.data.corpus import PaperCorpus
from agentgym.envs.papersearch.data.fields import plain_id
from agentgym.envs.papersearch.topics import Topic
from agentgym.errors import UsageError
from agentgym.retrieval.analysis import Analyser

MAX_CACHED_QUERIES = 4_096
MAX_CACHED_PAPERS = 65_536

ASKING = frozenset(
    """
    about all am any applies apply are based been can carried case could did do does done exist exists find
    from give have how i inform information know known like list literature look looking me mean need on
    overview paper papers please present previous provide recent related research resources return search
    show shows some state studies study survey tell us use used uses using via want what when where which
    who whose with work works would you
    """.split()  # noqa: SIM905 (a line a word is no help)
)
"""Words of a query that say that papers are asked for, and not which."""


class Selector(QueryBackend, Protocol):
    """Scores papers: its answers are numbers from 0 to 1."""

    def question(self, topic: Topic, number: int) -> Any:
        """Return a paper's question: plain data, on which alone the answer depends."""


class GoldSelector:
    """The labels themselves: 1 for a paper that the task asks for, 0 for any other."""

    kind = AnswerKind("selector gold")

    def __init__(self, corpus: PaperCorpus):
        """Know the papers' ids."""
        self._corpus = corpus

    def question(self, topic: Topic, number: int) -> tuple[str, tuple[str, ...]]:
        """Return the paper's id, and those that the task asks for."""
        return plain_id(self._corpus.paper(number).id), topic.gold

    def answer(self, questions: Sequence[Any]) -> list[float]:
        """Look the ids up."""
        return [float(id in gold) for id, gold in questions]

    def agrees(self, recorded: Any, computed: Any) -> bool:
        """Return whether both are the same number."""
        return type(recorded) is float and recorded == computed


class LexicalSelector:
    """The share of the query's terms that title and abstract hold.

    Terms are those of Lucene's English analysis (`agentgym.retrieval.analysis`), without `ASKING`. A query
    that has no others is answered with 0.

    Example:
        >>> from agentgym.envs.papersearch.data.corpus import PaperRecord, corpus_in_memory
        >>> corpus = corpus_in_memory([PaperRecord("a", "River ice", "How channels freeze.")])
        >>> selector = LexicalSelector(corpus)
        >>> selector.answer([("Which papers study frozen rivers?", 0), ("Find work on freezing rivers", 0)])
        [0.5, 1.0]
    """

    kind = AnswerKind("selector lexical/1")

    def __init__(self, corpus: PaperCorpus):
        """Read papers at their first use."""
        analyser = Analyser()
        asking = frozenset(analyser.terms(" ".join(ASKING)))
        self._wanted = lru_cache(MAX_CACHED_QUERIES)(lambda query: frozenset(analyser.terms(query)) - asking)
        self._held = lru_cache(MAX_CACHED_PAPERS)(
            lambda number: frozenset(analyser.terms(corpus.paper(number).contents))
        )

    def question(self, topic: Topic, number: int) -> tuple[str, int]:
        """Return the query and the paper's number."""
        return topic.query, number

    def answer(self, questions: Sequence[Any]) -> list[float]:
        """Count terms."""
        return [self._score(query, number) for query, number in questions]

    def _score(self, query: str, number: int) -> float:
        wanted = self._wanted(query)
        return len(wanted & self._held(number)) / len(wanted) if wanted else 0.0

    def agrees(self, recorded: Any, computed: Any) -> bool:
        """Return whether both are the same number."""
        return type(recorded) is float and recorded == computed


def read_score(answer: Any) -> float:
    """Validate a selector's untrusted answer as a score from 0 to 1."""
    if type(answer) not in (int, float) or not 0 <= answer <= 1:
        raise UsageError(f"a selector answers with a number from 0 to 1, got {answer!r:.60}")
    return float(answer)
