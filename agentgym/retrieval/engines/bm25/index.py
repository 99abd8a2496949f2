"""BM25 that ranks as Lucene does, document for document, without a Java machine.

Robertson et al. 1994, in Lucene's form: a term that d of D documents hold has the weight
``w = log(1 + (D - d + 1/2) / (d + 1/2))`` and adds ``w - w / (1 + f / norm)`` to the score of a document
that holds it f times, with ``norm = k1 (1 - b + b length / average)``. Everything is in Lucene's precision,
lengths have Lucene's rounding (`agentgym.retrieval.engines.bm25.lengths`) and equal scores stand in the order
of the documents' ids, as in Anserini: ``bm25s`` computes the formula, but ranks otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import numpy.typing as npt

from agentgym.core.options import UNIT_INTERVAL, PositiveFloat, check_options, options_of
from agentgym.errors import UsageError
from agentgym.retrieval.analysis import ANALYSER, shared_analyser
from agentgym.retrieval.engines.bm25.blocks import count_corpus, resumable_spool
from agentgym.retrieval.engines.bm25.execution import (
    COMPILED_AFTER,
    SearchBackend,
    choose_backend,
    make_ranking,
)
from agentgym.retrieval.engines.bm25.merging import merge_blocks
from agentgym.retrieval.engines.bm25.postings import (
    FORMAT,
    TOPS,
    Postings,
    in_files,
    in_memory,
    open_postings,
    term_digest,
    write_layout,
)
from agentgym.retrieval.engines.bm25.ranking import Ranking, Term
from agentgym.retrieval.index import MANIFEST, BatchedIndex, Hits, Manifest, new_folder, versions
from agentgym.retrieval.words import words

ENGINE: Final = "bm25/1"
"""Names the ranks, in manifests and runs; the files of a folder have a version of their own."""

FOLDER: Final = f"bm25.{FORMAT}"
"""A name for folders in a cache, where indexes of other formats may lie."""

_MAX_CACHED_WORDS = 1 << 17
"""Words whose terms are remembered."""

_ABSENT = Term(0, 0, 0, 0, np.float32(0), 0.0)
"""Term of a word that is not indexed."""

_MAX_CACHED_SLOTS = 1 << 16
"""Terms of an index whose numbers are kept as a dictionary, some 100 bytes each."""


def _times(count: int, term: Term) -> Term:
    """Return a term that a query has so many times."""
    if count == 1:
        return term
    first, last, start, stop, weight, bound = term
    return Term(first, last, start, stop, np.float32(count) * weight, count * bound)


class Bm25(BatchedIndex):
    """An index in memory or mapped from a folder, made by `build_bm25` or `open_bm25`.

    Example:
        >>> shop = build_bm25([("A", "a red shirt"), ("B", "red shoes, red laces")], corpus="two products")
        >>> hits = shop.search("Red things", k=10)
        >>> shop.ids(hits.documents), [f"{score:.3f}" for score in hits.scores]
        (['B', 'A'], ['0.121', '0.102'])
        >>> shop.backend
        'numpy'
    """

    def __init__(self, manifest: Manifest, postings: Postings, backend: SearchBackend | None = None):
        """Hold the arrays; as `build_bm25` and `open_bm25`."""
        self.manifest = manifest
        self._postings = postings
        self._wanted = backend
        self._backend: SearchBackend | None = None
        self._ranking: Ranking | None = None
        self._searched = 0
        """Queries so far."""
        self._analyser = shared_analyser()
        self._terms: dict[str, Term] = {}
        self._slots: dict[int, int] | None = None
        self._filled = max(1, int(manifest.parameters["filled"]))

    @property
    def backend(self) -> SearchBackend:
        """The search backend: compiled kernels, or NumPy alone. Both find the same."""
        if self._backend is None:
            self._backend = choose_backend(self._wanted, self._postings, self._searched)
        return self._backend

    def ids(self, documents: npt.NDArray[np.int32]) -> list[str]:
        """Return the ids of documents, given their numbers."""
        return self._postings.ids(documents)

    def _search_all(self, queries: Sequence[str], k: int) -> list[Hits]:
        """Search; compiled, queries share what they read and, where they are many, all cores."""
        different = list(dict.fromkeys(queries))
        found = self._rank([self._terms_of(query) for query in different], k)
        hits = dict(zip(different, found, strict=True))
        return [hits[query] for query in queries]

    def _rank(self, queries: Sequence[Sequence[Term]], k: int) -> list[Hits]:
        before, self._searched = self._searched, self._searched + len(queries)
        if self._wanted is None and before < COMPILED_AFTER <= self._searched:
            self._backend = choose_backend(None, self._postings, self._searched)
            self._ranking = make_ranking(
                self._backend, self._postings
            )  # never None: threads search meanwhile
        if self._ranking is None:
            self._ranking = make_ranking(self.backend, self._postings)
        return self._ranking.search(queries, k)

    def _terms_of(self, query: str) -> list[Term]:
        known = self._terms
        terms = [term for word in words(query) if (term := known.get(word) or self._term(word)).stop]
        different = {term.start: term for term in terms}
        if len(different) == len(terms):
            return terms
        starts = [term.start for term in terms]
        return [_times(starts.count(start), term) for start, term in different.items()]

    def _term(self, word: str) -> Term:
        """Return the term of a word, and remember it."""
        if len(self._terms) >= _MAX_CACHED_WORDS:
            self._terms.clear()
        term = self._analyser[word]
        found = self._terms[word] = self._look_up(term) if term else _ABSENT
        return found

    def _look_up(self, term: str) -> Term:
        postings = self._postings
        slot = self._slot(term_digest(term))
        if slot is None:
            return _ABSENT
        first, last = int(postings.firsts[slot]), int(postings.firsts[slot + 1])
        self._check_runs(first, last)
        start, stop = int(postings.starts[first]), int(postings.starts[last])
        top = int(postings.tops[first] if last - first == 1 else postings.tops[first:last].max())
        rarity = 1 + (self._filled - (stop - start) + 0.5) / (stop - start + 0.5)
        weight = np.float32(math.log(rarity))
        return Term(first, last, start, stop, weight, float(weight) * top / TOPS)

    def _slot(self, digest: int) -> int | None:
        """Return the number of a term, or None where the index has no such term."""
        terms = self._postings.terms
        if len(terms) <= _MAX_CACHED_SLOTS:
            if self._slots is None:
                self._slots = dict(zip(terms.tolist(), range(len(terms)), strict=True))
            return self._slots.get(digest)
        slot = int(terms.searchsorted(np.uint64(digest)))
        return slot if slot < len(terms) and terms[slot] == digest else None

    def _check_runs(self, first: int, last: int) -> None:
        """Refuse places that lie outside the arrays: the kernels do not look."""
        postings = self._postings
        if 0 <= first < last <= len(postings.windows):
            starts = postings.starts[first : last + 1]
            windows = postings.windows[first:last]
            inside = 0 <= starts[0] < starts[-1] <= len(postings.documents)
            if inside and last - first == 1:
                return
            if inside and (starts[1:] > starts[:-1]).all() and (windows[1:] > windows[:-1]).all():
                return
        raise UsageError(
            f"the index of {self.manifest.corpus!r} is damaged: delete its folder and build it again"
        )


def build_bm25(
    documents: Iterable[tuple[str, str]],
    *,
    corpus: str,
    folder: Path | None = None,
    k1: PositiveFloat = 0.9,
    b: Annotated[float, UNIT_INTERVAL] = 0.4,
    progress: Callable[[int], None] = lambda done: None,
    processes: int = 1,
    backend: SearchBackend | None = None,
) -> Bm25:
    """Build an index.

    A build into a folder that is killed leaves what it has counted beside the folder; the next one reads the
    documents again and goes on from there.

    Args:
        documents: ids and texts; a document's number is its place among them.
        corpus: name of the documents' source, for the manifest.
        folder: folder of the index; in memory if None.
        k1: saturation of repeated terms: larger values count more repetitions.
        b: penalty of long documents, 0 to 1.
        progress: function that is called with the number of documents read.
        processes: processes that count terms, beside this one if more than 1; for an index in a folder.
        backend: backend of searches; if None and numba is installed, compiled kernels for an index that is
            large or asked much.

    Raises:
        UsageError: PyStemmer is not installed, two documents have one id, or the folder cannot be written.
    """
    check_options({"k1": k1, "b": b}, options_of(build_bm25))
    with nullcontext(None) if folder is None else resumable_spool(folder) as spool:
        counted = count_corpus(documents, spool, progress, processes)
        with nullcontext(None) if folder is None else new_folder(folder) as draft:
            allocate = in_memory if draft is None else in_files(draft)
            postings, filled = merge_blocks(counted.blocks, counted.ids, allocate, k1, b)
            manifest = Manifest(
                engine=ENGINE,
                analyser=ANALYSER,
                parameters={"k1": k1, "b": b, "filled": filled},
                corpus=corpus,
                corpus_sha256=counted.sha256,
                count=len(counted.ids),
                libraries=versions("numpy", "PyStemmer"),
            )
            if draft is None:
                return Bm25(manifest, postings, backend)
            write_layout(draft, postings)
            (draft / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    assert folder is not None
    return open_bm25(folder, backend=backend)


def open_bm25(folder: Path, *, backend: SearchBackend | None = None) -> Bm25:
    """Open an index; its arrays are mapped from the files, and shared by all processes.

    ``backend`` None takes compiled kernels, with numba, for an index that is large or asked much.
    """
    manifest = Manifest.read(folder)
    manifest.require(folder, engine=ENGINE, analyser=ANALYSER)
    return Bm25(manifest, open_postings(folder), backend)
