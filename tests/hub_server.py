"""A hub of the loopback address: what `huggingface_hub` asks for when it downloads a repository."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit


@dataclass
class Hub:
    """Repositories by name: the folder of each commit, and the commit of each branch."""

    url: str = ""
    commits: dict[str, dict[str, Path]] = field(default_factory=dict)
    branches: dict[str, dict[str, str]] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    """Paths of the files that were sent."""

    def add(self, repository: str, folder: Path, commit: str, branch: str = "main") -> None:
        self.commits.setdefault(repository, {})[commit] = folder
        self.branches.setdefault(repository, {})[branch] = commit


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        asked = parts[2:] if parts[:2] == ["api", "models"] else parts
        repository = "/".join(asked[:2])
        kind, revision, *inner = asked[2:] or ["revision", "main"]
        if repository not in self.hub.commits:
            return self._send(401, b"{}", {"X-Error-Code": "RepoNotFound"})
        commit = self.hub.branches[repository].get(revision, revision)
        folder = self.hub.commits[repository].get(commit)
        if folder is None:
            return self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        if kind == "revision":
            return self._json({"id": repository, "sha": commit, "siblings": []})
        if kind == "tree":
            return self._json(
                [
                    {
                        "type": "file",
                        "path": str(path.relative_to(folder)),
                        "size": path.stat().st_size,
                        "oid": hashlib.sha1(path.read_bytes()).hexdigest(),
                    }
                    for path in files
                ]
            )
        content = folder.joinpath(*inner).read_bytes()
        if self.command == "GET":
            self.hub.sent.append("/".join(inner))
        etag = f'"{hashlib.sha1(content).hexdigest()}"'
        return self._send(200, content, {"X-Repo-Commit": commit, "ETag": etag})

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


@contextmanager
def serving_hub() -> Iterator[Hub]:
    """Serve a hub, at first without repositories."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
