"""Values, policies, gradients and measures against their definitions, one by one on random graphs."""

import math
from itertools import permutations

import numpy as np
import pytest

from agentgym.credit.behaviour import mixture, play
from agentgym.credit.graph import REJECTED
from agentgym.credit.measures import CLEAR, agreement
from agentgym.credit.truth import Truth
from tests.credit.graphs import graph

DRAWS = 4


def random_graph(rng):
    """Make a graph with cycles, traps, several wins or none, and states whose only action is rejected."""
    size = int(rng.integers(1, 8))
    kind = rng.choice(3, size, p=[0.6, 0.25, 0.15])
    kind[0] = 0
    edges = []
    for state in np.flatnonzero(kind == 0).tolist():
        targets = rng.integers(size, size=rng.integers(4)).tolist()
        edges += [(state, f"action {number}", target) for number, target in enumerate(targets)]
        if not targets or rng.random() < 0.5:
            edges.append((state, REJECTED, state))
    reached = max(max(source, target) for source, _, target in edges)
    won, lost = ([state for state in range(reached + 1) if kind[state] == each] for each in (1, 2))
    return graph(edges, won=won, lost=lost)


def edges_of(graph, state):
    return range(graph.first[state], graph.first[state + 1])


def distance(graph, state, visited=()):
    if graph.won[state]:
        return 0
    nexts = [graph.target[edge] for edge in edges_of(graph, state) if graph.target[edge] not in visited]
    return 1 + min((distance(graph, each, (*visited, state)) for each in nexts), default=math.inf)


def probabilities(graph, strength, rejected):
    result = [0.0] * len(graph.target)
    for state in range(len(graph.won)):
        accepted = [edge for edge in edges_of(graph, state) if graph.valid[edge]]
        others = [edge for edge in edges_of(graph, state) if not graph.valid[edge]]
        away = distance(graph, state)
        short = [edge for edge in accepted if 1 + distance(graph, graph.target[edge]) == away < math.inf]
        liked = short if strength >= 0 else [edge for edge in accepted if edge not in short]
        weight = abs(strength) if liked and away < math.inf else 0.0
        share = 0.0 if not others else rejected if accepted else 1.0
        for edge in others:
            result[edge] = share
        for edge in accepted:
            drawn = weight * (edge in liked) / max(len(liked), 1) + (1 - weight) / len(accepted)
            result[edge] = (1 - share) * drawn
    return result


def value(graph, policy, penalty, state, left):
    if left == 0:
        return 0.0
    return sum(policy[e] * action_value(graph, policy, penalty, e, left) for e in edges_of(graph, state))


def action_value(graph, policy, penalty, edge, left):
    target = graph.target[edge]
    reward = float(graph.won[target]) - penalty * (not graph.valid[edge])
    return reward + value(graph, policy, penalty, target, left - 1)


def slope(graph, policy, penalty, edge, horizon, step=1e-5):
    """Return the slope of the first state's value in one logit."""

    def raised(by):
        own = edges_of(graph, graph.source[edge])
        weights = {e: policy[e] * math.exp(by if e == edge else 0.0) for e in own}
        return [weights[e] / sum(weights.values()) if e in own else policy[e] for e in range(len(policy))]

    up, down = (value(graph, raised(by), penalty, 0, horizon) for by in (step, -step))
    return (up - down) / (2 * step)


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_values_policies_and_gradients_of_random_graphs(first):
    for seed in range(first, first + 20):
        rng = np.random.default_rng(seed)
        found, horizon = random_graph(rng), int(rng.integers(1, 5))
        strength, rejected = rng.choice([-1, -0.5, 0, 0.3, 1]), rng.choice([0, 0.1, 0.5])
        policy = probabilities(found, strength, rejected)
        np.testing.assert_allclose(mixture(found, strength, rejected=rejected), policy, atol=1e-12)
        penalty = float(rng.choice([0, 0.3]))
        truth = Truth.of(found, np.array(policy), horizon=horizon, penalty=penalty)
        values = [value(found, policy, penalty, state, horizon) for state in range(len(found.won))]
        np.testing.assert_allclose(truth.values[horizon], values, atol=1e-12)
        slopes = [slope(found, policy, penalty, edge, horizon) for edge in range(len(policy))]
        np.testing.assert_allclose(truth.gradient, slopes, atol=1e-8)
        episodes = play([truth], 3, rng)
        for edge, left, advantage in zip(episodes.edge, episodes.left, episodes.advantage, strict=True):
            here = value(found, policy, penalty, found.source[edge], left)
            assert advantage == pytest.approx(action_value(found, policy, penalty, edge, left) - here)


