"""GraphGPO: literal numbers, its two propositions on random graphs, and distances beside Dijkstra's."""

import heapq
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.algos import gigpo, graphgpo, grpo
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import Compat
from agentgym.algos.graph import distance, distinct, match_edges, step_costs
from tests.algos.episodes import batch_of, batches, take

WINNER = {"states": ["s1", "s21", "s2", "s4", "s2"], "actions": "abcge", "rewards": [0] * 4 + [10]}
LOSER = {"states": ["s1", "s2"], "actions": "df", "final": "s3"}
DETOUR = batch_of(WINNER, LOSER)
TWICE = batch_of(WINNER, LOSER, LOSER)


@pytest.mark.parametrize(
    ("convention", "expected"),
    [
        (
            "paper",
            [-0.12156606, 0.58553992, 0.14531466, 0.58553992, 1.73012562, -0.75674383, -2.16821024],
        ),
        (
            "reference",
            [-0.12156646, 0.58553992, 0.14531456, 0.58553992, 1.73012586, -0.75674343, -2.16821039],
        ),
    ],
)
def test_a_detour_and_a_good_first_step(convention, expected):
    compat = Compat(episode_stat="cross_steps")
    result = graphgpo.advantage(DETOUR, omega=0.5, convention=convention, compat=compat)
    np.testing.assert_allclose(result, expected, atol=1e-8)


@pytest.mark.parametrize(
    ("batch", "edges", "expected"),
    [
        (
            DETOUR,
            "occurrence",
            [7e-07, 0.70710668, 0.26688141, 0.70710668, 1.85169238, -7e-07, -1.41146711],
        ),
        (DETOUR, "unique", [7e-07, 0.70710668, 0.26688141, 0.70710668, 1.85169238, -7e-07, -1.41146711]),
        (
            TWICE,
            "occurrence",
            [1.4e-06, 1.15470034, 0.85765622, 1.15470034, 2.63992095, *([-7e-07, -1.17143841] * 2)],
        ),
        (
            TWICE,
            "unique",
            [0.44759436, 1.15470034, 0.71447507, 1.15470034, 2.29928603, *([0.12975581, -1.2817106] * 2)],
        ),
    ],
)
def test_the_papers_statistics(batch, edges, expected):
    np.testing.assert_allclose(graphgpo.advantage(batch, omega=0.5, edges=edges), expected, atol=1e-8)


@pytest.mark.parametrize(
    ("convention", "expected"),
    [
        ("paper", [-0.625, 0.0, -1.04166667, 0.0, 2.70833333, 0.625, -1.66666667]),
        ("reference", [-1.25, 0.0, -2.08333333, 0.0, 5.41666667, 1.25, -3.33333333]),
    ],
)
def test_the_steps_own_cost_shows_without_the_deviation(convention, expected):
    result = graphgpo.advantage(DETOUR, omega=0.5, convention=convention, std=False, episode_weight=0.0)
    np.testing.assert_allclose(result, expected, atol=1e-8)


def test_distances_of_the_detour():
    source, target = match_edges(DETOUR)
    left = distance(DETOUR, source, target, np.ones(7))
    assert left.tolist() == [2.0, 1.0, 2.0, 1.0, 0.0, 1.0, 3.0]  # s3 is lost: 1 + the largest, 2


@pytest.mark.parametrize("std", [True, False])
@pytest.mark.parametrize("cost", [None, np.array([1.0, 0.5, 2.0])])
def test_no_success_leaves_nothing(std, cost):
    batch = batch_of({"states": "XY", "actions": "12"}, {"states": "X", "actions": "3"})
    assert graphgpo.advantage(batch, std=std, cost=cost).tolist() == [0.0] * 3


FEW_CALLS = {"states": ["q", "c", "d"], "rewards": [0, 0, 1]}
MANY_CALLS = {"states": ["q", "b"], "rewards": [0, 1]}


def test_what_the_environment_charges_turns_the_ranking():
    """Four calls in one step reach the answer sooner, one a step cheaper."""
    batch = batch_of(MANY_CALLS, FEW_CALLS, cost=[4, 1, 1, 1, 1])
    given = {"omega": 0.5, "std": False, "episode_weight": 0.0}
    # R of the two first steps: 10 x .5^(1 + 1) and 10 x .5^(2 + 1); with costs 10 x .5^(1 + 4) and the same
    assert graphgpo.advantage(batch, **given)[[0, 2]].tolist() == [0.625, -0.625]
    charged = graphgpo.advantage(batch, costs="environment", **given)
    assert charged[[0, 2]].tolist() == [-0.46875, 0.46875]
    # what a caller gives stands before either
    assert graphgpo.advantage(batch, cost=np.ones(5), costs="environment", **given)[0] == 0.625


