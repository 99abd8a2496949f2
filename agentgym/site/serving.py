"""Static server of a built site, without caching in the browser."""

from __future__ import annotations

import re
from pathlib import Path

from agentgym.errors import UsageError
from agentgym.serving.server import HttpRequest, HttpResponse, SiteServer
from agentgym.site.folder import MARKER
from agentgym.site.rendering import POLICY

__all__ = ["FolderSite", "SiteServer"]

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".tex": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".gif": "image/gif",
    ".svg": "image/svg+xml",
}
"""Of the files that a site has."""

_PATH = re.compile(r"/(?:[a-zA-Z0-9_][a-zA-Z0-9_.-]*/)*(?:[a-zA-Z0-9_][a-zA-Z0-9_.-]*)?")
"""What a site's files are called: nothing hidden, nothing that leads up."""


class FolderSite:
    """Answers requests for the files of a site."""

    def __init__(self, folder: Path):
        """Take the folder of a site."""
        if not (folder / MARKER).is_file():
            raise UsageError(
                f"{folder} is no site: build one with `agentgym site build RESULTS --out {folder}`"
            )
        self._folder = folder.resolve()

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Return a file, or say that there is none."""
        plain = {"Content-Type": "text/plain; charset=utf-8"}
        if request.method != "GET":
            return HttpResponse(405, b"pages are read, not written to\n", plain)
        path = self._find(request.path)
        if path is None:
            return HttpResponse(404, b"the site has no such file\n", plain)
        policy = f"{POLICY}; frame-ancestors 'none'"
        headers = {"Content-Type": TYPES[path.suffix], "Content-Security-Policy": policy}
        return HttpResponse(200, path.read_bytes(), headers)

    def _find(self, path: str) -> Path | None:
        if not _PATH.fullmatch(path):
            return None
        found = (self._folder / f"{path.removeprefix('/')}{'index.html' * path.endswith('/')}").resolve()
        inside = found.is_relative_to(self._folder)
        return found if inside and found.suffix in TYPES and found.is_file() else None
