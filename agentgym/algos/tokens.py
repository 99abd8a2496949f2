"""Columns of response tokens, packed: the tokens of all steps one after the other, in the steps' order."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from agentgym.algos.batch import StepBatch
from agentgym.core.arrays import Bools, Floats, Ints
from agentgym.core.options import check_choice

SequenceOf: TypeAlias = Literal["trajectory", "row", "step"]
"""Horizon of a token's return: the responses of the whole trajectory, chained, with each step's reward on its
last token; or its own response, which receives the whole episode's outcome (``row``, verl-agent) or its own
step's reward alone (``step``, AgentR1/StepPO's REINFORCE++)."""

Unit: TypeAlias = Literal["step", "token"]
"""Unit that a column has an entry for: each of n steps, or each of their T response tokens."""

Scalar = TypeVar("Scalar", bound=np.generic)


def token_counts(batch: StepBatch) -> Ints:
    """Return (n,) the number of response tokens of each step.

    Raises:
        ValueError: the batch does not say.
    """
    if batch.tokens is None:
        raise ValueError("tokens is missing: give the number of response tokens of each step")
    return batch.tokens


def token_rows(lengths: Ints) -> Ints:
    """Return (T,) the row that each token belongs to."""
    return np.repeat(np.arange(len(lengths)), lengths)


def check_tokens(batch: StepBatch, name: str, column: Floats | Bools) -> None:
    """Refuse a column that does not have one finite entry per response token.

    Raises:
        ValueError: names the column.
    """
    total = int(token_counts(batch).sum())
    if column.shape != (total,):
        raise ValueError(
            f"{name} has shape {column.shape}, the responses have {total} tokens: give one entry per "
            "token, packed in the order of the steps"
        )
    if not np.isfinite(column).all():
        raise ValueError(
            f"{name} must be finite, token {int(np.flatnonzero(~np.isfinite(column))[0])} is not"
        )


def token_mask(batch: StepBatch, mask: Bools | None) -> Bools:
    """Return (T,) which tokens count: all, unless ``mask`` says."""
    if mask is None:
        return np.ones(int(token_counts(batch).sum()), dtype=np.bool_)
    chosen = np.asarray(mask, dtype=np.bool_)
    check_tokens(batch, "mask", chosen)
    return chosen


@dataclass(frozen=True, slots=True)
class Chain:
    """The counted response tokens of a batch, as the sequences that returns run over."""

    batch: StepBatch
    sequence: SequenceOf
    mask: Bools | None
    """(T,) the tokens that count; None for all."""
    counts: Ints
    """(n,) number of counted tokens of each step; they are consecutive."""

    @classmethod
    def of(cls, batch: StepBatch, sequence: SequenceOf, mask: Bools | None) -> Self:
        """Find the counted tokens.

        Raises:
            ValueError: ``tokens`` is missing, the mask has another shape, or an unknown sequence.
        """
        check_choice("sequence", sequence, SequenceOf)
        counts = token_counts(batch)
        if mask is None:
            return cls(batch, sequence, None, counts)
        chosen = token_mask(batch, mask)
        return cls(batch, sequence, chosen, np.bincount(token_rows(counts)[chosen], minlength=len(batch)))

    @property
    def segment(self) -> Ints:
        """(c,) sequence of each counted token."""
        return self.each(
            self.batch.trajectory if self.sequence == "trajectory" else np.arange(len(self.batch))
        )

    def each(self, x: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Give (c,) counted tokens their step's entry of an (n,) column."""
        return np.repeat(x, self.counts)

    def pick(self, name: str, column: Floats) -> Floats:
        """Return (c,) the counted entries of a (T,) column.

        Raises:
            ValueError: names the column, which has another shape or is not finite.
        """
        column = np.asarray(column, dtype=np.float64)
        check_tokens(self.batch, name, column)
        return column if self.mask is None else column[self.mask]

    def spread(self, x: Floats) -> Floats:
        """Return (T,) a (c,) column, 0 on masked tokens."""
        if self.mask is None:
            return x
        result = np.zeros(len(self.mask))
        result[self.mask] = x
        return result

    def rewards(self, penalty: float) -> Floats:
        """Put what each sequence earns on its tokens: a step's reward, or under ``"row"`` the outcome.

        It goes to the last counted token of its step. Where a step has none, it goes to the token before,
        since no token lies between the two; where there is no such token, it is no token's doing.

        Args:
            penalty: the invalid-action penalty.

        Returns:
            (c,).
        """
        batch, chain = self.batch, self.sequence == "trajectory"
        earned = batch.outcome if self.sequence == "row" else batch.reward
        earned = earned - np.where(batch.valid, 0.0, penalty)
        step = np.arange(len(batch))
        owner = np.maximum.accumulate(np.where(self.counts > 0, step, -1))  # last step that has tokens
        taken = (batch.trajectory[owner] == batch.trajectory if chain else owner == step) & (owner >= 0)
        result = np.zeros(int(self.counts.sum()))
        last = np.cumsum(self.counts) - 1
        np.add.at(result, last[taken], earned[taken])
        return result

    def following(self, after: Floats) -> Floats:
        """Spread what follows each episode over its tokens, for `agentgym.algos.advantage.gae` to read.

        Args:
            after: (n,) as `agentgym.algos.advantage.after_last` returns; under ``"row"``, a row that is not
                its trajectory's last is followed by its own entry, 0.

        Returns:
            (c,).
        """
        if self.sequence == "trajectory":
            batch = self.batch
            after = np.repeat(after[batch.starts + batch.lengths - 1], batch.lengths)
        return self.each(after)


