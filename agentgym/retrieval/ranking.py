"""Finding the best documents of a query: all scores, or as few as decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from agentgym.retrieval.postings import Postings

Documents: TypeAlias = npt.NDArray[np.int32]
Scores: TypeAlias = npt.NDArray[np.float64]
"""Sums of single-precision numbers, in double precision, where they are exact: the order of the terms does
not matter, here as in Lucene."""

LANES = 64
"""Scores are padded to a multiple of this."""

MANY = 100_000
"""Pairs of terms and documents from which on it pays to leave some out."""

SURE_SHARE = 0.4
"""Share of the pairs that are always added: those of the rarest terms."""

LOOKED_UP = 10
"""Pairs that are added in the time that one is looked up."""

_SLACK = 1 - 1e-6
"""Scores that differ by less may be equal in single precision."""


class Term(NamedTuple):
    """A term of a query, as often as the query has it."""

    start: int
    stop: int
    """Its pairs in the postings."""
    weight: np.float32
    bound: float
    """The most that it adds to any score."""


def best(postings: Postings, terms: Sequence[Term], k: int) -> tuple[Documents, Scores]:
    """Return all documents that may be among the best ``k``, ascending, with their scores."""
    terms = sorted(terms, key=lambda term: -term.bound)
    totals = np.zeros(-(-len(postings.ranks) // LANES) * LANES)
    pairs = sum(term.stop - term.start for term in terms)
    sure = len(terms)
    if pairs >= MANY:
        sure = _first_share(terms, SURE_SHARE * pairs)
    _add(totals, postings, terms[:sure])
    others = terms[sure:]
    if others:
        found = _decide(totals, postings, others, k)
        if found is not None:
            return found
        _add(totals, postings, others)
    documents = _contenders(totals, k)
    return documents, totals[documents]


def _decide(
    totals: Scores, postings: Postings, others: Sequence[Term], k: int
) -> tuple[Documents, Scores] | None:
    """Finish only the scores that can still be among the best; None if there are too many.

    The k-th best of any finished scores is no larger than the k-th best of all. A document can reach it only
    if what it lacks is no more than the other terms can add.
    """
    rest = sum(term.bound for term in others)
    sample = _contenders(totals, k)
    if len(sample) < k:
        return None
    finished = totals[sample] + sum(_gains(postings, term, sample) for term in others)
    floor = float(np.partition(finished, len(sample) - k)[len(sample) - k]) * _SLACK
    if rest >= floor:
        return None
    documents = np.flatnonzero(totals >= floor - rest).astype(np.int32)
    if LOOKED_UP * len(documents) * len(others) > sum(term.stop - term.start for term in others):
        return None
    scores = totals[documents]
    for term in others:
        scores += _gains(postings, term, documents)
        rest -= term.bound
        kept = scores >= floor - rest
        documents, scores = documents[kept], scores[kept]
    return documents, scores


def _first_share(terms: Sequence[Term], pairs: float) -> int:
    """Return how many of the first terms hold so many pairs."""
    held = 0
    for number, term in enumerate(terms):
        if held >= pairs:
            return number
        held += term.stop - term.start
    return len(terms)


def _add(totals: Scores, postings: Postings, terms: Sequence[Term]) -> None:
    """Add to the score of every document what terms say of it."""
    for start, stop, weight, _ in terms:
        gains = weight - weight / postings.parts[start:stop]
        np.add.at(totals, postings.documents[start:stop], gains.astype(np.float64))


def _gains(postings: Postings, term: Term, documents: Documents) -> Scores:
    """Return what a term adds to the scores of some documents, ascending."""
    start, stop, weight, _ = term
    held = postings.documents[start:stop]
    places = np.minimum(held.searchsorted(documents), stop - start - 1)
    gains = (weight - weight / postings.parts[start:stop][places]).astype(np.float64)
    gains[held[places] != documents] = 0.0
    return gains


def _contenders(totals: Scores, k: int) -> Documents:
    """Return the documents that may have one of the ``k`` largest of some scores, zero aside.

    The k-th largest of the maxima of disjoint sets of scores is no larger than the k-th largest score.
    """
    floor = 0.0
    lanes = totals.reshape(LANES, -1).max(axis=0)
    if len(lanes) > k:
        floor = float(np.partition(lanes, len(lanes) - k)[len(lanes) - k]) * _SLACK
    found = np.flatnonzero(totals >= floor) if floor > 0 else np.flatnonzero(totals)
    return found.astype(np.int32)
