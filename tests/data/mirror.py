"""A host of files on the loopback address that misbehaves as hosts do, and lists of its files."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Mirror(BaseHTTPRequestHandler):
    """Answers with `files`, as the first of `faults` for a path says, else in the best manner."""

    protocol_version = "HTTP/1.1"
    files: dict[str, bytes]
    faults: dict[str, list[Callable[[Mirror, bytes], None]]]
    seen: list[tuple[str, dict[str, str]]]
    """Path and headers of each request."""

    def do_GET(self):
        self.seen.append((self.path, dict(self.headers)))
        data = self.files.get(self.path)
        faults = self.faults.get(self.path, [])
        if faults:
            faults.pop(0)(self, data if data is not None else b"")
        elif data is None:
            self.send_error(404)
        else:
            whole(self, data)

    def log_message(self, *words):
        pass

    def begin(self, code, length=None, **headers):
        """Send the head of an answer; the names of headers have ``_`` for ``-``."""
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()


def tag_of(data):
    return f'"{hashlib.sha256(data).hexdigest()[:16]}"'


def whole(handler, data, *, cut=None, tag=None):
    """Send a file, or the part asked for; ``cut``: bytes after which the connection ends."""
    tag = tag or tag_of(data)
    match = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
    condition = handler.headers.get("If-Range")
    start = int(match[1]) if match and condition in (None, tag) else 0
    if match and start >= len(data):
        return handler.begin(416, 0)
    if start:
        span = f"bytes {start}-{len(data) - 1}/{len(data)}"
        handler.begin(206, len(data) - start, ETag=tag, Content_Range=span)
    else:
        handler.begin(200, len(data), ETag=tag)
    handler.wfile.write(data[start:] if cut is None else data[start : start + cut])
    handler.close_connection = cut is not None


def cut_after(count, tag=None):
    return lambda handler, data: whole(handler, data, cut=count, tag=tag)


def without_range(handler, data):
    handler.begin(200, len(data))
    handler.wfile.write(data)


def without_length(handler, data):
    handler.close_connection = True
    handler.begin(200, Connection="close")
    handler.wfile.write(data)


def chunked(handler, data):
    handler.begin(200, Transfer_Encoding="chunked")
    for start in range(0, len(data), 1000):
        block = data[start : start + 1000]
        handler.wfile.write(f"{len(block):x}\r\n".encode() + block + b"\r\n")
    handler.wfile.write(b"0\r\n\r\n")


def chunked_and_cut(handler, data):
    handler.close_connection = True
    handler.begin(200, Transfer_Encoding="chunked")
    handler.wfile.write(f"{len(data):x}\r\n".encode() + data[:100])


def html(handler, data):
    page = b"<!DOCTYPE html><title>Sign in</title>"
    handler.begin(200, len(page), Content_Type="text/html; charset=utf-8")
    handler.wfile.write(page)


def disguised_html(handler, data):
    page = b"\n <html><body>Quota exceeded"
    handler.begin(200, len(page), Content_Type="application/octet-stream")
    handler.wfile.write(page)


def status(code, **headers):
    return lambda handler, data: handler.begin(code, 0, **headers)


def redirect(url):
    return status(302, Location=url)


def wrong(handler, data):
    whole(handler, bytes(reversed(data)))


@contextmanager
def serving(files) -> Iterator[tuple[str, type[Mirror]]]:
    """Serve files by their paths; yield the address, and the handler with its faults and what it saw."""
    paths = {"/" + name.lstrip("/"): data for name, data in files.items()}
    handler = type("Handler", (Mirror,), {"files": paths, "faults": {}, "seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda request, address: None  # what a client leaves early is no error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def write_sources(path: Path, sets: dict[str, dict[str, str]], files: list[dict[str, object]]) -> None:
    """Write a list of sources."""
    lines = []
    for name, table in sets.items():
        lines += [f'[set."{name}"]', *(f"{key} = {_toml(value)}" for key, value in table.items())]
    for table in files:
        lines += ["[[file]]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value) if isinstance(value, int) else f'"{value}"'
