"""BM25 that ranks as Lucene does, document for document, without a Java machine.

Robertson et al. 1994, in Lucene's form: a term that d of D documents hold has the weight
``w = log(1 + (D - d + 1/2) / (d + 1/2))`` and adds ``w - w / (1 + f / norm)`` to the score of a document
that holds it f times, with ``norm = k1 (1 - b + b length / average)``. Everything is in Lucene's precision,
lengths have Lucene's rounding (`agentgym.retrieval.lengths`) and equal scores stand in the order of the
documents' ids, as in Anserini: ``bm25s`` and ``tantivy`` compute the formula, but rank otherwise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from agentgym.errors import UsageError
from agentgym.retrieval.analysis import ANALYSER, Analyser
from agentgym.retrieval.counting import TermCounter
from agentgym.retrieval.index import (
    MANIFEST,
    CorpusDigest,
    Hits,
    Manifest,
    new_folder,
    spool_beside,
    versions,
)
from agentgym.retrieval.postings import Postings, in_files, in_memory, open_postings, term_digest
from agentgym.retrieval.ranking import Ranker, Term

ENGINE: Final = "bm25/1"

_TERMS_KEPT = 1 << 17
"""Terms that are remembered."""


class Bm25:
    """An index in memory or mapped from a folder, made by `build_bm25` or `open_bm25`.

    Example:
        >>> shop = build_bm25([("A", "a red shirt"), ("B", "red shoes, red laces")], corpus="two products")
        >>> hits = shop.search("Red things", k=10)
        >>> shop.ids(hits.documents), [f"{score:.3f}" for score in hits.scores]
        (['B', 'A'], ['0.121', '0.102'])
    """

    def __init__(self, manifest: Manifest, postings: Postings):
        """Hold the arrays."""
        self.manifest = manifest
        self._postings = postings
        self._ranker = Ranker(postings)
        self._analyser = Analyser()
        self._terms: dict[str, Term] = {}
        self._filled = max(1, int(manifest.parameters["filled"]))

    def __len__(self) -> int:
        """Number of documents."""
        return len(self._postings.ranks)

    def ids(self, documents: npt.NDArray[np.int32]) -> list[str]:
        """Return the ids of documents, given their numbers."""
        return [raw.decode() for raw in self._postings.ids[documents].tolist()]

    def search_all(self, queries: Sequence[str], k: int) -> list[Hits]:
        """Return `search` of each query."""
        return [self.search(query, k) for query in queries]

    def search(self, query: str, k: int) -> Hits:
        """Return the best ``k`` documents that share a term with the query, or as many as there are.

        Raises:
            UsageError: ``k`` is not positive.
        """
        if k < 1:
            raise UsageError(f"a search returns one document at least: ask for k >= 1, not {k}")
        terms = [self._term(term, count) for term, count in Counter(self._analyser.terms(query)).items()]
        documents, totals = self._ranker.best([term for term in terms if term.stop > term.start], k)
        scores = totals.astype(np.float32)
        order = np.lexsort((self._postings.ranks[documents], -scores))[:k]
        return Hits(documents[order], scores[order])

    def _term(self, term: str, count: int) -> Term:
        """Return a term that a query has ``count`` times."""
        known = self._terms.get(term)
        if known is None:
            if len(self._terms) >= _TERMS_KEPT:
                self._terms.clear()
            known = self._terms[term] = self._look_up(term)
        if count == 1:
            return known
        return self._weighed(known.start, known.stop, np.float32(count) * known.weight)

    def _look_up(self, term: str) -> Term:
        digest = np.uint64(term_digest(term))
        postings = self._postings
        slot = int(postings.terms.searchsorted(digest))
        if slot == len(postings.terms) or postings.terms[slot] != digest:
            return Term(0, 0, np.float32(0), 0.0)
        start, stop = int(postings.starts[slot]), int(postings.starts[slot + 1])
        rarity = 1 + (self._filled - (stop - start) + 0.5) / (stop - start + 0.5)
        return self._weighed(start, stop, np.float32(math.log(rarity)))

    def _weighed(self, start: int, stop: int, weight: np.float32) -> Term:
        if start == stop:
            return Term(start, stop, weight, 0.0)
        return Term(start, stop, weight, float(weight - weight / self._postings.parts[start:stop].max()))


def build_bm25(
    documents: Iterable[tuple[str, str]],
    *,
    corpus: str,
    folder: Path | None = None,
    k1: float = 0.9,
    b: float = 0.4,
    progress: Callable[[int], None] = lambda done: None,
) -> Bm25:
    """Build an index.

    Args:
        documents: ids and texts; a document's number is its place among them.
        corpus: what the documents were taken from, for the manifest.
        folder: where the index goes; in memory if None.
        k1: how late repetitions of a term stop to count.
        b: how far long documents are held back, 0 to 1.
        progress: called with how many documents are done.

    Raises:
        UsageError: PyStemmer is not installed, two documents have one id, or the folder cannot be written.
    """
    with nullcontext(None) if folder is None else spool_beside(folder) as spool:
        counter = TermCounter(Analyser(), spool)
        digest = CorpusDigest()
        for name, text in documents:
            counter.add(text)
            digest.add(name, text)
            progress(len(counter))
        ids = digest.id_column()
        with nullcontext(None) if folder is None else new_folder(folder) as draft:
            allocate = in_memory if draft is None else in_files(draft)
            postings = counter.lay_out(allocate, ids, k1, b)
            manifest = Manifest(
                engine=ENGINE,
                analyser=ANALYSER,
                parameters={"k1": k1, "b": b, "filled": counter.filled},
                corpus=corpus,
                corpus_sha256=digest.hexdigest(),
                count=len(ids),
                libraries=versions("numpy", "PyStemmer"),
            )
            if draft is None:
                return Bm25(manifest, postings)
            (draft / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    assert folder is not None
    return open_bm25(folder)


def open_bm25(folder: Path) -> Bm25:
    """Open an index; its arrays are mapped from the files, and shared by all processes.

    Raises:
        UsageError: there is no whole index, or one of another engine or analyser.
    """
    manifest = Manifest.read(folder)
    manifest.require(folder, engine=ENGINE, analyser=ANALYSER)
    return Bm25(manifest, open_postings(folder))
