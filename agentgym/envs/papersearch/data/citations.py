"""Citation graph with dates: a corpus without its texts, in arrays that a file is mapped into.

`benchmarks/retrieval/papers.md` compares the file with SQLite.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from agentgym.data.recordfile import RecordFile, RecordWriter
from agentgym.envs.papersearch.data.fields import plain_id
from agentgym.errors import UsageError

Numbers = npt.NDArray[np.int32]

CITATIONS: Final = "citations.records"
"""Name of a corpus's file of citations, beside its passages."""

FORMAT: Final = "citations/1"


class CitationLists(NamedTuple):
    """One direction of the citations, as compressed sparse rows.

    Example:
        >>> lists = CitationLists.of(np.array([2, 0, 2]), np.array([1, 2, 0]), 3)
        >>> [lists.row(number).tolist() for number in range(3)]
        [[2], [], [1, 0]]
    """

    starts: npt.NDArray[np.int64]
    """(D + 1,): where each paper's row begins, and the end of the last."""
    papers: Numbers
    """(E,): rows one after another."""

    @classmethod
    def of(cls, owners: npt.NDArray[np.integer], papers: npt.NDArray[np.integer], count: int) -> Self:
        """Group edges by owner; a row keeps the order that its edges are given in."""
        starts = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(owners, minlength=count), out=starts[1:])
        order = np.argsort(owners, kind="stable")
        return cls(starts, papers[order].astype(np.int32))

    def row(self, number: int) -> Numbers:
        """Return the row of a paper."""
        return self.papers[self.starts[number] : self.starts[number + 1]]


class CitationGraph(NamedTuple):
    """Numbered papers: dates, ids, and citations in both directions.

    Example:
        >>> graph = CitationGraph.of(["a", "b"], [20010000, 20020000], [True, False], [(1, 0)])
        >>> graph.number_of("b"), graph.number_of("c"), graph.cited.row(1).tolist()
        (1, None, [0])
    """

    dates: Numbers
    """(D,): ``year * 10000 + month * 100 + day``, with 0 for what is not known."""
    sorted_dates: Numbers
    """(D,) in ascending order."""
    has_abstract: npt.NDArray[np.bool_]
    """(D,)"""
    names: npt.NDArray[np.uint64]
    """(D,): digests of the ids without versions, in ascending order."""
    order: Numbers
    """(D,): the papers that `names` are of."""
    cited: CitationLists
    """Papers that each paper cites, in the order of its references."""
    citing: CitationLists
    """Papers that cite each paper, the latest first."""

    @classmethod
    def of(
        cls,
        ids: Iterable[str],
        dates: Sequence[int] | Numbers,
        has_abstract: Sequence[bool] | npt.NDArray[np.bool_],
        edges: Sequence[tuple[int, int]] | npt.NDArray[np.integer],
    ) -> Self:
        """Lay out a graph.

        ``edges``: (E, 2), the citing paper and the cited one, a paper's in the order of its references. Ids
        must differ, versions apart.
        """
        when = np.asarray(dates, np.int32)
        digests = np.fromiter(map(_digest, ids), np.uint64, len(when))
        order = np.argsort(digests, kind="stable").astype(np.int32)
        names = digests[order]
        twice = np.flatnonzero(names[1:] == names[:-1])
        if len(twice):
            first, second = sorted(order[twice[0] : twice[0] + 2].tolist())
            raise UsageError(f"papers {first} and {second} have one id: leave the second one out")
        owners, targets = np.asarray(edges, np.int32).reshape(-1, 2).T
        latest_first = np.lexsort((owners, -when[owners]))
        return cls(
            when,
            np.sort(when),
            np.asarray(has_abstract, np.bool_),
            names,
            order,
            CitationLists.of(owners, targets, len(when)),
            CitationLists.of(targets[latest_first], owners[latest_first], len(when)),
        )

    def number_of(self, id: str) -> int | None:
        """Return the number of the paper with an id, of whatever version; None where there is none."""
        name = np.uint64(_digest(id))
        place = int(self.names.searchsorted(name))
        return int(self.order[place]) if place < len(self.names) and self.names[place] == name else None

    def sha256(self) -> str:
        """Return 64 hex digits over dates and citations."""
        digest = hashlib.sha256()
        for column in self._columns().values():
            digest.update(np.ascontiguousarray(column, column.dtype.newbyteorder("<")).data)
        return digest.hexdigest()

    def write(self, path: Path) -> None:
        """Write the file that `open_citations` maps."""
        with RecordWriter(path) as writer:
            writer.finish(self._columns(), {"format": FORMAT, "sha256": self.sha256()})

    def _columns(self) -> dict[str, npt.NDArray[np.generic]]:
        return {
            "dates": self.dates,
            "sorted_dates": self.sorted_dates,
            "has_abstract": self.has_abstract,
            "names": self.names,
            "order": self.order,
            "cited_starts": self.cited.starts,
            "cited": self.cited.papers,
            "citing_starts": self.citing.starts,
            "citing": self.citing.papers,
        }


def open_citations(path: Path) -> tuple[CitationGraph, str]:
    """Map a file of citations; return the graph and its sha256."""
    file = RecordFile(path, FORMAT, "citations")
    columns = file.columns
    graph = CitationGraph(
        columns["dates"],
        columns["sorted_dates"],
        columns["has_abstract"],
        columns["names"],
        columns["order"],
        CitationLists(columns["cited_starts"], columns["cited"]),
        CitationLists(columns["citing_starts"], columns["citing"]),
    )
    return graph, str(file.about["sha256"])


def _digest(id: str) -> int:
    return int.from_bytes(
        hashlib.blake2b(plain_id(id).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )
