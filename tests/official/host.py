"""A loopback server that plays the hosts of official files, with a fault chosen for each request.

A file is at ``/HOST/PATH`` of the server, so that one server plays every host.
"""

import hashlib
import random
import socket
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

FAULTS = (
    "whole",  # a Range is ignored
    "refused range",  # 416 to a Range, of a file that has the bytes
    "drop",  # the connection ends at some byte
    "wrong",  # one byte is another
    "longer",  # some bytes follow the last
    "redirect",  # to the same host
    "elsewhere",  # to another host
    "404",
    "429",
    "503",
    "html",  # a page with status 200, as Drive's quota and log-in
    "chunked",  # no Content-Length
    "unsized",  # neither length nor chunks: the end is the connection's
    "unsized drop",  # the same, and the connection ends at some byte
    "slow",  # in many small pieces
    "other",  # another version of the file, with another ETag, cut off
)
"""Ways in which a request may be answered, besides the right one, which is ``""``."""

PASSING = (
    "drop",
    "429",
    "503",
    "slow",
    "chunked",
    "unsized",
    "redirect",
    "elsewhere",
    "whole",
    "refused range",
)
"""Faults that the same address gets over, when asked again."""

PAGE = b"<!DOCTYPE html><html><head><title>Quota exceeded</title></head><body>Sign in</body></html>"


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]
    fault: str


@dataclass
class Host:
    """The server; use it in ``with``."""

    content: Callable[[str], bytes]
    """Function from an official address to its file; KeyError where there is none."""
    plan: Callable[[str, int], str] = lambda path, attempt: ""
    """Function from a path and the number of the request for it, from 0, to the fault of the answer."""
    token: str | None = None
    """Token without which files below ``gated`` are refused."""
    gated: Callable[[str], bool] = lambda path: False
    elsewhere: "Host | None" = None
    """Host to which requests are redirected."""
    name: str = "127.0.0.1"
    """Name of this machine in the server's address."""
    loops: bool = False
    """Whether what was redirected is redirected again."""
    asked: list[Asked] = field(default_factory=list)
    sent: int = 0
    """Bytes of files sent so far."""
    pause_at: int | None = None
    """Number of bytes sent after which everything waits for `resume`."""

    def __enter__(self) -> "Host":
        """Start."""
        self._attempts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.paused, self._resumed = threading.Event(), threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.host = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop, and end what waits."""
        self._resumed.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Address of the server, without a slash at the end."""
        return f"http://{self.name}:{self._server.server_address[1]}"

    def address(self, official: str) -> str:
        """Return where this server offers an official file."""
        parts = urlsplit(official)
        query = f"?{parts.query}" if parts.query else ""
        return f"{self.url}/{parts.hostname}{parts.path}{query}"

    def resume(self) -> None:
        """Let go what waits at `pause_at`."""
        self.pause_at = None
        self.paused.clear()
        self._resumed.set()
        self._resumed = threading.Event()

    def fault_of(self, handler: BaseHTTPRequestHandler) -> str:
        """Choose the fault of a request, and record it."""
        with self._lock:
            path = handler.path
            if handler.command == "HEAD" or ("again=" in path and not self.loops):
                fault = ""
            else:
                fault = self.plan(path, self._attempts[path])
                self._attempts[path] += 1
            headers = {name.lower(): value for name, value in handler.headers.items()}
            self.asked.append(Asked(handler.command, path, headers, fault))
            return fault

    def count(self, piece: bytes) -> bytes:
        """Count bytes of a file before they are sent; wait where the count reaches `pause_at`."""
        with self._lock:
            limit = self.pause_at
            if limit is None or self.sent + len(piece) < limit:
                self.sent += len(piece)
                return piece
            piece = piece[: max(0, limit - self.sent)]
            self.sent += len(piece)
        return piece

    def wait_if_full(self) -> None:
        """Wait for `resume` once as many bytes as `pause_at` were sent."""
        if self.pause_at is not None and self.sent >= self.pause_at:
            resumed = self._resumed
            self.paused.set()
            resumed.wait()
            raise BrokenPipeError


