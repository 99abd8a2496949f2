"""Files that can be downloaded, as ``sources.toml`` lists them: addresses, sizes, digests and licences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from agentgym.core.options import check_choice
from agentgym.core.suite_spec import DataSource
from agentgym.errors import UsageError
from agentgym.io.records import read_toml

SOURCES = Path(__file__).with_name("sources.toml")
"""File that lists them."""

MAX_SIZE = 1 << 62
"""Bytes that no file has."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file on other machines; ``sources.toml`` explains the fields."""

    sets: tuple[str, ...]
    name: str
    urls: tuple[str, ...]
    check: str
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None
    joins: str | None = None
    option: int = 0
    unpacked: int = 0

    def __post_init__(self) -> None:
        """Raise a UsageError for names and addresses that lead elsewhere, and for what no file can have."""
        check_name(self.name)
        check_name(self.target)
        for digest, digits in ((self.sha256, 64), (self.md5, 32)):
            if digest is not None and not re.fullmatch(f"[0-9a-f]{{{digits}}}", digest):
                raise UsageError(
                    f"{self.name!r:.80} has the digest {digest!r:.80}, which is not {digits} hex digits"
                )
        if not 0 <= (self.size or 0) < MAX_SIZE or not 0 <= self.unpacked < MAX_SIZE:
            raise UsageError(f"{self.name!r:.80} has a size that no file has")
        for url in self.urls:
            check_url(url)
        if not self.urls:
            raise UsageError(f"{self.name!r:.80} has no address")

    @property
    def target(self) -> str:
        """Name of the file that its bytes get into."""
        return self.joins or self.name


@dataclass(frozen=True, slots=True)
class SourceSet:
    """Files that belong together: a data set, a corpus, or an index; ``sources.toml`` explains the fields."""

    licence: str
    revision: str
    source: str = ""
    gives: tuple[str, ...] = ()
    corpus: str = ""
    folder: str = ""
    needs: tuple[str, ...] = ()
    adopt: str = ""
    encoder: str | None = None
    built: bool = False
    terms: str = ""
    tree_sha256: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class SourceList:
    """All sets by their names, and all files."""

    set: Mapping[str, SourceSet]
    file: tuple[SourceFile, ...]

    def __post_init__(self) -> None:
        """Raise a UsageError for sets whose files would lie elsewhere, and for empty ones."""
        for name, found in self.set.items():
            check_name(name, parts=1)
            for place in filter(None, (found.folder, found.adopt)):
                check_name(place)
            targets = [(file.option, file.name) for file in self.files(name)]
            if not targets or len({*targets}) < len(targets):
                raise UsageError(f"the set {name!r:.80} has no file, or two of one name")

    def files(self, name: str) -> list[SourceFile]:
        """Return the files of a set."""
        return [file for file in self.file if name in file.sets]

    def named(self, name: str, *, corpora: bool) -> SourceSet:
        """Return a set of data, or of ``corpora``; UsageError with the nearest name where there is none."""
        known = {key: found for key, found in self.set.items() if bool(found.corpus) is corpora}
        check_choice("corpus" if corpora else "data set", name, known)
        return known[name]


def source_list() -> SourceList:
    """Return the list; UsageError if it cannot be read."""
    return _read(SOURCES)


@cache
def _read(path: Path) -> SourceList:
    return read_toml(SourceList, path)


def size_of(files: Sequence[SourceFile]) -> int:
    """Return the bytes of a set's first choice of files, those of unknown size left out."""
    return sum(file.size or 0 for file in files if file.option == files[0].option)


def how_to_get(source: DataSource, part: str = "") -> str:
    """Return, in words, the commands that bring a data set, or a set of it, to this machine."""
    command = f"run `agentgym data import {source.name} PATH` on a copy of {source.upstream}"
    name = download_of(source, part)
    return f"run `agentgym data download {name}`, or {command}" if name else command


def download_of(source: DataSource, part: str = "") -> str:
    """Return the name by which a data set, or a set of it, is downloaded; empty where it is not."""
    return next(
        (
            name
            for name, found in source_list().set.items()
            if found.source == source.name and (part in found.gives or part not in source.sets)
        ),
        "",
    )


def corpus_download(corpus: str = "", folder: str = "") -> str:
    """Return, in words, the command that brings a corpus by its name or folder; empty where none does."""
    named = ((name, found) for name, found in source_list().set.items() if found.corpus and not found.needs)
    name = next((name for name, found in named if corpus == found.corpus or folder == found.folder), "")
    return f"run `agentgym index download {name}`, or " if name else ""


def check_name(name: str, *, parts: int = 8) -> None:
    """Raise a UsageError for a path that does not stay in its folder, or that no disk takes."""
    path = PurePosixPath(name)
    inside = not path.is_absolute() and ".." not in path.parts and 0 < len(path.parts) <= parts
    if not inside or not name.isprintable() or "\\" in name or max(map(len, path.parts)) > 200:
        raise UsageError(f"the name {name!r:.80} leads out of its folder, or is none")


def check_url(url: str) -> None:
    """Raise a UsageError for an address that is not HTTP's."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not url.isascii() or any(c.isspace() or not c.isprintable() for c in url):
        raise UsageError(f"{url!r:.200} is not an address: it begins with https:// or http:// and a host")
