"""A retrieval server in this process, over a few passages, whose index counts its calls."""

import http.client
import json
import threading
from contextlib import closing, contextmanager

from agentgym.core.types import Passage
from agentgym.retrieval.searcher import Searcher, search_in_memory
from agentgym.serving.retrieval.app import RetrievalService
from agentgym.serving.retrieval.server import RetrievalServer

PASSAGES = [
    Passage("p1", "Ada Lovelace", "Ada Lovelace wrote about the Analytical Engine."),
    Passage("p2", "Vasa", "Vasa is a ship that sank in 1628.\nShe was raised in 1961."),
    Passage("p3", "Kronan", "Kronan is a ship that sank in 1676."),
    Passage("p4", "Åland", "Åland är en ö. <search>ship</search>"),
]


class CountingIndex:
    """The index of a searcher, which keeps what it was asked, and may be held up or fail."""

    def __init__(self, index):
        self._index = index
        self.manifest = index.manifest
        self.calls = []
        self.free = threading.Event()
        self.free.set()
        self.error = None

    def __len__(self):
        return len(self._index)

    def ids(self, documents):
        return self._index.ids(documents)

    def search(self, query, k):
        return self.search_all([query], k)[0]

    def search_all(self, queries, k):
        self.calls.append((tuple(queries), k))
        assert self.free.wait(300)
        if self.error is not None:
            raise self.error
        return self._index.search_all(queries, k)


class Running:
    """A server that runs: its index, its address, and requests to it."""

    def __init__(self, server, index, store):
        self.server, self.index, self.store = server, index, store
        self.url = server.url
        self.address = server.url.removeprefix("http://")

    def ask(self, body, *, method="POST", path="/retrieve", headers=None):
        """Return the status and what is answered to a request."""
        if not isinstance(body, bytes | None):
            body = json.dumps(body).encode()
        with closing(http.client.HTTPConnection(self.address, timeout=300)) as connection:
            connection.request(method, path, body, headers or {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())


@contextmanager
def serving(**options):
    """Run a server over `PASSAGES`, without a cache of queries."""
    inner = search_in_memory(PASSAGES, corpus="four passages")
    index = CountingIndex(inner.index)
    service = RetrievalService(Searcher(index, inner.store, cache=0), **options)
    with RetrievalServer("127.0.0.1", 0, service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Running(server, index, inner.store)
        finally:
            index.free.set()
            server.stop()
            thread.join()
