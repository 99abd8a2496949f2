"""State matching: the groups of steps taken in the same state, which step-level methods compare within.

States are matched within a group (one task instance) only. ``"state"`` compares the environment's own
state, ``"text"`` the observation's exact text (what GiGPO, HGPO and 3SPO did), ``"similar"`` and
``"embedding"`` join observations that are nearly the same: each takes the first cluster whose first member
is at least ``threshold`` alike (difflib's ratio, cosine) or opens one, so these two depend on the order of
the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

import numpy as np

from agentgym.algos.advantage import joint
from agentgym.algos.batch import StepBatch
from agentgym.core.arrays import Floats, Ints
from agentgym.core.options import POSITIVE_UNIT, check_choice
from agentgym.core.stopwatch import stage

Match: TypeAlias = Literal["state", "text", "similar", "embedding"]


@stage("grouping")
def match_states(batch: StepBatch, match: Match = "state", *, threshold: float = 0.95) -> Ints:
    """Number the states acted in; equal numbers are one state of one group.

    Args:
        batch: the steps; ``texts`` or ``embeddings`` where the match needs them.
        match: criterion by which two states are the same.
        threshold: least similarity of observations under ``"similar"`` and ``"embedding"``, in (0, 1].

    Returns:
        (n,) numbers from 0.

    Raises:
        ValueError: an unknown match, a threshold out of range, or the column the match needs is missing.

    Example:
        >>> batch = StepBatch.of(group=[0, 0, 1], trajectory=[0, 1, 2], state="AAA", reward=[0, 0, 0],
        ...                      texts=("one key", "two keys", "one key"))
        >>> match_states(batch).tolist(), match_states(batch, "text").tolist()
        ([0, 0, 1], [0, 1, 2])
    """
    check_choice("match", match, Match)
    POSITIVE_UNIT.check("threshold", threshold)
    if match == "state":
        check_known("state", batch.state)
        return joint(batch.group, batch.state)
    if match == "embedding":
        return _embedding_clusters(batch, threshold)
    if batch.texts is None:
        raise ValueError(f'texts is missing: match="{match}" needs the observation of each step')
    if match == "text":
        return joint(batch.group, _first_seen(batch.texts))
    return _similar_clusters(batch, threshold)


def match_actions(batch: StepBatch) -> Ints:
    """Number the actions by their texts; equal numbers are one text.

    Raises:
        ValueError: ``actions`` is missing.

    Example:
        >>> batch = StepBatch.of(group=[0] * 3, trajectory=[0] * 3, state="AAA", reward=[0] * 3,
        ...                      actions=("left", "right", "left"))
        >>> match_actions(batch).tolist()
        [0, 1, 0]
    """
    if batch.actions is None:
        raise ValueError("actions is missing: give the text of each step's action")
    return _first_seen(batch.actions)


def group_sizes(anchor: Ints) -> Ints:
    """Count, for each row, the rows that share its number; GiGPO's Figure 5 is the histogram of this.

    Args:
        anchor: (n,) as `match_states` returns.

    Example:
        >>> group_sizes(np.array([0, 1, 0])).tolist()
        [2, 1, 2]
    """
    return np.bincount(anchor)[anchor]


STATE_GROUPS = (("1", 1), ("2", 2), ("3-4", 4), ("5-8", 8), ("9-16", 16), ("17+", None))
"""Names of the classes that sizes of step groups fall into, and the largest size of each."""


def step_group_sizes(steps: StepBatch) -> dict[str, int]:
    """Count steps by how many steps of their task were taken in the same state (GiGPO, Figure 5).

    Example:
        >>> steps = StepBatch.of(group=[0, 0, 0], trajectory=[0, 0, 1], state="aba", reward=[0, 0, 0])
        >>> step_group_sizes(steps)
        {'1': 1, '2': 2, '3-4': 0, '5-8': 0, '9-16': 0, '17+': 0}
    """
    sizes = group_sizes(joint(steps.group, steps.state))
    result, least = {}, 0
    for name, most in STATE_GROUPS:
        result[name] = int(((sizes > least) & (sizes <= (most or sizes.max(initial=0)))).sum())
        least = most or least
    return result


def check_known(name: str, column: Ints) -> None:
    """Refuse a column of states in which one is unknown.

    Raises:
        ValueError: names the column, the row and the fix.
    """
    if (column < 0).any():
        row = int(np.flatnonzero(column < 0)[0])
        raise ValueError(f"{name} is missing on row {row}: give every state's hash, or match by text instead")


def _first_seen(texts: Sequence[str]) -> Ints:
    """Number texts in the order in which each is seen first."""
    names: dict[str, int] = {}
    return np.array([names.setdefault(text, len(names)) for text in texts], dtype=np.int64)


def _similar_clusters(batch: StepBatch, threshold: float) -> Ints:
    """Leader clustering of texts. Equal texts always fall together, so each is compared once a group."""
    assert batch.texts is not None
    leaders: dict[int, list[tuple[int, SequenceMatcher[str]]]] = {}
    placed: dict[tuple[int, str], int] = {}
    for row, key in enumerate(zip(batch.group.tolist(), batch.texts, strict=True)):
        if key in placed:
            continue
        for number, leader in leaders.setdefault(key[0], []):
            leader.set_seq1(key[1])
            # Two upper bounds of the ratio first: they are cheap and rule most pairs out.
            bounds = leader.real_quick_ratio, leader.quick_ratio, leader.ratio
            if all(bound() >= threshold for bound in bounds):
                placed[key] = number
                break
        else:
            leaders[key[0]].append((row, SequenceMatcher(None, "", key[1])))
            placed[key] = row
    rows = [placed[key] for key in zip(batch.group.tolist(), batch.texts, strict=True)]
    return joint(np.array(rows, dtype=np.int64))


def _embedding_clusters(batch: StepBatch, threshold: float) -> Ints:
    """Leader clustering of embeddings by cosine, one product per leader."""
    if batch.embeddings is None:
        raise ValueError('embeddings is missing: match="embedding" needs one vector per step')
    lengths = np.linalg.norm(batch.embeddings, axis=1)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        row = int(np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))[0])
        raise ValueError(f"embeddings must be finite and not zero: row {row} is not")
    unit: Floats = batch.embeddings / lengths[:, None]
    number = np.full(len(batch), -1, dtype=np.int64)
    for group in np.unique(batch.group):
        free = np.flatnonzero(batch.group == group)
        while len(free):
            alike = unit[free] @ unit[free[0]] >= threshold - 1e-12  # a vector is alike to itself
            number[free[alike]] = free[0]
            free = free[~alike]
    return joint(number)
