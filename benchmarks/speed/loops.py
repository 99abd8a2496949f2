"""The estimators once more, as a reader of the papers would first write them: a loop for every sum.

They are what `benchmarks.speed.algos` measures the arrays against, and what the tests compare them with;
they share no code with `agentgym.algos`. Settings are the defaults, the papers' equations.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from agentgym.algos.batch import StepBatch

EPS = 1e-6
PENALTY = 0.1

Column = list[float]


def mean(values: Iterable[float]) -> float:
    """Average."""
    listed = list(values)
    return sum(listed) / len(listed)


def deviation(values: Column, ddof: int = 1) -> float:
    """Standard deviation."""
    centre = mean(values)
    return math.sqrt(sum((x - centre) ** 2 for x in values) / (len(values) - ddof))


def alike(values: Column) -> bool:
    """Whether values differ by no more than the rounding of sums."""
    return math.isclose(min(values), max(values), rel_tol=1e-12, abs_tol=1e-12)


def compared(
    values: Column,
    names: Sequence[Hashable],
    members: Mapping[Any, Column] | None = None,
    *,
    ddof: int = 1,
    std: bool = True,
) -> Column:
    """Centre each value in the group of its name, and standardise it; 0 where that varies by rounding.

    ``members`` are the groups' values, where they are not the rows of that name.
    """
    if members is None:
        collected: dict[Any, Column] = defaultdict(list)
        for value, name in zip(values, names, strict=True):
            collected[name].append(value)
        members = collected
    centre = {name: mean(group) for name, group in members.items()}
    scale = {
        name: 0.0 if alike(group) else (1 / (deviation(group, ddof) + EPS) if std else 1.0)
        for name, group in members.items()
    }
    return [(value - centre[name]) * scale[name] for value, name in zip(values, names, strict=True)]


def whitened(values: Column) -> Column:
    """Shift and scale to mean 0 and variance 1."""
    if len(values) < 2:
        return [0.0 for _ in values]
    centre, variance = mean(values), deviation(values) ** 2
    return [(x - centre) / math.sqrt(variance + 1e-8) for x in values]


def trajectories(batch: StepBatch) -> list[list[int]]:
    """Rows of each trajectory."""
    rows: dict[int, list[int]] = defaultdict(list)
    for row, name in enumerate(batch.trajectory.tolist()):
        rows[name].append(row)
    return list(rows.values())


def rewards(batch: StepBatch) -> Column:
    """Rewards less the invalid-action penalty."""
    return [
        reward - (0.0 if valid else PENALTY)
        for reward, valid in zip(batch.reward.tolist(), batch.valid.tolist(), strict=True)
    ]


def outcomes(batch: StepBatch) -> Column:
    """What each row's episode is worth, less its invalid-action penalties."""
    result: Column = batch.outcome.tolist()
    for rows in trajectories(batch):
        invalid = sum(not batch.valid[row] for row in rows)
        for row in rows:
            result[row] -= PENALTY * invalid
    return result


def by_group(batch: StepBatch) -> dict[int, Column]:
    """Outcomes of each group's episodes."""
    value = outcomes(batch)
    groups: dict[int, Column] = defaultdict(list)
    for rows in trajectories(batch):
        groups[int(batch.group[rows[0]])].append(value[rows[0]])
    return groups


def grpo(batch: StepBatch, *, std: bool = True) -> Column:
    """Standardised outcomes."""
    return compared(outcomes(batch), batch.group.tolist(), by_group(batch), std=std)


def dapo(batch: StepBatch) -> Column:
    """GRPO, where responses of more than 384 of 512 tokens are penalised."""
    assert batch.tokens is not None
    outcome = batch.outcome.tolist()
    for rows in trajectories(batch):
        price = sum(min(max(int(batch.tokens[row]) - 384, 0) / 128, 1.0) for row in rows) / len(rows)
        for row in rows:
            outcome[row] -= price
    return grpo(batch.with_columns(outcome=np.array(outcome)))


def rloo(batch: StepBatch) -> Column:
    """Outcome minus the mean of the others'."""
    value, groups = outcomes(batch), by_group(batch)
    total = {name: sum(group) for name, group in groups.items()}
    result = []
    for row, group in enumerate(batch.group.tolist()):
        others = len(groups[group]) - 1
        result.append(value[row] - (total[group] - value[row]) / others if others else 0.0)
    return result


