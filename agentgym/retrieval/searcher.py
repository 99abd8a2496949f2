"""Retriever: an index, the passages it ranks, and a cache of queries, shared by all episodes."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any, Final

import numpy as np

from agentgym.core.queries import AnswerKind, UnansweredError
from agentgym.core.types import Passage
from agentgym.errors import UsageError
from agentgym.retrieval.corpus.passages import PassageList, PassageStore, documents
from agentgym.retrieval.engines.bm25 import build_bm25
from agentgym.retrieval.index import Hits, Index

CACHE_BYTES: Final = 64 << 20
"""Bytes of queries and their hits that are kept, about."""

TOLERANCE: Final = 1e-4
"""Largest difference of one encoder's scores on two machines: products of vectors of length 1."""

_MAX_SCORE = 1e30
_MAX_CACHED_PASSAGES = 1 << 14
_ENTRY_BYTES = 512  # the objects around the query's text and the hits take about this much
_HIT_BYTES = 8


class Searcher:
    """Finds passages for queries. Deterministic, and safe to share between threads.

    Example:
        >>> ada = Passage("p1", "Ada Lovelace", "Ada Lovelace was a mathematician.")
        >>> ship = Passage("p2", "Vasa", "Vasa is a ship that sank in 1628.")
        >>> searcher = search_in_memory([ada, ship], corpus="two passages")
        >>> [[passage.title for passage in found] for found in searcher.search(["which ship?", "?"], k=5)]
        [['Vasa'], []]
    """

    def __init__(self, index: Index, store: PassageStore, *, cache: int = CACHE_BYTES):
        """Join an index and the passages it ranks.

        Args:
            index: ranks their contents.
            store: the passages.
            cache: bytes of queries and their hits to keep, about; 0 for none. The least recently used go.

        Raises:
            UsageError: the index was built over other passages.
        """
        manifest = index.manifest
        if len(index) != len(store) or manifest.corpus_sha256 not in ("", store.sha256):
            raise UsageError(
                f"the index of {manifest.corpus!r} was built over {len(index)} passages of sha256 "
                f"{manifest.corpus_sha256}, not over these {len(store)} of sha256 {store.sha256}: "
                "build it again"
            )
        self.index = index
        self.store = store
        self.fingerprint = manifest.fingerprint
        """16 hex digits over all that ranks depend on: engine, analyser or encoder, parameters, corpus."""
        self.standing = manifest.standing
        """How far its answers can be recomputed elsewhere."""
        self.passage = lru_cache(_MAX_CACHED_PASSAGES)(store.__getitem__)
        """Returns the passage of a number; those read lately stay in memory."""
        self._cache = _QueryCache(cache)

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the best ``k`` passages of each query, best first, or as many as there are."""
        passage = self.passage
        return [[passage(number) for number in hits.documents.tolist()] for hits in self.hits(queries, k)]

    def hits(self, queries: Sequence[str], k: int) -> list[Hits]:
        """Return numbers and scores of the best ``k`` passages of each query.

        The index is called once, with the distinct queries that are not in the cache, or not at all.

        Raises:
            UsageError: ``k`` is not positive, or the index cannot answer.
        """
        if k < 1:
            raise UsageError(f"a search returns one passage at least: ask for k >= 1, not {k}")
        found = self._cache.look_up(queries, k)
        missing = [query for query, hits in found.items() if hits is None]
        if missing:
            computed = dict(zip(missing, map(_sealed, self.index.search_all(missing, k)), strict=True))
            self._cache.add(computed, k)
            found.update(computed)
        return [hits for query in queries if (hits := found[query]) is not None]


class SearcherBackend:
    """Answers asks of kind ``search``: ``(query, k)`` with ``[[number, score], ...]``, best first."""

    def __init__(self, searcher: Searcher, name: str = "search"):
        """Answer from a searcher, under the name that games ask for."""
        self.searcher = searcher
        engine = searcher.index.manifest.engine.partition("/")[0]
        self.kind = AnswerKind(
            name=f"{name} {engine} {searcher.fingerprint}",
            standing=searcher.standing,
            tolerance=_tolerance(searcher),
        )

    def answer(self, questions: Sequence[Any]) -> list[list[list[float]]]:
        """Return the hits of each question. Questions of one ``k`` are one call of the index.

        `UnansweredError` where the index cannot answer, for example because a server is away.
        """
        found: dict[tuple[str, int], Hits] = {}
        try:
            for k in dict.fromkeys(k for _, k in questions):
                batch = [query for query, its_k in questions if its_k == k]
                found.update(zip(((query, k) for query in batch), self.searcher.hits(batch, k), strict=True))
        except UnansweredError:
            raise
        except UsageError as error:
            raise UnansweredError(str(error)) from error
        return [write_hits(found[query, k]) for query, k in questions]

    def agrees(self, recorded: Any, computed: Any) -> bool:
        """Return whether an answer is the computed one, up to the kind's tolerance.

        Within it, scores may differ, and passages whose scores lie that close may change places or, at the
        end of the list, be others.
        """
        tolerance = self.kind.tolerance
        if tolerance == 0:
            return json.dumps(recorded) == json.dumps(computed)  # 1, 1.0 and true are equal values, not texts
        try:
            theirs, ours = (read_hits(answer, self.searcher.store) for answer in (recorded, computed))
        except UsageError:
            return False
        if len(theirs.documents) != len(ours.documents):
            return False
        scores = dict(zip(ours.documents.tolist(), ours.scores.tolist(), strict=True))
        last = min(scores.values(), default=0.0)
        return bool(np.all(np.abs(theirs.scores - ours.scores) <= tolerance)) and all(
            abs(score - scores.get(number, last)) <= tolerance
            for number, score in zip(theirs.documents.tolist(), theirs.scores.tolist(), strict=True)
        )


def _tolerance(searcher: Searcher) -> float:
    """Return the tolerance between scores of different machines.

    A fusion of ranks turns the last bits of a vector into steps of a rank: two of the largest may pass.
    """
    if searcher.standing == "exact":
        return 0.0
    parameters = searcher.index.manifest.parameters
    if "k0" not in parameters:
        return TOLERANCE
    top = parameters["k0"] + parameters["first"]
    return float(2 / (top * (top + 1)))


def write_hits(hits: Hits) -> list[list[float]]:
    """Return hits as the value ``[[number, score], ...]`` of JSON."""
    return [list(pair) for pair in zip(hits.documents.tolist(), hits.scores.tolist(), strict=True)]


def read_hits(answer: Any, store: PassageStore) -> Hits:
    """Validate an untrusted answer as hits: distinct numbers of passages with finite scores."""
    try:
        numbers = [number for number, _ in answer]
        scores = [score for _, score in answer]
        whole = all(type(number) is int and 0 <= number < len(store) for number in numbers)
        if not whole or len(set(numbers)) != len(numbers):
            raise ValueError(f"numbers of passages are distinct and below {len(store)}")
        if not all(type(score) in (int, float) and abs(score) < _MAX_SCORE for score in scores):
            raise ValueError("scores are finite numbers")
    except (TypeError, ValueError) as error:
        raise UsageError(f"{answer!r:.60} is not an answer of a search: {error}") from error
    return Hits(np.array(numbers, np.int32), np.array(scores, np.float32))


def search_in_memory(passages: Iterable[Passage], *, corpus: str) -> Searcher:
    """Return BM25 search over some ten thousand passages.

    Args:
        passages: passages in the order that numbers them.
        corpus: names what they are, for the manifest.

    Raises:
        UsageError: two passages have one id.
    """
    store = PassageList(passages)
    return Searcher(build_bm25(documents(store), corpus=corpus), store)


class _QueryCache:
    """Hits of the latest queries, within a number of bytes."""

    def __init__(self, room: int):
        self._limit = self._room = room
        self._entries: OrderedDict[tuple[str, int], Hits] = OrderedDict()
        self._lock = Lock()

    def look_up(self, queries: Sequence[str], k: int) -> dict[str, Hits | None]:
        """Return the hits of each distinct query, None where they are not known."""
        found: dict[str, Hits | None] = {}
        entries = self._entries
        with self._lock:
            for query in queries:
                key = query, k
                found[query] = hits = entries.get(key)
                if hits is not None:
                    entries.move_to_end(key)
        return found

    def add(self, computed: dict[str, Hits], k: int) -> None:
        """Cache hits; the least recently used are evicted. Entries larger than the cache are not held."""
        with self._lock:
            for query, hits in computed.items():
                if (size := _size(query, hits)) <= self._limit and (query, k) not in self._entries:
                    self._entries[query, k] = hits
                    self._room -= size
            while self._room < 0:
                (query, _), hits = self._entries.popitem(last=False)
                self._room += _size(query, hits)


def _size(query: str, hits: Hits) -> int:
    return len(query.encode("utf-8", "surrogatepass")) + _HIT_BYTES * len(hits.documents) + _ENTRY_BYTES


def _sealed(hits: Hits) -> Hits:
    """Return hits that are safe to share: their arrays cannot be written."""
    hits.documents.flags.writeable = False
    hits.scores.flags.writeable = False
    return hits
