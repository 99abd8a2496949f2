"""Estimators of advantages as functions of episodes, those with a critic or a reward model trained first.

Critic and reward model are tables, one entry a state or an action, fitted to episodes of the same policy. A
table is what a network could come to at best on these states: nothing is smoothed, nothing forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from agentgym.algos.advantage import discounted, step_rewards, trajectory_sums
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.options import bind_options
from agentgym.algos.table import find_algorithm
from agentgym.core.arrays import Floats
from agentgym.credit.behaviour import Episodes
from agentgym.credit.truth import Truth
from agentgym.errors import UsageError

Estimator: TypeAlias = Callable[[Episodes], Floats]
"""Function from n steps to (n,) advantages, on any scale."""

BETA, RATE = 0.05, 0.5
"""Scale of implicit rewards, and step of Adam in a table of logits."""


def estimator(
    name: str, truths: Sequence[Truth], training: Sequence[Episodes], options: Mapping[str, Any]
) -> Estimator:
    """Return the advantage of an algorithm as a function of episodes.

    Args:
        name: algorithm, as `agentgym.algos.table.find_algorithm` takes it.
        truths: the tasks, whose policy sampled the episodes.
        training: episodes that a critic or a reward model learns from, a draw an iteration.
        options: options of the algorithm; those that it does not have are left out.

    Raises:
        UsageError: there is no such algorithm, it plays episodes of its own, its critic is of tokens and its
            advantages are of steps, or (from the estimator) they are not one finite number a step.
    """
    algorithm = find_algorithm(name)
    if algorithm.snapshot:
        raise UsageError(f"{name} plays episodes of its own, so that it has no advantage of given ones")
    if algorithm.critic == "token" and algorithm.unit == "step":
        raise UsageError(f"{name} has a critic of tokens and advantages of steps: the board has no tokens")
    known = {key: value for key, value in options.items() if key in algorithm.options}
    advantage = bind_options(algorithm.advantage, known)
    if algorithm.critic:
        return _checked(name, _with_critic(algorithm, advantage, training))
    if algorithm.reward_model:
        return _checked(name, _with_reward_model(algorithm, advantage, truths, training))
    return _checked(name, lambda episodes: advantage(episodes.batch))


def _checked(name: str, estimate: Callable[[Episodes], Any]) -> Estimator:
    def checked(episodes: Episodes) -> Floats:
        found = np.asarray(estimate(episodes), dtype=np.float64)
        shape = episodes.edge.shape
        if found.shape != shape or not np.isfinite(found).all():
            raise UsageError(f"{name} must return finite advantages of shape {shape}, one a step")
        return found

    return checked


def _with_critic(
    algorithm: Algorithm, advantage: Callable[..., Floats], training: Sequence[Episodes]
) -> Estimator:
    """Fit each state's value to the mean of the discounted returns that followed it."""
    gamma = float(algorithm.defaults.get("gamma", 1.0))
    states = np.concatenate([each.state for each in training])
    returns = np.concatenate(
        [discounted(step_rewards(each.batch), each.batch.trajectory, gamma) for each in training]
    )
    number, total = np.bincount(states), np.bincount(states, returns)
    table = np.where(number > 0, total / np.maximum(number, 1), returns.mean())

    def values(state: Any) -> Floats:
        inside = state < len(table)
        return np.where(inside, table[np.where(inside, state, 0)], returns.mean())

    def estimate(episodes: Episodes) -> Floats:
        here, there = values(episodes.state), values(episodes.next_state)
        steps = episodes.batch.with_columns(values=here, next_values=there)
        return advantage(steps, values=here) if algorithm.unit == "token" else advantage(steps)

    return estimate