def returns(batch: StepBatch, gamma: float) -> Column:
    """Discounted returns."""
    reward, result = rewards(batch), [0.0] * len(batch)
    for rows in trajectories(batch):
        running = 0.0
        for row in reversed(rows):
            running = reward[row] + gamma * running
            result[row] = running
    return result


def gigpo(batch: StepBatch, *, gamma: float = 0.95, weight: float = 1.0, std: bool = True) -> Column:
    """Outcomes, plus returns compared within each state."""
    names: list[Hashable] = list(zip(batch.group.tolist(), batch.state.tolist(), strict=True))
    step = compared(returns(batch, gamma), names, std=std)
    return [a + weight * b for a, b in zip(grpo(batch, std=std), step, strict=True)]


def hgpo(
    batch: StepBatch,
    *,
    history: int = 2,
    alpha: float = 1.0,
    std: bool = True,
    base_group: bool = False,
) -> Column:
    """Returns compared within groups of common history, weighted by its length."""
    value, group, state = returns(batch, 0.95), batch.group.tolist(), batch.state.tolist()
    total, weights = [0.0] * len(batch), [0.0] * len(batch)
    levels = [(0, grpo(batch, std=std))] if base_group else []
    for k in range(1, history + 2):
        names: list[Hashable] = [("alone", row) for row in range(len(batch))]
        for rows in trajectories(batch):
            for t in range(k - 1, len(rows)):
                names[rows[t]] = (group[rows[t]], *(state[row] for row in rows[t - k + 1 : t + 1]))
        levels.append((k, compared(value, names, ddof=0, std=std)))
    for k, advantages in levels:
        for row, a in enumerate(advantages):
            if abs(a) > 1e-9:
                total[row] += (k + 1) ** alpha * a
                weights[row] += (k + 1) ** alpha
    return [a / (weight + EPS) for a, weight in zip(total, weights, strict=True)]


def graphgpo(batch: StepBatch) -> Column:
    """Distances to success in each group's graph, compared within each state; plus outcomes."""
    omega, success = 0.1, -2
    source, target = batch.state.tolist(), batch.next_state.tolist()
    groups: dict[int, list[int]] = defaultdict(list)
    for rows in trajectories(batch):
        if batch.won[rows[-1]]:
            target[rows[-1]] = success
        groups[int(batch.group[rows[0]])] += rows
    graph = [0.0] * len(batch)
    for rows in groups.values():
        if any(batch.won[row] for row in rows):
            left = distances([(source[row], target[row]) for row in rows], success)
            unreached = max(left.values()) + 1
            reward = [10.0 * omega ** (left.get(target[row], unreached) + 1) for row in rows]
            for row, a in zip(rows, compared(reward, [source[row] for row in rows]), strict=True):
                graph[row] = a
    return [a + b for a, b in zip(graph, grpo(batch), strict=True)]


def distances(edges: list[tuple[int, int]], goal: int) -> dict[int, float]:
    """Length of the shortest path from each node to the goal (Dijkstra on reversed edges)."""
    into: dict[int, list[int]] = defaultdict(list)
    for a, b in edges:
        into[b].append(a)
    found: dict[int, float] = {}
    queue = [(0.0, goal)]
    while queue:
        far, node = heapq.heappop(queue)
        if node not in found:
            found[node] = far
            for before in into[node]:
                heapq.heappush(queue, (far + 1, before))
    return found


def g2po(
    batch: StepBatch,
    *,
    gamma: float = 0.95,
    weight: float = 1.0,
    edge_weight: float = 1.0,
    std: bool = True,
    success_reward: float | None = None,
) -> Column:
    """Values of states over all visits; where steps led and what they gained, compared; plus outcomes."""
    worth, group = outcomes(batch), batch.group.tolist()
    names: list[Hashable] = list(zip(group, batch.state.tolist(), strict=True))
    visits: dict[Hashable, Column] = defaultdict(list)
    for rows in trajectories(batch):
        for t, row in enumerate(rows):
            visits[names[row]].append(worth[row] * gamma ** (len(rows) - t))
    value = {name: mean(seen) for name, seen in visits.items()}
    reached = [0.0] * len(batch)
    for rows in trajectories(batch):
        for row, following in itertools.pairwise(rows):
            reached[row] = value[names[following]]
        end = rows[-1]
        reached[end] = worth[end] if success_reward is None else success_reward * bool(batch.won[end])
    gain = [after - value[name] for after, name in zip(reached, names, strict=True)]
    steps = zip(compared(reached, names, std=std), compared(gain, group, std=std), strict=True)
    parts = [node + edge_weight * edge for node, edge in steps]
    return [a + weight * b for a, b in zip(grpo(batch, std=std), parts, strict=True)]


