"""Counting the terms of documents, within memory that does not grow with the pairs of term and document."""

from __future__ import annotations

import math
from array import array
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from agentgym.errors import UsageError
from agentgym.files import writing
from agentgym.retrieval.analysis import Analyser
from agentgym.retrieval.lengths import LENGTHS, encode_lengths
from agentgym.retrieval.postings import Allocate, Postings, term_digest
from agentgym.retrieval.words import words

BLOCK = 1 << 23
"""Words that are sorted at a time."""

_SKIPPED = -1
"""Number of what is no term."""


class _Pairs(NamedTuple):
    """Pairs of a term and a document, sorted."""

    terms: npt.NDArray[np.int32]
    documents: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]


class TermCounter:
    """Takes documents one after another, then lays out their postings.

    Example:
        >>> import tempfile
        >>> from agentgym.retrieval.postings import in_memory
        >>> counter = TermCounter(Analyser(), Path(tempfile.mkdtemp()))
        >>> for text in ("a red shirt", "red shoes, red laces"):
        ...     counter.add(text)
        >>> postings = counter.lay_out(in_memory, np.array([b"x", b"y"]), k1=0.9, b=0.4)
        >>> len(postings.terms), len(postings.documents)
        (4, 5)
    """

    def __init__(self, analyser: Analyser, spool: Path | None):
        """Begin.

        Args:
            analyser: makes words terms.
            spool: a folder for blocks of sorted pairs; None keeps them in memory.
        """
        self._numbers = _Numbers(analyser)
        self._spool = spool
        self._words = array("i")
        self._lengths = array("i")
        self._sorted = 0  # documents whose pairs are in blocks
        self._blocks: list[Path | npt.NDArray[np.int32]] = []

    def __len__(self) -> int:
        """Number of documents."""
        return len(self._lengths)

    @property
    def filled(self) -> int:
        """Number of documents that have a term."""
        return sum(length > 0 for length in self._lengths)

    def add(self, text: str) -> None:
        """Count the next document."""
        numbers = self._numbers
        found = [number for word in words(text) if (number := numbers[word]) != _SKIPPED]
        self._words.extend(found)
        self._lengths.append(len(found))
        if len(self._words) >= BLOCK:
            self._sort()

    def lay_out(self, allocate: Allocate, ids: npt.NDArray[np.bytes_], k1: float, b: float) -> Postings:
        """Return the postings of all documents.

        Args:
            allocate: makes the arrays.
            ids: [D] of the documents; those of one score are found in the order of their ids.
            k1: how late repetitions of a term stop to count.
            b: how far long documents are held back, 0 to 1.

        Raises:
            UsageError: a parameter is out of its range, or two terms have one digest.
        """
        if not (0 < k1 < math.inf and 0 <= b <= 1):
            raise UsageError(f"BM25 takes k1 > 0 and 0 <= b <= 1, not k1 = {k1} and b = {b}")
        self._sort()
        postings, free = self._allocate(allocate, ids)
        inverse = _inverse_norms(np.array(self._lengths, np.int32), k1, b)
        for block in self._blocks:
            pairs = _read(block)
            begins = np.flatnonzero(np.diff(pairs.terms, prepend=_SKIPPED))
            sizes = np.diff(begins, append=len(pairs.terms))
            present = pairs.terms[begins]
            places = np.arange(len(pairs.terms)) + np.repeat(free[present] - begins, sizes)
            postings.documents[places] = pairs.documents
            postings.parts[places] = (
                np.float32(1) + pairs.counts.astype(np.float32) * inverse[pairs.documents]
            )
            free[present] += sizes
        return postings

    def _sort(self) -> None:
        """Put the words at hand away as sorted pairs."""
        lengths = np.array(self._lengths[self._sorted :], np.int32)
        documents = np.repeat(np.arange(self._sorted, self._sorted + len(lengths), dtype=np.int64), lengths)
        keys = (np.array(self._words, np.int64) << 32) | documents
        keys.sort()
        begins = np.flatnonzero(np.diff(keys, prepend=-1))
        counts = np.diff(begins, append=len(keys)).astype(np.int32)
        keys = keys[begins]
        block = np.stack([(keys >> 32).astype(np.int32), keys.astype(np.int32), counts])
        if self._spool is None:
            self._blocks.append(block)
        else:
            path = self._spool / f"pairs{len(self._blocks)}.npy"
            with writing(path):
                np.save(path, block)
            self._blocks.append(path)
        self._sorted = len(self._lengths)
        del self._words[:]

    def _allocate(
        self, allocate: Allocate, ids: npt.NDArray[np.bytes_]
    ) -> tuple[Postings, npt.NDArray[np.int64]]:
        """Make the arrays, and tell where the documents of each term number begin."""
        terms = self._numbers.terms
        digests = np.fromiter(map(term_digest, terms), np.uint64, len(terms))
        order = np.argsort(digests)
        if np.any(np.diff(digests[order]) == 0):
            raise UsageError("two terms have one 64-bit digest: leave one of the documents out")
        sizes = np.zeros(len(terms), np.int64)
        for block in self._blocks:
            sizes += np.bincount(_read(block).terms, minlength=len(terms))
        postings = Postings(
            terms=allocate("terms", np.uint64, len(terms)),
            starts=allocate("starts", np.int64, len(terms) + 1),
            documents=allocate("documents", np.int32, int(sizes.sum())),
            parts=allocate("parts", np.float32, int(sizes.sum())),
            ranks=allocate("ranks", np.int32, len(ids)),
            ids=allocate("ids", ids.dtype, len(ids)),
        )
        postings.terms[:] = digests[order]
        postings.starts[0] = 0
        np.cumsum(sizes[order], out=postings.starts[1:])
        postings.ranks[np.argsort(ids, kind="stable")] = np.arange(len(ids))
        postings.ids[:] = ids
        free = np.empty(len(terms), np.int64)
        free[order] = postings.starts[:-1]
        return postings, free


class _Numbers(dict[str, int]):
    """The number of each word's term, in order of first appearance."""

    def __init__(self, analyser: Analyser):
        self._analyser = analyser
        self.terms: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        term = self._analyser[word]
        number = self.terms.setdefault(term, len(self.terms)) if term else _SKIPPED
        self[word] = number
        return number


def _read(block: Path | npt.NDArray[np.int32]) -> _Pairs:
    return _Pairs(*(np.load(block, mmap_mode="r") if isinstance(block, Path) else block))


def _inverse_norms(lengths: npt.NDArray[np.int32], k1: float, b: float) -> npt.NDArray[np.float32]:
    """Return ``1 / norm`` of each document, in the precision and with the rounding of Lucene."""
    one, k, slope = np.float32(1), np.float32(k1), np.float32(b)
    average = np.float32(lengths.sum(dtype=np.int64) / max(1, np.count_nonzero(lengths)))
    kept = np.maximum(LENGTHS, 1).astype(np.float32)  # nothing is asked of documents without a term
    relative = kept / max(average, one)
    table = one / (k * ((one - slope) + slope * relative))
    return table[encode_lengths(lengths)]
