"""A small HTTP server over the standard library's: requests in, responses out."""

from __future__ import annotations

import socket
import socketserver
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from agentgym.errors import UsageError

MOST_BYTES = 65_536
"""Of a form."""

MOST_DIGITS = 20
"""Of a number in a request: Python refuses to read very long ones."""

IDLE_SECONDS = 60.0
"""A connection that says nothing for so long is closed."""

_ALWAYS = {
    # nothing from elsewhere, no scripts, in no frame; a page left is shown anew, as it is now
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What a browser asks for."""

    method: str
    """``GET`` or ``POST``."""
    path: str
    """Without the query."""
    fields: Mapping[str, str]
    """Of the query, or of the form that was sent; the last of each name."""
    cookies: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What it gets."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Besides those that every response has; HTML unless they say otherwise."""


Answer = Callable[[HttpRequest], HttpResponse]


def redirect(path: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return a response that sends the browser to a path, to be asked for with ``GET``."""
    return HttpResponse(303, headers={"Location": path, **(headers or {})})


class SiteServer(ThreadingHTTPServer):
    """Answers each connection in a thread of its own."""

    def __init__(self, host: str, port: int, answer: Answer):
        """Listen; ``serve_forever`` answers.

        Args:
            host: name or address of this machine.
            port: 0 for any that is free.
            answer: is called from many threads.

        Raises:
            UsageError: the address cannot be had.
        """
        self.answer = answer
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "ports end at 65535"
            raise UsageError(
                f"cannot listen on {host}:{port}: {reason}; choose another --port or --host"
            ) from error

    def server_bind(self) -> None:
        """Bind, without asking a name server for this machine's name."""
        socketserver.TCPServer.server_bind(self)
        name, self.server_port = self.server_address[:2]
        self.server_name = str(name)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report what went wrong with a connection, but that the browser has gone."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Where the site is."""
        host = f"[{self.server_name}]" if ":" in self.server_name else self.server_name
        return f"http://{host}:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: SiteServer
    protocol_version = "HTTP/1.1"
    server_version = "agentgym"
    sys_version = ""
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        """Answer with the query as fields."""
        self._answer(self.path.partition("?")[2])

    def do_POST(self) -> None:
        """Answer with the form as fields."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self.send_error(411)
        elif len(length) > MOST_DIGITS or int(length) > MOST_BYTES:
            self.send_error(413)
        else:
            self._answer(self.rfile.read(int(length)).decode("utf-8", errors="replace"))

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the site tells of episodes."""

    def _answer(self, text: str) -> None:
        try:
            found = parse_qs(text, keep_blank_values=True, max_num_fields=100)
            cookies = {name: one.value for name, one in SimpleCookie(self.headers.get("Cookie", "")).items()}
        except (ValueError, CookieError):
            self.send_error(400)
            return
        fields = {name: values[-1] for name, values in found.items()}
        path = self.path.partition("?")[0]
        response = self.server.answer(HttpRequest(self.command, path, fields, cookies))
        self.send_response(response.status)
        headers = {"Content-Type": "text/html; charset=utf-8", **_ALWAYS, **response.headers}
        for name, value in {**headers, "Content-Length": str(len(response.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(response.body)
