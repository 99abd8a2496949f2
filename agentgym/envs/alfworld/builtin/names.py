"""Ids and names of furniture and objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

BASINS = {"sinkbasin": "sink", "bathtubbasin": "bathtub"}
"""Furniture whose ids end in ``basin``, which naming appends to the kind."""


def ids(kinds: Sequence[str]) -> list[str]:
    """Return an id for each object: the kind and a number, in the form that ALFRED's ids have.

    Example:
        >>> ids(["shelf", "shelf", "sinkbasin"])
        ['shelf_bar_01', 'shelf_bar_02', 'sink_bar_01_basin']
    """
    return [
        f"{BASINS[kind]}_bar_{number:02}_basin" if kind in BASINS else f"{kind}_bar_{number:02}"
        for kind, number in _numbered(kinds)
    ]


def names(kinds: Sequence[str]) -> list[str]:
    """Return the name that sentences give each object: the first of a kind has the highest number.

    Example:
        >>> names(["shelf", "shelf", "sinkbasin"])
        ['shelf 2', 'shelf 1', 'sinkbasin 1']
    """
    totals = Counter(kinds)
    return [f"{kind} {totals[kind] - number + 1}" for kind, number in _numbered(kinds)]


def _numbered(kinds: Sequence[str]) -> list[tuple[str, int]]:
    """Count each kind from 1 in the order given."""
    counts: dict[str, int] = {}
    numbered = []
    for kind in kinds:
        number = counts[kind] = counts.get(kind, 0) + 1
        numbered.append((kind, number))
    return numbered
