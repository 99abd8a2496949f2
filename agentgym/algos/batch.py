"""Step batches, the columns that advantage estimators read: one row per step, one step per model call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from agentgym.core.arrays import Bools, Floats, Ints
from agentgym.core.episodes import observed_text
from agentgym.core.types import Group

_INTEGERS = ("group", "trajectory", "step", "state", "next_state")
_FLOATS = ("reward", "outcome")
_FLAGS = ("won", "valid", "terminated", "truncated")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBatch:
    """n steps of m trajectories in k groups, as numpy columns.

    The steps of a trajectory are consecutive rows in the order in which they happened. Advantages are
    computed on exactly these rows, before anything is padded, repeated or dropped.

    Example:
        >>> batch = StepBatch.of(group=[0, 0, 0], trajectory=[0, 0, 1], state=[7, 8, 7],
        ...                      reward=[0.0, 10.0, 0.0])
        >>> batch.step.tolist(), batch.outcome.tolist()
        ([0, 1, 0], [10.0, 10.0, 0.0])
    """

    group: Ints
    """(n,) task instance: same task, same initial state."""
    trajectory: Ints
    """(n,) episode, unique over the batch."""
    step: Ints
    """(n,) position in the trajectory, from 0."""
    state: Ints
    """(n,) state acted in, as a number; equal numbers are equal states, -1 is an unknown one."""
    next_state: Ints
    """(n,) state that followed, numbered alike."""
    reward: Floats
    """(n,) reward of the step."""
    outcome: Floats
    """(n,) what the whole episode is worth, on each of its rows; by default its sum of rewards."""
    won: Bools
    """(n,) whether the episode succeeded, on each of its rows."""
    valid: Bools
    """(n,) whether the environment accepted the action."""
    terminated: Bools
    """(n,) the game ended at this step."""
    truncated: Bools
    """(n,) the step limit ended the episode at this step."""
    values: Floats | None = None
    """(n,) the critic's value of ``state``."""
    next_values: Floats | None = None
    """(n,) the critic's value of ``next_state``; used where an episode was truncated."""
    cost: Floats | None = None
    """(n,) what the step cost, as the environment says; not negative."""
    tokens: Ints | None = None
    """(n,) number of response tokens of the step."""
    progress: Floats | None = None
    """(n,) by how much the step changed the environment's own progress."""
    texts: tuple[str, ...] | None = None
    """n observations, for matching states by text."""
    embeddings: Floats | None = None
    """(n, d) of the observations, for matching states by similarity."""
    expansion: Ints | None = None
    """(n,) which expansion of a state the step is a sample of, where several were sampled from one state."""
    actions: tuple[str, ...] | None = None
    """n actions, for telling apart two that lead to the same state."""

    def __post_init__(self) -> None:
        """Check shapes and ranges.

        Raises:
            ValueError: names the column and what is wrong with it.
        """
        _check_lengths({field.name: getattr(self, field.name) for field in fields(self)})
        for name in (*_FLOATS, "values", "next_values", "cost", "progress"):
            column = getattr(self, name)
            if column is not None and not np.isfinite(column).all():
                row = int(np.flatnonzero(~np.isfinite(column))[0])
                raise ValueError(f"{name} must be finite, row {row} is {column[row]}")
        if self.cost is not None and (self.cost < 0).any():
            row = int(np.argmin(self.cost))
            raise ValueError(f"cost must not be negative, row {row} is {self.cost[row]}")
        if self.tokens is not None and (self.tokens < 0).any():
            raise ValueError("tokens must not be negative: give the number of response tokens of each step")
        self._check_trajectories()

    def _check_trajectories(self) -> None:
        starts = self.starts
        names = self.trajectory[starts]
        if len(np.unique(names)) != len(names):
            raise ValueError("trajectory: the steps of a trajectory must be consecutive rows")
        expected = np.arange(len(self.group)) - np.repeat(starts, self.lengths)
        if not np.array_equal(self.step, expected):
            row = int(np.flatnonzero(self.step != expected)[0])
            raise ValueError(f"step must count each trajectory from 0: row {row} is {self.step[row]}")
        for name in ("group", "outcome", "won"):
            column = getattr(self, name)
            if not np.array_equal(column, np.repeat(column[starts], self.lengths)):
                raise ValueError(f"{name} must be the same on all rows of a trajectory")

    @property
    def starts(self) -> Ints:
        """(m,) first row of each trajectory."""
        change = np.ones(len(self.trajectory), dtype=np.bool_)
        change[1:] = self.trajectory[1:] != self.trajectory[:-1]
        return np.flatnonzero(change)

    @property
    def lengths(self) -> Ints:
        """(m,) number of steps of each trajectory."""
        return np.diff(self.starts, append=len(self.trajectory))

    def __len__(self) -> int:
        """Number of steps, n."""
        return len(self.group)

    def with_columns(self, **columns: Any) -> Self:
        """Return a batch with some columns replaced."""
        return replace(self, **columns)

    @classmethod
    def of(cls, **columns: Any) -> Self:
        """Build a batch from sequences, filling in what follows from the rest.

        Args:
            **columns: fields of the batch. Needed are ``group``, ``trajectory``, ``state`` and
                ``reward``; states may be any hashable names. By default ``step`` counts, ``next_state``
                is the trajectory's next row (a state of its own after the last), ``outcome`` sums rewards,
                ``won`` is ``outcome > 0``, all actions are valid, and the last step terminates.

        Raises:
            ValueError: a needed column is missing, or as the constructor.
        """
        missing = [name for name in ("group", "trajectory", "state", "reward") if name not in columns]
        if missing:
            raise ValueError(f"{missing[0]} is missing: give one entry per step")
        _check_lengths(columns)
        n = len(columns["group"])
        states, following = _number_states(columns["state"], columns.get("next_state"))
        given: dict[str, Any] = {**columns, "state": states}
        trajectory = np.asarray(columns["trajectory"], dtype=np.int64)
        last = np.ones(n, dtype=np.bool_)
        last[:-1] = trajectory[1:] != trajectory[:-1]
        starts = np.flatnonzero(np.concatenate([[True], last[:-1]])) if n else np.zeros(0, dtype=np.int64)
        lengths = np.diff(starts, append=n)
        if following is None:
            after = np.arange(n) + (states.max(initial=-1) + 1)
            following = np.where(last, after, np.append(states[1:], 0)) if n else states
        given["next_state"] = following
        given.setdefault("step", np.arange(n) - np.repeat(starts, lengths))
        reward = np.asarray(columns["reward"], dtype=np.float64)
        if "outcome" not in given:
            sums = np.add.reduceat(reward, starts) if n else reward
            given["outcome"] = np.repeat(sums, lengths)
        given.setdefault("won", np.asarray(given["outcome"]) > 0)
        given.setdefault("valid", np.ones(n, dtype=np.bool_))
        given.setdefault("truncated", np.zeros(n, dtype=np.bool_))
        given.setdefault("terminated", last & ~np.asarray(given["truncated"], dtype=np.bool_))
        return cls(**{name: _column(name, value) for name, value in given.items()})

    @classmethod
    def from_groups(cls, groups: Sequence[Group], **columns: Any) -> Self:
        """Build a batch from rollouts, in the order of groups, members and steps.

        Args:
            groups: result of `agentgym.rollout.worker.RolloutWorker.collect`.
            **columns: further columns, such as ``values``.
        """
        members = [(g, trajectory) for g, group in enumerate(groups) for trajectory in group.trajectories]
        rows = [(g, t, step) for t, (g, trajectory) in enumerate(members) for step in trajectory.steps]
        lengths = [len(trajectory.steps) for _, trajectory in members]
        steps = [step for _, _, step in rows]
        return cls.of(
            group=[g for g, _, _ in rows],
            trajectory=[t for _, t, _ in rows],
            state=[step.state_hash for step in steps],
            next_state=[step.next_state_hash for step in steps],
            reward=[step.reward for step in steps],
            won=np.repeat([trajectory.won for _, trajectory in members], lengths),
            valid=[step.valid for step in steps],
            terminated=[step.terminated for step in steps],
            truncated=[step.truncated for step in steps],
            cost=[step.cost for step in steps],
            tokens=[len(step.completion.response_ids) for step in steps],
            progress=[step.progress for step in steps],
            texts=tuple(observed_text(step.observation) for step in steps),
            actions=tuple(step.action for step in steps),
            **columns,
        )


def _check_lengths(columns: Mapping[str, Any]) -> None:
    n = len(columns["group"])
    for name, column in columns.items():
        if column is not None and len(column) != n:
            raise ValueError(f"{name} has {len(column)} rows, group has {n}: give one entry per step")


def _number_states(states: Any, following: Any) -> tuple[Ints, Ints | None]:
    """Number states in order of first appearance, whatever names them; None and "" are no state, -1."""
    numbers: dict[Any, int] = {None: -1, "": -1}

    def number(names: Any) -> Ints:
        values = names.tolist() if isinstance(names, np.ndarray) else names
        return np.array([numbers.setdefault(name, len(numbers) - 2) for name in values], dtype=np.int64)

    return number(states), None if following is None else number(following)


def _column(name: str, value: Any) -> Any:
    if value is None or name in ("texts", "actions"):
        return None if value is None else tuple(value)
    if name in _INTEGERS or name in ("tokens", "expansion"):
        return np.asarray(value, dtype=np.int64)
    if name in _FLAGS:
        return np.asarray(value, dtype=np.bool_)
    return np.asarray(value, dtype=np.float64)
