"""From counted blocks to the postings of an index: two passes over the blocks, one block in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from agentgym.retrieval.corpus.naming import IdColumn
from agentgym.retrieval.engines.bm25.counting import CountedBlock, same_digest
from agentgym.retrieval.engines.bm25.lengths import LENGTHS, encode_lengths
from agentgym.retrieval.engines.bm25.postings import ODD, TOPS, WINDOW_BITS, Allocate, Postings

_COUNTS = 256
"""Frequencies from here on are always odd."""

_Longs = npt.NDArray[np.int64]


BlockSource: TypeAlias = Callable[[], CountedBlock]
"""Returns a block that is at hand, or in files."""


class _Runs(NamedTuple):
    """The runs that the pairs of a block make."""

    begins: _Longs
    """First pair of each."""
    terms: _Longs
    """Number of each one's term in the block."""
    windows: _Longs


class _Plan(NamedTuple):
    """Result of the first pass."""

    terms: npt.NDArray[np.uint64]
    pairs: _Longs
    """[T] of each term."""
    runs: _Longs
    """[T] of each term."""
    impacts: npt.NDArray[np.uint8]
    """[_COUNTS * 256] the impact of each frequency and code of a length."""
    parts: npt.NDArray[np.float32]
    """[256] of each impact."""
    odd: int
    """Pairs whose impact is `ODD`."""


def merge_blocks(
    blocks: Sequence[BlockSource],
    ids: IdColumn,
    allocate: Allocate,
    k1: float,
    b: float,
    bits: int = WINDOW_BITS,
) -> tuple[Postings, int]:
    """Return the postings of all documents, and how many of these have a term.

    ``blocks`` in the documents' order; equal scores are ranked by ``ids``. ``k1``: saturation of term
    frequency; ``b``: length normalisation, 0 to 1. A window has ``2 ** bits`` documents.
    """
    order = ids.order()
    lengths = [block().lengths for block in blocks]
    corpus = _Corpus.of(np.concatenate([np.empty(0, np.int32), *lengths]), k1, b)
    firsts = np.cumsum([0, *map(len, lengths)])[:-1].tolist()
    plan = _Planner(corpus, blocks, bits).plan(firsts)
    postings = _allocate(plan, ids, allocate, bits)
    postings.ranks[order] = np.arange(len(order))
    writer = _PostingsWriter(postings, plan, corpus)
    for block, first in zip(blocks, firsts, strict=True):
        writer.add(block(), first)
    return postings, int(np.count_nonzero(corpus.codes))


class _Corpus(NamedTuple):
    """Statistics of all documents."""

    codes: npt.NDArray[np.uint8]
    """[D] of their lengths."""
    inverse: npt.NDArray[np.float32]
    """[256] ``1 / norm`` of each code."""

    @classmethod
    def of(cls, lengths: npt.NDArray[np.int32], k1: float, b: float) -> _Corpus:
        # 1 / norm of each code of a length, in the precision and with the rounding of Lucene
        one, k, slope = np.float32(1), np.float32(k1), np.float32(b)
        average = np.float32(lengths.sum(dtype=np.int64) / max(1, np.count_nonzero(lengths)))
        positive = np.maximum(LENGTHS, 1).astype(np.float32)  # nothing is asked of documents without a term
        relative = positive / max(average, one)
        return cls(encode_lengths(lengths), one / (k * ((one - slope) + slope * relative)))


class _Planner:
    """The first pass: counts what the arrays will hold."""

    def __init__(self, corpus: _Corpus, blocks: Sequence[BlockSource], bits: int):
        self._corpus = corpus
        self._blocks = blocks
        self._bits = bits

    def plan(self, firsts: Sequence[int]) -> _Plan:
        """Look at all blocks."""
        terms = np.unique(np.concatenate([np.empty(0, np.uint64), *(each().terms for each in self._blocks)]))
        pairs, runs = np.zeros((2, len(terms)), np.int64)
        last_windows = np.full(len(terms), -1)
        checks = np.full(len(terms), -1)
        common = np.zeros(_COUNTS * 256, np.int64)
        for block, first in zip((source() for source in self._blocks), firsts, strict=True):
            numbers = terms.searchsorted(block.terms)
            known = checks[numbers]
            if np.any((known != block.checks) & (known >= 0)):
                raise same_digest()
            checks[numbers] = block.checks
            pairs[numbers] += block.sizes
            found = _runs(block, first, self._bits)
            runs[numbers] += np.bincount(found.terms, minlength=len(numbers))
            runs[numbers] -= _goes_on(found, last_windows[numbers])
            last_windows[numbers[found.terms]] = found.windows  # the last run of a term stays
            common += np.bincount(_keys(block, first, self._corpus.codes), minlength=len(common))
        impacts, parts = _choose_impacts(common, self._corpus.inverse)
        odd = int(common[impacts == ODD].sum())
        return _Plan(terms, pairs, runs, impacts, parts, odd)


