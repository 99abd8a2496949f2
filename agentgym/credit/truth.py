"""True values of states and steps under a policy whose action probabilities are known.

With h steps left, win probabilities p and action probabilities pi of the edges s -a-> s':

    V_0(s) = 0,    V_h(s) = sum_a pi(a | s) (r(s, a) + V_(h-1)(s'))
    A_h(s, a) = r(s, a) + V_(h-1)(s') - V_h(s)

r is 1 where an edge wins, else 0, less ``penalty`` where the action is not accepted. No discount: V is the
probability of a win within the steps that are left, less the penalties to come.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from agentgym.core.arrays import Floats, Ints
from agentgym.credit.graph import StateGraph


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Exact values of one task under one policy."""

    graph: StateGraph
    policy: Floats
    """(E,) probability of each edge in its state."""
    reward: Floats
    """(E,) reward of each edge."""
    values: Floats
    """(H + 1, S) V by steps left and state."""

    @classmethod
    def of(cls, graph: StateGraph, policy: Floats, *, horizon: int, penalty: float = 0.0) -> Truth:
        """Solve a task by dynamic programming.

        Args:
            graph: the task's states.
            policy: (E,) action probabilities; those of a state sum to 1.
            horizon: H, the step limit.
            penalty: cost of a rejected action, on the scale on which a win is 1.

        Raises:
            ValueError: the probabilities of a state do not sum to 1.
        """
        source, states = graph.source, len(graph.won)
        totals = np.bincount(source, policy, states)
        wrong = np.flatnonzero((np.diff(graph.first) > 0) & (np.abs(totals - 1.0) > 1e-9))
        if len(wrong) or (policy < 0).any():
            raise ValueError(f"probabilities must not be negative and sum to 1, state {wrong[:1]} differs")
        reward = graph.wins - np.where(graph.valid, 0.0, penalty)
        values = np.zeros((horizon + 1, states))
        for left in range(1, horizon + 1):
            values[left] = np.bincount(source, policy * (reward + values[left - 1][graph.target]), states)
        return cls(graph=graph, policy=policy, reward=reward, values=values)

    @property
    def horizon(self) -> int:
        """H, the step limit."""
        return len(self.values) - 1

    @cached_property
    def bounds(self) -> Floats:
        """(E + 1,) probabilities of all edges before each one, summed, from which actions are drawn."""
        return np.append(0.0, np.cumsum(self.policy))

    def advantages(self, edge: Ints, left: Ints) -> Floats:
        """Return (n,) the advantages of steps.

        Args:
            edge: (n,) edge that each step takes.
            left: (n,) steps left before it, from 1 to H.
        """
        here, there = self.graph.source[edge], self.graph.target[edge]
        result: Floats = self.reward[edge] + self.values[left - 1, there] - self.values[left, here]
        return result

    @cached_property
    def gradient(self) -> Floats:
        """(E,) gradient of V_H of the first state in a table of logits, one an edge.

        ``sum_h d_h(s) pi(a | s) A_(H-h)(s, a)``, d_h the probability to be in s after h steps: the policy
        gradient theorem for a softmax over the actions of each state, whatever steps are left.
        """
        source, target = self.graph.source, self.graph.target
        visits: Floats = np.zeros(len(self.graph.won))
        visits[0] = 1.0
        result = np.zeros(len(target))
        edges = np.arange(len(target))
        for left in range(self.horizon, 0, -1):
            taken = visits[source] * self.policy
            result += taken * self.advantages(edges, np.full(len(edges), left))
            visits = np.bincount(target, taken, len(visits)).astype(np.float64)
        return result
