"""Finding the best documents of a query with NumPy: all scores, or as few as decide."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from agentgym.retrieval.engines.bm25.postings import Postings
from agentgym.retrieval.index import Hits

Documents: TypeAlias = npt.NDArray[np.int32]
ScoreColumn: TypeAlias = npt.NDArray[np.float64]
"""Sums of single-precision numbers, in double precision, where they are exact: the order of the terms does
not matter, here as in Lucene."""

LANES = 64
"""Scores are padded to a multiple of this."""

MANY = 50_000
"""Pairs of terms and documents from which on it pays to leave some out."""

SURE_SHARE = 0.4
"""Share of the pairs, at most, that are always added: those of the rarest terms."""

LOOKED_UP = 4
"""Pairs that are added in the time that one is looked up."""

FREQUENT = 1 / 16
"""Share of the documents that hold a frequent term."""

SPREAD_BYTES = 96 << 20
"""Memory for the parts of frequent terms as arrays over all documents."""

SMALL = 1 << 20
"""Pairs of an index that is unpacked as a whole; they take eight bytes each."""

TOGETHER = 1 << 17
"""Scores that are added up in one go, of eight bytes: they stay in a processor's cache."""

MAX_CACHED_WEIGHED = 1 << 14
"""Terms of a small index whose gains are remembered."""

UNPACKED_PAIRS = 1 << 22
"""Pairs that are kept unpacked; they take eight bytes each."""

_SLACK = 1 - 1e-6
"""Scores that differ by less may be equal in single precision."""


class Term(NamedTuple):
    """A term of a query, as often as the query has it."""

    first: int
    last: int
    """End of its runs in the postings, which begin at ``first``."""
    start: int
    stop: int
    """End of its pairs in the postings, which begin at ``start``."""
    weight: np.float32
    bound: float
    """The most that it adds to any score."""


class Ranking(Protocol):
    """Finds the best documents. Safe to ask from many threads."""

    def search(self, queries: Sequence[Sequence[Term]], k: int) -> list[Hits]:
        """Return the best ``k`` documents of each query."""