class _PostingsWriter:
    """The second pass: puts the pairs of one block after another in their places."""

    def __init__(self, postings: Postings, plan: _Plan, corpus: _Corpus):
        self._postings = postings
        self._plan = plan
        self._corpus = corpus
        self._pairs = np.cumsum(plan.pairs) - plan.pairs  # [T] the next free place of each term
        self._runs = postings.firsts[:-1].copy()  # [T] its next free run
        self._odd: list[tuple[_Longs, npt.NDArray[np.float32]]] = []

    def add(self, block: CountedBlock, first: int) -> None:
        """Put the pairs of the next block in their places."""
        postings, plan = self._postings, self._plan
        numbers = plan.terms.searchsorted(block.terms)
        begins = np.cumsum(block.sizes) - block.sizes
        places = np.arange(len(block.documents)) + np.repeat(self._pairs[numbers] - begins, block.sizes)
        impacts = plan.impacts[_keys(block, first, self._corpus.codes)]
        documents = block.documents + np.int32(first)
        parts = (
            np.float32(1)
            + block.counts.astype(np.float32) * (self._corpus.inverse[self._corpus.codes[documents]])
        )
        postings.documents[places] = documents & ((1 << postings.bits) - 1)
        postings.impacts[places] = impacts
        odd = np.flatnonzero(impacts == ODD)
        self._odd.append((places[odd], parts[odd]))
        self._add_runs(_runs(block, first, postings.bits), numbers, places, parts)
        self._pairs[numbers] += block.sizes
        if sum(len(places) for places, _ in self._odd) == plan.odd:
            places = np.concatenate([places for places, _ in self._odd])
            order = np.argsort(places)
            self._postings.odd_places[:] = places[order]
            self._postings.odd_parts[:] = np.concatenate([parts for _, parts in self._odd])[order]

    def _add_runs(
        self, found: _Runs, numbers: _Longs, places: _Longs, parts: npt.NDArray[np.float32]
    ) -> None:
        postings = self._postings
        if len(found.begins) == 0:
            return
        started = self._runs[numbers] - postings.firsts[numbers] > 0
        before = postings.windows[np.maximum(self._runs[numbers] - 1, 0)].astype(np.int64)
        goes_on = _goes_on(found, np.where(started, before, -1))
        sizes = np.bincount(found.terms, minlength=len(numbers))
        ordinals = np.arange(len(found.terms)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        slots = (self._runs[numbers] - goes_on)[found.terms] + ordinals
        new = np.ones(len(slots), bool)
        new[(np.cumsum(sizes) - sizes)[goes_on > 0]] = False
        # the steps of `TOPS` that no gain of a weight exceeds, single precision considered
        shares = 1 - 1 / np.maximum.reduceat(parts, found.begins).astype(np.float64)
        tops = np.minimum(np.ceil(TOPS * shares + 1e-3), TOPS).astype(np.uint8)
        postings.windows[slots[new]] = found.windows[new]
        postings.starts[slots[new]] = places[found.begins[new]]
        postings.tops[slots[new]] = tops[new]
        postings.tops[slots[~new]] = np.maximum(postings.tops[slots[~new]], tops[~new])
        self._runs[numbers] += sizes - goes_on


def _runs(block: CountedBlock, first: int, bits: int) -> _Runs:
    """Return the runs that the pairs of a block make."""
    windows = (block.documents.astype(np.int64) + first) >> bits
    new = np.ones(len(windows), bool)
    new[1:] = windows[1:] != windows[:-1]
    ends = np.cumsum(block.sizes)
    new[ends[:-1]] = True
    begins = np.flatnonzero(new)
    return _Runs(begins, ends.searchsorted(begins, side="right"), windows[begins])


def _goes_on(found: _Runs, last_windows: _Longs) -> _Longs:
    """Return 1 for each term whose first run is the last one of an earlier block, else 0."""
    first = np.flatnonzero(np.diff(found.terms, prepend=-1))  # every term of a block has a run in it
    same: _Longs = (found.windows[first] == last_windows).astype(np.int64)
    return same


def _keys(block: CountedBlock, first: int, codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    """Return the number of each pair's frequency and code of a length."""
    counts = np.minimum(block.counts, _COUNTS - 1)
    keys: npt.NDArray[np.int32] = (counts << 8) | codes[block.documents + np.int32(first)]
    return keys


def _choose_impacts(
    common: _Longs, inverse: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """Return the impact of each number of `_keys`, and the part of each impact."""
    exact = common[: (_COUNTS - 1) << 8]  # later numbers stand for many frequencies
    chosen = np.argsort(-exact, kind="stable")[: ODD - 1]
    chosen = chosen[exact[chosen] > 0]
    chosen.sort()
    impacts = np.full(len(common), ODD, np.uint8)
    impacts[chosen] = np.arange(1, len(chosen) + 1)
    parts = np.ones(256, np.float32)
    parts[1 : len(chosen) + 1] = np.float32(1) + (chosen >> 8).astype(np.float32) * inverse[chosen & 255]
    return impacts, parts


def _allocate(plan: _Plan, ids: IdColumn, allocate: Allocate, bits: int) -> Postings:
    """Make the arrays, and fill those that the first pass decides."""
    runs, pairs = int(plan.runs.sum()), int(plan.pairs.sum())
    sizes = {
        "terms": len(plan.terms),
        "firsts": len(plan.terms) + 1,
        **dict.fromkeys(("windows", "tops"), runs),
        "starts": runs + 1,
        **dict.fromkeys(("documents", "impacts"), pairs),
        "parts": 256,
        **dict.fromkeys(("odd_places", "odd_parts"), plan.odd),
        **dict.fromkeys(("ranks", "id_ends"), len(ids)),
        "id_bytes": len(ids.raw()),
    }
    postings = Postings(**{name: allocate(name, size) for name, size in sizes.items()}, bits=bits)
    postings.terms[:] = plan.terms
    postings.firsts[0] = 0
    np.cumsum(plan.runs, out=postings.firsts[1:])
    postings.starts[-1] = pairs
    postings.parts[:] = plan.parts
    postings.id_ends[:] = ids.ends()
    postings.id_bytes[:] = ids.raw()
    return postings
