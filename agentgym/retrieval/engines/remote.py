"""An index on a server: many trainers search one, and each has the passages here.

The server speaks ``POST /retrieve`` in a public dialect (`agentgym.retrieval.corpus.wire_formats`), as
``agentgym serve retrieval``, Search-R1's and verl-agent's do. What it says is attested: it cannot be computed
again here, so it is checked for form and against the passages, recorded, and never ranked with what can be
computed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from agentgym.core.queries import UnansweredError
from agentgym.core.types import Passage
from agentgym.errors import UsageError
from agentgym.io.untrusted import loads_json
from agentgym.retrieval.corpus.passages import PassageStore
from agentgym.retrieval.corpus.wire_formats import (
    RetrievalDialect,
    RetrievalLimits,
    ScoredPassage,
    check_dialect,
    read_answer,
    write_request,
)
from agentgym.retrieval.engines.http_client import CONNECTIONS, MAX_ANSWER_SIZE, TIMEOUT, HttpClient, reason
from agentgym.retrieval.index import BatchedIndex, Hits, Manifest

ENGINE: Final = "remote/1"

ATTEMPTS = 3
"""Times that a request is sent at most."""

_LIMITS: Final = RetrievalLimits()
"""Limits of a server of this package: larger requests are sent in parts."""


class RetrievalClient:
    """Sends queries to a retrieval server. Safe to share between threads, and after a fork."""

    def __init__(
        self,
        url: str,
        *,
        dialect: RetrievalDialect = "queries",
        timeout: float = TIMEOUT,
        attempts: int = ATTEMPTS,
        largest: int = MAX_ANSWER_SIZE,
    ):
        """Set the server's address; nothing is sent yet.

        ``url``: ``http://HOST:PORT``, with a path where that is not ``/retrieve``. The dialect
        ``queries`` sends all queries of a call in one request, ``query`` one request each. Other arguments as
        `HttpClient`.
        """
        check_dialect(dialect)
        self.url = url
        self.dialect = dialect
        self._http = HttpClient(
            url, "the retrieval server", timeout=timeout, attempts=attempts, largest=largest
        )

    def search(self, queries: Sequence[str], k: int) -> list[list[ScoredPassage]]:
        """Return the server's passages for each query, at most ``k`` and best first.

        `UnansweredError`, of one line, where it is away, slow or busy for too long, or answers anything else.
        """
        if not queries:
            return []
        if self.dialect == "queries" or len(queries) == 1:
            most = max(1, min(_LIMITS.queries, _LIMITS.passages // max(k, 1)))
            parts = (queries[start : start + most] for start in range(0, len(queries), most))
            return [found for part in parts for found in self._ask(part, k)]
        with ThreadPoolExecutor(min(CONNECTIONS, len(queries))) as threads:
            return [found[0] for found in threads.map(lambda query: self._ask([query], k), queries)]

    def health(self) -> Mapping[str, Any]:
        """Return the server's description of its index at ``/health``; empty where it has no such page."""
        answer = self._http.send("GET", "/health", None)
        if answer.status != 200:
            return {}
        try:
            health = loads_json(answer.body, "its health")
        except UsageError:
            return {}
        index = health.get("index") if isinstance(health, dict) else None
        return index if isinstance(index, dict) else {}

    def close(self) -> None:
        """Close the kept-alive connections."""
        self._http.close()

    def _ask(self, queries: Sequence[str], k: int) -> list[list[ScoredPassage]]:
        answer = self._http.send(
            "POST", self._http.path or "/retrieve", write_request(queries, k, self.dialect)
        )
        if answer.status != 200:
            self._fail(f"answers {answer.status}{reason(answer.body)}")
        try:
            return read_answer(answer.body, len(queries), k)
        except UsageError as error:
            self._fail(f"gives no answer of a retrieval server: {error}")

    def _fail(self, problem: str) -> NoReturn:
        self._http.fail(problem)


class RemoteIndex(BatchedIndex):
    """Ranks the passages of a store by asking a server for their ids.

    It is an index like the others: `agentgym.retrieval.searcher.Searcher` joins it with the same store.
    """

    def __init__(self, client: RetrievalClient, store: PassageStore):
        """Ask the server for its index's description; ``store`` holds the server's own passages."""
        self._client = client
        self._store = store
        self._numbers: _Numbers | None = None
        self._lock = Lock()
        health = client.health()
        corpus, sha256 = (str(health.get(key, "")) for key in ("corpus", "corpus_sha256"))
        count = health.get("count")
        self.manifest = Manifest(
            engine=ENGINE,
            analyser="",
            parameters={},
            corpus=corpus,
            corpus_sha256=sha256,
            count=count if type(count) is int else len(store),
            libraries={},
            text_parameters={
                "dialect": client.dialect,
                "engine": str(health.get("engine", "unknown")),
                # servers are told apart by the fingerprint that they send, or else by their address
                "server": str(health.get("fingerprint", client.url)),
            },
        )

    def ids(self, documents: npt.NDArray[np.int32]) -> list[str]:
        """Return the ids of documents, given their numbers."""
        return [self._store[number].id for number in documents.tolist()]

    def _search_all(self, queries: Sequence[str], k: int) -> list[Hits]:
        """Ask the server; `UnansweredError` where it does not answer, or with passages of another store."""
        return [self._hits(found) for found in self._client.search(queries, k)]

    def _hits(self, found: Sequence[ScoredPassage]) -> Hits:
        numbers = [self._number(passage) for passage, _ in found]
        return Hits(np.array(numbers, np.int32), np.array([score for _, score in found], np.float32))

    def _number(self, passage: Passage) -> int:
        """Return the number of the server's passage, which is the store's too."""
        number = int(passage.id) if passage.id.isdecimal() and len(passage.id) < 10 else len(self._store)
        if number >= len(self._store) or self._store[number].id != passage.id:
            number = self._look_up(passage.id)
        ours = self._store[number]
        if (ours.title, ours.text) != (passage.title, passage.text):
            self._fail(f"reads otherwise for {passage.id!r:.60}: it has another corpus")
        return number

    def _look_up(self, id: str) -> int:
        with self._lock:
            if self._numbers is None:
                self._numbers = _Numbers(self._store)
        number = self._numbers.of(id)
        if number is None:
            self._fail(f"finds the passage {id!r:.60}, which is not among the {len(self._store):,} here")
        return number

    def _fail(self, problem: str) -> NoReturn:
        raise UnansweredError(f"the retrieval server {self._client.url} {problem}")


class _Numbers:
    """Numbers of passages by id, in 12 bytes a passage."""

    def __init__(self, store: PassageStore):
        self._store = store
        digests = np.fromiter((_digest(passage.id) for passage in store), np.uint64, len(store))
        self._order = np.argsort(digests, kind="stable").astype(np.int32)
        self._digests = digests[self._order]

    def of(self, id: str) -> int | None:
        """Return the number of the passage with an id; None where there is none."""
        place = int(self._digests.searchsorted(np.uint64(_digest(id))))
        while place < len(self._order) and self._digests[place] == _digest(id):
            number = int(self._order[place])
            if self._store[number].id == id:
                return number
            place += 1
        return None


def _digest(id: str) -> int:
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8).digest(), "little")
