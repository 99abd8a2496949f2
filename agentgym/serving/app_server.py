"""An application on uvicorn, on a socket of its own, until Ctrl-C; connections that do nothing are closed."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable
from typing import Any, Self

from agentgym.errors import UsageError
from agentgym.io.optional import load
from agentgym.serving.hosts import HostGuard

BACKLOG = 2_048
"""Most connections that wait to be accepted: vector environments open theirs all at once."""

GRACE = 5
"""Seconds until requests under way are ended after Ctrl-C."""

READ_SIZE = 16 << 10
"""Bytes read from a connection before it is another one's turn: they may be hundreds of messages."""

PATIENCE = 90.0
"""Longest time for a connection to begin a request or to read from an answer, in seconds."""


class AppServer:
    """Listens from the beginning; `serve_forever` answers."""

    purpose = "the server"
    """Feature that needs uvicorn, as the subject of an error message."""

    def __init__(
        self,
        host: str,
        port: int,
        make_app: Callable[[HostGuard], Any],
        *,
        allowed_hosts: Iterable[str] = (),
        patience: float = PATIENCE,
        **settings: Any,
    ):
        """Listen; port 0 is any that is free.

        ``make_app`` gets the guard of host names. ``allowed_hosts``: names that requests may have for the
        server, besides ``host`` and this machine's. ``patience``: as `PATIENCE`. ``settings`` are uvicorn's.
        """
        uvicorn = load("uvicorn", "serve", self.purpose)
        config = uvicorn.Config(
            make_app(HostGuard(host, also=allowed_hosts)),
            http=_patient_protocol(patience),
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE,
            timeout_keep_alive=PATIENCE,
            **settings,
        )
        logging.getLogger("uvicorn.error").addFilter(_without_traceback)
        self._server: Any = uvicorn.Server(config)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            if not 0 <= port < 1 << 16:
                raise OSError(0, "ports end at 65535")
            self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
            # connections inherit it, and asyncio sets it only where a socket names its protocol; without it a
            # head and a body that are sent apart would wait 40 ms for each other
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux closes connections whose clients never read
                milliseconds = max(1, int(patience * 1_000))
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        except OSError as error:
            raise UsageError(
                f"cannot listen on {host}:{port}: {error.strerror}; choose another --port or --host"
            ) from error

    @property
    def url(self) -> str:
        """Address of the server, without the path."""
        name, port = self._socket.getsockname()[:2]
        return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"

    def serve_forever(self) -> None:
        """Answer until `stop`, or until Ctrl-C, which is raised again when requests under way have ended."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Let `serve_forever` return, from another thread."""
        self._server.should_exit = True

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()

    def __enter__(self) -> Self:
        """Return the server itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()


def _without_traceback(record: logging.LogRecord) -> bool:
    """Shorten uvicorn's report of an undecodable text to a line: it is the client's mistake."""
    if record.msg == "Invalid UTF-8 sequence received from client.":
        record.exc_info = None
    return True


def _patient_protocol(patience: float) -> type[Any]:
    """Return uvicorn's protocol with a deadline for heads of requests, which it waits for without end."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class PatientProtocol(H11Protocol):
        _deadline: Any = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if hasattr(transport, "max_size"):  # asyncio's own transport
                transport.max_size = READ_SIZE
            self._await_request()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._await_request()

        def handle_websocket_upgrade(self, event: Any) -> None:
            self._stop_waiting()
            super().handle_websocket_upgrade(event)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _await_request(self) -> None:
            self._stop_waiting()
            self._deadline = self.loop.call_later(patience, self._give_up, self.cycle)

        def _stop_waiting(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()

        def _give_up(self, last: Any) -> None:
            if self.cycle is last:  # no request has begun since the timer
                self.transport.close()

    return PatientProtocol
