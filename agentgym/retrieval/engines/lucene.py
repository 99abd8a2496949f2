"""Lucene itself, in a Java machine inside this process, through the jar of Anserini.

For indexes that others published and for checking ranks; `agentgym.retrieval.engines.java` says what it
needs. Open the index after forking.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agentgym.errors import UsageError
from agentgym.io.files import replace_file
from agentgym.io.optional import load
from agentgym.retrieval.engines.java import find_jar, java_class
from agentgym.retrieval.index import (
    MANIFEST,
    BatchedIndex,
    CorpusDigest,
    Hits,
    Manifest,
    new_folder,
    spool_beside,
    versions,
)

ENGINE: Final = "lucene/1"

ANALYSER: Final = "anserini-default-english"

_INDEXING = (
    *("-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator"),
    *("-threads", "1", "-quiet"),
)
_IDS = "ids.npy"
_FILES = "lucene"


class LuceneIndex(BatchedIndex):
    """An index in a folder, made by `build_lucene`, `adopt_lucene` or `open_lucene`."""

    def __init__(self, folder: Path):
        """Open it; as `open_lucene`, which looks at the manifest."""
        self.manifest = Manifest.read(folder)
        self._built = (folder / _FILES).is_dir()
        self._searcher = self._opened(folder / _FILES if self._built else folder)
        self._searcher.set_bm25(self.manifest.parameters["k1"], self.manifest.parameters["b"])
        if self._built:
            self._ids = _read_ids(folder)
            self._numbers = _numbers(self._ids)

    @staticmethod
    def _opened(files: Path) -> Any:
        return open_files(files, java_class("io.anserini.search.SimpleSearcher"))

    def ids(self, documents: npt.NDArray[np.int32]) -> list[str]:
        """Return the ids of documents, given their numbers."""
        if self._built:
            return super().ids(documents)
        return [str(self._searcher.doc(number).get("id")) for number in documents.tolist()]

    def _search_all(self, queries: Sequence[str], k: int) -> list[Hits]:
        return [self._search(query, k) for query in queries]

    def _search(self, query: str, k: int) -> Hits:
        found = self._searcher.search(query, min(k, max(1, len(self))))
        if self._built:
            numbers = [self._numbers[str(hit.docid)] for hit in found]
        else:
            numbers = [hit.lucene_docid for hit in found]
        return Hits(np.array(numbers, np.int32), np.array([hit.score for hit in found], np.float32))


def build_lucene(
    documents: Iterable[tuple[str, str]],
    *,
    corpus: str,
    folder: Path,
    k1: float = 0.9,
    b: float = 0.4,
    progress: Callable[[int], None] = lambda done: None,
) -> LuceneIndex:
    """Build an index, as Anserini's ``IndexCollection`` does; arguments as `build_bm25`."""
    indexer = java_class("io.anserini.index.IndexCollection")
    digest = CorpusDigest()
    with spool_beside(folder) as spool, new_folder(folder) as draft:
        with (spool / "documents.jsonl").open("w", encoding="utf-8") as lines:
            for name, text in documents:
                lines.write(json.dumps({"id": name, "contents": text}) + "\n")
                digest.add(name, text)
                progress(len(digest.ids))
        indexer.main([*_INDEXING, "-input", str(spool), "-index", str(draft / _FILES)])
        np.save(draft / _IDS, digest.id_column())
        manifest = Manifest(
            engine=ENGINE,
            analyser=ANALYSER,
            parameters={"k1": k1, "b": b},
            corpus=corpus,
            corpus_sha256=digest.hexdigest(),
            count=len(digest.ids),
            libraries={**versions("pyjnius"), "anserini": find_jar().stem},
        )
        (draft / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    return open_lucene(folder)


def adopt_lucene(folder: Path, *, corpus: str, k1: float = 0.9, b: float = 0.4) -> LuceneIndex:
    """Take over an index that Anserini wrote, as it is: only a manifest is put beside its files.

    A document's number is Lucene's, and its id the stored one. ``k1`` and ``b`` as `build_bm25`.
    """
    if (folder / MANIFEST).exists():
        raise UsageError(f"{folder} has a manifest: it is open to searches as it is")
    searcher = open_files(folder, java_class("io.anserini.search.SimpleSearcher"))
    count = int(searcher.get_total_num_docs())
    if count and searcher.doc(0).get("id") is None:
        raise UsageError(f"the documents of {folder} have no stored ids: index them by Anserini")
    manifest = Manifest(
        engine=ENGINE,
        analyser=ANALYSER,
        parameters={"k1": k1, "b": b},
        corpus=corpus,
        corpus_sha256="",
        count=count,
        libraries={**versions("pyjnius"), "anserini": find_jar().stem},
    )
    replace_file(folder / MANIFEST, manifest.to_json())
    return open_lucene(folder)


def open_lucene(folder: Path) -> LuceneIndex:
    """Open an index."""
    Manifest.read(folder).require(folder, engine=ENGINE, analyser=ANALYSER)
    return LuceneIndex(folder)


def open_files(files: Path, searcher: Any) -> Any:
    """Open the files of Lucene with a class of searchers; UsageError where they are no whole index."""
    exception = load("jnius", "lucene", "Lucene", "pyjnius").JavaException
    try:
        return searcher(str(files))
    except exception as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{files} is no whole index of Lucene's: {reason:.200}; build it again") from error


def _read_ids(folder: Path) -> npt.NDArray[np.bytes_]:
    try:
        ids: npt.NDArray[np.bytes_] = np.load(folder / _IDS)
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"{folder} is no whole index ({error}): delete it and build it again") from error
    return ids


def _numbers(ids: npt.NDArray[np.bytes_]) -> dict[str, int]:
    return {raw.decode(): number for number, raw in enumerate(ids.tolist())}