def planned(seed: int, faults: Sequence[str] = FAULTS, most: int = 3) -> Callable[[str, int], str]:
    """Return a plan that draws up to ``most`` faults for each path, and then answers as it should."""

    def plan(path: str, attempt: int) -> str:
        drawn = random.Random(f"{seed} {path}")
        count = drawn.randint(0, most)
        return drawn.choices(faults, k=count)[attempt] if attempt < count else ""

    return plan


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    host: Host

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that are killed break their connections."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        """Answer as to GET, without the file."""
        self._answer()

    def do_GET(self) -> None:
        """Answer with the file, or with a fault."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._answer()

    def _answer(self) -> None:
        host = self.server.host
        fault = host.fault_of(self)
        official = "https:/" + self.path.replace("?again=1", "").replace("&again=1", "")
        if host.gated(self.path) and self.headers.get("Authorization") != f"Bearer {host.token}":
            status = 403 if "Authorization" in self.headers else 401
            self._plain(status, b"Access to this dataset is restricted.", X_Error_Code="GatedRepo")
            return
        try:
            content = host.content(official)
        except KeyError:
            self._plain(404, b"Not Found")
            return
        if fault in ("404", "429", "503"):
            more = {} if fault == "404" else {"Retry_After": "0"}
            self._plain(int(fault), b"<html>no</html>", kind="text/html", **more)
        elif fault == "html":
            self._plain(200, PAGE, kind="text/html; charset=utf-8")
        elif fault in ("redirect", "elsewhere"):
            target = host if fault == "redirect" or host.elsewhere is None else host.elsewhere
            again = f"{self.path}{'&' if '?' in self.path else '?'}again=1"
            self._plain(302, b"", Location=f"{target.url}{again}")
        else:
            self._file(official, content, fault)

    def _plain(self, status: int, body: bytes, *, kind: str = "text/plain", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _file(self, official: str, content: bytes, fault: str) -> None:
        drawn = random.Random(f"{self.path} {len(self.server.host.asked)} {fault}")
        if fault in ("wrong", "other"):
            place = drawn.randrange(len(content))
            content = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        elif fault == "longer":
            content += b"more"
        tag = f'"{hashlib.sha256(content).hexdigest()}"'
        start = 0
        wanted = self.headers.get("Range")
        if wanted is not None and fault not in ("whole", "unsized", "unsized drop", "chunked"):
            if fault == "refused range" or int(wanted.removeprefix("bytes=").split("-")[0]) >= len(content):
                self._plain(416, b"", Content_Range=f"bytes */{len(content)}")
                return
            if self.headers.get("If-Range", tag) == tag:
                start = int(wanted.removeprefix("bytes=").split("-")[0])
        self.send_response(206 if start else 200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("ETag", tag)
        self.send_header("X-Linked-ETag", tag)
        self.send_header("X-Linked-Size", str(len(content)))
        self.send_header("X-Repo-Commit", "0" * 40)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        elif fault not in ("whole", "unsized", "unsized drop"):
            self.send_header("Accept-Ranges", "bytes")
        self._body(content[start:], fault, drawn)

    def _body(self, content: bytes, fault: str, drawn: random.Random) -> None:
        if fault == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        elif fault.startswith("unsized"):
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = fault in ("drop", "unsized drop", "other")
        if cut:
            content = content[: drawn.randrange(len(content))] if content else content
        size = max(1, len(content) // 200) if fault == "slow" else 1 << 14
        for at in range(0, len(content), size):
            piece = self.server.host.count(content[at : at + size])
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if fault == "chunked" else piece)
            self.wfile.flush()
            self.server.host.wait_if_full()
        if fault == "chunked":
            self.wfile.write(b"0\r\n\r\n")
        if cut:
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