def rtmc(batch: StepBatch, *, gamma: float = 0.99, prior: float = 2.0, std: bool = False) -> Column:
    """Values of actions over first visits, less values of states that are smoothed towards the group's."""
    assert batch.actions is not None
    reward, value, group, state = rewards(batch), returns(batch, gamma), batch.group, batch.state
    names = [(int(g), int(s), a) for g, s, a in zip(group, state, batch.actions, strict=True)]
    visits: dict[tuple[int, int, str], Column] = defaultdict(list)
    worth: dict[int, Column] = defaultdict(list)
    for rows in trajectories(batch):
        worth[int(group[rows[0]])].append(sum(reward[row] for row in rows))
        seen = set()
        for row in rows:
            if names[row] not in seen:
                seen.add(names[row])
                visits[names[row]].append(value[row])
    at_state: dict[tuple[int, int], Column] = defaultdict(list)
    for (g, s, _), found in visits.items():
        at_state[g, s] += found
    action = {name: mean(found) for name, found in visits.items()}
    smoothed = {
        name: (sum(found) + prior * mean(worth[name[0]])) / (len(found) + prior)
        for name, found in at_state.items()
    }
    result = [action[name] - smoothed[name[:2]] for name in names]
    if std:
        members: dict[int, Column] = defaultdict(list)
        for name, a in zip(names, result, strict=True):
            members[name[0]].append(a)
        scale = {name: deviation(found, 0) for name, found in members.items()}
        result = [
            a / (scale[n[0]] if scale[n[0]] > 1e-8 else 1.0) for n, a in zip(names, result, strict=True)
        ]
    return result


def gagpo(batch: StepBatch, *, gamma: float = 0.95, lam: float = 0.8, norm: str = "group") -> Column:
    """GAE over mean returns of states, compared within each group."""
    names: list[Hashable] = list(zip(batch.group.tolist(), batch.state.tolist(), strict=True))
    visits: dict[Hashable, Column] = defaultdict(list)
    for name, value in zip(names, returns(batch, gamma), strict=True):
        visits[name].append(value)
    values = [mean(visits[name]) for name in names]
    reward, result = rewards(batch), [0.0] * len(batch)
    for rows in trajectories(batch):
        found = estimated([reward[r] for r in rows], [values[r] for r in rows], [0.0], gamma, lam)
        for row, a in zip(rows, found, strict=True):
            result[row] = a
    if norm == "none":
        return result
    return compared(result, batch.group.tolist() if norm == "group" else [0] * len(batch))


def estimated(reward: Column, values: Column, after: Column, gamma: float, lam: float) -> Column:
    """GAE over one sequence; ``after`` is read at its end."""
    result, running, following = [0.0] * len(reward), 0.0, after[-1] if after else 0.0
    for t in reversed(range(len(reward))):
        running = reward[t] + gamma * following - values[t] + gamma * lam * running
        result[t], following = running, values[t]
    return result


def steppo(batch: StepBatch) -> Column:
    """GAE over steps."""
    assert batch.values is not None
    assert batch.next_values is not None
    reward, values = rewards(batch), batch.values.tolist()
    result = [0.0] * len(batch)
    for rows in trajectories(batch):
        after = [float(batch.next_values[row]) if batch.truncated[row] else 0.0 for row in rows]
        advantages = estimated([reward[r] for r in rows], [values[r] for r in rows], after, 0.99, 1.0)
        for row, a in zip(rows, advantages, strict=True):
            result[row] = a
    return result


def spo3(batch: StepBatch) -> Column:
    """Rewards compared within each state."""
    names: list[Hashable] = list(zip(batch.group.tolist(), batch.state.tolist(), strict=True))
    return compared(batch.reward.tolist(), names)


