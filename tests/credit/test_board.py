"""Episodes on graphs are those of the environment; measures and learned tables are what they say."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from agentgym.algos.table import find_algorithm
from agentgym.core.episodes import observed_text
from agentgym.credit.behaviour import mixture, play, strength_for
from agentgym.credit.board import SUITES, CreditCell, default_algorithms, measure
from agentgym.credit.estimators import BETA, ImplicitRewards, estimator
from agentgym.credit.graph import WIN_REWARD, explore
from agentgym.credit.measures import agreement
from agentgym.credit.truth import Truth
from agentgym.errors import UsageError
from agentgym.registration import open_env
from benchmarks.credit.grid import rows_of, table_of
from tests.credit.graphs import CYCLE, TWO_WAYS


def truths_of(suite, tasks=1, success=0.4, rejected=0.0):
    graphs = SUITES[suite].graphs(range(tasks))
    horizon = SUITES[suite].horizon
    strength = strength_for(graphs, success, horizon=horizon, rejected=rejected)
    return [Truth.of(graph, mixture(graph, strength, rejected=rejected), horizon=horizon) for graph in graphs]


@pytest.mark.parametrize("suite", ["ezpoints", "hotpotqa"])
def test_episodes_of_a_graph_are_those_of_the_environment(suite):
    (truth,) = truths_of(suite, rejected=0.1)
    episodes = play([truth], 12, np.random.default_rng(0))
    batch = episodes.batch
    env = open_env(SUITES[suite].env_id, split="train", options=SUITES[suite].options)
    for start, length in zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True):
        observation, _ = env.reset(options={"task": truth.graph.task_id})
        for row in range(start, start + length):
            assert batch.texts[row] == observed_text(observation)
            assert truth.graph.hashes[episodes.state[row]] == env.state_hash()
            observation, _, terminated, truncated, info = env.step(batch.actions[row])
            assert truth.graph.hashes[episodes.next_state[row]] == info["state_hash"]
            assert (batch.terminated[row], batch.truncated[row]) == (terminated, truncated)
            assert batch.valid[row] == info["action_is_valid"]
            assert batch.reward[row] == WIN_REWARD * (terminated and info["won"])
        assert terminated or truncated
        assert batch.won[start] == (terminated and info["won"])


def test_a_mixture_wins_as_often_as_it_is_asked_to():
    truth = truths_of("ezpoints", success=0.3)[0]
    assert truth.values[-1, 0] == pytest.approx(0.3, abs=1e-3)
    batch = play([truth], 4000, np.random.default_rng(0)).batch
    assert batch.won[batch.step == 0].mean() == pytest.approx(0.3, abs=0.03)


def test_a_share_of_wins_that_no_mixture_reaches_is_refused():
    with pytest.raises(UsageError, match="1 is out of reach on these tasks"):
        strength_for([CYCLE], 1.0, horizon=2)
    cells = [CreditCell(suite="ezpoints", success=1.0, penalty=True)]
    assert list(measure("ezpoints", cells, 0, algorithms=["grpo"], tasks=1, draws=2, skip=True)) == []


def test_mixtures_by_hand():
    assert mixture(CYCLE, 0.5).tolist() == [0.75, 0.25, 0.25, 0.75, 0.75, 0.25]
    assert mixture(CYCLE, -1.0).tolist() == [0, 1, 1, 0, 0, 1]
    assert mixture(TWO_WAYS, 1.0).tolist() == [1, 0, 1, 1, 0]


def test_the_truth_agrees_with_itself_and_noise_is_variance():
    truths = truths_of("ezpoints")
    rng = np.random.default_rng(2)
    draws = [play(truths, 16, rng) for _ in range(40)]
    exact = agreement(truths, draws, [3 * draw.advantage for draw in draws])
    assert (exact.correlation, exact.rank, exact.wrong_signs) == pytest.approx((1, 1, 0))
    assert exact.bias == pytest.approx(0, abs=1e-9)
    assert exact.variance == pytest.approx(0, abs=1e-9)
    assert exact.cosine == pytest.approx(1, abs=0.02)
    noisy = [draw.advantage + rng.normal(0, 0.3, len(draw.task)) for draw in draws]
    found = agreement(truths, draws, noisy)
    assert found.bias == pytest.approx(0, abs=0.03)
    share = 0.09 / (0.09 + np.mean(np.concatenate([draw.advantage for draw in draws]) ** 2))
    assert found.variance == pytest.approx(share, abs=0.03)
    assert found.correlation**2 == pytest.approx((1 - found.bias) * (1 - found.variance), abs=0.02)
    against = agreement(truths, draws, [-draw.advantage for draw in draws])
    assert (against.correlation, against.wrong_signs) == pytest.approx((-1, 1))
    nothing = agreement(truths, draws, [np.zeros(len(draw.task)) for draw in draws])
    assert (nothing.no_signal, nothing.correlation, nothing.cosine, nothing.bias) == (1, 0, 0, 1)


def test_each_algorithm_has_a_row_and_the_true_one_leads():
    rows = list(
        measure(
            "ezpoints", [CreditCell(suite="ezpoints", penalty=True)], 3, tasks=2, draws=4, iterations=(2,)
        )
    )
    assert {row.algorithm for row in rows} == {"exact", *default_algorithms()}
    assert max(rows, key=lambda row: row.agreement.correlation).algorithm == "exact"
    assert all(
        row.iterations == (2 if row.algorithm in ("ppo", "steppo", "istar", "prime") else 0) for row in rows
    )


def test_a_table_has_its_rows_again():
    cells = [CreditCell(suite="ezpoints", match=match) for match in ("state", "text")]
    rows = list(
        measure("ezpoints", cells, 3, algorithms=["grpo", "ppo"], tasks=1, draws=2, iterations=(1, 2))
    )
    table = table_of(rows)
    assert table_of(list(rows_of(table))) == table
    found = {(row.cell, row.algorithm, row.iterations): row.agreement.correlation for row in rows_of(table)}
    for row in rows:
        key = row.cell, row.algorithm, row.iterations
        assert found[key] == pytest.approx(row.agreement.correlation, abs=5.1e-5)


def test_rejected_actions_that_no_policy_takes_change_nothing():
    cell = CreditCell(suite="ezpoints")
    alone, beside = (
        list(measure("ezpoints", cells, 0, algorithms=["istar"], tasks=1, draws=3, iterations=(2,)))
        for cells in ([cell], [cell, replace(cell, penalty=True)])
    )
    for row, same in zip(alone, beside, strict=False):
        assert asdict(row.agreement) == pytest.approx(asdict(same.agreement), abs=1e-12)


def test_text_and_state_are_two_rows_where_observations_hide_something():
    cells = [CreditCell(suite="alfworld", match=match) for match in ("state", "text")]
    rows = list(measure("alfworld", cells, 0, algorithms=["gigpo"], tasks=1, draws=2))
    by_state, by_text = (row.agreement for row in rows if row.algorithm == "gigpo")
    assert by_state != by_text


def test_an_algorithm_that_plays_its_own_episodes_is_refused():
    with pytest.raises(UsageError, match="spo3 plays episodes of its own"):
        estimator("spo3", [], [], {})


@pytest.mark.parametrize(
    "returned", [None, np.nan, np.zeros(3)], ids=["nothing", "one that is not a number", "three"]
)
def test_an_algorithm_must_return_one_finite_number_a_step(monkeypatch, returned):
    own = replace(find_algorithm("grpo"), advantage=lambda batch: returned)
    monkeypatch.setattr("agentgym.credit.estimators.find_algorithm", lambda name: own)
    episodes = play(truths_of("ezpoints"), 2, np.random.default_rng(0))
    with pytest.raises(UsageError, match=r"own must return finite advantages of shape \(\d+,\), one a step"):
        estimator("own", [], [], {})(episodes)


def test_values_of_tokens_are_no_values_of_steps():
    with pytest.raises(UsageError, match="a critic of tokens and advantages of steps"):
        estimator("agentgym.algos.steppo:WITHOUT_STEP_GAE", [], [], {})


def test_a_critic_knows_the_states_of_other_draws():
    truths = truths_of("ezpoints")
    rng = np.random.default_rng(0)
    training = [play(truths, 64, rng) for _ in range(60)]
    draws = [play(truths, 16, rng) for _ in range(20)]
    fitted = estimator("ppo", truths, training, {"lam": 0.0, "whiten": False})
    found = agreement(truths, draws, [fitted(draw) for draw in draws])
    assert (
        found.correlation > 0.95
    )  # with lam = 0, an exact critic would give the truth but for the step limit


@pytest.mark.parametrize("pairs", [True, False])
def test_reward_models_go_downhill(pairs):
    truth = Truth.of(CYCLE, mixture(CYCLE, 0.0), horizon=6)
    episodes = play([truth], 64, np.random.default_rng(0))
    model = ImplicitRewards([truth], pairs=pairs)
    assert np.abs(model.log_ratios(episodes)).max() < 1e-12
    batch = episodes.batch

    def loss():
        h = BETA * np.bincount(batch.trajectory, model.log_ratios(episodes))
        won = batch.won[batch.starts]
        if not pairs:
            return np.mean(np.log1p(np.exp(h)) - won * h)
        return np.mean(np.log1p(np.exp(-(h[won][:, None] - h[~won]))))

    before = loss()
    for _ in range(30):
        model.update(episodes)
    assert loss() < before - 0.01
    raised = truth.policy * np.exp(model.logits)
    assert (raised[4] / raised[4:].sum()) > 0.9  # "on" beside the goal, not "fall"


def test_states_that_cannot_be_listed_are_refused():
    webshop = open_env("agentgym/WebShop-v0")
    with pytest.raises(UsageError, match="has actions with free slots"):
        explore(webshop, webshop.tasks[0].id)
    sokoban = open_env("agentgym/Sokoban-v0")
    with pytest.raises(UsageError, match="more than 10 states"):
        explore(sokoban, sokoban.tasks[0].id, max_states=10)