def _with_reward_model(
    algorithm: Algorithm,
    advantage: Callable[..., Floats],
    truths: Sequence[Truth],
    training: Sequence[Episodes],
) -> Estimator:
    """Fit implicit rewards, log-ratios of a table of logits to the policy, by the algorithm's loss."""
    model = ImplicitRewards(truths, pairs=not algorithm.binary)
    for each in training:
        model.update(each)

    def estimate(episodes: Episodes) -> Floats:
        ratios = model.log_ratios(episodes)
        if not algorithm.binary:
            return advantage(episodes.batch, BETA * ratios)
        batch = episodes.batch
        return advantage(batch.with_columns(outcome=batch.won.astype(np.float64)), ratios)

    return estimate


class ImplicitRewards:
    """A process reward model of one logit an edge, with Adam.

    Its reward of a step is ``log pi_phi(a | s) - log pi(a | s)``, ``pi_phi`` proportional to
    ``pi exp(logit)``; an episode's score h is beta times the sum. It minimises ``-log sigmoid(h+ - h-)`` over
    pairs of a group (iStar Eq. 2), or the cross-entropy of ``sigmoid(h)`` with the outcome (PRIME).
    """

    def __init__(self, truths: Sequence[Truth], *, pairs: bool):
        """Start as the policy."""
        self.truths, self.pairs = truths, pairs
        self.offset = np.cumsum([0, *(len(truth.policy) for truth in truths)])
        states = np.cumsum([0, *(len(truth.graph.won) for truth in truths)])
        self.source = np.concatenate(
            [truth.graph.source + first for truth, first in zip(truths, states[:-1], strict=True)]
        )
        self.policy = np.concatenate([truth.policy for truth in truths])
        self.logits: Floats
        self.mean: Floats
        self.square: Floats
        self.logits, self.mean, self.square = (np.zeros(len(self.policy)) for _ in range(3))
        self.steps = 0
        self.normaliser: Floats = np.bincount(self.source, self.policy, states[-1]).astype(np.float64)
        self.visited = np.zeros(states[-1], dtype=np.bool_)

    def log_ratios(self, episodes: Episodes) -> Floats:
        """Return (n,) the log-ratio of each step."""
        edge = episodes.edge + self.offset[episodes.task]
        result: Floats = self.logits[edge] - np.log(self.normaliser[self.source[edge]])
        return result

    def update(self, episodes: Episodes) -> None:
        """Take one step of Adam on a draw of groups."""
        batch = episodes.batch
        starts = batch.starts
        h = BETA * trajectory_sums(batch, self.log_ratios(episodes))[starts]
        won, group = batch.won[starts], batch.group[starts]
        slope: Any
        if self.pairs:
            better, worse = np.nonzero((group[:, None] == group) & won[:, None] & ~won)
            push = 1.0 / (1.0 + np.exp(h[better] - h[worse])) / max(len(better), 1)
            slope = np.bincount(worse, push, len(h)) - np.bincount(better, push, len(h))
        else:
            slope = (1.0 / (1.0 + np.exp(-h)) - won) / len(h)
        per_step: Floats = BETA * np.repeat(slope, batch.lengths)
        edge = episodes.edge + self.offset[episodes.task]
        self.visited[self.source[edge]] = True
        known = np.flatnonzero(self.visited[self.source])  # all other logits stay 0
        source, states = self.source[known], len(self.visited)
        weights = self.policy[known] * np.exp(self.logits[known]) / self.normaliser[source]
        there = np.bincount(self.source[edge], per_step, states)[source]
        gradient: Floats = np.bincount(edge, per_step, len(self.logits))[known] - weights * there
        self.steps += 1
        self.mean[known] = 0.9 * self.mean[known] + 0.1 * gradient
        self.square[known] = 0.999 * self.square[known] + 0.001 * gradient**2
        mean, square = self.mean[known] / (1 - 0.9**self.steps), self.square[known] / (1 - 0.999**self.steps)
        self.logits[known] -= RATE * mean / (np.sqrt(square) + 1e-8)
        totals = np.bincount(source, self.policy[known] * np.exp(self.logits[known]), states)
        self.normaliser[self.visited] = totals[self.visited]
