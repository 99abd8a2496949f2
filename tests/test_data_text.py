"""No file of the repository holds text of the official data, most of which may not be passed on."""

import gzip
import io
import json
import lzma
import os
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.assets

ROOT = Path(__file__).parents[1]
WORD = re.compile(r"[a-z0-9]+")

LENGTH = 8
"""Words in a row that no two texts share by chance."""

LETTERS = 3 * LENGTH
"""Fewer are numbers or an alphabet."""


def passages(text: str) -> Iterator[tuple[str, ...]]:
    """Return every run of `LENGTH` words."""
    words = WORD.findall(text.lower())
    return zip(*(words[start:] for start in range(LENGTH)), strict=False)


def is_text(passage: tuple[str, ...]) -> bool:
    return sum(map(len, passage)) >= LETTERS


def texts(name: str, data: bytes) -> Iterator[str]:
    """Yield the texts in a file, archives and packed runs opened."""
    if ".tar." in name:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file is not None:
                    yield from texts(member.name, file.read())
    elif name.endswith((".npz", ".zip")):
        with zipfile.ZipFile(io.BytesIO(data)) as folder:
            for member_name in folder.namelist():
                yield from texts(member_name, folder.read(member_name))
    else:
        opened = {".xz": lzma.decompress, ".gz": gzip.decompress}.get(Path(name).suffix, bytes)(data)
        yield opened.decode("utf-8", "ignore")


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str) and " " in value:  # others are identifiers
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from strings(member)


def data_texts() -> Iterator[tuple[str, str]]:
    """Yield the texts of the official data, with the file of each.

    Public logs of models beside it are left out: their licences permit copies, and they quote games.
    """
    folder = Path(os.environ["AGENTGYM_DATA"])
    for path in sorted(set(folder.rglob("*.json*")) - set(folder.glob("logs/*"))):
        lines = path.read_text("utf-8").splitlines() if path.suffix == ".jsonl" else [path.read_text("utf-8")]
        for line in filter(None, lines):
            for text in strings(json.loads(line)):
                yield path.relative_to(folder).as_posix(), text


def numbers(found: set[tuple[str, ...]]) -> np.ndarray:
    """Return a number of each passage, in order: two are equal by a chance of one in 2^64."""
    return np.sort(np.fromiter(map(hash, found), np.int64, len(found)))


@pytest.fixture(scope="module")
def tracked() -> dict[str, np.ndarray]:
    """Return the numbers of every passage of the files that git tracks, by file."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    names = [name.decode() for name in listed.split(b"\0") if name]
    assert len(names) > 500
    return {name: numbers(set(_passages_of(name))) for name in names}


def _passages_of(name: str) -> Iterator[tuple[str, ...]]:
    for text in texts(name, (ROOT / name).read_bytes()):
        yield from passages(text)


def test_no_tracked_file_holds_text_of_the_data(tracked: dict[str, np.ndarray]) -> None:
    everything = np.unique(np.concatenate(list(tracked.values())))
    found, searched = {}, 0
    for source, text in data_texts():
        sought = set(passages(text))
        searched += len(sought)
        asked = numbers(sought)
        there = set(asked[everything[np.searchsorted(everything[:-1], asked)] == asked].tolist())
        for passage in (each for each in sought if hash(each) in there and is_text(each)):
            files = [name for name, inside in tracked.items() if hash(passage) in inside]
            found[f"{files} have text of {source}"] = " ".join(passage)
    assert searched > 1_000_000
    assert not found


def test_the_search_sees_into_packed_runs() -> None:
    source, text = next(item for item in data_texts() if len(list(passages(item[1]))) > 3)
    line = json.dumps({"actions": json.dumps([f"search[{text}]"])})
    (inside,) = texts("a.run.xz", lzma.compress(line.encode()))
    assert set(passages(text)) & set(passages(inside)), source
