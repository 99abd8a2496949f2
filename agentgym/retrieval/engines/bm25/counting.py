"""Counting the terms of documents: a block of texts at a time, in memory that does not grow with the corpus.

A block knows its terms by their digests alone, so that nothing but numbers is kept of a vocabulary; a second
digest beside each tells two terms of one digest apart.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentgym.errors import UsageError
from agentgym.retrieval.analysis import Analyser
from agentgym.retrieval.engines.bm25.postings import term_digest
from agentgym.retrieval.words import words

_SKIPPED = -1
"""Number of what is no term."""


@dataclass(frozen=True, slots=True)
class CountedBlock:
    """The pairs of t terms and d documents that follow one another in the corpus: p pairs."""

    terms: npt.NDArray[np.uint64]
    """[t] `term_digest` of each term, ascending."""
    checks: npt.NDArray[np.int64]
    """[t] a second digest, of 32 bits."""
    sizes: npt.NDArray[np.int64]
    """[t] documents of each term."""
    documents: npt.NDArray[np.int32]
    """[p] the documents of the terms in turn, ascending, counted from the block's first."""
    counts: npt.NDArray[np.int32]
    """[p] how often the document has the term."""
    lengths: npt.NDArray[np.int32]
    """[d] terms of each document, repetitions counted."""


def count_block(texts: Iterable[str], analyser: Analyser) -> CountedBlock:
    """Count the terms of some documents; two terms with one digest are a `UsageError`.

    Example:
        >>> block = count_block(["a red shirt", "red shoes, red laces"], Analyser())
        >>> len(block.terms), block.sizes.sum().item(), block.lengths.tolist()
        (4, 5, [2, 4])
    """
    numbers = _Numbers(analyser)
    seen, lengths = array("i"), array("i")
    for text in texts:
        found = [number for word in words(text) if (number := numbers[word]) != _SKIPPED]
        seen.extend(found)
        lengths.append(len(found))
    digests = np.fromiter(map(term_digest, numbers.terms), np.uint64, len(numbers.terms))
    order = np.argsort(digests)
    if np.any(digests[order][1:] == digests[order][:-1]):
        raise same_digest()
    checks = np.fromiter(map(_check, numbers.terms), np.int64, len(order))
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    documents = np.repeat(np.arange(len(lengths), dtype=np.int64), np.array(lengths, np.int64))
    keys = (places[np.array(seen, np.int32)] << 32) | documents
    keys.sort()
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(begins, append=len(keys)).astype(np.int32)
    keys = keys[begins]
    return CountedBlock(
        terms=digests[order],
        checks=checks[order],
        sizes=np.bincount(keys >> 32, minlength=len(order)),
        documents=keys.astype(np.int32),
        counts=counts,
        lengths=np.array(lengths, np.int32),
    )


def same_digest() -> UsageError:
    """Return the error of two terms that cannot be told apart."""
    return UsageError("two terms have one 64-bit digest: leave one of the documents out")


def _check(term: str) -> int:
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


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
