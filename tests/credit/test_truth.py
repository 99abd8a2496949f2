"""True values: by hand, by finite differences, and by playing on from every state."""

import numpy as np
import pytest

from agentgym.credit.behaviour import mixture, play
from agentgym.credit.graph import REJECTED, explore
from agentgym.credit.truth import Truth
from agentgym.evaluation.board.statistics import t_cdf
from agentgym.registration import open_env
from tests.credit.graphs import CYCLE, TWO_WAYS, graph


def uniform(graph):
    return (1 / np.diff(graph.first)[graph.source]).astype(float)


def test_a_cycle_a_trap_and_the_step_limit_by_hand():
    truth = Truth.of(CYCLE, uniform(CYCLE), horizon=4)
    assert truth.values.tolist() == [
        [0, 0, 0, 0, 0],
        [0, 0, 0.5, 0, 0],
        [0, 0.25, 0.5, 0, 0],
        [0.125, 0.25, 0.5, 0, 0],
        [0.1875, 0.3125, 0.5, 0, 0],
    ]
    # "on" and "stay" with four steps left; "fall" with two; "on" into the win with one
    edges, left = np.array([0, 1, 5, 4]), np.array([4, 4, 2, 1])
    assert truth.advantages(edges, left).tolist() == [0.0625, -0.0625, -0.5, 0.5]


def test_two_ways_to_win_by_hand():
    truth = Truth.of(TWO_WAYS, uniform(TWO_WAYS), horizon=3)
    assert truth.values[:, 0].tolist() == [0, 0.5, 0.5, 0.75]
    assert truth.advantages(np.array([0, 1]), np.array([3, 3])).tolist() == [0.25, -0.25]
    assert TWO_WAYS.distances.tolist() == [1, 2, 1, 0, 0]


def test_a_penalty_by_hand():
    small = graph([(0, "on", 1), (0, REJECTED, 0)], won=[1])
    truth = Truth.of(small, np.array([0.75, 0.25]), horizon=2, penalty=0.01)
    assert truth.values[:, 0].tolist() == pytest.approx([0, 0.7475, 0.934375])
    assert truth.advantages(np.array([1]), np.array([2]))[0] == pytest.approx(-0.01 + 0.7475 - 0.934375)


def test_states_from_which_no_win_can_be_reached_are_infinitely_far():
    assert CYCLE.distances.tolist() == [3, 2, 1, 0, np.inf]


def test_probabilities_that_do_not_sum_to_1_are_refused():
    with pytest.raises(ValueError, match="sum to 1, state"):
        Truth.of(CYCLE, np.full(6, 0.4), horizon=2)


def test_the_gradient_is_the_slope_of_the_value_in_logits():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=6)

    def policy(z):
        raised = np.exp(z)
        return raised / np.bincount(CYCLE.source, raised)[CYCLE.source]

    def value(z):
        return Truth.of(CYCLE, policy(z), horizon=5).values[-1, 0]

    slopes = [(value(logits + step) - value(logits - step)) / 2e-5 for step in 1e-5 * np.eye(6)]
    gradient = Truth.of(CYCLE, policy(logits), horizon=5).gradient
    np.testing.assert_allclose(gradient, slopes, atol=1e-9)


def played_on(truth, state, left, number, rng):
    """Play episodes on from a state, one by one in time and all at once; return their rewards."""
    graph, here, earned = truth.graph, np.full(number, state), np.zeros(number)
    for _ in range(left):
        for each, rows in [(each, np.flatnonzero(here == each)) for each in np.unique(here)]:
            own = np.arange(graph.first[each], graph.first[each + 1])
            if len(own):
                edge = rng.choice(own, size=len(rows), p=truth.policy[own])
                earned[rows] += np.where(graph.won[graph.target[edge]], 1.0, 0.0) - 0.01 * ~graph.valid[edge]
                here[rows] = graph.target[edge]
    return earned


@pytest.fixture(scope="module")
def sokoban():
    env = open_env("agentgym/Sokoban-v0", options={"max_steps": 12})
    found = explore(env, env.tasks[0].id, rejected=True)
    return env, Truth.of(found, mixture(found, 0.4, rejected=0.1), horizon=12, penalty=0.01)


def test_programming_equals_playing_on_from_every_state(sokoban):
    _, truth = sokoban
    rng = np.random.default_rng(5)
    scores, differences = [], []
    for state in np.flatnonzero(np.diff(truth.graph.first) > 0).tolist():
        earned = played_on(truth, state, 8, 10_000, rng)
        difference = earned.mean() - truth.values[8, state]
        differences.append(difference)
        if earned.std() > 1e-3:
            scores.append(difference / (earned.std() / np.sqrt(len(earned))))
    assert len(scores) >= 20
    assert abs(np.mean(differences)) <= 0.006
    assert kolmogorov(np.array(scores)) > 0.01


def kolmogorov(scores):
    """Return the probability of so large a distance from the standard normal, by the asymptotic series."""
    n = len(scores)
    normal = np.array([t_cdf(score, 1e9) for score in np.sort(scores)])
    distance = max((np.arange(1, n + 1) / n - normal).max(), (normal - np.arange(n) / n).max())
    terms = np.arange(1, 100)
    return 2 * np.sum((-1.0) ** (terms - 1) * np.exp(-2 * terms**2 * n * distance**2))


def test_advantages_of_an_episode_sum_to_what_it_earned_less_what_was_expected(sokoban):
    _, truth = sokoban
    episodes = play([truth], 200, np.random.default_rng(1))
    batch = episodes.batch
    earned = np.where(batch.reward > 0, 1.0, 0.0) - np.where(batch.valid, 0.0, 0.01)
    sums = np.bincount(batch.trajectory, earned - episodes.advantage)
    np.testing.assert_allclose(sums, truth.values[-1, 0], atol=1e-12)


def test_the_best_policy_has_no_advantage_to_gain(sokoban):
    env, _ = sokoban
    found = explore(env, env.tasks[0].id)
    best = Truth.of(found, mixture(found, 1.0), horizon=12)
    episodes = play([best], 50, np.random.default_rng(1))
    assert best.values[-1, 0] == pytest.approx(1.0)
    np.testing.assert_allclose(episodes.advantage, 0.0, atol=1e-12)
    assert best.advantages(np.arange(len(found.target)), np.full(len(found.target), 12)).max() < 1e-12
