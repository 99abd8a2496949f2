"""Pool of an episode's papers, with its precision and recall."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from typing import Final, NamedTuple

from agentgym.envs.papersearch.data.fields import plain_id

MIN_SCORE: Final = 0.01
"""A paper of a lower score does not enter the pool."""

COUNTED_SCORE: Final = 0.5
"""A paper of the pool counts as found from this score on."""

CUTS: Final = (100, 50, 25)
"""Sizes of the best part of a pool that is measured beside all of it."""

SHOWN: Final = 10
"""Expanded papers that are shown at most, and others."""


class FoundPaper(NamedTuple):
    """A paper of the pool."""

    number: int
    score: float
    """The selector's, in [0, 1]."""


class Accuracy(NamedTuple):
    """Precision, recall and F1 of a set of papers.

    Example:
        >>> accuracy(["a", "b", "b"], ["b", "c", "d"])
        Accuracy(precision=0.5, recall=0.3333333333333333, f1=0.4)
    """

    precision: float
    recall: float
    f1: float
    """Harmonic mean of both."""


def accuracy(found: Iterable[str], gold: Iterable[str]) -> Accuracy:
    """Compare sets of ids; 0 where one is empty."""
    found, gold = set(found), set(gold)
    hits = len(found & gold)
    if not hits:
        return Accuracy(0.0, 0.0, 0.0)
    return Accuracy(hits / len(found), hits / len(gold), 2 * hits / (len(found) + len(gold)))


class Pool:
    """The papers of an episode, in the order they came, each with its score."""

    def __init__(self, papers: Iterable[FoundPaper] = (), expanded: Iterable[int] = ()):
        """Begin with some papers, of which some have been expanded."""
        self.scores: dict[int, float] = {number: score for number, score in papers}  # noqa: C416 (named tuples)
        self.expanded: dict[int, None] = dict.fromkeys(expanded)

    def papers(self) -> tuple[FoundPaper, ...]:
        """Return the papers in the order they came."""
        return tuple(FoundPaper(*item) for item in self.scores.items())

    def add(self, number: int, score: float) -> bool:
        """Take a paper, unless it is there or its score is too low; return whether it was taken."""
        taken = number not in self.scores and score >= MIN_SCORE
        if taken:
            self.scores[number] = score
        return taken

    def shown(self) -> list[FoundPaper]:
        """Return the papers that an agent sees, the best first.

        They are the `SHOWN` best of those that were expanded and the `SHOWN` best of the others.
        """
        expanded = (number for number in self.scores if number in self.expanded)
        others = (number for number in self.scores if number not in self.expanded)
        return self._best([paper.number for each in (expanded, others) for paper in self._best(each, SHOWN)])

    def counted(self) -> list[FoundPaper]:
        """Return the papers that count as found, the best first."""
        return self._best([number for number, score in self.scores.items() if score >= COUNTED_SCORE])

    def _best(self, numbers: Iterable[int], limit: int | None = None) -> list[FoundPaper]:
        """Sort by score; equal ones stand in the order of their numbers."""
        ranked = [(self.scores[number], -number) for number in numbers]
        best = nlargest(len(ranked) if limit is None else limit, ranked)
        return [FoundPaper(-negative, score) for score, negative in best]


def measured(pool: Pool, gold: Sequence[str], id_of: Callable[[int], str]) -> dict[str, float]:
    """Return precision, recall and F1 of a pool and of its best `CUTS`.

    ``gold``: ids without versions.
    """
    ids = list(dict.fromkeys(plain_id(id_of(paper.number)) for paper in pool.counted()))
    values: dict[str, float] = {}
    for cut in (None, *CUTS):
        ending = "" if cut is None else f"_at_{cut}"
        for name, value in accuracy(ids[:cut], gold)._asdict().items():
            values[name + ending] = value
    return values
