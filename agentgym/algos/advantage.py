"""Building blocks of advantage estimators: group statistics, discounted sums, GAE and whitening.

Everything works on flat columns, one row per step or token, in which the rows of a trajectory (more
generally, of a *segment*) are consecutive. Nothing here loops over rows.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import PAPER, Compat, Singleton
from agentgym.core.arrays import Bools, Floats, Ints
from agentgym.core.options import UNIT_INTERVAL, check_choice

Truncation: TypeAlias = Literal["bootstrap", "zero"]
"""Value after a truncated episode: the critic's of the state reached, or (public code) 0."""

EPS = 1e-6
"""Constant added to a group's standard deviation, against division by 0."""

ROUNDING = 1e-12
"""A deviation below this part of a group's values (of 1, where they are smaller) is the rounding of sums."""


def joint(*columns: Ints) -> Ints:
    """Number the distinct rows of several columns, from 0: the group "same in all of them".

    Args:
        *columns: (n,) each.

    Example:
        >>> joint(np.array([0, 0, 1]), np.array([5, 5, 5])).tolist()
        [0, 0, 1]
    """
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        names, index = np.unique(column, return_inverse=True)
        number = np.unique(number * len(names) + index, return_inverse=True)[1]
    return number


def relative(
    x: Floats,
    group: Ints,
    *,
    std: bool = True,
    ddof: int = 1,
    eps: float = EPS,
    singleton: Singleton = "zero",
    counted: Bools | None = None,
    population: Floats | None = None,
) -> Floats:
    """Compare each row with its group: ``(x - mean_g) / (std_g + eps)``, or ``x - mean_g``.

    Args:
        x: (n,) values.
        group: (n,) who is compared with whom; rows need not be sorted.
        std: whether to divide.
        ddof: 1 for the unbiased deviation (torch's default), 0 for the population's.
        eps: constant added to the deviation.
        singleton: value of a group with one counted row.
        counted: (n,) rows that enter the statistics; all by default.
        population: (n,) what the statistics are formed of where it is not ``x`` itself.

    Returns:
        (n,) finite; exactly 0 where the group's population does not vary, but for the rounding of sums, and
        ``std`` would divide.

    Example:
        >>> relative(np.array([10.0, 0.0, 4.0, 4.0]), np.array([0, 0, 1, 1]), std=False).tolist()
        [5.0, -5.0, 0.0, 0.0]
    """
    check_choice("singleton", singleton, Singleton)
    if len(x) != len(group):
        raise ValueError(f"group has {len(group)} rows, the values {len(x)}: give one group per value")
    names, index = np.unique(group, return_inverse=True)
    rows = slice(None) if counted is None else counted
    members, values = index[rows], (x if population is None else population)[rows]
    # Statistics are of differences to one member, so that a group of equal values gives exactly 0.
    anchor = np.zeros(len(names))
    anchor[members] = values
    values = values - anchor[members]
    size = np.bincount(members, minlength=len(names))
    mean = np.bincount(members, values, len(names)) / np.maximum(size, 1)
    result = x - anchor[index] - mean[index]
    if std:
        squares = np.bincount(members, (values - mean[members]) ** 2, len(names))
        deviation = np.sqrt(squares / np.maximum(size - ddof, 1))
        varies = deviation > ROUNDING * np.maximum(np.abs(anchor), 1.0)
        scale = np.divide(1.0, deviation + eps, out=np.zeros(len(names)), where=varies)
        result = result * scale[index]
    alone = (size <= 1)[index]
    return np.where(alone, (x / (1 + eps) if std else x) if singleton == "raw" else 0.0, result)


def segment_ends(segment: Ints) -> Bools:
    """Mark the last row of each run of equal values.

    Args:
        segment: (n,).
    """
    last = np.ones(len(segment), dtype=np.bool_)
    last[:-1] = segment[1:] != segment[:-1]
    return last


def discounted(x: Floats, segment: Ints, gamma: float) -> Floats:
    """Sum what follows, ``y_t = x_t + gamma y_(t+1)``, within each segment.

    Args:
        x: (n,).
        segment: (n,) consecutive runs; no two runs share a value.
        gamma: discount in [0, 1].

    Returns:
        (n,). By doubling, log2(longest segment) passes: after pass k, y_t sums 2^k terms.

    Example:
        >>> discounted(np.array([0.0, 0.0, 8.0, 1.0]), np.array([0, 0, 0, 1]), 0.5).tolist()
        [2.0, 4.0, 8.0, 1.0]
    """
    UNIT_INTERVAL.check("gamma", gamma)
    y = np.array(x, dtype=np.float64)
    same, later = np.empty(len(y), dtype=np.bool_), np.empty(len(y))
    shift, factor = 1, float(gamma)
    while shift < len(y):
        rest = len(y) - shift
        np.equal(segment[shift:], segment[:rest], out=same[:rest])
        if not same[:rest].any():
            break
        np.multiply(y[shift:], same[:rest], out=later[:rest])
        later[:rest] *= factor
        y[:rest] += later[:rest]
        shift, factor = 2 * shift, factor * factor
    return y