def istar(batch: StepBatch, process: Column, *, alpha: float = 1.0, std: bool = True) -> Column:
    """Outcomes, plus process rewards compared within each group."""
    step = compared(process, batch.group.tolist(), std=std)
    return [a + alpha * b for a, b in zip(grpo(batch, std=std), step, strict=True)]


def tokens_of(batch: StepBatch) -> list[list[tuple[int, int]]]:
    """(row, position among all tokens) of the response tokens of each trajectory; all rows have some."""
    assert batch.tokens is not None
    begin, position = [], 0
    for count in batch.tokens.tolist():
        begin.append(position)
        position += count
    return [
        [(row, begin[row] + k) for row in rows for k in range(int(batch.tokens[row]))]
        for rows in trajectories(batch)
    ]


def token_rewards(batch: StepBatch, tokens: list[tuple[int, int]]) -> Column:
    """Rewards of one trajectory's tokens: each step's on its last."""
    reward, result = rewards(batch), [0.0] * len(tokens)
    for k, (row, _) in enumerate(tokens):
        if k + 1 == len(tokens) or tokens[k + 1][0] != row:
            result[k] = reward[row]
    return result


def over_tokens(batch: StepBatch, each: Callable[[list[tuple[int, int]]], Column]) -> Column:
    """Apply a rule to each trajectory's tokens and whiten the results."""
    assert batch.tokens is not None
    result = [0.0] * int(batch.tokens.sum())
    for tokens in tokens_of(batch):
        for (_, position), a in zip(tokens, each(tokens), strict=True):
            result[position] = a
    return whitened(result)


def ppo(batch: StepBatch, values: Column) -> Column:
    """GAE over the tokens of each trajectory, whitened."""

    def each(tokens: list[tuple[int, int]]) -> Column:
        end = tokens[-1][0]
        after = 0.0
        if batch.truncated[end]:
            assert batch.next_values is not None
            after = float(batch.next_values[end])
        own = [values[position] for _, position in tokens]
        return estimated(token_rewards(batch, tokens), own, [after], 1.0, 0.95)

    return over_tokens(batch, each)


def reinforce_pp(batch: StepBatch) -> Column:
    """Returns of the tokens of each trajectory, whitened."""

    def each(tokens: list[tuple[int, int]]) -> Column:
        result, running = [], 0.0
        for reward in reversed(token_rewards(batch, tokens)):
            running += reward
            result.append(running)
        return result[::-1]

    return over_tokens(batch, each)


def reinforce_pp_baseline(batch: StepBatch) -> Column:
    """Outcomes minus their group's mean, on tokens, whitened."""
    value, groups = outcomes(batch), by_group(batch)
    centre = {name: mean(group) for name, group in groups.items() if len(group) > 1}

    def each(tokens: list[tuple[int, int]]) -> Column:
        row = tokens[0][0]
        return [value[row] - centre.get(int(batch.group[row]), value[row])] * len(tokens)

    return over_tokens(batch, each)


def prime(batch: StepBatch, q: Column) -> Column:
    """Leave-one-out process and outcome rewards on tokens, summed to the end, whitened."""
    sequences = tokens_of(batch)
    reward = [0.0] * len(q)
    largest = 0.0
    for tokens in sequences:
        running = 0.0
        for _, position in reversed(tokens[:-1]):
            reward[position] = 0.05 * q[position]
            running += reward[position]
            largest = max(largest, abs(running))
    reward = [r / (largest + EPS) for r in reward]
    answers: dict[int, int] = defaultdict(int)
    means: dict[int, float] = defaultdict(float)
    won: dict[int, float] = defaultdict(float)
    for tokens in sequences:
        group = int(batch.group[tokens[0][0]])
        answers[group] += 1
        means[group] += mean(reward[position] for _, position in tokens)
        won[group] += float(batch.outcome[tokens[0][0]])

    def each(tokens: list[tuple[int, int]]) -> Column:
        group = int(batch.group[tokens[0][0]])
        n = answers[group]
        if n == 1:
            return [0.0] * len(tokens)
        total = [5.0 * (n * reward[position] - means[group]) / (n - 1) for _, position in tokens]
        total[-1] += 5.0 * (n * float(batch.outcome[tokens[0][0]]) - won[group]) / (n - 1)
        result, running = [], 0.0
        for r in reversed(total):
            running += r
            result.append(running)
        return result[::-1]

    return over_tokens(batch, each)