def mean_ranks(values):
    return [sum(v < x for v in values) + (1 + sum(v == x for v in values)) / 2 for x in values]


def cosine(x, y):
    size = math.sqrt(sum(a * a for a in x) * sum(b * b for b in y))
    return sum(a * b for a, b in zip(x, y, strict=True)) / size if size else 0.0


def bias_and_variance(draws, estimates):
    """Return both measures from the estimates of each step by draw."""
    found, true = {}, {}
    for number, (draw, estimate) in enumerate(zip(draws, estimates, strict=True)):
        rows = zip(draw.task, draw.edge, draw.left, estimate, draw.advantage, strict=True)
        for task, edge, left, a, truth in rows:
            found.setdefault((task, edge, left), {}).setdefault(number, []).append(a)
            true[task, edge, left] = truth
    squares = products = sizes = truths = 0.0
    for step, by_draw in found.items():
        if len(by_draw) > 1:
            means = [sum(each) / len(each) for each in by_draw.values()]
            rows = sum(len(each) for each in by_draw.values())
            squares += rows * np.mean([a * b for a, b in permutations(means, 2)])
            products += rows * true[step] * sum(means) / len(means)
            truths += rows * true[step] ** 2
            sizes += sum(a * a for each in by_draw.values() for a in each)
    return 1 - products**2 / (squares * truths), 1 - squares / sizes


def update_cosine(truths, draws, estimates):
    """Return the cosine of the gradient and the mean update, whose length is of pairs of draws."""
    updates = []
    for draw, estimate in zip(draws, estimates, strict=True):
        update = [[0.0] * len(truth.policy) for truth in truths]
        for task, edge, a in zip(draw.task, draw.edge, estimate, strict=True):
            for other in edges_of(truths[task].graph, truths[task].graph.source[edge]):
                update[task][other] += a * ((other == edge) - truths[task].policy[other])
        updates.append(np.concatenate(update))
    gradient = np.concatenate([truth.gradient for truth in truths])
    length = np.mean([a @ b for a, b in permutations(updates, 2)])
    size = math.sqrt(max(length, 0.0) * (gradient @ gradient))
    return np.clip(np.mean(updates, axis=0) @ gradient / size, -1, 1) if size else 0.0


def test_measures_are_their_definitions():
    checked = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        graphs = [random_graph(rng) for _ in range(2)]
        truths = [Truth.of(g, mixture(g, 0.3, rejected=0.2), horizon=4, penalty=0.1) for g in graphs]
        draws = [play(truths, 6, rng) for _ in range(DRAWS)]
        estimates = [
            np.round(draw.advantage + rng.normal(0, 0.1, len(draw.task)), 1) * (rng.random() < 0.8)
            for draw in draws
        ]
        a, truth = (np.concatenate(each).tolist() for each in (estimates, [d.advantage for d in draws]))
        if max(truth) < CLEAR:
            continue
        found = agreement(truths, draws, estimates)
        assert found.correlation == pytest.approx(cosine(a, truth))
        centred = [np.array(mean_ranks(each)) - (len(a) + 1) / 2 for each in (a, truth)]
        assert found.rank == pytest.approx(cosine(*centred))
        clear = [x * y < 0 for x, y in zip(a, truth, strict=True) if abs(y) > CLEAR]
        assert found.wrong_signs == pytest.approx(sum(clear) / len(clear))
        assert found.no_signal == pytest.approx(a.count(0.0) / len(a))
        bias, variance = bias_and_variance(draws, estimates)
        if 0 < bias < 1 and 0 < variance < 1:
            assert (found.bias, found.variance) == pytest.approx((bias, variance))
            checked += 1
        assert found.cosine == pytest.approx(update_cosine(truths, draws, estimates))
    assert checked >= 10


def test_noise_is_all_variance_and_no_measure_leaves_its_range():
    graphs = [random_graph(np.random.default_rng(seed)) for seed in (3, 5, 11)]
    truths = [Truth.of(each, mixture(each, 0.3), horizon=4) for each in graphs]
    for seed in range(30):
        rng = np.random.default_rng(seed)
        draws = [play(truths, 4, rng) for _ in range(DRAWS)]
        found = agreement(truths, draws, [rng.normal(size=len(draw.task)) for draw in draws])
        assert 0 <= found.bias <= 1
        assert 0.5 < found.variance <= 1
        assert -1 <= found.cosine <= 1