def gae(
    reward: Floats,
    values: Floats,
    segment: Ints,
    *,
    gamma: float,
    lam: float,
    bootstrap: Floats | None = None,
) -> Floats:
    """Generalised advantage estimation (Schulman et al., 2016, Eq. 16) within each segment.

    ``delta_t = r_t + gamma V_(t+1) - V_t`` and ``A_t = delta_t + gamma lam A_(t+1)``.

    Args:
        reward: (n,).
        values: (n,) of the states acted in.
        segment: (n,) consecutive runs, one per episode.
        gamma: discount.
        lam: mixing weight.
        bootstrap: (n,) value of what follows, read on each segment's last row; 0 by default.

    Returns:
        (n,) advantages; returns are advantages + values.
    """
    UNIT_INTERVAL.check("lam", lam)
    last = segment_ends(segment)
    delta = np.zeros(len(values))
    delta[:-1] = values[1:]
    delta[last] = 0.0 if bootstrap is None else bootstrap[last]
    delta *= gamma
    delta += reward
    delta -= values
    return discounted(delta, segment, gamma * lam)


def masked_whiten(x: Floats, mask: Bools | None = None) -> Floats:
    """Shift and scale to mean 0 and variance 1: ``(x - mean) / sqrt(var(ddof 1) + 1e-8)``.

    Args:
        x: any shape.
        mask: same shape; the entries that count. All by default.

    Returns:
        Same shape, 0 where the mask is 0. A single entry gives 0, for which public code gives NaN.
    """
    values = x.ravel() if mask is None else x[np.asarray(mask, dtype=np.bool_)]
    if len(values) > 1:
        values = values - values[0]  # equal entries give exactly 0
        values -= values.mean()
        values /= np.sqrt(np.square(values).sum() / (len(values) - 1) + 1e-8)
    else:
        values = np.zeros(len(values))
    if mask is None:
        return values.reshape(x.shape)
    result = np.zeros(x.shape)
    result[np.asarray(mask, dtype=np.bool_)] = values
    return result


def trajectory_sums(batch: StepBatch, x: Floats) -> Floats:
    """Sum a column over each trajectory.

    Returns:
        (n,) the sum, on each of the trajectory's rows.
    """
    if not len(x):
        return np.zeros(0)
    return np.repeat(np.add.reduceat(x, batch.starts), batch.lengths)


def step_rewards(batch: StepBatch, compat: Compat = PAPER) -> Floats:
    """Return (n,) the rewards that are discounted, less the invalid-action penalty where it goes there."""
    return batch.reward if compat.invalid_penalty == "row" else batch.reward - penalties(batch, compat)


def penalties(batch: StepBatch, compat: Compat) -> Floats:
    """Return (n,) the invalid-action penalty of each step, not negative."""
    return np.where(batch.valid, 0.0, compat.penalty)


def step_returns(batch: StepBatch, *, gamma: float, compat: Compat = PAPER) -> Floats:
    """Discounted return of each step, ``G_t = sum_k gamma^k r_(t+k)``.

    Args:
        batch: the steps.
        gamma: discount per step.
        compat: size and place of the invalid-action penalty.

    Returns:
        (n,).
    """
    returns = discounted(step_rewards(batch, compat), batch.trajectory, gamma)
    return returns - penalties(batch, compat) if compat.invalid_penalty == "row" else returns


def episode_relative(
    batch: StepBatch, *, std: bool = True, eps: float = EPS, compat: Compat = PAPER
) -> Floats:
    """Compare each episode with the others of its group: A^E, GRPO's advantage.

    Under ``invalid_penalty="row"`` a row's own score is compared: with statistics of unpenalised
    outcomes when trajectories are counted, of the penalised rows when steps are (verl-agent).

    Args:
        batch: the steps.
        std: whether to divide by the group's unbiased deviation.
        eps: constant added to the deviation.
        compat: statistics, groups of one, and the invalid-action penalty.

    Returns:
        (n,) the episode's advantage, on each of its rows.
    """
    trajectories = compat.episode_stat == "trajectory"
    population: Floats | None = None
    value: Floats = batch.outcome
    if compat.invalid_penalty == "reward":
        value = value - trajectory_sums(batch, penalties(batch, compat))
    elif compat.invalid_penalty == "row":
        value = value - penalties(batch, compat)
        population = batch.outcome if trajectories else None
    return relative(
        value,
        batch.group,
        std=std,
        eps=eps,
        singleton=compat.singleton,
        counted=batch.step == 0 if trajectories else None,
        population=population,
    )


def after_last(batch: StepBatch, truncation: Truncation) -> Floats:
    """Value of what follows each step if the episode ends there.

    Args:
        batch: the steps.
        truncation: whether a truncated episode's last state is worth what the critic says.

    Returns:
        (n,) ``next_values`` on truncated rows under ``"bootstrap"``, else 0.

    Raises:
        ValueError: an episode was truncated and ``next_values`` is missing.
    """
    check_choice("truncation", truncation, Truncation)
    if truncation == "zero" or not batch.truncated.any():
        return np.zeros(len(batch))
    if batch.next_values is None:
        raise ValueError(
            "next_values is missing: give the critic's value of the state after each truncated episode, "
            'or set truncation="zero"'
        )
    return np.where(batch.truncated, batch.next_values, 0.0)
