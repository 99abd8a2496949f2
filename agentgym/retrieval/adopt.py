"""Taking over indexes that others published, as they are: only manifests and places are written.

A faiss file comes with its documents, JSON lines of ``{"id", "contents"}`` in the order of its vectors, as
FlashRAG and Search-R1 publish them. Which encoder made its vectors stands in neither: it must be named, and
100 documents are encoded again to see whether it is the one. A folder of Lucene's is searched where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from agentgym.errors import UsageError
from agentgym.io.files import make_folder, sha256_of, writing
from agentgym.retrieval.corpus.passages import PASSAGES, PassageFile, PassageStore, adopt_passages
from agentgym.retrieval.encoders import TextEncoder, open_encoder
from agentgym.retrieval.engines.faiss import (
    ENGINE,
    PUBLISHED,
    STRUCTURE,
    open_faiss,
    read_structure,
)
from agentgym.retrieval.engines.vectors import IDS
from agentgym.retrieval.index import MANIFEST, Index, Manifest, new_folder
from agentgym.retrieval.products import Singles, normalised, row_sums
from agentgym.retrieval.searcher import Searcher

SAMPLE: Final = 100
"""Documents that are encoded again."""

ALIKE: Final = 0.99
"""Cosine of a stored vector and the same document's new one at least: half precision is off by 0.001."""

_MIN_ALIKE = 0.95  # of the sample: published files cut long documents elsewhere


def adopt_index(
    source: Path,
    folder: Path,
    *,
    corpus: str,
    published: Path,
    encoder: TextEncoder | str | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Searcher:
    """Return a searcher over an index that another tool built: faiss's file or Lucene's folder.

    Source and documents stay where they are; ``folder`` gets the passages' positions and, for faiss, a
    manifest. ``published``: JSON lines of the documents, for faiss in the order of its vectors; ``encoder``
    is what made the vectors, as `open_encoder` takes it.
    """
    make_folder(folder)
    if source.is_dir():
        return _adopt_lucene(source, folder, corpus, published, progress)
    if encoder is None:
        raise UsageError(
            f"{source} does not say what made its vectors: pass encoder='e5-base-v2', for example, which was "
            "used for Search-R1's and FlashRAG's"
        )
    encoder = open_encoder(encoder) if isinstance(encoder, str) else encoder
    structure = read_structure(source)
    store = adopt_passages(folder / PASSAGES, published, corpus=corpus, progress=progress)
    _check_structure(source, structure, store, encoder)
    longest = _check_vectors(source, structure, store, encoder)
    manifest = Manifest(
        engine=ENGINE,
        analyser="",
        parameters={**encoder.parameters, "longest": longest},
        corpus=corpus,
        corpus_sha256=store.sha256,
        count=len(store),
        libraries={},
        text_parameters={
            **encoder.text_parameters,
            "structure": PUBLISHED,
            "structure_sha256": sha256_of(source),
        },
    )
    target = folder / "faiss"
    with new_folder(target) as draft:
        (draft / STRUCTURE).symlink_to(source.resolve())
        np.save(draft / IDS, np.array([passage.id.encode() for passage in store], np.bytes_))
        (draft / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    return Searcher(open_faiss(target, encoder=encoder), store)


def _check_structure(source: Path, structure: Any, store: PassageStore, encoder: TextEncoder) -> None:
    """Refuse a file of other vectors than the documents and the encoder have."""
    inner_product = 0  # faiss.METRIC_INNER_PRODUCT
    if structure.metric_type != inner_product:
        raise UsageError(f"{source} ranks by another metric than the inner product: build one of your own")
    if structure.ntotal != len(store):
        raise UsageError(
            f"{source} has {structure.ntotal:,} vectors, and there are {len(store):,} documents: name the "
            "file of documents that it was built from"
        )
    if structure.d != encoder.parameters["dimensions"]:
        raise UsageError(
            f"{source} has vectors of {structure.d} numbers, and {encoder.text_parameters['encoder']} makes "
            f"such of {encoder.parameters['dimensions']:.0f}: name the encoder that made them"
        )


def _check_vectors(source: Path, structure: Any, store: PassageStore, encoder: TextEncoder) -> float:
    """Refuse an encoder whose vectors of some documents differ; return the largest stored length."""
    if not len(store):
        return 0.0
    numbers = np.unique(np.linspace(0, len(store) - 1, SAMPLE).astype(np.int64))
    try:
        stored: Singles = structure.reconstruct_batch(numbers)
    except RuntimeError as error:
        raise UsageError(
            f"{source} does not give its vectors back, so they cannot be compared: build an index of your own"
        ) from error
    texts = [store[number].contents for number in numbers.tolist()]
    quoted = [f'"{title}"\n{text}' for title, _, text in (each.partition("\n") for each in texts)]
    alike = max(_alike(stored, encoder.encode_passages(form)) for form in (texts, quoted))
    if alike < _MIN_ALIKE:
        raise UsageError(
            f"{alike:.0%} of the {len(numbers)} vectors looked at in {source} are those that "
            f"{encoder.text_parameters['encoder']} makes: name the encoder and the documents that made them"
        )
    wide = stored.astype(np.float64)
    return float(np.sqrt(row_sums(wide * wide).max()))


def _alike(stored: Singles, made: Singles) -> float:
    """Return the share of vectors that are the same but for rounding."""
    cosines = row_sums(normalised(stored).astype(np.float64) * normalised(made))
    return float(np.mean(cosines >= ALIKE))


def _adopt_lucene(
    source: Path, folder: Path, corpus: str, published: Path, progress: Callable[[int], None]
) -> Searcher:
    """Put a manifest beside Lucene's files, and number the passages as Lucene numbers its documents."""
    lucene = import_module("agentgym.retrieval.engines.lucene")
    adopted = (source / MANIFEST).exists()
    index: Index = lucene.open_lucene(source) if adopted else lucene.adopt_lucene(source, corpus=corpus)
    order = index.ids(np.arange(len(index), dtype=np.int32))
    store: PassageFile = adopt_passages(
        folder / PASSAGES, published, corpus=corpus, order=order, progress=progress
    )
    with writing(folder):
        (folder / "lucene").unlink(missing_ok=True)
        (folder / "lucene").symlink_to(source.resolve())
    return Searcher(index, store)
