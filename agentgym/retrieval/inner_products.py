"""Inner products of vectors, ranked exactly: the same bits for a query alone and among others, everywhere.

A product of two numbers of float16 or float32 is exact in float64, and the products are added in their order,
so that a score is a function of its two vectors alone. Which documents are scored is decided by matrix
products in float32, whose error is bounded: everything that may be among the best is scored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from agentgym.core.arrays import Floats, Ints
from agentgym.errors import UsageError
from agentgym.retrieval.index import Hits

Halves: TypeAlias = npt.NDArray[np.float16]
Singles: TypeAlias = npt.NDArray[np.float32]

ROWS = 1 << 13
"""Documents in one matrix product."""

COLUMNS = 1 << 8
"""Queries in one matrix product."""

_SCORED = 1 << 12  # documents rescored at a time


def row_sums(values: Floats) -> Floats:
    """Return the sums of rows, each added from left to right, whatever stands beside it."""
    sums: Floats = np.cumsum(values, axis=1)[:, -1]
    return sums


def normalised(vectors: Singles) -> Singles:
    """Return vectors divided by their lengths; zeros stay zeros."""
    wide = vectors.astype(np.float64)
    lengths = np.sqrt(row_sums(wide * wide))
    result: Singles = (wide / np.where(lengths == 0, 1, lengths)[:, None]).astype(np.float32)
    return result


def score(rows: Callable[[Ints], Any], numbers: Ints, query: Singles) -> Singles:
    """Return the inner products of a query, [d], with the vectors of ``numbers``, [n].

    ``rows`` returns the [n, d] vectors of documents, given their numbers, in float32 or less.
    """
    scores = np.empty(len(numbers), np.float32)
    wide = query.astype(np.float64)
    for start in range(0, len(numbers), _SCORED):
        chosen = numbers[start : start + _SCORED]
        scores[start : start + _SCORED] = row_sums(rows(chosen).astype(np.float64) * wide)
    return scores


def best_first(scores: Singles, numbers: Ints, ids: npt.NDArray[np.bytes_], k: int) -> Hits:
    """Return the best ``k`` of scored documents; equal scores stand in the order of their ids.

    ``scores`` and ``numbers`` are [n], of the scored documents; ``ids`` is [D], of all.
    """
    order = np.lexsort((ids[numbers], -scores))[:k]
    return Hits(numbers[order].astype(np.int32), scores[order])


def nearest_documents(
    vectors: Halves, ids: npt.NDArray[np.bytes_], queries: Singles, k: int, longest: float, where: str
) -> list[Hits]:
    """Return the ``k`` documents of the largest inner products with each query.

    ``vectors``: [D, d]; ``ids``: [D], which break ties; ``queries``: [n, d]; ``longest``: largest length of a
    document's vector.
    """
    k = min(k, len(vectors))
    if k == 0:
        return [Hits(np.empty(0, np.int32), np.empty(0, np.float32)) for _ in queries]
    found: list[Hits] = []
    for start in range(0, len(queries), COLUMNS):
        some = queries[start : start + COLUMNS]
        for query, numbers in zip(some, _candidates(vectors, some, k, longest, where), strict=True):
            found.append(best_first(score(vectors.__getitem__, numbers, query), numbers, ids, k))
    return found


def _candidates(vectors: Halves, queries: Singles, k: int, longest: float, where: str) -> list[Ints]:
    """Return, per query, all documents that may be among its ``k`` best."""
    margins = _margins(queries, longest)
    best: Singles = np.full((len(queries), 0), -np.inf, np.float32)  # the k best scores so far
    floor: Singles = np.full(len(queries), -np.inf, np.float32)
    parts: list[tuple[Ints, Ints, Singles]] = []
    for start in range(0, len(vectors), ROWS):
        block = vectors[start : start + ROWS].astype(np.float32)
        scores: Singles = queries @ block.T
        if not np.isfinite(scores[:1]).all():
            number = start + int(np.argmin(np.isfinite(scores[0])))
            raise UsageError(
                f"{where}: the vector of document {number} is not finite; delete it and build it again"
            )
        if best.shape[1] < k:
            best = _largest(np.concatenate([best, scores], axis=1), k)
        else:
            for row in np.flatnonzero((scores > best.min(axis=1)[:, None]).any(axis=1)):
                above = scores[row][scores[row] > best[row].min()]
                best[row] = _largest(np.concatenate([best[row], above])[None], k)[0]
        if best.shape[1] == k:
            floor = best.min(axis=1) - margins
        rows, columns = np.nonzero(scores >= floor[:, None])
        parts.append((rows, columns + start, scores[rows, columns]))
    rows, numbers, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    eligible = values >= floor[rows]
    rows, numbers = rows[eligible], numbers[eligible]
    order = np.argsort(rows, kind="stable")
    return np.split(numbers[order], np.searchsorted(rows[order], np.arange(1, len(queries))))


def _largest(scores: Singles, k: int) -> Singles:
    """Return the ``k`` largest of each row, or all."""
    width = scores.shape[1]
    return scores if width <= k else np.partition(scores, width - k, axis=1)[:, width - k :]


def _margins(queries: Singles, longest: float) -> Singles:
    """Return the margin of a score in float32 below the last of the best that may still belong to them.

    A sum of d products is off by at most ``d u / (1 - d u)`` times the product of both lengths (Higham 2002,
    section 3.1), with u = 2**-24; two such scores are compared, and rounded to float32.
    """
    terms = queries.shape[1] + 2
    lengths = np.sqrt(row_sums(queries.astype(np.float64) ** 2))
    margins: Singles = (4 * terms * 2.0**-24 * lengths * max(longest, 1e-30)).astype(np.float32)
    return margins
