"""Shared-prefix packing: the shared beginning of rows is read once.

The prompts of an episode, and of the attempts at one task, begin alike: with the instructions, the task and,
if prompts have the whole history, all earlier turns. The rows of a pack make a trie in which each node is one
token that is read once, however many rows contain it. A token attends to its ancestors and itself, which are
the row up to there; so its hidden state equals that in a row of its own, up to rounding, and the gradients of
all rows that share it add up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import torch

from agentgym.core.arrays import Ints
from agentgym.inference.models.pictures import Picture
from agentgym.training.learner.config import Packing
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.packing import (
    Layout,
    Pack,
    StepRow,
    check_packable,
    lay_out,
    pack_rows,
    row_layouts,
)


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
    return lay_out(rows, tree_layouts(rows)(token_budget), device=device)


def tree_layouts(rows: Sequence[StepRow]) -> Callable[[int], list[Layout]]:
    """Return what cuts rows into the packs of `pack_tree`, by the token budget."""
    numbers: dict[Picture, int] = {}
    for row in rows:
        for picture in row.pictures:
            numbers.setdefault(picture, PICTURES + len(numbers))
    read = {place: row.ids_with_pictures(numbers) for place, row in enumerate(rows) if len(row) > 0}
    # big-endian bytes compare as the tokens do
    order = sorted(read, key=lambda place: read[place].astype(">u4").tobytes())
    sizes = np.array([len(read[place]) for place in order], dtype=np.int64)
    shared = np.array(
        [0, *(_common(read[one], read[next_]) for one, next_ in pairwise(order))], dtype=np.int64
    )

    def cut(budget: int) -> list[Layout]:
        cuts = pairwise(_cuts(sizes, shared, budget))
        return [(order[begin:end], [0, *shared[begin + 1 : end].tolist()]) for begin, end in cuts]

    return cut


PICTURES = 1 << 31
"""First number of pictures in the comparison of rows, above all token ids."""

PACKINGS: Mapping[Packing, Callable[..., list[Pack]]] = {"tree": pack_tree, "rows": pack_rows}
"""Functions that pack rows, by name."""


def own_packs(
    rows: Sequence[StepRow],
    *,
    token_budget: int,
    ranks: Ranks,
    packing: Packing = "tree",
    device: torch.device | str = "cpu",
) -> list[tuple[Pack, bool]]:
    """Return this rank's packs, as many as every other rank's, and whether each counts.

    A single rank has the packs of `PACKINGS`. Several ranks need no more rounds, with one pack a rank each,
    and have packs of about equal sizes, since a round takes as long as its largest. Only own packs are laid
    out. A pack without pictures gets one without tokens if another rank's pack of the round has some: the
    encoder's weights are sharded, so all ranks have to call it.
    """
    check_packable(rows, token_budget)
    cut = tree_layouts(rows) if packing == "tree" else row_layouts(rows)
    layouts = cut(token_budget) if ranks.size == 1 else balanced_layouts(rows, cut, token_budget, ranks.size)
    dealt = ranks.deal(layouts)
    packs = lay_out(rows, (layout for layout, _ in dealt), device=device)
    for place, pack in enumerate(packs):
        members = chain.from_iterable(layout[0] for layout in layouts[place * ranks.size :][: ranks.size])
        shown = [picture for row in members for picture in rows[row].pictures]
        if shown and not pack.pictures:
            packs[place] = replace(pack, pictures=(min(shown, key=lambda picture: picture.tokens),))
    return [(pack, counts) for pack, (_, counts) in zip(packs, dealt, strict=True)]


def balanced_layouts(
    rows: Sequence[StepRow], cut: Callable[[int], list[Layout]], budget: int, ranks: int
) -> list[Layout]:
    """Return packs for several ranks, the largest first: of the least budget that takes no further round."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)

    def size(layout: Layout) -> int:
        return int(lengths[list(layout[0])].sum()) - sum(layout[1])

    found = cut(budget)
    most = -(-len(found) // ranks) * ranks
    low, high = sum(map(size, found)) // max(most, 1), max(map(size, found), default=0)
    while high - low > max(low // _PRECISION, 1):
        middle = (low + high) // 2
        packs = cut(middle)
        if len(packs) <= most:
            found, high = packs, middle
        else:
            low = middle
    return sorted(found, key=size, reverse=True)


_PRECISION = 64
"""Precision of the search for several ranks' budget: a 64th of it."""


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
    totals = np.cumsum([0, *(sizes - shared)])  # sizes of the trie up to each row
    nested = shared[1:] == sizes[:-1]
    cost = np.zeros(count + 1)
    previous = np.zeros(count + 1, dtype=np.int64)
    first = chain = 0
    for end in range(1, count + 1):
        if end > 1 and not nested[end - 2]:
            chain = end - 1  # each row from here on is a beginning of the next
        while first < chain and shared[first] + totals[end] - totals[first] > budget:
            first += 1
        again = cost[first:end] + shared[first:end]
        previous[end] = first + int(again.argmin())
        cost[end] = again.min() + budget / 16
    cuts = [count]
    while cuts[-1] > 0:
        cuts.append(int(previous[cuts[-1]]))
    return cuts[::-1]
