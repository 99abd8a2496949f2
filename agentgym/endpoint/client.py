"""Endpoints: open one by its spec, ask it, and have futures of its replies.

Example:
    An endpoint is asked by many threads alike, and each request has its own future::

        spec = EndpointSpec("http://127.0.0.1:8000/v1", "tiny")
        with EndpointSession(cache=Path("answers.sqlite"), mode="write"):
            endpoint = open_endpoint(spec)
            future = endpoint.submit(ChatRequest((ChatMessage("user", "Say hello."),)))
            print(future.result().text)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from agentgym.core.hashing import canonical_json
from agentgym.endpoint.caller import EndpointCaller
from agentgym.endpoint.chat import ChatReply, ChatRequest
from agentgym.endpoint.errors import EndpointError
from agentgym.endpoint.loop import BackgroundLoop, LoopUser, join_loop, leave_loop, loop_of_process
from agentgym.endpoint.probe import EndpointProbe, probe_endpoint
from agentgym.endpoint.sending import Sleep
from agentgym.endpoint.session import NO_SESSION, EndpointSession, current_session
from agentgym.endpoint.spec import EndpointSpec
from agentgym.endpoint.wire import cache_key


class Endpoint:
    """A model behind an endpoint. Safe to ask from any thread; a forked child has connections of its own."""

    def __init__(
        self, spec: EndpointSpec, *, transport: Callable[[], Any] | None = None, sleep: Sleep = asyncio.sleep
    ):
        """Name the endpoint; nothing is opened yet.

        Args:
            spec: of the endpoint.
            transport: returns what stands for the network, for tests (see `ChatTransport`).
            sleep: waits between attempts, for tests.
        """
        self.spec = spec
        self._transport = transport
        self._sleep = sleep
        self._closed = False
        self._callers: dict[BackgroundLoop, EndpointCaller] = {}
        """By loop: those of a parent process are neither used nor closed."""

    @property
    def left_out(self) -> Mapping[str, str]:
        """Parameters that the endpoint has refused so far, with what it said. They are never sent again."""
        return {name: line for caller in self._callers.values() for name, line in caller.left_out.items()}

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def submit(self, request: ChatRequest) -> Future[ChatReply]:
        """Ask, and return the reply's future at once; cancelling it cancels the call if nobody else waits.

        The future raises what `agentgym.endpoint.errors` lists. Its callbacks run on the event loop's thread:
        they may submit further requests, and must not wait for any.

        Args:
            request: what is asked.

        Raises:
            EndpointError: the endpoint is closed, or its key is not there.
            MissingPackageError: the extra ``endpoint`` is not installed.
        """
        session = current_session() or NO_SESSION
        loop, caller = self._open(session)
        key = cache_key(request, self.spec)
        future: Future[ChatReply] = Future()
        loop.loop.call_soon_threadsafe(caller.start, request, key, session, future)
        return future

    def ask(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        """Return the replies to requests, in order, all asked at once.

        Raises:
            UsageError: one has none; the others are cancelled.
        """
        _may_wait()
        futures = [self.submit(request) for request in requests]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()

    def probe(self) -> EndpointProbe:
        """Ask the endpoint what it takes, by about a dozen short requests.

        Raises:
            UsageError: it does not answer, or the session only replays and its cache has no probe.
        """
        _may_wait()
        session = current_session() or NO_SESSION
        loop, caller = self._open(session)
        return loop.submit(probe_endpoint(caller, session)).result()

    def close(self) -> None:
        """Cancel what is under way, and close the connections. Nothing can be asked after."""
        _may_wait()
        self._closed = True
        loop = loop_of_process()
        caller = None if loop is None else self._callers.pop(loop, None)
        if loop is not None and caller is not None:
            loop.submit(caller.close()).result()
        leave_loop(self)

    def _open(self, session: EndpointSession) -> tuple[BackgroundLoop, EndpointCaller]:
        if self._closed:
            raise EndpointError(f"the endpoint {self.spec.identity} is closed: open it again")
        loop = join_loop(self)
        with loop.lock:
            caller = self._callers.setdefault(loop, EndpointCaller(self.spec))
            if session.mode != "replay-only":
                caller.connect(self._transport or _Network.stand_in, self._sleep)
        return loop, caller


def _may_wait() -> None:
    """Refuse to wait where that would take forever."""
    loop = loop_of_process()
    if loop is not None and loop.inside():
        raise EndpointError("a callback of a reply runs on the event loop and cannot wait: use submit")


_OPEN: dict[str, LoopUser] = {}


class _Network:
    """What stands for the network."""

    stand_in: Callable[[], Any] | None = None


@contextmanager
def without_network(transport: Callable[[], Any]) -> Iterator[None]:
    """Let all endpoints that are first asked within the block use something else than the network, for tests.

    Args:
        transport: returns it (see `agentgym.endpoint.transport.ChatTransport`), for each endpoint.
    """
    before = _Network.stand_in
    _Network.stand_in = transport
    try:
        yield
    finally:
        _Network.stand_in = before


def network_is_replaced() -> bool:
    """Return whether `without_network` holds."""
    return _Network.stand_in is not None


def open_endpoint(spec: EndpointSpec) -> Endpoint:
    """Return the endpoint of a spec: the same one as long as the session lasts, which closes it.

    Outside of a session it stays open until it is closed, or the process ends.

    Args:
        spec: of the endpoint.
    """
    session = current_session()
    registry = _OPEN if session is None else session.endpoints
    place = canonical_json(spec.to_json())
    endpoint = registry.get(place)
    if not isinstance(endpoint, Endpoint) or endpoint.closed:
        endpoint = registry[place] = Endpoint(spec)
    return endpoint
