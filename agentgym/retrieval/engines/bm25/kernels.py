"""The compiled search: windowed MaxScore (Turtle and Flood 1995, Ding and Suel 2011) over packed postings.

Window by window of documents, the terms of a query are split in two: what the *other* terms can add there at
most is not enough for a place among the best, so that only documents that hold one of the *deciding* terms
matter. Those are summed in an array over the window, and the few documents that can still be among the best
are looked up in the others. A window where all terms together are not enough is passed over. What is found
is exactly what summing everything finds.

Imported where it is wanted alone: that takes half a second, and once on a machine, to compile, a few more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, cast

import numba
import numpy as np

from agentgym.errors import UsageError
from agentgym.io.paths import cache_directory

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])

SLACK: Final = 1 - 1e-6
"""Scores that differ by less may be equal in single precision."""

MIN_POSITIVE: Final = 5e-324

TABLED: Final = 1 << 10
"""Postings of a term from which on it pays to compute beforehand what each impact adds."""

MAX_TABLES: Final = 1 << 10
"""Terms at most for which that is done in a pass."""

SPARSE: Final = 8
"""A window is searched by its postings where these are fewer than one in so many documents."""

SCANNED: Final = 4
"""Documents of a window that are looked at in the time that one posting is added."""

LOOKED_UP: Final = 32
"""Postings that are added in the time that one document is looked up."""


class PackedIndex(NamedTuple):
    """The arrays of `agentgym.retrieval.engines.bm25.postings.Postings` that a search needs."""

    bits: int
    windows: Any
    tops: Any
    starts: Any
    documents: Any
    impacts: Any
    parts: Any
    odd_places: Any
    odd_parts: Any
    ranks: Any


class QueryTerms(NamedTuple):
    """The n terms of queries, those of a query in the order of what they can add at most."""

    cursors: Any
    """[n] next run of each; moves from window to window."""
    ends: Any
    """[n] where its runs end."""
    odd: Any
    """[n] a place among the odd postings that is not behind the next run, -1 if not known."""
    weights: Any
    rows: Any
    """[n] row in ``Room.gains``, -1 if it has none."""


class HitHeap(NamedTuple):
    """The best hits so far, the worst of them first."""

    scores: Any
    ranks: Any
    documents: Any


class Room(NamedTuple):
    """Arrays to work in."""

    runs: Any
    """[n] the runs in a window."""
    terms: Any
    """[n] whose they are."""
    bounds: Any
    """[n] what they add at most."""
    gains: Any
    """[rows, 256] what each impact adds."""
    totals: Any
    """[documents of a window] zero between two windows."""
    found: Any
    """[documents of a window + 1] those that may be among the best, counted from its first."""
    scores: Any
    """[documents of a window + 1] what these have so far."""


def _compiled(function: _FunctionT) -> _FunctionT:
    """Compile at the first call, for all processes of this machine to come."""
    settings: Any = numba.config
    before = settings.CACHE_DIR
    try:
        settings.CACHE_DIR = str(cache_directory() / "numba")
        made: Any = numba.njit(nogil=True, error_model="numpy", cache=True)(function)
    except (RuntimeError, UsageError, OSError):  # nowhere to keep it: compile in every process
        made = numba.njit(nogil=True, error_model="numpy")(function)
    finally:
        settings.CACHE_DIR = before
    return cast("_FunctionT", made)


@_compiled
def lower_bound(values: Any, wanted: Any) -> int:
    """Return the first place of ascending values from which on they are ``wanted`` or more."""
    base, size = 0, len(values)
    while size > 1:  # a sum, not a branch, which the processor would often guess wrong
        half = size >> 1
        base += half * (values[base + half - 1] < wanted)
        size -= half
    return base + (size == 1 and values[base] < wanted)


@_compiled
def is_worse(score: Any, rank: Any, other: Any, other_rank: Any) -> bool:
    """Return whether a hit stands behind another."""
    return bool(score < other or (score == other and rank > other_rank))


@_compiled
def put(heap: HitHeap, place: int, score: Any, rank: Any, document: Any) -> None:
    """Write a hit into a place of a heap."""
    heap.scores[place], heap.ranks[place], heap.documents[place] = score, rank, document


@_compiled
def sift_down(heap: HitHeap, size: int, score: Any, rank: Any, document: Any) -> None:
    """Put a hit in the place of the first of a heap, and let it sink to its own."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        next_to = min(child + 1, size - 1)
        if is_worse(heap.scores[next_to], heap.ranks[next_to], heap.scores[child], heap.ranks[child]):
            child = next_to
        if not is_worse(heap.scores[child], heap.ranks[child], score, rank):
            break
        put(heap, place, heap.scores[child], heap.ranks[child], heap.documents[child])
        place = child
    put(heap, place, score, rank, document)