def test_a_rejected_action_is_charged_for_its_turn():
    free = batch_of({"states": "qq", "rewards": [0, 1], "valid": [False, True]}, cost=[0, 1])
    assert step_costs(free, "environment").tolist() == [1.0, 1.0]
    given = {"omega": 0.5, "std": False, "episode_weight": 0.0, "costs": "environment"}
    assert graphgpo.advantage(free, **given).tolist() == [-1.25, 1.25]  # R 2.5 and 5


def test_costs_that_are_missing_or_negative():
    with pytest.raises(ValueError, match="cost is missing"):
        graphgpo.advantage(DETOUR, costs="environment")
    with pytest.raises(ValueError, match="cost must not be negative, row 1 is -1"):
        batch_of(MANY_CALLS, cost=[4, -1])


def test_success_is_won_not_reward():
    batch = batch_of({"states": "AB", "rewards": [1, 0], "won": False}, {"states": "AC", "won": True})
    a = graphgpo.advantage(batch, episode_weight=0.0)
    assert a[2] > 0 > a[0]
    other = batch_of({"states": "AB", "rewards": [1, 0], "won": False}, {"states": "AC", "won": False})
    assert graphgpo.advantage(other, episode_weight=0.0).tolist() == [0.0] * 4


def shortest_by_heap(batch, source, target, cost):
    """Dijkstra's algorithm from SUCCESS over reversed edges, one group at a time."""
    last = np.append(batch.trajectory[1:] != batch.trajectory[:-1], True)
    left = np.zeros(len(batch))
    for group in np.unique(batch.group):
        rows = np.flatnonzero(batch.group == group)
        into = defaultdict(list)
        for row in rows:
            end = "SUCCESS" if last[row] and batch.won[row] else target[row]
            into[end].append((source[row], cost[row]))
        found, queue = {}, [(0.0, 0, "SUCCESS")]
        while queue:
            d, _, node = heapq.heappop(queue)
            if node in found:
                continue
            found[node] = d
            for other, c in into[node]:
                heapq.heappush(queue, (d + c, len(queue) + int(other) * 1000, other))
        beyond = max(found.values()) + 1
        for row in rows:
            won = last[row] and batch.won[row]
            left[row] = 0.0 if won else found.get(target[row], beyond)
    return left


@given(batches(), st.integers(0, 2**32 - 1), st.booleans())
def test_distances_are_dijkstras(batch, seed, unit):
    costs = np.random.default_rng(seed).choice([0.0, 0.25, 1.0, 3.0], size=len(batch))
    cost = np.ones(len(batch)) if unit else costs
    source, target = match_edges(batch)
    assert np.array_equal(
        distance(batch, source, target, cost), shortest_by_heap(batch, source, target, cost)
    )


def test_a_long_chain():
    n = 2000
    batch = batch_of({"states": range(n), "won": True})
    source, target = match_edges(batch)
    assert distance(batch, source, target, np.ones(n)).tolist() == list(range(n - 1, -1, -1))


@given(batches(), st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from(["occurrence", "unique"]))
def test_proposition_4_1_monotonicity(batch, seed, std, edges):
    """Of two steps from one state, that on the shorter way to success has the larger A^G; equal, equal."""
    cost = np.random.default_rng(seed).choice([0.5, 1.0, 2.0], size=len(batch))
    source, target = match_edges(batch)
    way = distance(batch, source, target, cost) + cost
    a = graphgpo.advantage(batch, omega=0.8, cost=cost, episode_weight=0.0, std=std, edges=edges)
    solved = np.isin(batch.group, batch.group[batch.won])
    compared = (source[:, None] == source) & solved
    better = np.sign(a[:, None] - a)
    assert np.array_equal(better[compared], np.sign(way - way[:, None])[compared])


@given(batches())
def test_proposition_4_2_conditional_variance(batch):
    """Given its edge (s, a, s') a step's A^G does not vary, whatever followed in its trajectory."""
    source, target = match_edges(batch)
    last = np.append(batch.trajectory[1:] != batch.trajectory[:-1], True)
    target = np.where(last & batch.won, -1, target)
    a = graphgpo.advantage(batch, episode_weight=0.0)
    same = (source[:, None] == source) & (target[:, None] == target)
    assert np.ptp(np.where(same, a, a[:, None]), axis=1).max() == 0.0


def test_returns_vary_where_edges_do_not():
    """The same first step, then luck: GiGPO's A^S tells the two apart, A^G does not."""
    batch = batch_of(
        {"states": "AB", "won": True, "rewards": [0, 10]},
        {"states": "ABC", "won": False, "rewards": [0, 0, 0]},
        {"states": "AC", "won": False, "rewards": [0, 0]},
    )
    graph = graphgpo.advantage(batch, episode_weight=0.0)
    returns = gigpo.advantage(batch) - grpo.advantage(batch)
    assert graph[0] == graph[2] > graph[5]
    assert returns[0] > returns[2]


