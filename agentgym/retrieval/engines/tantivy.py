"""Tantivy engine, for corpora of many millions: small in memory, with early termination.

It sees the terms of `agentgym.retrieval.analysis`. Its BM25 has k1 = 1.2 and b = 0.75, which cannot be
changed, and keeps lengths in a byte as Lucene does; it ranks otherwise than
`agentgym.retrieval.engines.bm25.index`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agentgym.errors import UsageError
from agentgym.io.optional import load
from agentgym.retrieval.analysis import ANALYSER, Analyser
from agentgym.retrieval.index import (
    MANIFEST,
    BatchedIndex,
    CorpusDigest,
    Hits,
    Manifest,
    new_folder,
    versions,
)

ENGINE: Final = "tantivy/1"

K1, B = 1.2, 0.75
"""Of tantivy, fixed."""

HEAP = 256 << 20
"""Bytes the writer may take."""

_IDS = "ids.npy"
_FILES = "tantivy"


class TantivyIndex(BatchedIndex):
    """An index in a folder, made by `build_tantivy` or `open_tantivy`."""

    def __init__(self, folder: Path):
        """Open it; as `open_tantivy`, which looks at the manifest."""
        self.manifest = Manifest.read(folder)
        tantivy = _tantivy()
        self._query = tantivy.Query
        self._occur = tantivy.Occur.Should
        self._schema = _schema(tantivy)
        self._analyser = Analyser()
        try:
            self._ids: npt.NDArray[np.bytes_] = np.asarray(np.load(folder / _IDS, mmap_mode="r"))
            self._searcher = _index(tantivy, folder).searcher()
        except (OSError, ValueError) as error:
            raise UsageError(f"{folder} is no whole index ({error}): delete it and build it again") from error

    def _search_all(self, queries: Sequence[str], k: int) -> list[Hits]:
        return [self._search(query, k) for query in queries]

    def _search(self, query: str, k: int) -> Hits:
        parts = []
        for term, count in Counter(self._analyser.terms(query)).items():
            part = self._query.term_query(self._schema, "terms", term, "freq")
            parts.append((self._occur, part if count == 1 else self._query.boost_query(part, count)))
        found = self._searcher.search(self._query.boolean_query(parts), limit=k, count=False).hits
        places = [place for _, place in found]
        numbers = np.array(self._searcher.fast_field_values("number", places), np.int32)
        scores = np.array([score for score, _ in found], np.float32)
        order = np.lexsort((self._ids[numbers], -scores))
        return Hits(numbers[order], scores[order])


def build_tantivy(
    documents: Iterable[tuple[str, str]],
    *,
    corpus: str,
    folder: Path,
    progress: Callable[[int], None] = lambda done: None,
) -> TantivyIndex:
    """Build an index; arguments as `build_bm25`."""
    tantivy = _tantivy()
    analyser = Analyser()
    digest = CorpusDigest()
    with new_folder(folder) as draft:
        (draft / _FILES).mkdir()
        # one thread: documents stand in the order they came, whatever the machine
        with _tantivy_writing(folder):
            writer = _index(tantivy, draft).writer(HEAP, 1)
        for number, (name, text) in enumerate(documents):
            document = tantivy.Document()
            document.add_unsigned("number", number)
            document.add_text("terms", " ".join(analyser.terms(text)))
            with _tantivy_writing(folder):
                writer.add_document(document)
            digest.add(name, text)
            progress(number + 1)
        with _tantivy_writing(folder):
            writer.commit()
            writer.wait_merging_threads()
        np.save(draft / _IDS, digest.id_column())
        manifest = Manifest(
            engine=ENGINE,
            analyser=ANALYSER,
            parameters={"k1": K1, "b": B},
            corpus=corpus,
            corpus_sha256=digest.hexdigest(),
            count=len(digest.ids),
            libraries=versions("PyStemmer", "tantivy"),
        )
        (draft / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    return open_tantivy(folder)


def open_tantivy(folder: Path) -> TantivyIndex:
    """Open an index."""
    Manifest.read(folder).require(folder, engine=ENGINE, analyser=ANALYSER)
    return TantivyIndex(folder)


@contextmanager
def _tantivy_writing(folder: Path) -> Iterator[None]:
    """Name the folder where tantivy, which raises `ValueError` for whatever goes wrong, cannot write."""
    try:
        yield
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"cannot write the index {folder}: {reason}; free space, or name another") from error


def _tantivy() -> Any:
    return load("tantivy", "retrieval", "this index")


def _schema(tantivy: Any) -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("terms", tokenizer_name="terms", index_option="freq")
    builder.add_unsigned_field("number", fast=True)
    return builder.build()


def _index(tantivy: Any, folder: Path) -> Any:
    """Open the files of an index, with its tokenizer."""
    index = tantivy.Index(_schema(tantivy), str(folder / _FILES))
    index.register_tokenizer("terms", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())
    return index