def pad(x: npt.NDArray[Scalar], lengths: Ints, fill: Any = 0) -> npt.NDArray[Scalar]:
    """Lay packed tokens out as rows of one width.

    Args:
        x: (T,).
        lengths: (n,) number of tokens of each row.
        fill: value of the other places.

    Returns:
        (n, L), L the longest row.

    Example:
        >>> pad(np.array([1, 2, 3]), np.array([2, 0, 1])).tolist()
        [[1, 2], [0, 0], [3, 0]]
    """
    result = np.full((len(lengths), int(lengths.max(initial=0))), fill, dtype=x.dtype)
    result[padding_mask(lengths)] = x
    return result


def padding_mask(lengths: Ints) -> Bools:
    """Return (n, L) True where a row has a token."""
    return np.arange(int(lengths.max(initial=0))) < lengths[:, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Training batch of a learner: the response tokens of n steps, packed, with the steps' advantages.

    A column that may be of steps or of tokens is never told by its length: there can be as many of both.

    Example:
        >>> batch = Batch(lengths=np.array([2, 1]), trajectory=np.array([0, 0]), credit="step",
        ...               advantages=np.array([1.0, -1.0]), old_log_probs=np.array([-0.1, -0.2, -0.3]))
        >>> batch.select(np.array([1])).old_log_probs.tolist()
        [-0.3]
    """

    lengths: Ints
    """(n,) number of response tokens of each step."""
    trajectory: Ints
    """(n,) episode of each step."""
    credit: Unit
    """Unit that has an advantage."""
    advantages: Floats
    """(n,) of steps, or (T,) of tokens, as ``credit`` says."""
    old_log_probs: Floats
    """(T,) under the policy that updates start from: the one that sampled, or the learner's own."""
    mask: Bools | None = None
    """(T,) the tokens that count; None for all."""
    response_ids: Ints | None = None
    """(T,) exactly as sampled."""
    ref_log_probs: Floats | None = None
    """(T,) under the reference."""
    rollout_log_probs: Floats | None = None
    """(T,) under the policy that sampled, where ``old_log_probs`` is another's."""
    stale: Bools | None = None
    """(T,) which tokens older weights than the learner's have sampled; None for none."""
    valued: Unit | None = None
    """Unit that has a value and a return; None without a critic."""
    values: Floats | None = None
    """(n,) or (T,) of the critic, at sampling time."""
    returns: Floats | None = None
    """(n,) or (T,) that the critic should predict."""

    def __post_init__(self) -> None:
        """Check what columns are of, and their shapes.

        Raises:
            ValueError: names the column.
        """
        check_choice("credit", self.credit, Unit)
        if self.valued is not None:
            check_choice("valued", self.valued, Unit)
        elif self.values is not None or self.returns is not None:
            raise ValueError('valued is missing: say whether values and returns are per "step" or "token"')
        size = {"step": len(self.lengths), "token": int(self.lengths.sum())}
        for name in _COLUMNS:
            column, per = getattr(self, name), self.per(name)
            if column is not None and column.shape != (size[per],):
                raise ValueError(f"{name} must have shape ({size[per]},), one per {per}, not {column.shape}")

    @classmethod
    def of(cls, steps: StepBatch, advantages: Floats, *, credit: Unit, **columns: Any) -> Self:
        """Join steps, their advantages and columns of their tokens.

        Args:
            steps: n steps with ``tokens``.
            advantages: (n,) or (T,).
            credit: unit of the advantages.
            **columns: further fields; ``old_log_probs`` is needed.
        """
        lengths, trajectory = token_counts(steps), steps.trajectory
        return cls(lengths=lengths, trajectory=trajectory, advantages=advantages, credit=credit, **columns)

    def __len__(self) -> int:
        """Number of steps, n."""
        return len(self.lengths)

    def per(self, name: str) -> Unit:
        """Return what a column has an entry for.

        Raises:
            ValueError: there is no such column.
        """
        if name not in _COLUMNS:
            raise ValueError(f"{name} is not a column of a batch; choose one of {', '.join(_COLUMNS)}")
        if name == "advantages":
            return self.credit
        if name in ("values", "returns"):
            return self.valued or "step"
        return "step" if name in ("lengths", "trajectory") else "token"

    def select(self, rows: Ints) -> Self:
        """Return some of the steps, in the order given: a mini-batch.

        Args:
            rows: (k,) which.
        """
        lengths = self.lengths[rows]
        begins = np.cumsum(self.lengths) - self.lengths
        shift = begins[rows] - (np.cumsum(lengths) - lengths)
        place = {"step": rows, "token": np.arange(int(lengths.sum())) + np.repeat(shift, lengths)}
        columns = {name: getattr(self, name) for name in _COLUMNS}
        chosen = {
            name: column[place[self.per(name)]] for name, column in columns.items() if column is not None
        }
        return replace(self, **chosen)

    def padded(self, name: str, fill: Any = 0) -> npt.NDArray[Any]:
        """Return a column of tokens as (n, L); `padding_mask` of the lengths says where tokens are.

        Args:
            name: the column; a column of steps is spread over their tokens.
            fill: value of the other places.

        Raises:
            ValueError: the batch does not have it.
        """
        per, column = self.per(name), getattr(self, name)
        if column is None:
            raise ValueError(f"{name} is missing: the batch was built without it")
        return pad(np.repeat(column, self.lengths) if per == "step" else column, self.lengths, fill)


_COLUMNS = tuple(field.name for field in fields(Batch) if field.name not in ("credit", "valued"))
