"""Index check: the defects of an index's files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from agentgym.errors import UsageError
from agentgym.retrieval.corpus.passages import PassageStore
from agentgym.retrieval.encoders import TextEncoder
from agentgym.retrieval.engines.vectors import VECTORS, open_vectors
from agentgym.retrieval.index import Index, Manifest
from agentgym.retrieval.inner_products import normalised, row_sums
from agentgym.retrieval.opening import open_index

SAMPLE = 100
"""Number of passages that are checked one by one."""

ALIKE = 0.99
"""Least cosine of a stored vector and the recomputed one: half precision is off by 0.001."""


def index_problems(folder: Path, store: PassageStore, encoder: str | None) -> Iterator[str]:
    """Yield the defects of an index, a line each; vectors need an ``encoder`` where theirs is no preset."""
    try:
        manifest = Manifest.read(folder)
        manifest.require(folder, corpus_sha256=store.sha256, count=len(store))
        index = open_index(folder, encoder=encoder)
        verify = getattr(index, "verify", None)
        if verify is not None:
            verify()
        yield from list(_wrong_ids(index, store)) or list(_strange(folder, index, store))
    except UsageError as error:
        yield str(error)
    except (OSError, ValueError) as error:  # truncated or changed files
        yield f"its files cannot be read ({' '.join(str(error).split())}): delete {folder} and build it again"


def _wrong_ids(index: Index, store: PassageStore) -> Iterator[str]:
    if len(index) != len(store):
        yield f"it ranks {len(index):,} passages, not {len(store):,}: build it again"
        return
    for number, id in enumerate(index.ids(np.arange(len(store), dtype=np.int32))):
        if store[number].id != id:
            yield f"passage {number} has the id {store[number].id!r:.60}, and {id!r:.60} here: build it again"
            return


def _strange(folder: Path, index: Index, store: PassageStore) -> Iterator[str]:
    """Yield the oddities of a sample of passages."""
    numbers = np.unique(np.linspace(0, len(store) - 1, SAMPLE).astype(np.int64)).tolist()
    if (folder / VECTORS).exists():
        vectors, _ = open_vectors(folder, index.manifest)
        encoder: TextEncoder = index.encoder  # type: ignore[attr-defined]  # who has vectors has it
        stored = np.asarray(vectors[numbers], np.float32)
        made = encoder.encode_passages([store[number].contents for number in numbers])
        cosines = row_sums(normalised(stored).astype(np.float64) * normalised(made))
        if (off := int(np.sum(~(cosines >= ALIKE)))) > 0:
            yield f"{off} of {len(numbers)} vectors are not what its encoder makes: build it again"
        return
    worded = [number for number in numbers if store[number].text.strip()]
    found = index.search_all([store[number].contents for number in worded], SAMPLE)
    lost = [number for number, hits in zip(worded, found, strict=True) if number not in hits.documents]
    if len(lost) > len(worded) // 2:
        yield f"{len(lost)} of {len(worded)} passages are not found by their own words: build it again"
