"""Vectors searched exactly: every document's inner product with the query, without an index structure.

Up to some 200,000 documents, and the reference for engines that leave documents out. Ranks are a function of
the query's vector and the stored ones: no rounding of a matrix product decides, see
`agentgym.retrieval.inner_products`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from agentgym.errors import UsageError
from agentgym.retrieval.encoders import TextEncoder, open_encoder
from agentgym.retrieval.engines.vectors import (
    check_encoder,
    encoded,
    open_vectors,
    vectors_sha256,
    write_manifest,
)
from agentgym.retrieval.index import BatchedIndex, Hits, Manifest, versions
from agentgym.retrieval.inner_products import Halves, Singles, nearest_documents

ENGINE: Final = "exact/1"


class ExactIndex(BatchedIndex):
    """An index in a folder, made by `build_exact` or `open_exact`."""

    def __init__(self, folder: Path, encoder: TextEncoder):
        """Open it; as `open_exact`, which looks at the manifest."""
        self.manifest = Manifest.read(folder)
        self.encoder = encoder
        self._folder = folder
        self._vectors: Halves
        self._vectors, self._ids = open_vectors(folder, self.manifest)

    def _search_all(self, queries: Sequence[str], k: int) -> list[Hits]:
        vectors = query_vectors(self.encoder, queries)
        longest = self.manifest.parameters["longest"]
        return nearest_documents(self._vectors, self._ids, vectors, k, longest, str(self._folder))

    def verify(self) -> None:
        """Read all vectors; `UsageError` where they are not those that were built."""
        if vectors_sha256(self._folder) != self.manifest.text_parameters.get("vectors_sha256"):
            raise UsageError(f"the vectors in {self._folder} were changed: delete it and build it again")


def query_vectors(encoder: TextEncoder, queries: Sequence[str]) -> Singles:
    """Return the vectors of queries, each of which must be finite."""
    vectors = encoder.encode_queries(queries)
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        query = queries[int(np.argmin(finite))]
        raise UsageError(f"the vector of the query {query!r:.60} is not finite: choose another encoder")
    return vectors


def build_exact(
    documents: Iterable[tuple[str, str]],
    *,
    corpus: str,
    folder: Path,
    encoder: TextEncoder | str,
    device: str = "auto",
    progress: Callable[[int], None] = lambda done: None,
) -> ExactIndex:
    """Build an index, or the rest of one that was interrupted; arguments as `build_bm25`.

    ``encoder`` and, for one that is named, ``device`` as `open_encoder` takes them.
    """
    encoder = open_encoder(encoder, device=device) if isinstance(encoder, str) else encoder
    with encoded(documents, encoder, folder, progress) as vectors:
        manifest = Manifest(
            engine=ENGINE,
            analyser="",
            parameters={**encoder.parameters, "longest": vectors.longest},
            corpus=corpus,
            corpus_sha256=vectors.digest.hexdigest(),
            count=len(vectors.digest.ids),
            libraries=versions("numpy"),
            text_parameters={**encoder.text_parameters, "vectors_sha256": vectors.sha256},
        )
        write_manifest(vectors, manifest)
    return ExactIndex(folder, encoder)


def open_exact(folder: Path, *, encoder: TextEncoder | str | None = None, device: str = "auto") -> ExactIndex:
    """Open an index; its vectors are mapped from the file, and shared by all processes.

    ``encoder`` None is that of the manifest, which must be a preset's or the hub's; ``device`` as
    `open_encoder` takes it.
    """
    manifest = Manifest.read(folder)
    manifest.require(folder, engine=ENGINE)
    found = encoder_of(folder, manifest, encoder, device)
    return ExactIndex(folder, found)


def encoder_of(
    folder: Path, manifest: Manifest, encoder: TextEncoder | str | None, device: str
) -> TextEncoder:
    """Return the encoder of an index of vectors; one that made other vectors is a `UsageError`."""
    if encoder is None:
        encoder = manifest.text_parameters.get("encoder", "")
        encoder += f"@{manifest.text_parameters.get('revision')}" if "/" in encoder else ""
    found = open_encoder(encoder, device=device) if isinstance(encoder, str) else encoder
    check_encoder(folder, manifest, found)
    return found