class NumpyRanker:
    """A `Ranking` that needs NumPy alone: the reference, and what small indexes are searched by."""

    def __init__(self, postings: Postings):
        """Hold the postings."""
        self._postings = postings
        self._count = len(postings.ranks)
        self._size = -(-self._count // LANES) * LANES
        self._spread = lru_cache(SPREAD_BYTES // (4 * self._count + 1) + 1)(self._make_spread)
        self._unpacked: dict[int, tuple[Documents, npt.NDArray[np.float32]]] = {}
        self._held = 0
        self._weighed: dict[int, tuple[Documents, npt.NDArray[np.float32], np.float32]] = {}
        self._whole: tuple[Documents, npt.NDArray[np.float32]] | None = None
        starts = postings.starts  # in a whole index they ascend from 0
        if 0 < len(postings.documents) <= SMALL and starts[0] == 0 and (starts[1:] > starts[:-1]).all():
            everything = Term(0, len(postings.windows), 0, len(postings.documents), np.float32(0), 0.0)
            documents, parts = self._unpack(everything)
            if int(documents.max()) < self._count:  # a damaged index is read term by term
                self._whole = documents, parts

    def search(self, queries: Sequence[Sequence[Term]], k: int) -> list[Hits]:
        """Return the best ``k`` documents of each query."""
        if self._whole is None or len(queries) == 1:
            return [self._search(terms, k) for terms in queries]
        found: list[Hits] = []
        few = max(1, TOGETHER // self._size)
        for first in range(0, len(queries), few):
            found += self._search_together(queries[first : first + few], k)
        return found

    def _search_together(self, queries: Sequence[Sequence[Term]], k: int) -> list[Hits]:
        """Search a small index: all scores of all queries at once."""
        documents, gains = self._gains_of([term for terms in queries for term in terms])
        pairs = [sum([term.stop - term.start for term in terms]) for terms in queries]
        begins = np.arange(0, len(queries) * self._size, self._size).repeat(pairs)
        totals = _sums(documents + begins, gains, len(queries) * self._size)
        places = _best_of_each(totals.reshape(len(queries), -1), k)
        owners, documents = np.divmod(places, self._size)
        scores = totals[places].astype(np.float32)
        order = np.lexsort((self._postings.ranks[documents], -scores, owners))
        documents, scores = documents[order].astype(np.int32), scores[order]
        ends = np.bincount(owners, minlength=len(queries)).cumsum().tolist()
        return [
            Hits(documents[begin : min(begin + k, end)].copy(), scores[begin : min(begin + k, end)].copy())
            for begin, end in zip([0, *ends], ends, strict=False)
        ]

    def _search(self, terms: Sequence[Term], k: int) -> Hits:
        documents, totals = self._best(terms, k)
        scores = totals.astype(np.float32)
        order = np.lexsort((self._postings.ranks[documents], -scores))[:k]
        return Hits(documents[order], scores[order])

    def _pairs(self, term: Term) -> tuple[Documents, npt.NDArray[np.float32]]:
        """Return the documents of a term and their parts; recently used ones are cached unpacked."""
        if self._whole is not None:
            documents, parts = self._whole
            return documents[term.start : term.stop], parts[term.start : term.stop]
        known = self._unpacked.get(term.start)
        if known is None:
            if self._held > UNPACKED_PAIRS:
                self._held = 0
                self._unpacked = {}
            known = self._unpacked[term.start] = self._unpack(term)
            self._held += term.stop - term.start
        return known

    def _unpack(self, term: Term) -> tuple[Documents, npt.NDArray[np.float32]]:
        first, last, start, stop, _, _ = term
        postings = self._postings
        documents = postings.documents[start:stop].astype(np.int32)
        if last - first == 1:
            documents += int(postings.windows[first]) << postings.bits
        else:
            bases = postings.windows[first:last].astype(np.int32) << postings.bits
            documents += np.repeat(bases, np.diff(postings.starts[first : last + 1]))
        parts = postings.parts[postings.impacts[start:stop]]
        if len(postings.odd_places):
            begin, end = postings.odd_places.searchsorted((start, stop))
            parts[postings.odd_places[begin:end] - start] = postings.odd_parts[begin:end]
        return documents, parts

    def _best(self, terms: Sequence[Term], k: int) -> tuple[Documents, ScoreColumn]:
        """Return all documents that may be among the best ``k``, with their scores."""
        pairs = sum([term.stop - term.start for term in terms])
        if pairs < MANY and self._whole is not None:
            totals = _sums(*self._gains_of(terms), self._size)
            documents = _contenders(totals, k)
            return documents, totals[documents]
        terms = sorted(terms, key=lambda term: -term.bound)
        totals = np.zeros(self._size)
        sure = len(terms) if pairs < MANY else _first_share(terms, SURE_SHARE * pairs)
        self._add(totals, terms[:sure])
        others = terms[sure:]
        if others:
            found = self._decide(totals, others, k)
            if found is not None:
                return found
            self._add(totals, others)
        documents = _contenders(totals, k)
        return documents, totals[documents]

    def _decide(
        self, totals: ScoreColumn, others: Sequence[Term], k: int
    ) -> tuple[Documents, ScoreColumn] | None:
        """Finish only the scores that can still be among the best; None if there are too many.

        The k-th best of any finished scores is no larger than the k-th best of all. A document can reach it
        only if what it lacks is no more than the other terms can add.
        """
        sample = _contenders(totals, k)
        if len(sample) < k:
            return None
        finished = totals[sample]
        for term in others:
            finished += self._gains(term, sample)
        floor = float(np.partition(finished, len(sample) - k)[len(sample) - k]) * _SLACK
        rest = sum(term.bound for term in others)
        if rest >= floor:
            return None
        documents = _at_least(totals, floor - rest)
        if LOOKED_UP * len(documents) * len(others) > sum(term.stop - term.start for term in others):
            return None
        scores = totals[documents]
        for term in others:
            scores += self._gains(term, documents)
            rest -= term.bound
            possible = scores >= floor - rest
            documents, scores = documents[possible], scores[possible]
        return documents, scores

    def _gains_of(self, terms: Sequence[Term]) -> tuple[Documents, npt.NDArray[np.float32]]:
        """Return the documents of all terms of a small index, one term after another, and their gains."""
        if not terms:
            return np.empty(0, np.int32), np.empty(0, np.float32)
        found = [self._pairs_and_gains(term) for term in terms]
        return np.concatenate([pairs for pairs, _, _ in found]), np.concatenate([own for _, own, _ in found])

    def _pairs_and_gains(self, term: Term) -> tuple[Documents, npt.NDArray[np.float32], np.float32]:
        """Return the documents of a term of a small index, their gains, and the weight that these are for."""
        known = self._weighed.get(term.start)
        if known is None or known[2] != term.weight:
            if len(self._weighed) >= MAX_CACHED_WEIGHED:
                self._weighed = {}
            documents, parts = self._pairs(term)
            known = self._weighed[term.start] = documents, term.weight - term.weight / parts, term.weight
        return known

    def _add(self, totals: ScoreColumn, terms: Sequence[Term]) -> None:
        """Add the terms' parts to the score of every document."""
        for term in terms:
            documents, parts = self._pairs(term)
            gains = term.weight - term.weight / parts
            np.add.at(totals, documents, gains.astype(np.float64))

    def _gains(self, term: Term, documents: Documents) -> npt.NDArray[np.float32]:
        """Return a term's addition to the scores of some documents."""
        if term.stop - term.start >= FREQUENT * self._count:
            spread = self._spread(term._replace(weight=np.float32(0), bound=0.0))  # the same for any weight
            gains: npt.NDArray[np.float32] = term.weight - term.weight / spread[documents]
            return gains
        held, parts = self._pairs(term)
        places = np.minimum(held.searchsorted(documents), len(held) - 1)
        gains = term.weight - term.weight / parts[places]
        gains[held[places] != documents] = 0.0
        return gains

    def _make_spread(self, term: Term) -> npt.NDArray[np.float32]:
        """Return the part of every document; 1, a gain of nothing, where it lacks the term."""
        spread = np.ones(self._count, np.float32)
        documents, parts = self._pairs(term)
        spread[documents] = parts
        return spread


def _sums(places: npt.NDArray[Any], gains: npt.NDArray[np.float32], size: int) -> ScoreColumn:
    sums: Any = np.bincount(places, gains, size)  # its annotation knows of no weights
    return sums  # type: ignore[no-any-return]


def _first_share(terms: Sequence[Term], pairs: float) -> int:
    """Return how many of the first terms, one at least, hold so many pairs or fewer."""
    held = 0
    for number, term in enumerate(terms):
        held += term.stop - term.start
        if held > pairs and number > 0:
            return number
    return len(terms)


def _contenders(totals: ScoreColumn, k: int) -> Documents:
    """Return the documents that may have one of the ``k`` largest of some scores, zero aside.

    The k-th largest of the maxima of disjoint sets of scores is no larger than the k-th largest score.
    """
    lanes = totals.reshape(LANES, -1).max(axis=0)
    if len(lanes) <= k < len(totals):  # few documents: each is a lane
        floor = float(np.partition(totals, len(totals) - k)[len(totals) - k]) * _SLACK
        return _at_least(totals, floor or np.nextafter(0, 1))
    floor = 0.0
    if len(lanes) > k:
        floor = float(np.partition(lanes, len(lanes) - k)[len(lanes) - k]) * _SLACK
    if floor == 0.0:
        return np.flatnonzero(totals).astype(np.int32)
    columns = np.flatnonzero(lanes >= floor)
    rows, places = np.nonzero(totals.reshape(LANES, -1)[:, columns] >= floor)
    return (rows * len(lanes) + columns[places]).astype(np.int32)


def _best_of_each(totals: ScoreColumn, k: int) -> npt.NDArray[np.intp]:
    """Return the places of what may be among the ``k`` largest of a row of scores; as `_contenders`."""
    lanes = totals.reshape(len(totals), LANES, -1).max(axis=1)
    if lanes.shape[1] <= k:
        lanes = totals  # few documents: each is a lane
    floors = np.full((len(totals), 1), np.nextafter(0, 1))
    if lanes.shape[1] > k:
        place = lanes.shape[1] - k
        np.maximum(floors, np.partition(lanes, place)[:, place, None] * _SLACK, out=floors)
    return np.flatnonzero(totals >= floors)  # `np.nonzero`, over two dimensions, takes five times as long


def _at_least(totals: ScoreColumn, floor: float) -> Documents:
    return np.flatnonzero(totals >= floor).astype(np.int32)
