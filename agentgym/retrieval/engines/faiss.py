"""Vectors searched through faiss: a structure proposes documents, and exact inner products rank them.

Scores are those of the ``exact`` engine, bit for bit; what the structure does not propose is not found. A
``flat`` one proposes all that can be among the best, an ``hnsw`` graph and an ``ivfpq`` of compressed vectors
leave some out, in far less time. Each query is searched alone and in one thread, so that neither its batch
nor the machine's cores decide what is proposed.

The extra ``retrieval`` brings faiss-cpu, ``retrieval-gpu`` faiss-gpu; never both. A flat structure is
searched on a GPU where faiss finds one, the others on the CPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from agentgym.core.arrays import Ints
from agentgym.core.options import PositiveInt, check_options, options_of
from agentgym.errors import UsageError
from agentgym.io.files import sha256_of, writing
from agentgym.io.optional import load
from agentgym.retrieval.encoders import TextEncoder, check_device, open_encoder
from agentgym.retrieval.engines.exact import encoder_of, query_vectors
from agentgym.retrieval.engines.vectors import encoded, open_ids, open_vectors, vectors_sha256, write_manifest
from agentgym.retrieval.index import PUBLISHED, BatchedIndex, Hits, Manifest, versions
from agentgym.retrieval.inner_products import Halves, Singles, best_first, nearest_documents, score

ENGINE: Final = "faiss/1"

Structure: TypeAlias = Literal["flat", "hnsw", "ivfpq"]
"""Structure that proposes documents: all vectors, a graph of neighbours, or lists of compressed vectors."""

OVERSAMPLED: Final = 10
"""Documents that a structure proposes for each one that is asked for."""

STRUCTURE: Final = "structure.faiss"
"""Name of the structure's file."""

_TRAINED = 1 << 16  # vectors that lists and codes are fitted to
_ADDED = 1 << 14  # vectors added at a time
_SEEDED = 1234  # faiss's own default


