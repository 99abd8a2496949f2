"""Reciprocal-rank fusion of two engines (Cormack et al. 2009).

A document's score is the sum of ``1 / (k0 + rank)`` over both engines, with ranks counted from ``first``;
an engine that does not have it among its best ``depth`` adds nothing. k0 = 60 from rank 1 is the paper's;
Qdrant's is k0 = 2 from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from agentgym.core.options import NonNegativeInt, PositiveInt, check_options, options_of
from agentgym.errors import UsageError
from agentgym.retrieval.index import BatchedIndex, Hits, Index, Manifest

ENGINE: Final = "hybrid/1"

DEPTH: Final = 100
"""Documents of each engine that are fused, or ``k`` where that is more."""


class HybridIndex(BatchedIndex):
    """Two indexes over one corpus, searched as one; it has no files of its own.

    Example:
        >>> from agentgym.retrieval.engines.bm25 import build_bm25
        >>> shop = [("A", "red shirt"), ("B", "red shoes, red laces"), ("C", "blue shirt")]
        >>> plain, short = (build_bm25(shop, corpus="shop", b=b) for b in (0.4, 1.0))
        >>> fused = HybridIndex(plain, short)
        >>> hits = fused.search("red shirt", 2)
        >>> fused.ids(hits.documents), [f"{score:.5f}" for score in hits.scores]
        (['A', 'B'], ['0.03279', '0.03226'])
    """

    def __init__(
        self,
        one: Index,
        other: Index,
        *,
        k0: NonNegativeInt = 60,
        first: NonNegativeInt = 1,
        depth: PositiveInt = DEPTH,
    ):
        """Join two indexes over the same documents, by reciprocal rank fusion.

        ``k0`` is the constant of the denominators; ``first``: rank of an engine's best document; ``depth``:
        documents of each engine that are fused, or ``k`` where that is more.
        """
        check_options({"k0": k0, "first": first, "depth": depth}, options_of(HybridIndex), "hybrid: ")
        if k0 + first < 1:
            raise UsageError("a hybrid divides by k0 + first: let one of them be at least 1")
        mine, others = one.manifest, other.manifest
        if (mine.corpus_sha256, len(one)) != (others.corpus_sha256, len(other)):
            raise UsageError(
                f"a hybrid fuses indexes over one corpus: these are over {len(one)} documents of "
                f"{mine.corpus!r} and {len(other)} of {others.corpus!r}"
            )
        self.parts = one, other
        self._k0, self._first, self._depth = int(k0), int(first), int(depth)
        self.manifest = Manifest(
            engine=ENGINE,
            analyser="",
            parameters={"k0": self._k0, "first": self._first, "depth": self._depth},
            corpus=mine.corpus,
            corpus_sha256=mine.corpus_sha256,
            count=len(one),
            libraries={**mine.libraries, **others.libraries},
            text_parameters={
                "engines": f"{_engines(mine)} {_engines(others)}",
                "fingerprints": f"{mine.fingerprint} {others.fingerprint}",
            },
        )

    def ids(self, documents: npt.NDArray[np.int32]) -> list[str]:
        """Return the ids of documents, given their numbers."""
        return self.parts[0].ids(documents)

    def _search_all(self, queries: Sequence[str], k: int) -> list[Hits]:
        depth = max(k, self._depth)
        found = (part.search_all(queries, depth) for part in self.parts)
        return [self._fuse(pair, k) for pair in zip(*found, strict=True)]

    def _fuse(self, found: Sequence[Hits], k: int) -> Hits:
        totals: dict[int, float] = {}
        for hits in found:
            for rank, number in enumerate(hits.documents.tolist(), self._first):
                totals[number] = totals.get(number, 0.0) + 1 / (self._k0 + rank)
        numbers = np.array(list(totals), np.int32)
        scores = np.array(list(totals.values()), np.float32)
        if len(np.unique(scores)) == len(scores):
            order = np.argsort(-scores)[:k]
        else:
            order = np.lexsort((np.array([id.encode() for id in self.ids(numbers)], np.bytes_), -scores))[:k]
        return Hits(numbers[order], scores[order])


def _engines(manifest: Manifest) -> str:
    """Return the engines of an index: its own, or those of a hybrid."""
    return manifest.text_parameters.get("engines", manifest.engine)