@_compiled
def offer(heap: HitHeap, size: int, score: Any, rank: Any, document: Any) -> int:
    """Put a hit into a heap of the best where it is one of these; return how many there are."""
    if size == len(heap.scores):
        if is_worse(heap.scores[0], heap.ranks[0], score, rank):
            sift_down(heap, size, score, rank, document)
        return size
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if not is_worse(score, rank, heap.scores[parent], heap.ranks[parent]):
            break
        put(heap, place, heap.scores[parent], heap.ranks[parent], heap.documents[parent])
        place = parent
    put(heap, place, score, rank, document)
    return size + 1


@_compiled
def sort_heap(heap: HitHeap, size: int) -> None:
    """Put the hits of a heap in order, best first."""
    for last in range(size - 1, 0, -1):
        score, rank, document = heap.scores[0], heap.ranks[0], heap.documents[0]
        sift_down(heap, last, heap.scores[last], heap.ranks[last], heap.documents[last])
        put(heap, last, score, rank, document)


@_compiled
def add_run(index: PackedIndex, run: int, weight: Any, gains: Any, odd: int, totals: Any) -> int:
    """Add a term's impact on a run's documents to ``totals``; return the next of the odd postings.

    ``gains``: [256], the addition of each impact; empty if not known. ``odd``: a place among the odd postings
    that is not behind the run, -1 if not known. ``totals``: [documents of the window], changed.
    """
    start, stop = index.starts[run], index.starts[run + 1]
    documents, impacts = index.documents[start:stop], index.impacts[start:stop]
    parts, odd_places = index.parts, index.odd_places
    if len(gains):
        for place in range(len(documents)):
            totals[documents[place]] += gains[impacts[place]]
    else:
        for place in range(len(documents)):
            totals[documents[place]] += np.float64(weight - weight / parts[impacts[place]])
    if odd < 0:
        odd = lower_bound(odd_places, start)
    while odd < len(odd_places) and odd_places[odd] < start:
        odd += 1
    while odd < len(odd_places) and odd_places[odd] < stop:
        totals[documents[odd_places[odd] - start]] += np.float64(weight - weight / index.odd_parts[odd])
        odd += 1
    return odd


@_compiled
def look_up(index: PackedIndex, run: int, weight: Any, room: Room, count: int, floor: float) -> int:
    """Add a term's impact on the found documents; keep those of ``floor`` or more, return the count."""
    start = index.starts[run]
    documents = index.documents[start : index.starts[run + 1]]
    found, scores = room.found, room.scores
    size = 0
    for number in range(count):
        document, score = found[number], scores[number]
        place = lower_bound(documents, document)
        if place < len(documents) and documents[place] == document:
            impact = index.impacts[start + place]
            part = index.parts[impact]
            if impact == 255:
                part = index.odd_parts[lower_bound(index.odd_places, start + place)]
            score += np.float64(weight - weight / part)
        if score >= floor:
            found[size], scores[size] = document, score
            size += 1
    return size


@_compiled
def count_reaching(index: PackedIndex, runs: Any, sparse: bool, floor: float, totals: Any) -> int:
    """Return the number of a window's documents with ``floor`` or more, some twice if ``sparse``."""
    many = 0
    if sparse:
        for run in runs:
            for document in index.documents[index.starts[run] : index.starts[run + 1]]:
                many += totals[document] >= floor
    else:
        for document in range(len(totals)):
            many += totals[document] >= floor
    return many


@_compiled
def collect(index: PackedIndex, runs: Any, sparse: bool, floor: float, totals: Any, room: Room) -> int:
    """Collect a window's documents with totals of ``floor`` or more; clear all totals; return the count.

    ``sparse`` looks at the documents of ``runs`` rather than at all. ``floor`` is above zero. ``totals``:
    [documents of the window, rounded up to 64].
    """
    count = 0
    found, scores = room.found, room.scores
    if sparse:
        for run in runs:
            for document in index.documents[index.starts[run] : index.starts[run + 1]]:
                score = totals[document]
                found[count], scores[count] = document, score
                count += score >= floor
                totals[document] = 0.0
        return count
    for begin in range(0, len(totals), 64):
        part = totals[begin : begin + 64]
        many = 0
        for place in range(len(part)):
            many += part[place] >= floor
        if many:
            for place in range(len(part)):  # a sum, not a branch, which the processor would often guess wrong
                found[count], scores[count] = begin + place, part[place]
                count += part[place] >= floor
    totals[:] = 0.0
    return count


@_compiled
def arrive(index: PackedIndex, window: int, terms: QueryTerms, room: Room) -> int:
    """List the runs of a query's terms in a window, and move on from these; return how many there are."""
    active = 0
    for term in range(len(terms.cursors)):
        cursor = terms.cursors[term]
        if cursor < terms.ends[term] and index.windows[cursor] == window:
            room.runs[active] = cursor
            room.terms[active] = term
            room.bounds[active] = np.float64(terms.weights[term]) * index.tops[cursor] / 255
            terms.cursors[term] = cursor + 1
            active += 1
    return active