class FaissIndex(BatchedIndex):
    """An index in a folder, made by `build_faiss` or `open_faiss`."""

    def __init__(self, folder: Path, encoder: TextEncoder, *, device: str = "auto"):
        """Open it; as `open_faiss`, which looks at the manifest."""
        self.manifest = Manifest.read(folder)
        self.encoder = encoder
        self._folder = folder
        self._faiss = _faiss()
        self._kind = self.manifest.text_parameters.get("structure", "")
        self._on_gpu = False
        self._vectors: Halves | None = None
        if self._kind == PUBLISHED:
            self._ids = open_ids(folder, self.manifest)
        else:
            self._vectors, self._ids = open_vectors(folder, self.manifest)
        self._structure = self._open(device)
        self._rows = self._structure.reconstruct_batch if self._vectors is None else self._vectors.__getitem__

    def _search_all(self, queries: Sequence[str], k: int) -> list[Hits]:
        vectors = query_vectors(self.encoder, queries)
        longest = self.manifest.parameters["longest"]
        if self._kind == "flat" and not self._on_gpu and self._vectors is not None:
            return nearest_documents(self._vectors, self._ids, vectors, k, longest, str(self._folder))
        k = min(k, len(self))
        proposed = self._propose(vectors, min(len(self), OVERSAMPLED * k))
        return [
            best_first(score(self._rows, numbers, vector), numbers, self._ids, k)
            for vector, numbers in zip(vectors, proposed, strict=True)
        ]

    def verify(self) -> None:
        """Read vectors and structure; `UsageError` where they are not those that were built."""
        facts = self.manifest.text_parameters
        if self._vectors is not None and vectors_sha256(self._folder) != facts.get("vectors_sha256"):
            raise UsageError(f"the vectors in {self._folder} were changed: delete it and build it again")
        if self._kind != "flat" and sha256_of(self._folder / STRUCTURE) != facts.get("structure_sha256"):
            raise UsageError(f"the structure in {self._folder} was changed: delete it and build it again")

    def _open(self, device: str) -> Any:
        """Return the structure; None for a flat one in memory, which the vectors themselves are."""
        check_device(device)
        if self._kind == "flat" and self._vectors is not None:
            gpus = getattr(self._faiss, "get_num_gpus", lambda: 0)()
            if device not in ("auto", "cpu") and not gpus:
                raise UsageError(
                    "faiss finds no GPU: install faiss-gpu-cu12 in place of faiss-cpu, or pass device=auto"
                )
            self._on_gpu = gpus > 0 and device != "cpu"
            return self._to_gpu(self._vectors, device) if self._on_gpu else None
        structure = read_structure(self._folder / STRUCTURE)
        if (structure.ntotal, structure.d) != (len(self._ids), self.manifest.parameters["dimensions"]):
            raise UsageError(
                f"{self._folder / STRUCTURE} holds {structure.ntotal} vectors of {structure.d}: build it "
                "again"
            )
        return structure

    def _to_gpu(self, vectors: Halves, device: str) -> Any:
        """Return the vectors on the GPU that is named by its number, or on all, in float16."""
        number = device.partition(":")[2]
        options = self._faiss.GpuMultipleClonerOptions()
        options.useFloat16 = True
        options.shard = True
        empty = self._faiss.IndexFlatIP(vectors.shape[1])
        flat = self._faiss.index_cpu_to_gpus_list(empty, co=options, gpus=[int(number)] if number else None)
        for start in range(0, len(vectors), _ADDED):
            flat.add(vectors[start : start + _ADDED].astype(np.float32))
        return flat

    def _propose(self, vectors: Singles, count: int) -> list[Ints]:
        if not count:
            return [np.empty(0, np.int64) for _ in vectors]
        if self._on_gpu or (self._kind == PUBLISHED and hasattr(self._structure, "get_xb")):
            # all vectors are read: together in one go, and what is proposed beyond k makes up for rounding
            _, numbers = self._structure.search(vectors, count)
            return [np.sort(row[row >= 0]) for row in numbers]
        options = self._search_options(count)

        def propose(vector: Singles) -> Ints:
            _, numbers = self._structure.search(vector[None], count, params=options)
            found: Ints = np.sort(numbers[0][numbers[0] >= 0])
            return found

        # its threads are of the thread that calls it: one for each query
        with ThreadPoolExecutor(
            max(1, min(len(vectors), os.cpu_count() or 1)),
            initializer=self._faiss.omp_set_num_threads,
            initargs=(1,),
        ) as pool:
            return list(pool.map(propose, vectors))

    def _search_options(self, count: int) -> Any:
        parameters = self.manifest.parameters
        if self._kind == "hnsw":
            return self._faiss.SearchParametersHNSW(efSearch=max(int(parameters["width"]), count))
        if self._kind == "ivfpq":
            return self._faiss.SearchParametersIVF(nprobe=int(parameters["probes"]))
        return None


