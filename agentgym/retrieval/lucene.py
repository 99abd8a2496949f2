"""Lucene itself, in a Java machine inside this process, through the jar of Anserini.

For indexes that others published and for checking ranks. The jar comes with pyserini 0.25.0, the newest for
Java 17: ``pip install --no-deps pyserini==0.25.0`` (its Python code is not used, and asks for torch and
faiss). A process has one Java machine, which a fork does not survive: open the index after forking.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agentgym.errors import MissingDataError, UsageError
from agentgym.extras import load
from agentgym.retrieval.index import (
    MANIFEST,
    CorpusDigest,
    Hits,
    Manifest,
    new_folder,
    spool_beside,
    versions,
)

ENGINE: Final = "lucene/1"

ANALYSER: Final = "anserini-default-english"

JAR_VARIABLE = "AGENTGYM_LUCENE_JAR"
"""Environment variable that names Anserini's jar with all it depends on."""

_INDEXING = (
    *("-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator"),
    *("-threads", "1", "-quiet"),
)
_IDS = "ids.npy"
_FILES = "lucene"


class LuceneIndex:
    """An index in a folder, made by `build_lucene` or `open_lucene`."""

    def __init__(self, folder: Path):
        """Open it; as `open_lucene`, which looks at the manifest."""
        self.manifest = Manifest.read(folder)
        searcher = java_class("io.anserini.search.SimpleSearcher")
        self._searcher = searcher(str(folder / _FILES))
        self._searcher.set_bm25(self.manifest.parameters["k1"], self.manifest.parameters["b"])
        self._ids: npt.NDArray[np.bytes_] = np.load(folder / _IDS)
        self._numbers = {raw.decode(): number for number, raw in enumerate(self._ids.tolist())}

    def __len__(self) -> int:
        """Number of documents."""
        return len(self._ids)

    def ids(self, documents: npt.NDArray[np.int32]) -> list[str]:
        """Return the ids of documents, given their numbers."""
        return [raw.decode() for raw in self._ids[documents].tolist()]

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
        found = self._searcher.search(query, k)
        numbers = [self._numbers[str(hit.docid)] for hit in found]
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
    """Build an index, as Anserini's ``IndexCollection`` does.

    Args:
        documents: ids and texts; a document's number is its place among them.
        corpus: what the documents were taken from, for the manifest.
        folder: where the index goes.
        k1: how late repetitions of a term stop to count.
        b: how far long documents are held back, 0 to 1.
        progress: called with how many documents are handed over.

    Raises:
        UsageError: pyjnius is not installed, two documents have one id, or the folder cannot be written.
        MissingDataError: the jar is not on this machine.
    """
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


def open_lucene(folder: Path) -> LuceneIndex:
    """Open an index.

    Raises:
        UsageError: pyjnius is not installed, there is no whole index, or one of another engine or analyser.
        MissingDataError: the jar is not on this machine.
    """
    Manifest.read(folder).require(folder, engine=ENGINE, analyser=ANALYSER)
    return LuceneIndex(folder)


def find_jar() -> Path:
    """Return the path of the jar: ``$AGENTGYM_LUCENE_JAR``, else that of the installed pyserini.

    Raises:
        MissingDataError: neither is there; the message says what to run.
    """
    named = os.environ.get(JAR_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise MissingDataError(f"{JAR_VARIABLE} names {named!r}, where no file is: name Anserini's jar")
        return Path(named)
    try:
        for file in files("pyserini") or ():
            if file.match("anserini-*-fatjar.jar"):
                return Path(str(file.locate()))
    except PackageNotFoundError:
        pass
    raise MissingDataError(
        f"no jar of Anserini: pip install --no-deps pyserini==0.25.0, or set {JAR_VARIABLE} to a jar"
    )


@cache
def java_class(name: str) -> Any:
    """Return a class of the jar; starts the Java machine where none runs.

    Raises:
        UsageError: pyjnius is not installed, or a Java machine runs already, without the jar.
        MissingDataError: the jar is not on this machine.
    """
    config = load("jnius_config", "lucene", "Lucene", "pyjnius")
    jar = find_jar()
    if not config.vm_running:
        config.add_classpath(str(jar))
    elif str(jar) not in config.get_classpath():
        raise UsageError(
            f"a Java machine runs without {jar}: open the index before other Java code starts one"
        )
    return load("jnius", "lucene", "Lucene", "pyjnius").autoclass(name)
