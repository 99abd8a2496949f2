"""The ids of documents as one run of bytes, and their order."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from agentgym.errors import UsageError


class IdColumn:
    """Takes ids one after another, and keeps their bytes alone.

    Example:
        >>> column = IdColumn()
        >>> for id in ("B", "A", "AB"):
        ...     column.add(id)
        >>> column.order().tolist()
        [1, 2, 0]
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._raw = bytearray()
        self._ends = array("q")

    def __len__(self) -> int:
        """Number of ids."""
        return len(self._ends)

    def add(self, id: str) -> None:
        """Take the next id."""
        self._raw += id.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._raw))

    def ends(self) -> npt.NDArray[np.int64]:
        """Return the end of each id in `raw`."""
        return np.array(self._ends, np.int64)

    def raw(self) -> npt.NDArray[np.uint8]:
        """Return the bytes of all ids, one after another."""
        return np.frombuffer(bytes(self._raw), np.uint8)

    def order(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the ids in the order of their bytes; two equal ids are a `UsageError`."""
        ends, raw = self.ends(), self.raw()
        starts = ends - np.diff(ends, prepend=0)
        order = np.arange(len(ends))
        group = np.zeros(len(ends), np.int64)  # ids whose first bytes are equal, in `order`
        tied = np.arange(len(ends))  # places in `order` that are not decided
        depth = 0
        while len(tied):
            keys = _eight_bytes(raw, starts[order[tied]] + depth, ends[order[tied]])
            left = np.minimum(ends[order[tied]] - starts[order[tied]] - depth, 9)  # 9: more follow
            by = np.lexsort((left, keys, group[tied]))
            order[tied], keys, left = order[tied][by], keys[by], left[by]
            same = (np.diff(group[tied]) == 0) & (np.diff(keys) == 0) & (np.diff(left) == 0)
            twice = np.flatnonzero(same & (left[1:] < 9))
            if len(twice):
                number = int(order[tied[twice[0]]])
                id = raw[starts[number] : ends[number]].tobytes().decode("utf-8", "surrogatepass")
                raise UsageError(f"two documents have the id {id!r}: give each its own")
            group[tied] = np.cumsum(np.concatenate([[True], ~same]))
            open_ = np.concatenate([[False], same]) | np.concatenate([same, [False]])
            tied = tied[open_]
            depth += 8
        return order


def _eight_bytes(
    raw: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """Return the next eight bytes of each id as a number, zeros after its end."""
    keys = np.zeros(len(starts), np.uint64)
    for place in range(8):
        at = starts + place
        inside = at < ends
        keys <<= np.uint64(8)
        keys[inside] |= raw[at[inside]]
    return keys
