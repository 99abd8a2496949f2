"""Taking over indexes that others published, as they are: only manifests and places are written.

A faiss file comes with its documents, JSON lines of ``{"id", "contents"}`` in the order of its vectors, as
FlashRAG and Search-R1 publish them. Which encoder made its vectors stands in neither: it must be named, and
100 documents are encoded again to see whether it is the one. A folder of Lucene's is searched where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from agentgym.data.progress import progress_bar
from agentgym.errors import UsageError
from agentgym.io.files import make_folder, replace_file, sha256_of, writing
from agentgym.io.optional import load
from agentgym.retrieval.corpus.passages import PASSAGES, PassageFile, PassageStore, adopt_passages
from agentgym.retrieval.encoders import TextEncoder, open_encoder
from agentgym.retrieval.engines.faiss import ENGINE, STRUCTURE, open_faiss, read_structure
from agentgym.retrieval.engines.pyserini import FILES, adopt_pyserini, find_jar, open_pyserini
from agentgym.retrieval.engines.vectors import IDS
from agentgym.retrieval.index import MANIFEST, PUBLISHED, Manifest, new_folder
from agentgym.retrieval.inner_products import Singles, normalised, row_sums
from agentgym.retrieval.opening import index_folder
from agentgym.retrieval.searcher import Searcher

SAMPLE: Final = 100
"""Documents that are encoded again."""

ALIKE: Final = 0.99
"""Cosine of a stored vector and the same document's new one at least: half precision is off by 0.001."""

_MIN_ALIKE = 0.95  # a share of the sample, not all of it: published files cut long documents elsewhere


def check_ready(encoder: str | None) -> None:
    """Raise a MissingDataError unless an index can be taken over: faiss's by its encoder, or Lucene's."""
    if encoder is None:
        find_jar()
    else:
        load("faiss", "retrieval", "this index", "faiss-cpu")
        open_encoder(encoder)


def adopt_index(
    source: Path,
    folder: Path,
    *,
    corpus: str,
    published: Path,
    encoder: TextEncoder | str | None = None,
) -> Searcher:
    """Return a searcher over an index that another tool built: faiss's file or Lucene's folder.

    Source and documents stay where they are; ``folder`` gets the passages' positions, a manifest and a link,
    where `agentgym.retrieval.opening.find_index` looks. ``published``: JSON lines of the documents, for faiss
    in the order of its vectors; ``encoder`` is what made the vectors, as `open_encoder` takes it.
    """
    make_folder(folder)
    if source.is_dir():
        return _adopt_lucene(source, folder, corpus, published)
    if encoder is None:
        raise UsageError(
            f"{source} does not say what made its vectors: pass encoder='e5-base-v2', for example, which was "
            "used for Search-R1's and FlashRAG's"
        )
    encoder = open_encoder(encoder) if isinstance(encoder, str) else encoder
    structure = read_structure(source)
    target = index_folder(folder / "faiss", encoder.text_parameters["encoder"], {})
    with _adopting(target, corpus, published, None) as store:
        _check_structure(source, structure, store, encoder)
        manifest = Manifest(
            engine=ENGINE,
            analyser="",
            parameters={**encoder.parameters, "longest": _check_vectors(source, structure, store, encoder)},
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
        with new_folder(target) as draft:
            (draft / STRUCTURE).symlink_to(source.resolve())
            np.save(draft / IDS, np.array([passage.id.encode() for passage in store], np.bytes_))
            (draft / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    return Searcher(open_faiss(target, encoder=encoder), PassageFile(folder / PASSAGES))


@contextmanager
def _adopting(
    target: Path, corpus: str, published: Path, order: Sequence[str] | None
) -> Iterator[PassageFile]:
    """Yield the passages, which take their place beside an index where all else went well."""
    draft = target.with_name(f".{PASSAGES}.adopting")
    try:
        with progress_bar(f"reading {published.name}") as progress:
            store = adopt_passages(
                draft, published, corpus=corpus, order=order, progress=lambda done: progress(done, done)
            )
        for other in {path.parent for path in target.parent.glob(f"*/{MANIFEST}")} - {target}:
            if Manifest.read(other).corpus_sha256 not in ("", store.sha256):
                raise UsageError(f"{other} ranks other passages: delete it, or adopt into another folder")
        yield store
        with writing(target):
            draft.replace(target.with_name(PASSAGES))
    finally:
        draft.unlink(missing_ok=True)


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


def _adopt_lucene(source: Path, folder: Path, corpus: str, published: Path) -> Searcher:
    """Put a manifest beside a link to Lucene's files, and number passages as Lucene numbers documents."""
    index = adopt_pyserini(source, folder / FILES, corpus=corpus)
    order = index.ids(np.arange(len(index), dtype=np.int32))
    with _adopting(folder / FILES, corpus, published, order) as store:
        manifest = replace(Manifest.read(folder / FILES), corpus_sha256=store.sha256)
        replace_file(folder / FILES / MANIFEST, manifest.to_json())
    return Searcher(open_pyserini(folder / FILES), PassageFile(folder / PASSAGES))
