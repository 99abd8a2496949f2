"""Checks of vector environments' arguments, made before any slot changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from agentgym.core.options import check_rollout, check_seed, is_whole
from agentgym.errors import UsageError
from agentgym.vector.batching import Starts


def as_slots(slots: Iterable[int], num_envs: int) -> list[int]:
    """Return slot numbers as a list: different whole numbers from 0 to ``num_envs - 1``, at least one."""
    chosen = as_sequence(slots, "slots")
    if not chosen:
        raise UsageError("no slot is named: give at least one")
    for slot in chosen:
        if not is_whole(slot):
            raise UsageError(f"a slot is a whole number from 0 to {num_envs - 1}, got {_shown(slot)}")
        if not 0 <= slot < num_envs:
            raise UsageError(f"slot {_shown(slot)} is outside 0 to {num_envs - 1}")
    chosen = [int(slot) for slot in chosen]
    if len(set(chosen)) != len(chosen):
        raise UsageError(f"slots must be different, got {chosen}")
    return chosen


def per_slot(values: Any, n: int, name: str) -> list[Any]:
    """Return a list of one value per slot, None for each where ``values`` is None."""
    if values is None:
        return [None] * n
    row = as_sequence(values, name)
    if len(row) != n:
        raise UsageError(f"{name} must have one entry per slot ({n}), got {len(row)}")
    return row


def as_actions(actions: Any, n: int) -> list[str]:
    """Return one action per slot as a list; `TypeError` where one is not a string."""
    row = as_sequence(actions, "actions")
    if len(row) != n:
        raise UsageError(f"expected a sequence of {n} actions, one per slot, got {len(row)} actions")
    if set(map(type, row)) == {str}:  # faster than a check of each; this runs at every step
        return row
    for action in row:
        if not isinstance(action, str):
            raise TypeError(f"actions are strings, got {type(action).__name__}: pass admissible actions")
    return row


def as_sequence(values: Any, name: str) -> list[Any]:
    """Return an ordered collection as a list; single strings are refused."""
    if type(values) in (list, tuple):
        return list(values)
    ordered = isinstance(values, Sequence) or (isinstance(values, np.ndarray) and values.ndim == 1)
    if not ordered or isinstance(values, str | bytes | bytearray | memoryview):
        raise UsageError(f"{name} must be a list with one entry per slot, got {_kind(values)}")
    return list(values)


def as_seeds(seed: Any, slots: Sequence[int], num_envs: int) -> list[int | None]:
    """Return the seeds of ``slots``: those of a list of N, or ``seed`` + i for slot i."""
    if isinstance(seed, Iterable):
        given = per_slot(seed, num_envs, "seed")
        return checked_seeds(given[slot] for slot in slots)
    first = check_seed(seed)
    return [None if first is None else first + slot for slot in slots]


def checked_seeds(seeds: Iterable[Any]) -> list[int | None]:
    """Return seeds as plain ints, or None."""
    return [None if seed is None else check_seed(seed) for seed in seeds]


def checked_count(num_envs: Any) -> int:
    """Return a number of slots as a plain int; UsageError unless it is whole and at least 1."""
    if not is_whole(num_envs) or num_envs < 1:
        raise UsageError(f"num_envs must be at least 1 and whole, got {_shown(num_envs)}")
    return int(num_envs)


def checked_mask(mask: Any, num_envs: int) -> list[int]:
    """Return the slots that a mask, bool[N], selects; all for None, none is refused."""
    if mask is None:
        return list(range(num_envs))
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (num_envs,):
        raise UsageError(f"reset_mask must be a numpy bool array of shape ({num_envs},)")
    slots: list[int] = np.flatnonzero(mask).tolist()
    if not slots:
        raise UsageError("reset_mask selects no slot: set at least one entry to True")
    return slots


def _kind(values: Any) -> str:
    if isinstance(values, str):
        return f"the string {values!r:.60}"
    if isinstance(values, Mapping | Set):
        return f"a {type(values).__name__}, which has no order of slots"
    return f"a value of type {type(values).__name__}"


def _shown(value: Any) -> str:
    return f"{value!r:.60}"


def checked_rollouts(rollouts: Iterable[Any]) -> list[int]:
    """Return indexes of attempts as plain ints, 0 for None; UsageError for any other value."""
    return [check_rollout(rollout) for rollout in rollouts]


def autoreset_mode_of(mode: AutoresetMode | str) -> AutoresetMode:
    """Return an autoreset mode by its name; UsageError for an unknown one."""
    try:
        return AutoresetMode(mode)
    except ValueError:
        known = ", ".join(repr(mode.value) for mode in AutoresetMode)
        raise UsageError(f"unknown autoreset_mode {mode!r}; choose one of {known}") from None


def one_step_limit(max_steps: int | None, max_episode_steps: int | None) -> int | None:
    """Return the one step limit given under either name; UsageError when they differ."""
    if max_steps is not None and max_episode_steps is not None and max_steps != max_episode_steps:
        raise UsageError(f"max_steps={max_steps} and max_episode_steps={max_episode_steps} differ: give one")
    return max_episode_steps if max_steps is None else max_steps


def check_groups(tasks: Sequence[str | None], starts: Starts) -> None:
    """Raise a UsageError unless slots that were given one task start from one state."""
    if not any(tasks) or "state_hash" not in starts.infos:  # arrays for numeric learners have no hashes
        return
    first_hash: dict[str, str] = {}
    for key, state in zip(tasks, starts.infos["state_hash"], strict=True):
        if key is not None and first_hash.setdefault(key, state) != state:
            raise UsageError(
                f"members of the group of task {key!r} start from different states "
                f"({first_hash[key]} and {state}): give them equal seeds"
            )