def build_faiss(
    documents: Iterable[tuple[str, str]],
    *,
    corpus: str,
    folder: Path,
    encoder: TextEncoder | str,
    kind: Structure = "flat",
    links: PositiveInt = 32,
    width: PositiveInt = 128,
    lists: PositiveInt | None = None,
    probes: PositiveInt = 32,
    device: str = "auto",
    progress: Callable[[int], None] = lambda done: None,
) -> FaissIndex:
    """Build an index, or the rest of one whose encoding was interrupted; arguments as `build_exact`.

    ``links``: of a document in the graph of ``hnsw``; ``width``: documents that a search of ``hnsw`` keeps in
    view at least; ``lists``: of ``ivfpq``, by default four times the root of the number of documents;
    ``probes``: lists of ``ivfpq`` that a search reads.
    """
    own = {"kind": kind, "links": links, "width": width, "probes": probes, "lists": lists}
    check_options(own, options_of(build_faiss))
    faiss = _faiss()
    encoder = open_encoder(encoder, device=device) if isinstance(encoder, str) else encoder
    with encoded(documents, encoder, folder, progress) as vectors:
        count, dimensions = len(vectors.digest.ids), int(encoder.parameters["dimensions"])
        lists = min(lists or max(1, int(4 * count**0.5)), max(1, count))
        numbers: dict[str, dict[str, float]] = {
            "flat": {},
            "hnsw": {"links": links, "width": width},
            "ivfpq": {"lists": lists, "probes": min(probes, lists)},
        }
        facts = {**encoder.text_parameters, "structure": kind, "vectors_sha256": vectors.sha256}
        if kind != "flat":
            structure = _structure(faiss, kind, dimensions, links, lists)
            facts["structure_sha256"] = _fill(faiss, structure, vectors.folder, count, dimensions)
        manifest = Manifest(
            engine=ENGINE,
            analyser="",
            parameters={**encoder.parameters, **numbers[kind], "longest": vectors.longest},
            corpus=corpus,
            corpus_sha256=vectors.digest.hexdigest(),
            count=count,
            libraries={**versions("numpy"), "faiss": str(faiss.__version__)},
            text_parameters=facts,
        )
        write_manifest(vectors, manifest)
    return FaissIndex(folder, encoder, device=device)


def open_faiss(folder: Path, *, encoder: TextEncoder | str | None = None, device: str = "auto") -> FaissIndex:
    """Open an index; arguments as `open_exact`, where ``device`` places a flat structure too."""
    manifest = Manifest.read(folder)
    manifest.require(folder, engine=ENGINE)
    return FaissIndex(folder, encoder_of(folder, manifest, encoder, device), device=device)


def _structure(faiss: Any, kind: Structure, dimensions: int, links: int, lists: int) -> Any:
    """Return an empty structure."""
    if kind == "hnsw":
        return faiss.IndexHNSWSQ(dimensions, faiss.ScalarQuantizer.QT_fp16, links, faiss.METRIC_INNER_PRODUCT)
    codes = next(size for size in (4, 8, 16, 2, 3, 1) if dimensions % size == 0)  # dimensions in a byte
    quantiser = faiss.IndexFlatIP(dimensions)
    structure = faiss.IndexIVFPQ(
        quantiser, dimensions, lists, dimensions // codes, 8, faiss.METRIC_INNER_PRODUCT
    )
    structure.cp.seed = structure.pq.cp.seed = _SEEDED
    structure.cp.min_points_per_centroid = structure.pq.cp.min_points_per_centroid = 1
    structure.own_fields = True
    quantiser.this.disown()
    return structure


def _fill(faiss: Any, structure: Any, draft: Path, count: int, dimensions: int) -> str:
    """Train a structure, add all vectors and write it; return the sha256 of the file."""
    path = draft / STRUCTURE
    if count:
        vectors = np.memmap(draft / "vectors.f16", np.float16, "r", shape=(count, dimensions))
        if not structure.is_trained:
            chosen = np.linspace(0, count - 1, min(count, _TRAINED)).astype(np.int64)
            sample = vectors[chosen].astype(np.float32)
            if count < 256:  # a code book has 256 entries and cannot be trained on fewer vectors
                sample = np.resize(sample, (256, dimensions))
            structure.train(sample)
        for start in range(0, count, _ADDED):
            structure.add(vectors[start : start + _ADDED].astype(np.float32))
    with writing(draft):
        path.unlink(missing_ok=True)
        faiss.write_index(structure, str(path))
    return sha256_of(path)


def read_structure(path: Path) -> Any:
    """Return a structure from a file; the vectors of a flat one are mapped, not read."""
    faiss = _faiss()
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise UsageError(f"{path.parent} is not a complete index ({path.name}): build it again") from error


def _faiss() -> Any:
    return load("faiss", "retrieval", "this index", "faiss-cpu")
