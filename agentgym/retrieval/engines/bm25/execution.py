"""Search backends of an index: their choice, and the compiled kernels on several threads."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from agentgym.core.options import check_choice
from agentgym.errors import UsageError
from agentgym.io.optional import install_command
from agentgym.retrieval.engines.bm25.postings import Postings
from agentgym.retrieval.engines.bm25.ranking import NumpyRanker, Ranking, Term
from agentgym.retrieval.index import Hits

SearchBackend: TypeAlias = Literal["numba", "numpy"]
"""Backend of searches: compiled kernels, or NumPy alone. Both find the same documents."""

COMPILED_FROM = 1 << 20
"""Postings of an index from which on it pays to load the compiled kernels, which takes about a second."""

COMPILED_AFTER = 1 << 16
"""Queries that a smaller index has been asked from which on it pays, too."""

TOGETHER = 32
"""Queries that are searched in one pass over the windows."""

THREADED_FROM = 1 << 22
"""Postings that queries ask for together, from which on they are divided among threads."""

_ROOM = 1 << 22
"""Hits that a pass has room for at most, where it has more than one query."""


def choose_backend(wanted: SearchBackend | None, postings: Postings, searched: int = 0) -> SearchBackend:
    """Return the search backend of an index that has been ``searched`` so many queries.

    None picks compiled kernels, where numba is installed, for a large one and for one that is asked much.
    """
    if wanted is None:
        large = len(postings.documents) >= COMPILED_FROM or searched >= COMPILED_AFTER
        return "numba" if large and _numba_works(required=False) else "numpy"
    check_choice("backend", wanted, SearchBackend)
    if wanted == "numba":
        _numba_works(required=True)
    return wanted


def _numba_works(*, required: bool) -> bool:
    problem = f"numba is not installed: {install_command('retrieval')}"
    if find_spec("numba") is not None:
        try:
            import_module("numba")
            return True
        except ImportError as error:
            problem = f"numba does not work here ({error}): install another version of it"
            if not required:
                warnings.warn(f"searches are slow: {problem}", RuntimeWarning, stacklevel=2)
    if required:
        raise UsageError(problem)
    return False


def make_ranking(backend: SearchBackend, postings: Postings) -> Ranking:
    """Return the ranking of the best documents."""
    return CompiledRanker(postings) if backend == "numba" else NumpyRanker(postings)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class CompiledRanker:
    """A `Ranking` by the kernels of `agentgym.retrieval.engines.bm25.kernels`."""

    def __init__(self, postings: Postings):
        """Hold the postings; a thread for each core takes its share of the queries of a large call."""
        kernels = import_module("agentgym.retrieval.engines.bm25.kernels")
        self._kernel: Any = kernels.search_queries
        arrays = {name: _read_only(getattr(postings, name)) for name in kernels.PackedIndex._fields[1:]}
        self._index = kernels.PackedIndex(bits=postings.bits, **arrays)
        self._count = len(postings.ranks)
        self._width = max(64, (min(1 << postings.bits, self._count) + 63) & ~63)
        self._threads = usable_cores()
        self._room = threading.local()

    def search(self, queries: Sequence[Sequence[Term]], k: int) -> list[Hits]:
        """Return the best ``k`` documents of each query."""
        k = min(k, self._count)
        if k == 0:
            return [Hits(np.empty(0, np.int32), np.empty(0, np.float32)) for _ in queries]
        step = max(1, min(TOGETHER, _ROOM // k))
        groups = [queries[first : first + step] for first in range(0, len(queries), step)]
        pairs = sum(term.stop - term.start for terms in queries for term in terms)
        if self._threads == 1 or len(groups) == 1 or pairs < THREADED_FROM:
            return [hits for group in groups for hits in self._search(group, k)]
        from concurrent.futures import ThreadPoolExecutor  # only where there is much to do

        with ThreadPoolExecutor(self._threads) as pool:
            return [
                hits for found in pool.map(lambda group: self._search(group, k), groups) for hits in found
            ]

    def _search(self, queries: Sequence[Sequence[Term]], k: int) -> list[Hits]:
        """Search in one pass."""
        ordered = [sorted(terms, key=attrgetter("bound")) for terms in queries]
        flat = [term for terms in ordered for term in terms]
        begins = np.zeros(len(queries) + 1, np.int64)
        np.cumsum([len(terms) for terms in ordered], out=begins[1:])
        scores, documents = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int32)
        sizes = np.zeros(len(queries), np.int64)
        room = self._room  # each thread has its own; the first array is all zero
        if not hasattr(room, "arrays"):
            width = self._width
            room.arrays = np.zeros(width), np.empty(width + 1, np.int32), np.empty(width + 1)
        self._kernel(
            self._index,
            begins,
            np.array([term.first for term in flat], np.int64),
            np.array([term.last for term in flat], np.int64),
            np.array([term.weight for term in flat], np.float32),
            *room.arrays,
            scores,
            documents,
            sizes,
        )
        return [
            Hits(documents[i, :size].copy(), scores[i, :size].copy()) for i, size in enumerate(sizes.tolist())
        ]


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the same array as mapped files are: one kernel serves both."""
    view = array.view()
    view.flags.writeable = False
    return view
