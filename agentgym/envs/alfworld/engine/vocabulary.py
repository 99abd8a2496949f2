"""Vocabulary: the names of a game's objects in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def display_names(ids: Iterable[str]) -> dict[str, str]:
    """Name objects as ALFWorld does: the kind, and a number counted against the sorted order.

    The text before ``_bar_`` is the kind, with ``basin`` appended where the id mentions one; of n
    objects of a kind the first in sorted order has number n. An id without ``_bar_`` stays what it
    is, with a blank behind it. (alfworld 0.4.2, agents/utils/misc.py.)
    """
    kinds = {}
    names = {}
    for name in sorted(set(ids)):
        kind, bar, _ = name.partition("_bar_")
        if bar:
            kinds[name] = kind + "basin" if "basin" in name else kind
        else:
            names[name] = f"{name} "
    left = Counter(kinds.values())
    for name, kind in kinds.items():
        names[name] = f"{kind} {left[kind]}"
        left[kind] -= 1
    return names
