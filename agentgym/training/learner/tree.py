"""Shared-prefix packing: rows that begin alike are read once for as long as they agree.

The prompts of an episode, and of the attempts at one task, begin alike: with the instructions, the task and,
where the whole history is told, with all that was said before. The rows of a pack make a trie in which each
node is one token that is read once, however many rows go through it. A token sees its ancestors and
itself, which are the row up to there; so it has the hidden state that it has in a row of its own, up to
rounding, and the gradients of all rows that share it add up there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch

from agentgym.core.arrays import Ints
from agentgym.training.learner.packing import Pack, Packing, StepRow, check_packable, lay_out, pack_rows
from agentgym.training.models.pictures import Picture


def pack_tree(
    rows: Sequence[StepRow], *, token_budget: int, device: torch.device | str = "cpu"
) -> list[Pack]:
    """Pack rows so that those which share much lie together.

    Every response token is in exactly one pack. A row without any token is in none. All rows are of
    constrained or all of free responses. A pack has at most ``token_budget`` tokens, or as many as its
    longest row: rows that begin a longer row share its pack.

    Example:
        >>> rows = [StepRow((5, 6), (7, 8)), StepRow((4,), (9,)), StepRow((5, 6), (8, 7))]
        >>> pack, = pack_tree(rows, token_budget=8)
        >>> pack.rows.tolist(), pack.input_ids.tolist()
        ([1, 0, 2], [4, 5, 6, 7, 8])
        >>> pack.predictors.tolist(), pack.targets.tolist()
        ([0, 2, 3, 2, 4], [9, 7, 8, 8, 7])
    """
    check_packable(rows, token_budget)
    numbers: dict[Picture, int] = {}
    for row in rows:
        for picture in () if row.shown is None else row.shown.pictures:
            numbers.setdefault(picture, PICTURES + len(numbers))
    read = {place: row.told_apart(numbers) for place, row in enumerate(rows) if len(row) > 0}
    # in this byte order bytes compare as the tokens do
    order = sorted(read, key=lambda place: read[place].astype(">u4").tobytes())
    sizes = np.array([len(read[place]) for place in order], dtype=np.int64)
    shared = np.array(
        [0, *(_common(read[one], read[next_]) for one, next_ in pairwise(order))], dtype=np.int64
    )
    packs = []
    for begin, end in pairwise(_cuts(sizes, shared, token_budget)):
        packs.append((order[begin:end], [0, *shared[begin + 1 : end].tolist()]))
    return lay_out(rows, packs, device=device)


PICTURES = 1 << 31
"""Pictures are numbered from here on while rows are compared, above all token ids."""

PACKINGS: Mapping[Packing, Callable[..., list[Pack]]] = {"tree": pack_tree, "rows": pack_rows}
"""What packs rows, by its name."""


def _common(one: Ints, other: Ints) -> int:
    """Return the length of the common prefix."""
    least = min(len(one), len(other))
    differs = one[:least] != other[:least]
    return int(differs.argmax()) if differs.any() else least


def _cuts(sizes: Ints, shared: Ints, budget: int) -> list[int]:
    """Return the cuts of sorted rows into packs, 0 and their number included.

    A pack that begins at a row reads once more what that row shares with the one before. Cuts are where
    that is least, but a sixteenth of the budget counts as much as one more pack.

    ``sizes``: (n,) tokens of each row; ``shared``: (n,), with the one before.
    """
    count = len(sizes)
    if count == 0:
        return [0]
    totals = np.cumsum([0, *(sizes - shared)])  # of the whole trie up to each row
    nested = shared[1:] == sizes[:-1]
    cost = np.zeros(count + 1)
    previous = np.zeros(count + 1, dtype=np.int64)
    first = chain = 0
    for end in range(1, count + 1):
        if end > 1 and not nested[end - 2]:
            chain = end - 1  # the rows from here on begin one another
        while first < chain and shared[first] + totals[end] - totals[first] > budget:
            first += 1
        again = cost[first:end] + shared[first:end]
        previous[end] = first + int(again.argmin())
        cost[end] = again.min() + budget / 16
    cuts = [count]
    while cuts[-1] > 0:
        cuts.append(int(previous[cuts[-1]]))
    return cuts[::-1]
