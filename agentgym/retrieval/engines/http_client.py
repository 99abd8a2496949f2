"""HTTP client of JSON servers over the standard library: keep-alive, deadlines, retries."""

from __future__ import annotations

import math
import os
import socket
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, RemoteDisconnected
from threading import Lock, Timer
from typing import NamedTuple, NoReturn
from urllib.parse import urlsplit

from agentgym.core.queries import UnansweredError
from agentgym.errors import UsageError
from agentgym.io.untrusted import loads_json

TIMEOUT = 30.0
"""Seconds that a server has for one attempt, from the connection to the last byte."""

MAX_ANSWER_SIZE = 64 << 20
"""Bytes of an answer at most."""

CONNECTIONS = 16
"""Connections that are kept."""

MAX_PAUSE = 5.0
"""Seconds between two attempts at most, whatever the server asks for."""

_FIRST_PAUSE = 0.25
_BUSY = (429, 500, 502, 503, 504)
"""Statuses of a server that may answer at another attempt."""


class HttpClient:
    """Sends requests to one server. Safe to share between threads, and after a fork."""

    def __init__(
        self,
        url: str,
        server: str,
        *,
        timeout: float = TIMEOUT,
        attempts: int = 1,
        largest: int = MAX_ANSWER_SIZE,
        headers: Mapping[str, str] | None = None,
    ):
        """Set the server's address; nothing is sent yet.

        ``server`` names it in messages; ``timeout``: seconds for one attempt; ``attempts``: at most, while
        the server is away or busy; ``largest``: bytes of an answer.
        """
        if attempts < 1 or not 0 < timeout < math.inf or largest < 1:
            raise UsageError("a client needs attempts >= 1, a timeout in seconds, and room for an answer")
        self.url = url
        self._server = server
        self._address = _address(url)
        self._timeout = timeout
        self._attempts = attempts
        self._largest = largest
        self._headers = dict(headers or {})
        self._idle: list[HTTPConnection] = []
        weakref.finalize(self, _close_all, self._idle)
        self._process = os.getpid()
        self._lock = Lock()

    @property
    def path(self) -> str:
        """The path of the address; empty without one."""
        return self._address.path

    def close(self) -> None:
        """Close the kept-alive connections."""
        with self._lock:
            _close_all(self._idle)

    def fail(self, problem: str) -> NoReturn:
        """Raise an UnansweredError that names the server and its fault."""
        raise UnansweredError(f"{self._server} {self.url} {problem}")

    def send(self, method: str, path: str, body: bytes | None) -> HttpAnswer:
        """Send a request until it is answered; the last answer where the server stays busy.

        `UnansweredError` where the server cannot be reached, or does not answer whole and in time.
        """
        for attempt in range(1, self._attempts + 1):
            try:
                answer = self._attempt(method, path, body)
                if answer.status not in _BUSY or attempt == self._attempts:
                    return answer
                pause = answer.pause
            except (OSError, HTTPException) as error:
                if attempt == self._attempts:
                    self.fail(f"cannot be asked: {_line(error)} ({self._attempts} attempts)")
                pause = 0.0
            time.sleep(min(max(pause, _FIRST_PAUSE * 2 ** (attempt - 1)), MAX_PAUSE))
        raise AssertionError  # the last attempt returns or raises

    def _attempt(self, method: str, path: str, body: bytes | None) -> HttpAnswer:
        headers = {"Content-Type": "application/json", "Accept": "application/json", **self._headers}
        connection = self._take()
        reused = connection.sock is not None
        whole = begun = False
        try:
            with self._deadline() as sockets:
                if not reused:
                    connection.connect()
                sockets.append(connection.sock)  # the connection forgets it at its last answer
                connection.request(method, path, body, headers)
                with connection.getresponse() as response:
                    begun = True
                    seconds = response.headers.get("Retry-After", "")
                    known = seconds.isascii() and seconds.isdigit() and len(seconds) < 6
                    pause = float(seconds) if known else 0.0
                    answer = HttpAnswer(response.status, self._read(response), pause)
                    whole = not response.will_close
        except (RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            if not reused:
                raise
            self.close()  # the server has closed what was kept open, as servers do after a while
            return self._attempt(method, path, body)
        except TimeoutError as error:
            if not begun:
                raise
            self.fail(f"answers too slowly: {error}, though it began")  # the next attempt would be as slow
        finally:
            if whole:
                self._give(connection)
            else:
                connection.close()
        return answer

    def _read(self, response: HTTPResponse) -> bytes:
        expected = response.length
        if expected is None or expected <= self._largest:
            body = response.read(self._largest + 1)
            if len(body) <= self._largest:
                if expected is not None and len(body) < expected:
                    raise ConnectionError(f"the answer ends after {len(body):,} of {expected:,} bytes")
                return body
        self.fail(f"answers with more than {self._largest:,} bytes: ask for less at once")

    @contextmanager
    def _deadline(self) -> Iterator[list[socket.socket]]:
        """Cut the sockets of a block when time is up, so that no server can hold a call by sending slowly."""
        late = False
        sockets: list[socket.socket] = []

        def cut() -> None:
            nonlocal late
            late = True
            for sock in sockets:
                with suppress(OSError):  # the other side has gone before
                    sock.shutdown(socket.SHUT_RDWR)

        timer = Timer(self._timeout, cut)
        timer.daemon = True
        timer.start()
        try:
            yield sockets
        except UnansweredError:
            raise
        except (OSError, HTTPException, ValueError) as error:
            if late or isinstance(error, TimeoutError):
                raise TimeoutError(f"no whole answer within {self._timeout:g} s") from error
            if isinstance(error, ValueError):  # a read of a connection that was closed meanwhile
                raise ConnectionError(_line(error)) from error
            raise
        finally:
            timer.cancel()

    def _take(self) -> HTTPConnection:
        with self._lock:
            if self._process != os.getpid():  # a fork has no use for its parent's connections
                self._process = os.getpid()
                _close_all(self._idle)
            if self._idle:
                return self._idle.pop()
        address = self._address
        kind = HTTPSConnection if address.secure else HTTPConnection
        return kind(address.host, address.port, timeout=self._timeout)

    def _give(self, connection: HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()


class HttpAnswer(NamedTuple):
    """A server's answer."""

    status: int
    body: bytes
    pause: float
    """Seconds after which the server wants to be asked again."""


class _Address(NamedTuple):
    secure: bool
    host: str
    port: int | None
    path: str


def _close_all(idle: list[HTTPConnection]) -> None:
    while idle:
        idle.pop().close()


def _address(url: str) -> _Address:
    """Split the address of a server."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{url!r:.100} is not an address of a server: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise UsageError(f"{url!r:.100} is not an address of a server: write http://HOST:PORT")
    if parts.query or parts.fragment or not url.isascii() or any(map(str.isspace, url)):
        raise UsageError(f"{url!r:.100} is not an address of a server: leave out what follows the path")
    path = "" if parts.path == "/" else parts.path
    return _Address(parts.scheme == "https", parts.hostname, port, path)


def reason(body: bytes) -> str:
    """Return an error's message, as far as it is a line of JSON."""
    try:
        table = loads_json(body[:4_096], "")
        message = table.get("error", table.get("detail")) if isinstance(table, dict) else None
    except UsageError:
        message = None
    return f": {message!r:.200}" if isinstance(message, str) else ""


def _line(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:200]
