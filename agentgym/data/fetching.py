"""Fetching a file over HTTP from the first mirror that has it: resumed, and checked as it comes."""

from __future__ import annotations

import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPMessage, InvalidURL
from pathlib import Path
from typing import IO, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from agentgym.data.archives import Progress
from agentgym.data.sources import SourceFile, check_url
from agentgym.errors import UsageError
from agentgym.io.files import make_folder, writing
from agentgym.version import __version__

HUB: Final = "https://huggingface.co"
"""Address of the hub, which the environment variable ``HF_ENDPOINT`` replaces."""

MIRROR_VARIABLE: Final = "AGENTGYM_MIRROR"
"""Environment variable that names a mirror to ask first."""

TIMEOUT: Final = 30.0
"""Seconds without a byte after which a connection has failed."""

MAX_TRIES: Final = 5
"""Tries of one mirror in a row that bring nothing new."""

MAX_WAIT: Final = 120.0
"""Longest wait that a server may ask for, in seconds; after a longer one the next mirror is taken."""

MAX_UNKNOWN_SIZE: Final = 8 << 30
"""Largest file whose size is not known, in bytes."""

_BLOCK = 1 << 20
_TOO_BUSY = (408, 425, 429, 500, 502, 503, 504)
_HTML = re.compile(rb"\s*(<!--.*?-->\s*)?<(!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)


class _RefusalError(Exception):
    """A mirror does not have the file."""


class _WrongError(Exception):
    """What came is not the file."""


class _DropError(Exception):
    """A transfer ended early; a second argument is the wait that the server asks for, in seconds."""


class _Redirects(HTTPRedirectHandler):
    """Redirects to HTTP alone, with the token for the host that it is meant for alone."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """Return the next request."""
        try:
            check_url(newurl)
        except UsageError as error:
            raise _RefusalError(str(error)) from error
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        token = req.unredirected_hdrs.get("Authorization")
        if following is not None and token and _origin(newurl) == _origin(req.full_url):
            following.add_unredirected_header("Authorization", token)
        return following


@dataclass(slots=True)
class Fetcher:
    """Way to files: the mirrors, and what hears of the transfer."""

    mirror: str = ""
    """Address or folder below which ``SET/FILE`` is looked for first; empty for `MIRROR_VARIABLE`'s."""
    only_mirror: bool = False
    """Whether nothing else is asked."""
    say: Callable[[str], object] = lambda line: None
    """Function that gets a line for the user."""
    progress: Progress = lambda done, total: None
    sleep: Callable[[float], None] = time.sleep
    total: int = 0
    """Bytes of all files to fetch, as far as they are known."""
    done: int = 0
    """Bytes of them that are here."""
    terms: str = ""
    """Page where the terms of the files are to be accepted."""
    _opener: Any = field(default_factory=lambda: build_opener(_Redirects()))

    def __post_init__(self) -> None:
        """Raise a UsageError for a mirror that is neither an address nor a folder."""
        self.mirror = self.mirror or os.environ.get(MIRROR_VARIABLE, "")
        if self.mirror and not Path(self.mirror).is_dir():
            if "://" not in self.mirror:
                raise UsageError(f"mirror {self.mirror!r:.200} is not an address, and no such folder exists")
            check_url(self.mirror)
        if self.only_mirror and not self.mirror:
            raise UsageError("--only-mirror asks nothing but the mirror: name one with --mirror")

    def addresses(self, name: str, file: SourceFile) -> list[str]:
        """Return the addresses of a file of a set."""
        hub, found = f"{HUB}/", []
        if self.mirror and Path(self.mirror).is_dir():
            found += [path.absolute().as_uri() for path in find_copies(Path(self.mirror), name, file)]
        elif self.mirror:
            found += [f"{self.mirror.rstrip('/')}/{quote(name)}/{quote(file.name)}"]
        for url in () if self.only_mirror else file.urls:
            found += [f"{_hub()}/{url.removeprefix(hub)}" if url.startswith(hub) else url]
        return found

    def fetch(self, name: str, file: SourceFile, path: Path, *, base: int = 0) -> tuple[int, str]:
        """Bring a file of a set to ``path``, after ``base`` bytes of others; return size and sha256.

        UsageError if no mirror has it.
        """
        reasons = []
        make_folder(path.parent)
        path.touch()
        with path.open("r+b") as stream:
            draft = _Draft(file, stream, base, self._advance)
            for url in self.addresses(name, file):
                try:
                    self._from_mirror(url, file, draft)
                except _RefusalError as error:
                    reasons.append(f"{_short(url)}: {error}")
                else:
                    self.say(f"{file.name}: {draft.size:,} bytes, from {_short(url)}")
                    return draft.size, draft.digests["sha256"].hexdigest()
        found = "; ".join(reasons) or f"{self.mirror} does not have it"
        raise UsageError(f"cannot fetch {file.name} of {name}: {found}")

    def _from_mirror(self, url: str, file: SourceFile, draft: _Draft) -> None:
        """Complete and check a draft."""
        failures, most = 0, draft.size
        while True:
            resumed = draft.size
            try:
                if draft.size != file.size:
                    self._receive(url, file, draft)
                return draft.check()
            except _DropError as error:
                reason, asked = error.args
                failures = 0 if draft.size > most else failures + 1
                most = max(most, draft.size)
                wait = asked if asked is not None else 2.0 ** (failures - 1) if failures else 0.0
                if failures >= MAX_TRIES or wait > MAX_WAIT:
                    more = f", asks to wait {asked:,.0f} s" if asked else ""
                    raise _RefusalError(reason + more) from error
                if wait:
                    self.say(f"{file.name}: {_short(url)}: {reason}; again in {wait:.0f} s")
                    self.sleep(wait)
            except _WrongError as error:
                draft.restart()
                if not resumed:  # else the beginning may have been another file's
                    raise _RefusalError(str(error)) from error

    def _receive(self, url: str, file: SourceFile, draft: _Draft) -> None:
        """Add what is missing."""
        with self._open(url, file, draft) as answer:
            length = answer.headers.get("Content-Length", "")
            end = draft.size + int(length) if length.isdecimal() else None
            block = answer.read(_BLOCK)
            if not draft.size and _HTML.match(block):
                raise _page(url)
            if file.size is None:
                self.total += 0 if draft.size else end or 0
            elif end not in (None, file.size):
                raise _RefusalError(f"it has {end:,} bytes, not {file.size:,}")
            most = file.size or MAX_UNKNOWN_SIZE
            while block:
                if draft.size + len(block) > most:
                    raise _WrongError(f"more than {most:,} bytes come")
                draft.add(block)
                block = answer.read(_BLOCK)
        whole = file.size or end
        if whole is not None and draft.size < whole:
            raise _DropError(f"the connection ended after {draft.size:,} of {whole:,} bytes", None)

    @contextmanager
    def _open(self, url: str, file: SourceFile, draft: _Draft) -> Iterator[Any]:
        """Open a file, from where the draft ends if it can be; yield the answer.

        A draft of a file without a digest is only continued by the address that it began with.
        """
        request = Request(url, headers={"User-Agent": f"agentgym/{__version__}"})
        if urlsplit(url).hostname == "github.com":  # its storage ignores Range in the protocol before
            request.add_header("x-ms-version", "2020-04-08")
        token = os.environ.get("HF_TOKEN", "").strip()
        if token.isprintable() and token and _origin(url) == _origin(_hub()):
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        validator = draft.validators.get(url, "")
        if draft.size and (validator or file.sha256 or file.md5):
            request.add_header("Range", f"bytes={draft.size}-")
            if validator:
                request.add_header("If-Range", validator)
        try:
            with self._opener.open(request, timeout=TIMEOUT) as answer:
                if answer.headers.get_content_type() == "text/html":
                    raise _page(url)
                span = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
                if answer.status != 206 or span is None:
                    draft.restart()
                    tag = answer.headers.get("ETag", "")
                    date = answer.headers.get("Last-Modified", "")
                    draft.validators = {url: tag if tag.startswith('"') else date}
                elif int(span[1]) != draft.size:
                    raise _RefusalError(f"it sends bytes from {span[1]}, not from {draft.size}")
                yield answer
        except HTTPError as error:
            error.close()
            raise self._answer(error, draft) from error
        except (HTTPException, OSError) as error:
            cause = error.reason if isinstance(error, URLError) else error
            reason = " ".join(str(cause).split()) or type(cause).__name__
            never = isinstance(error, URLError) and not isinstance(cause, ConnectionResetError | TimeoutError)
            if never or isinstance(error, InvalidURL):
                raise _RefusalError(reason) from error
            raise _DropError(reason, None) from error

    def _answer(self, error: HTTPError, draft: _Draft) -> Exception:
        """Return the exception of an answer that is no file."""
        if error.code == 416 and draft.size:
            draft.restart()
            return _DropError("it has no more bytes", 0.0)
        if error.code in _TOO_BUSY:
            asked = error.headers.get("Retry-After", "").strip()
            wait = float(asked) if asked.isdecimal() else None
            return _DropError(f"HTTP {error.code} {error.reason}", wait)
        if error.code in (401, 403) and self.terms:
            remedy = f"accept the terms at {self.terms}, then set HF_TOKEN to a token of yours"
            return _RefusalError(f"HTTP {error.code}: {remedy}")
        return _RefusalError(f"HTTP {error.code} {error.reason}")

    def _advance(self, count: int) -> None:
        self.done += count
        self.progress(self.done, max(self.total, self.done))


class _Draft:
    """The beginning of a file, after ``base`` bytes of others, with its digests."""

    def __init__(self, file: SourceFile, stream: IO[bytes], base: int, advance: Callable[[int], None]):
        self._file, self._stream, self._base, self._advance = file, stream, base, advance
        self.validators: dict[str, str] = {}
        self._begin()
        stream.seek(base)
        left = math.inf if file.size is None else file.size
        while block := stream.read(int(min(_BLOCK, left - self.size))):
            self._count(block)

    def add(self, block: bytes) -> None:
        with writing(self._stream.name):
            self._stream.write(block)
        self._count(block)

    def restart(self) -> None:
        """Remove everything after the base."""
        with writing(self._stream.name):
            self._stream.seek(self._base)
            self._stream.truncate()
        self._advance(-self.size)
        self._begin()

    def check(self) -> None:
        """Bring everything to the disk; raise an error unless it is the file."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        if self._file.size not in (None, self.size):
            raise _WrongError(f"{self.size:,} bytes came, not {self._file.size:,}")
        for name, digest in self.digests.items():
            expected = getattr(self._file, name)
            if expected and digest.hexdigest() != expected:
                raise _WrongError(f"its {name} is {digest.hexdigest()}, not {expected}")

    def _begin(self) -> None:
        self.size = 0
        names = ("sha256", "md5") if self._file.md5 else ("sha256",)
        self.digests = {name: hashlib.new(name, usedforsecurity=False) for name in names}

    def _count(self, block: bytes) -> None:
        self.size += len(block)
        self._advance(len(block))
        for digest in self.digests.values():
            digest.update(block)


def find_copies(folder: Path, name: str, file: SourceFile) -> list[Path]:
    """Return the files that may be a file of the set ``name``, in a folder that was filled elsewhere.

    Programs such as wget name them in their own way, so that they are known by their size.
    """
    placed = (folder / name / file.name, folder / file.name)
    names = {Path(file.name).name, *(url.rpartition("/")[2] for url in file.urls)}
    alike = (
        path
        for path in folder.rglob("*")
        if path.is_file()
        and (path in placed or (path.stat().st_size == file.size if file.size else path.name in names))
    )
    return sorted(alike, key=lambda path: (path not in placed, path))


def _hub() -> str:
    endpoint = os.environ.get("HF_ENDPOINT") or HUB
    check_url(endpoint)
    return endpoint.rstrip("/")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _short(url: str) -> str:
    """Return the host of an address and the beginning of its path, or the path of a file here."""
    parts = urlsplit(url)
    host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
    return unquote(parts.path) if host is None else host + "/".join(parts.path.split("/")[:4])


def _page(url: str) -> Exception:
    drive = ": Drive's log-in, or its quota is used up" if "google" in urlsplit(url).netloc else ""
    return _RefusalError(f"a page of HTML came, not the file{drive}")
