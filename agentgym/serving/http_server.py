"""A small HTTP server over the standard library's: requests in, responses out."""

from __future__ import annotations

import socket
import socketserver
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from agentgym.errors import UsageError
from agentgym.serving.hosts import HostGuard

MAX_BYTES = 16_384
"""Largest size of a form, in bytes."""

MAX_READ = 16 * MAX_BYTES
"""Most bytes read of a form that is refused."""

MAX_FIELDS = 20
"""Most fields of a form or a query."""

MAX_CHARACTERS = 1_024
"""Most characters of a field: a step on a long text must not block other visitors."""

MAX_DIGITS = 20
"""Most digits of a number in a request: Python refuses to parse very long ones."""

IDLE_SECONDS = 60.0
"""Seconds after which an idle connection is closed."""

_ALWAYS = {
    # no foreign content, no scripts, no frames; going back loads a page anew
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    # not "no-referrer", under which browsers send no origin with a site's own forms
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A browser's request."""

    method: str
    """HTTP method, ``GET`` or ``POST``; ``HEAD`` is handled as ``GET``."""
    path: str
    """Path without the query."""
    fields: Mapping[str, str]
    """Fields of the query, or of a posted form; the last value of each name."""
    cookies: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The response to it."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers besides those of every response; the type is HTML unless they set another."""


Answer = Callable[[HttpRequest], HttpResponse]


def redirect(path: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return a response that sends the browser to a path, by ``GET``."""
    return HttpResponse(303, headers={"Location": path, **(headers or {})})


class SiteServer(ThreadingHTTPServer):
    """Answers each connection in a thread of its own."""

    def __init__(self, host: str, port: int, answer: Answer, *, allowed_hosts: Iterable[str] = ()):
        """Listen; ``serve_forever`` answers, in many threads.

        Port 0 is any that is free; ``allowed_hosts``: names that requests may have for the site, besides
        ``host`` and this machine's own.
        """
        self.answer = answer
        self.guard = HostGuard(host, also=allowed_hosts)
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
        """Address of the site."""
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
        if self._is_welcome():
            self._answer(self.path.partition("?")[2])

    def do_HEAD(self) -> None:
        """Answer as `do_GET` does, without the body."""
        self.do_GET()

    def do_POST(self) -> None:
        """Answer with the form as fields."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self._refuse(411, "a form says its length, in bytes")
            return
        size = int(length[:MAX_DIGITS])
        # a short body is read even where it is refused, since a client that is sending reads no answer
        body = self.rfile.read(min(size, MAX_READ))
        if size > MAX_BYTES:
            self._refuse(413, f"a form has at most {MAX_BYTES:,} bytes: shorten it")
        elif self._is_welcome():
            self._answer(body.decode("utf-8", errors="replace"))

    def parse_request(self) -> bool:
        """Read a request's head; refuse one whose body others could read as having another length."""
        if not super().parse_request():
            return False
        lengths = self.headers.get_all("Content-Length", [])
        many = len(lengths) > 1 if self.command == "POST" else lengths not in ([], ["0"])
        if many or "Transfer-Encoding" in self.headers:
            self._refuse(400, "a form says its length once, without Transfer-Encoding; others have no body")
            return False
        return True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a malformed request with a line of text, as the site's own refusals are."""
        self.request_version = self.protocol_version  # the default, HTTP/0.9, has no status line
        self._refuse(code, message or HTTPStatus(code).phrase)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the site reports episodes."""

    def _is_welcome(self) -> bool:
        """Check the request's host and origin; answer a refused one."""
        named = self.request_version not in ("HTTP/0.9", "HTTP/1.0")
        refusal = self.server.guard.refusal(self.command, self.headers, named=named)
        if refusal is not None:
            self._refuse(*refusal)
        return refusal is None

    def _answer(self, text: str) -> None:
        try:
            found = parse_qs(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
            cookies = {name: one.value for name, one in SimpleCookie(self.headers.get("Cookie", "")).items()}
        except (ValueError, CookieError):
            self._refuse(400, f"cannot read the form or the cookie: a form has at most {MAX_FIELDS} fields")
            return
        fields = {name: values[-1] for name, values in found.items()}
        if any(len(part) > MAX_CHARACTERS for field in fields.items() for part in field):
            self._refuse(400, f"a field has at most {MAX_CHARACTERS:,} characters: shorten it")
            return
        method = "GET" if self.command == "HEAD" else self.command
        path = self.path.partition("?")[0]
        self._send(self.server.answer(HttpRequest(method, path, fields, cookies)))

    def _refuse(self, status: int, line: str) -> None:
        """Answer with a line of plain text, and close the connection, whose request has not been read."""
        self.close_connection = True
        headers = {"Content-Type": "text/plain; charset=utf-8", "Connection": "close"}
        self._send(HttpResponse(status, f"{line}\n".encode(), headers))

    def _send(self, response: HttpResponse) -> None:
        self.send_response(response.status)
        headers = {"Content-Type": "text/html; charset=utf-8", **_ALWAYS, **response.headers}
        for name, value in {**headers, "Content-Length": str(len(response.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)
