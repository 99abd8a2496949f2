"""BM25 that ranks as Lucene does, document for document, without a Java machine.

Robertson et al. 1994, in Lucene's form: a term that d of D documents hold has the weight
``w = log(1 + (D - d + 1/2) / (d + 1/2))`` and adds ``w - w / (1 + f / norm)`` to the score of a document
that holds it f times, with ``norm = k1 (1 - b + b length / average)``. Everything is in Lucene's precision,
lengths have Lucene's rounding (`agentgym.retrieval.lengths`) and equal scores stand in the order of the
documents' ids, as in Anserini: ``bm25s`` and ``tantivy`` compute the formula, but rank otherwise.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from agentgym.retrieval.analysis import ANALYSER, Analyser
from agentgym.retrieval.counting import TermCounter
from agentgym.retrieval.index import MANIFEST, CorpusDigest, Hits, Manifest, new_folder, versions
from agentgym.retrieval.postings import Postings, in_files, in_memory, open_postings, term_digest
from agentgym.types import UsageError

ENGINE: Final = "bm25/1"

_LANES = 64
"""Scores are padded to a multiple of this."""


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
        self._analyser = Analyser()
        # Python's integers are faster to look up and to slice with than an array's
        self._places: dict[str, tuple[int, int]] = {}
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
        totals = self._totals(query)
        found = _contenders(totals, k)
        scores = totals[found].astype(np.float32)
        order = np.lexsort((self._postings.ranks[found], -scores))[:k]
        return Hits(found[order].astype(np.int32), scores[order])

    def _totals(self, query: str) -> npt.NDArray[np.float64]:
        """Return the score of every document, padded to a multiple of `_LANES`.

        Terms are added in double precision, where sums of a few single-precision numbers are exact: the
        order of the terms does not matter, here as in Lucene.
        """
        postings = self._postings
        totals = np.zeros(-(-len(self) // _LANES) * _LANES)
        for term, count in Counter(self._analyser.terms(query)).items():
            start, stop = self._place(term)
            if start < stop:
                weight = np.float32(count) * self._weight(stop - start)
                gains = weight - weight / postings.parts[start:stop]
                np.add.at(totals, postings.documents[start:stop], gains.astype(np.float64))
        return totals

    def _place(self, term: str) -> tuple[int, int]:
        """Return where the documents of a term begin and end."""
        place = self._places.get(term)
        if place is None:
            digest = np.uint64(term_digest(term))
            slot = int(self._postings.terms.searchsorted(digest))
            known = slot < len(self._postings.terms) and self._postings.terms[slot] == digest
            starts = self._postings.starts
            place = (int(starts[slot]), int(starts[slot + 1])) if known else (0, 0)
            if len(self._places) >= _PLACES_KEPT:
                self._places.clear()
            self._places[term] = place
        return place

    def _weight(self, holders: int) -> np.float32:
        return np.float32(math.log(1 + (self._filled - holders + 0.5) / (holders + 0.5)))


_PLACES_KEPT = 1 << 17
"""Terms whose places are remembered."""


def _contenders(totals: npt.NDArray[np.float64], k: int) -> npt.NDArray[np.intp]:
    """Return all documents that may be among the best ``k``.

    The k-th largest of the maxima of disjoint lanes is no larger than the k-th largest score.
    """
    floor = 0.0
    lanes = totals.reshape(_LANES, -1).max(axis=0)
    if len(lanes) > k:
        floor = float(np.partition(lanes, len(lanes) - k)[len(lanes) - k]) * (1 - 1e-6)  # single precision
    return np.flatnonzero(totals >= floor) if floor > 0 else np.flatnonzero(totals)


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
    if folder is not None:
        folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder and folder.parent) as spool:
        counter = TermCounter(Analyser(), Path(spool))
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
