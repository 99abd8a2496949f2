"""Postings: which documents hold a term, and its weight in each; in memory or mapped from files."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from agentgym.errors import UsageError
from agentgym.files import writing


@dataclass(frozen=True, slots=True)
class Postings:
    """The arrays of an index of D documents with T terms and P pairs of a term and a document."""

    terms: npt.NDArray[np.uint64]
    """[T] `term_digest` of each term, ascending."""
    starts: npt.NDArray[np.int64]
    """[T + 1] where the documents of a term begin; the last is P."""
    documents: npt.NDArray[np.int32]
    """[P] documents of each term, ascending."""
    parts: npt.NDArray[np.float32]
    """[P] ``1 + frequency / norm``: a term of weight w adds ``w - w / part`` to the score."""
    ranks: npt.NDArray[np.int32]
    """[D] order among documents of one score."""
    ids: npt.NDArray[np.bytes_]
    """[D] ids of the documents, in UTF-8."""


class Allocate(Protocol):
    """Makes the array of a field of `Postings`."""

    def __call__(self, name: str, dtype: npt.DTypeLike, size: int) -> npt.NDArray[Any]:
        """Return an array of ``size`` entries, to be filled."""
        ...


def in_memory(name: str, dtype: npt.DTypeLike, size: int) -> npt.NDArray[Any]:
    """Make an array in memory; an `Allocate`."""
    return np.empty(size, dtype)


def in_files(folder: Path) -> Allocate:
    """Return what makes arrays as files of a folder, which `open_postings` reads."""

    def allocate(name: str, dtype: npt.DTypeLike, size: int) -> npt.NDArray[Any]:
        path = folder / f"{name}.npy"
        with writing(path):
            if size == 0:  # nothing can be mapped
                np.save(path, np.empty(0, dtype))
                return np.empty(0, dtype)
            mapped = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), (size,))
            with path.open("r+b") as file:  # a page that finds the disk full would end the process
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            return mapped

    return allocate


def open_postings(folder: Path) -> Postings:
    """Map the arrays from the files of a folder.

    Raises:
        UsageError: a file is missing or damaged.
    """
    arrays: dict[str, Any] = {}
    for field in fields(Postings):
        try:
            # as a plain array: slices of a `numpy.memmap` take longer than the search
            arrays[field.name] = np.asarray(np.load(folder / f"{field.name}.npy", mmap_mode="r"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{folder} is no whole index ({error}): delete it and build it again") from error
    return Postings(**arrays)


def term_digest(term: str) -> int:
    """Return the 64 bits that stand for a term."""
    raw = term.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little")