@_compiled
def search_window(
    index: PackedIndex, window: int, terms: QueryTerms, heap: HitHeap, size: int, room: Room
) -> int:
    """Offer the documents of a window to the heap of a query, which has ``size``; return how many it has."""
    active = arrive(index, window, terms, room)
    floor = MIN_POSITIVE
    if size == len(heap.scores):
        floor = max(MIN_POSITIVE, np.float64(heap.scores[0]) * SLACK)
    rest, others = 0.0, 0
    while others < active and rest + room.bounds[others] < floor:
        rest += room.bounds[others]
        others += 1
    if others == active:
        return size
    first = window << index.bits
    width = (min(1 << index.bits, len(index.ranks) - first) + 63) & ~63
    totals = room.totals[:width]
    pairs, number = 0, active - 1
    while number >= others:
        run, term = room.runs[number], room.terms[number]
        row = terms.rows[term]
        gains = room.gains[row] if row >= 0 else room.gains[0, :0]
        terms.odd[term] = add_run(index, run, terms.weights[term], gains, terms.odd[term], totals)
        pairs += index.starts[run + 1] - index.starts[run]
        if number == others and others > 0:  # the next is added too, where much would have to be looked up
            following = index.starts[room.runs[others - 1] + 1] - index.starts[room.runs[others - 1]]
            sparse = pairs * SPARSE < width
            many = following
            if following > (pairs if sparse else width // SCANNED):
                reach = max(MIN_POSITIVE, floor - rest)
                many = LOOKED_UP * count_reaching(index, room.runs[others:active], sparse, reach, totals)
            if many >= following:
                others -= 1
                rest -= room.bounds[others]
        number -= 1
    reach = max(MIN_POSITIVE, floor - rest)
    many = collect(index, room.runs[others:active], pairs * SPARSE < width, reach, totals, room)
    for number in range(others - 1, -1, -1):
        rest -= room.bounds[number]
        weight = terms.weights[room.terms[number]]
        many = look_up(index, room.runs[number], weight, room, many, max(MIN_POSITIVE, floor - rest))
    for number in range(many):
        score, document = np.float32(room.scores[number]), first + room.found[number]
        if document < len(index.ranks) and (size < len(heap.scores) or score >= heap.scores[0]):
            size = offer(heap, size, score, index.ranks[document], document)
    return size


@_compiled
def tabulate(index: PackedIndex, terms: QueryTerms) -> Any:
    """Return the addition of each impact, for terms of many documents, whose rows are noted."""
    count = 0
    for term in range(len(terms.rows)):
        pairs = index.starts[terms.ends[term]] - index.starts[terms.cursors[term]]
        if count < MAX_TABLES and pairs >= TABLED:
            terms.rows[term] = count
            count += 1
    gains = np.empty((max(1, count), 256))
    for term in range(len(terms.rows)):
        if terms.rows[term] >= 0:
            for impact in range(256):
                weight = terms.weights[term]
                gains[terms.rows[term], impact] = weight - weight / index.parts[impact]
    return gains


@_compiled
def search_queries(
    index: PackedIndex,
    begins: Any,
    cursors: Any,
    ends: Any,
    weights: Any,
    totals: Any,
    found: Any,
    scores: Any,
    best_scores: Any,
    best_documents: Any,
    sizes: Any,
) -> None:
    """Find the best documents of some queries, window by window, so that they share what they read.

    ``begins``: [Q + 1] where the terms of each query begin; ``cursors``: [n] first run of each term; changed;
    ``ends``: [n] where its runs end; ``weights``: [n] its weight; the terms of a query are in the order of
    what they can add at most; ``totals``: [documents of a window] zeros, and zeros again afterwards;
    ``found``: [documents of a window + 1] room; ``scores``: [documents of a window + 1] room;
    ``best_scores``: [Q, k] where the scores of the hits go, best first; ``best_documents``: [Q, k] where the
    documents go; ``sizes``: [Q] zeros, where the number of hits goes.
    """
    count = len(cursors)
    terms = QueryTerms(cursors, ends, np.full(count, -1), weights, np.full(count, -1))
    gains = tabulate(index, terms)
    room = Room(
        np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count), gains, totals, found, scores
    )
    best_ranks = np.empty(best_scores.shape, np.int32)
    for window in range(((len(index.ranks) - 1) >> index.bits) + 1):
        for query in range(len(sizes)):
            own = slice(begins[query], begins[query + 1])
            subset = QueryTerms(cursors[own], ends[own], terms.odd[own], terms.weights[own], terms.rows[own])
            heap = HitHeap(best_scores[query], best_ranks[query], best_documents[query])
            sizes[query] = search_window(index, window, subset, heap, sizes[query], room)
    for query in range(len(sizes)):
        sort_heap(HitHeap(best_scores[query], best_ranks[query], best_documents[query]), sizes[query])
