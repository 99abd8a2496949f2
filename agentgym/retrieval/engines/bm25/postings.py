"""Postings: documents and impacts of each term; in memory or mapped from files.

A posting takes three bytes: 16 bits of the document's number and one byte, the *impact*, that stands for a
pair of frequency and length. Documents are numbered in *windows* of ``2 ** bits``; the postings of a term
within a window are a *run*, which knows the window and the most that the term adds to a score there, so that
a search passes over runs that cannot matter. Nothing has to be unpacked to be read. The few pairs beyond the
254 commonest have the impact `ODD`, and their parts are kept beside.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from agentgym.errors import UsageError
from agentgym.io.files import writing
from agentgym.io.records import parse
from agentgym.io.untrusted import read_json

FORMAT: Final = 2
"""Version of the files of a folder."""

LAYOUT: Final = "layout.json"

WINDOW_BITS: Final = 14
"""Default bits of a window."""

ODD: Final = 255
"""Impact of a posting whose part is kept beside."""

TOPS: Final = 255
"""A run's top is a share of the weight, rounded up, in so many steps."""


@dataclass(frozen=True, slots=True)
class Postings:
    """The arrays of an index of D documents with T terms, P postings in R runs, and O odd ones."""

    terms: npt.NDArray[np.uint64]
    """[T] `term_digest` of each term, ascending."""
    firsts: npt.NDArray[np.int64]
    """[T + 1] where the runs of a term begin; the last is R."""
    windows: npt.NDArray[np.uint16]
    """[R] window of each run, ascending within a term."""
    tops: npt.NDArray[np.uint8]
    """[R] the most of its weight that the term adds to a score in the run, in steps of 1 / `TOPS`."""
    starts: npt.NDArray[np.int64]
    """[R + 1] where the postings of a run begin; the last is P."""
    documents: npt.NDArray[np.uint16]
    """[P] documents, counted from the window's first, ascending within a run."""
    impacts: npt.NDArray[np.uint8]
    """[P] index into ``parts``; `ODD` where the part is in ``odd_parts``."""
    parts: npt.NDArray[np.float32]
    """[256] ``1 + frequency / norm``: a term of weight w adds ``w - w / part`` to the score. 1 for 0 and
    `ODD`."""
    odd_places: npt.NDArray[np.int64]
    """[O] the postings of impact `ODD`, ascending."""
    odd_parts: npt.NDArray[np.float32]
    """[O] their parts."""
    ranks: npt.NDArray[np.int32]
    """[D] order of the documents' ids, which decides among documents of one score."""
    id_ends: npt.NDArray[np.int64]
    """[D] where each id ends in ``id_bytes``."""
    id_bytes: npt.NDArray[np.uint8]
    """The ids in UTF-8, one after another."""
    bits: int = WINDOW_BITS
    """A window has ``2 ** bits`` documents."""

    def ids(self, documents: npt.NDArray[np.int32]) -> list[str]:
        """Return the ids of documents, given their numbers."""
        ends, raw = self.id_ends, self.id_bytes
        return [
            raw[int(ends[number - 1]) if number else 0 : int(ends[number])]
            .tobytes()
            .decode("utf-8", "surrogatepass")
            for number in documents.tolist()
        ]


ARRAYS: Final = tuple(field.name for field in fields(Postings) if field.name != "bits")
"""Arrays of `Postings`; each is a file of a folder."""

_TYPES: Final[dict[str, np.dtype[Any]]] = {
    **dict.fromkeys(("firsts", "starts", "odd_places", "id_ends"), np.dtype(np.int64)),
    **dict.fromkeys(("parts", "odd_parts"), np.dtype(np.float32)),
    **dict.fromkeys(("windows", "documents"), np.dtype(np.uint16)),
    **dict.fromkeys(("tops", "impacts", "id_bytes"), np.dtype(np.uint8)),
    "terms": np.dtype(np.uint64),
    "ranks": np.dtype(np.int32),
}


@dataclass(frozen=True, slots=True)
class _Layout:
    """Content of `LAYOUT`."""

    format: int
    bits: int


Allocate: TypeAlias = Callable[[str, int], npt.NDArray[Any]]
"""Makes the array of a field of `Postings`, given its name and the number of entries."""


def in_memory(name: str, size: int) -> npt.NDArray[Any]:
    """Make an array in memory; an `Allocate`."""
    return np.empty(size, _TYPES[name])


def in_files(folder: Path) -> Allocate:
    """Return the allocator of arrays as files of a folder, which `open_postings` reads."""

    def allocate(name: str, size: int) -> npt.NDArray[Any]:
        path = folder / f"{name}.npy"
        with writing(path):
            if size == 0:  # nothing can be mapped
                np.save(path, np.empty(0, _TYPES[name]))
                return np.empty(0, _TYPES[name])
            mapped = np.lib.format.open_memmap(path, "w+", _TYPES[name], (size,))
            with path.open("r+b") as file:  # a page that finds the disk full would end the process
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            return mapped

    return allocate


def open_postings(folder: Path) -> Postings:
    """Map the arrays from the files of a folder."""
    again = "delete it and build it again"
    if not (folder / LAYOUT).is_file():
        raise UsageError(f"{folder} is not a complete index, or has an old format (no {LAYOUT}): {again}")
    layout = _read_layout(folder / LAYOUT)
    if layout.format != FORMAT or not 1 <= layout.bits <= 16:
        raise UsageError(f"{folder} has the format {layout.format}, not {FORMAT}: {again}")
    arrays: dict[str, Any] = {}
    for name in ARRAYS:
        try:
            # a plain array: slices of a `numpy.memmap` take longer than the search
            arrays[name] = np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r"))
            if arrays[name].dtype != _TYPES[name] or arrays[name].ndim != 1:
                raise ValueError(f"{name} holds {arrays[name].dtype}")
        except (OSError, ValueError, EOFError) as error:
            raise UsageError(f"{folder} is not a complete index ({error}): {again}") from error
    postings = Postings(**arrays, bits=layout.bits)
    if not _fit(postings):
        raise UsageError(f"{folder} is not a complete index (its arrays do not fit together): {again}")
    return postings


def write_layout(folder: Path, postings: Postings) -> None:
    """Write what `open_postings` looks at first."""
    (folder / LAYOUT).write_text(json.dumps(asdict(_Layout(FORMAT, postings.bits))), encoding="utf-8")


def _read_layout(path: Path) -> _Layout:
    try:
        return parse(_Layout, read_json(path), str(path))
    except UsageError as error:
        raise UsageError(f"{path} is damaged ({error}): delete {path.parent} and build it again") from error


def _fit(postings: Postings) -> bool:
    """Return whether the arrays have the sizes that follow from each other."""
    runs, pairs = len(postings.windows), len(postings.documents)
    return (
        len(postings.firsts) == len(postings.terms) + 1
        and (len(postings.tops), len(postings.starts), len(postings.impacts)) == (runs, runs + 1, pairs)
        and len(postings.parts) == 256
        and len(postings.odd_parts) == len(postings.odd_places)
        and len(postings.ranks) == len(postings.id_ends)
        and (int(postings.firsts[-1]), int(postings.starts[-1])) == (runs, pairs)
        and (int(postings.id_ends[-1]) if len(postings.id_ends) else 0) == len(postings.id_bytes)
    )


def term_digest(term: str) -> int:
    """Return the 64 bits that stand for a term."""
    raw = term.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little")