@given(batches())
def test_groups_do_not_see_each_other(batch):
    result = graphgpo.advantage(batch)
    for group in np.unique(batch.group):
        rows = np.flatnonzero(batch.group == group)
        np.testing.assert_allclose(graphgpo.advantage(take(batch, rows)), result[rows], atol=1e-7)


@given(batches())
def test_rewards_do_not_enter_the_graph(batch):
    a = graphgpo.advantage(batch, episode_weight=0.0)
    moved = batch.with_columns(reward=batch.reward + 3.0, outcome=batch.outcome * 0.5)
    assert np.array_equal(graphgpo.advantage(moved, episode_weight=0.0), a)


def test_two_actions_to_one_state_are_two_edges():
    def advantage(first, second):
        batch = batch_of(
            {"states": "SG", "won": True, "actions": "aa"},
            {"states": "S", "final": "L", "won": False, "actions": first},
            {"states": "S", "final": "L", "won": False, "actions": second},
        )
        return graphgpo.advantage(batch, edges="unique", std=False, episode_weight=0.0)

    good, bad = 10 * 0.1**2, 10 * 0.1**4  # L is lost: 1 + the largest distance, 2
    np.testing.assert_allclose(advantage("b", "b")[0], good - (good + bad) / 2, atol=1e-12)
    np.testing.assert_allclose(advantage("b", "c")[0], good - (good + 2 * bad) / 3, atol=1e-12)


def test_near_states_are_one_node():
    angles = np.array([0.0, 0.1, 0.2, 1.5])  # the second and third step act in nearly the same state
    batch = batch_of({"states": "AB", "won": True}, {"states": "CD", "won": False})
    vectors = np.stack([np.cos(angles[[0, 2, 1, 3]]), np.sin(angles[[0, 2, 1, 3]])], axis=1)
    apart = graphgpo.advantage(batch, episode_weight=0.0)
    joined = graphgpo.advantage(
        batch.with_columns(embeddings=vectors), match="embedding", episode_weight=0.0, omega=0.8
    )
    assert apart.tolist() == [0.0] * 4
    assert joined[1] > 0 > joined[2]


def test_the_public_code_takes_the_penalty_off_the_reward():
    batch = batch_of({"states": "AB", "won": True}, {"states": "AA", "valid": [False, True], "won": False})
    paper = graphgpo.advantage(batch, episode_weight=0.0, std=False)
    public = graphgpo.advantage(batch, episode_weight=0.0, std=False, compat=Compat(invalid_penalty="row"))
    # A holds three steps, one of them rejected: its mean falls by 0.1 / 3.
    np.testing.assert_allclose(public - paper, [0.1 / 3, 0.0, 0.1 / 3 - 0.1, 0.1 / 3], atol=1e-12)


def test_no_steps_and_one_step():
    assert graphgpo.advantage(StepBatch.of(group=[], trajectory=[], state=[], reward=[])).shape == (0,)
    assert graphgpo.advantage(batch_of({"states": "A", "won": True})).tolist() == [0.0]


@pytest.mark.parametrize(
    ("switch", "message"),
    [
        ({"convention": "verl"}, "unknown convention .*choose one of paper, reference"),
        ({"edges": "all"}, "unknown edges .*choose one of occurrence, unique"),
        ({"omega": 0.0}, "omega must be a number above 0 and at most 1"),
        ({"cost": np.array([1.0])}, "cost must hold 7 finite numbers"),
        ({"cost": np.full(7, -1.0)}, "cost must hold 7 finite numbers that are not negative"),
    ],
)
def test_bad_switches_are_refused(switch, message):
    with pytest.raises(ValueError, match=message):
        graphgpo.advantage(DETOUR, **switch)


def test_missing_columns_are_named():
    with pytest.raises(ValueError, match="actions is missing"):
        graphgpo.advantage(DETOUR.with_columns(actions=None), edges="unique")
    lost = StepBatch.of(group=[0], trajectory=[0], state=["A"], next_state=[""], reward=[0.0])
    with pytest.raises(ValueError, match="next_state is missing on row 0"):
        graphgpo.advantage(lost)


def test_an_edge_to_success_is_none_to_a_node_of_any_number():
    batch = batch_of({"states": "A", "rewards": [1]}, {"states": "ABC"}, {"states": "A", "rewards": [1]})
    source, target = np.array([0, 0, 1, 2, 0]), np.array([3, 1, 2, 4, 5])
    assert distinct(batch, source, target, np.zeros(5)).tolist() == [True, True, True, True, False]
