"""The package's list of downloads, with addresses, sizes and digests of copies."""

import hashlib
import io
import json
import tarfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from agentgym.data.sources import SOURCES
from tests.official.packing import unpacked_size

Table = dict[str, Any]


def official() -> Table:
    """Return the package's list as it is."""
    return tomllib.loads(SOURCES.read_text(encoding="utf-8"))


def rewritten(content: Callable[[str], bytes], address: Callable[[str], str]) -> Table:
    """Return the list for copies.

    What is known of a file stays known: a digest where the package has one, only the size elsewhere.

    Args:
        content: from an official address to the copy of its file.
        address: from an official address to where the copy is.
    """
    table = official()
    for file in table["file"]:
        copy = content(file["urls"][0])
        if "size" in file:
            file["size"] = len(copy)
        for name in ("sha256", "md5"):
            if name in file:
                file[name] = hashlib.new(name, copy).hexdigest()
        if "unpacked" in file:
            file["unpacked"] = unpacked_size(copy)
        for name in file["sets"]:
            if "tree_sha256" in table["set"][name]:
                table["set"][name]["tree_sha256"] = tree_digest(copy)
        file["urls"] = [address(url) for url in file["urls"]]
    return table


def tree_digest(archive: bytes) -> str:
    """Return the sha256 of `sha256sum`'s lines of a tar's levels, sorted by path, below its one folder."""
    lines = []
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for item in opened:
            path = PurePosixPath(*PurePosixPath(item.name).parts[1:])
            if item.isfile() and len(path.parts) > 1:
                content = opened.extractfile(item)
                assert content is not None
                lines.append((str(path), hashlib.sha256(content.read()).hexdigest()))
    return hashlib.sha256("".join(f"{sha}  {path}\n" for path, sha in sorted(lines)).encode()).hexdigest()


def dumped(table: Table) -> str:
    """Return a list as TOML."""
    lines = []
    for name, found in table["set"].items():
        lines += [f"[set.{json.dumps(name)}]", *_entries(found), ""]
    for file in table["file"]:
        lines += ["[[file]]", *_entries(file), ""]
    return "\n".join(lines)


def _entries(found: Mapping[str, Any]) -> list[str]:
    return [f"{json.dumps(key)} = {value(each)}" for key, each in found.items()]


def value(found: object) -> str:
    """Return a value as TOML; JSON's strings, numbers and truths are TOML's."""
    if isinstance(found, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {value(each)}" for key, each in found.items()) + " }"
    if isinstance(found, (list, tuple)):
        return "[" + ", ".join(map(value, found)) + "]"
    return json.dumps(found)


def write(path: Path, table: Table) -> Path:
    """Write a list; return its path."""
    path.write_text(dumped(table), encoding="utf-8")
    return path
