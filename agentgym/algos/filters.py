"""Filters of batches, dynamic sampling, and the overlong penalty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Literal, TypeAlias

import numpy as np

from agentgym.algos.batch import StepBatch
from agentgym.core.arrays import Bools, Floats, Ints
from agentgym.core.options import check_choice
from agentgym.core.types import Group

FilterOn: TypeAlias = Literal["return", "won", "accuracy"]
"""Criterion of a group that is trained on: the episodes' returns differ (DAPO), some of them succeed and
others fail (GraphGPO), or the share of successes is neither low nor high (PRIME)."""

ACCURACY = (0.2, 0.8)
"""Least and greatest share of successes that PRIME keeps."""

SAME = 1e-9
"""Largest difference of two equal returns: their rewards may have been added in another order."""


def varied(
    batch: StepBatch, filter_on: FilterOn = "return", accuracy: tuple[float, float] = ACCURACY
) -> Bools:
    """Mark the groups that a group-relative method can learn from.

    Args:
        batch: the steps.
        filter_on: criterion.
        accuracy: least and greatest share of successes, under "accuracy".

    Returns:
        (n,) True on the rows of groups whose episodes are not all alike. A group of one is alike.

    Example:
        >>> batch = StepBatch.of(group=[0, 0, 1, 1], trajectory=[0, 1, 2, 3], state="AAAA",
        ...                      reward=[1, 1, 0, 1])
        >>> varied(batch).tolist()
        [False, False, True, True]
    """
    check_choice("filter_on", filter_on, FilterOn)
    if filter_on == "accuracy":
        return within_accuracy(batch, batch.won.astype(np.float64), accuracy)
    value = batch.outcome if filter_on == "return" else batch.won.astype(np.float64)
    names, index = np.unique(batch.group, return_inverse=True)
    one = np.zeros(len(names))
    one[index] = value
    return np.bincount(index, np.abs(value - one[index]) > SAME, len(names))[index] > 0


def within_accuracy(batch: StepBatch, success: Floats, accuracy: tuple[float, float] = ACCURACY) -> Bools:
    """Mark (n,) the rows of groups that are neither too hard nor too easy.

    Args:
        batch: the steps.
        success: (n,) 0 or 1, whether the row's episode succeeded.
        accuracy: least and greatest share of successes that is kept.
    """
    first, group = batch.step == 0, np.unique(batch.group, return_inverse=True)[1]
    share = np.bincount(group[first], success[first]) / np.maximum(np.bincount(group[first]), 1)
    within: Bools = ((share >= accuracy[0]) & (share <= accuracy[1]))[group]
    return within


def select(batch: StepBatch, keep: Bools) -> StepBatch:
    """Return the rows that are kept; whole trajectories, or the batch's checks fail.

    Args:
        batch: the steps.
        keep: (n,).

    Raises:
        ValueError: the mask has another shape, or a trajectory is kept in part.
    """
    if np.shape(keep) != (len(batch),):
        raise ValueError(f"keep must have shape ({len(batch)},), not {np.shape(keep)}: one per step")

    def part(name: str) -> Any:
        column = getattr(batch, name)
        if isinstance(column, tuple):
            return tuple(entry for entry, keeps in zip(column, keep, strict=True) if keeps)
        return None if column is None else column[keep]

    return StepBatch(**{field.name: part(field.name) for field in fields(StepBatch)})


def dynamic_sampling(
    generate: Callable[[], Sequence[Group]],
    wanted: int,
    *,
    filter_on: FilterOn = "return",
    attempts: int = 10,
    accuracy: tuple[float, float] = ACCURACY,
) -> list[Group]:
    """Generate until enough groups vary (DAPO, Eq. 11; GraphGPO's +DS).

    The last attempt's groups are all kept, so that a policy that always or never succeeds still ends the
    iteration; they have advantage 0.

    Args:
        generate: plays one round of groups.
        wanted: number of groups to return; surplus is cut off.
        filter_on: criterion of a group.
        attempts: rounds played at most.
        accuracy: least and greatest share of successes, under "accuracy".

    Returns:
        At most ``wanted`` groups.
    """
    if attempts < 1:
        raise ValueError(f"attempts must be at least 1, not {attempts!r}")
    check_choice("filter_on", filter_on, FilterOn)
    chosen: list[Group] = []
    for attempt in range(1, attempts + 1):
        groups = generate()
        chosen += groups if attempt == attempts else [g for g in groups if varies(g, filter_on, accuracy)]
        if len(chosen) >= wanted:
            break
    return chosen[:wanted]


def varies(group: Group, filter_on: FilterOn = "return", accuracy: tuple[float, float] = ACCURACY) -> bool:
    """Return whether a group's episodes are not all alike.

    Args:
        group: the episodes.
        filter_on: criterion.
        accuracy: least and greatest share of successes, under "accuracy".
    """
    if filter_on == "accuracy":
        share = sum(t.won for t in group.trajectories) / max(len(group.trajectories), 1)
        return accuracy[0] <= share <= accuracy[1]
    values = [t.episode_return if filter_on == "return" else float(t.won) for t in group.trajectories]
    return max(values, default=0.0) - min(values, default=0.0) > SAME


def overlong_penalty(lengths: Ints, *, max_tokens: int, buffer: int, factor: float = 1.0) -> Floats:
    """Overlong penalty of responses (DAPO, Eq. 13): 0 until the buffer begins, ``-factor`` at the limit.

    In between it falls along a line: ``-(length - (max_tokens - buffer)) / buffer * factor``. A response that
    is longer than the limit pays what one at the limit does.

    Args:
        lengths: (n,) in tokens.
        max_tokens: the limit that generation ran under.
        buffer: the penalty grows over this many tokens before the limit.
        factor: the penalty at the limit.

    Returns:
        (n,) from ``-factor`` to 0.

    Example:
        >>> overlong_penalty(np.array([384, 448, 512, 4096]), max_tokens=512, buffer=128).tolist()
        [0.0, -0.5, -1.0, -1.0]
    """
    if not 0 < buffer <= max_tokens:
        raise ValueError(f"buffer must be between 1 and max_tokens ({max_tokens}), not {buffer!r}")
    if factor < 0:
        raise ValueError(f"factor must not be negative, not {factor!r}")
    excess = np.clip(lengths - (max_tokens - buffer), 0, buffer)
    return 0.0 - excess / buffer * factor
