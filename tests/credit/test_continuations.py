"""Advantages from continuations against those by dynamic programming, and the correction for their noise."""

from dataclasses import replace

import numpy as np
import pytest

from agentgym.algos.advantage import trajectory_sums
from agentgym.core.episodes import observed_text
from agentgym.credit.board import SUITES, CreditCell, measure
from agentgym.credit.continuations import UNLIMITED, SampledTask, sample
from agentgym.credit.graph import explore
from agentgym.credit.measures import agreement, reliability
from agentgym.credit.truth import Truth
from agentgym.errors import UsageError
from agentgym.registration import open_env
from tests.credit.test_truth import kolmogorov


@pytest.fixture(scope="module")
def sampled():
    """Play EZPoints both ways: a sample with its tasks, and the exact truths of the same policy."""
    horizon = SUITES["ezpoints"].horizon
    env = open_env("agentgym/EZPoints-v0", split="train", options={"max_steps": UNLIMITED})
    tasks = [SampledTask(env.spawn(), env.oracle(), env.tasks[n].id, horizon=horizon) for n in range(3)]
    rng = np.random.default_rng(3)
    found = sample(
        tasks, 0.4, size=8, draws=12, training=1, continuations=64, rejected=0.1, penalty=0.01, rng=rng
    )
    return tasks, found, [exact(task, seen, env) for task, seen in zip(tasks, found.truths, strict=True)]


def exact(task, seen, env):
    """Solve a task for the policy that a sample was played with."""
    limited = open_env("agentgym/EZPoints-v0", split="train")
    graph = explore(limited, task.task, rejected=True)
    policy = np.zeros(len(graph.target))
    for state, name in enumerate(graph.hashes):
        if graph.ended[state] or name not in task.numbers:
            policy[graph.first[state] : graph.first[state + 1]] = 1 / max(
                1, graph.first[state + 1] - graph.first[state]
            )
            continue
        place = task.places[task.numbers[name]]
        chances = dict(zip(place.actions, task.probabilities(place), strict=False))
        for edge in range(graph.first[state], graph.first[state + 1]):
            policy[edge] = chances[graph.actions[edge]]
    return Truth.of(graph, policy, horizon=task.horizon, penalty=0.01)


def true_advantages(found, exacts, draw):
    """Return the exact advantages of a draw's steps, by state hash and action."""
    result = []
    for number, edge, left in zip(draw.task, draw.edge, draw.left, strict=True):
        seen, truth = found.truths[number].graph, exacts[number]
        state = truth.graph.hashes.index(seen.hashes[seen.source[edge]])
        own = range(truth.graph.first[state], truth.graph.first[state + 1])
        same = next(each for each in own if truth.graph.actions[each] == seen.actions[edge])
        result.append(truth.advantages(np.array([same]), np.array([left]))[0])
    return np.array(result)


def test_continuations_agree_with_dynamic_programming(sampled):
    _, found, exacts = sampled
    scores, differences = [], []
    for seen, truth in zip(found.truths, exacts, strict=True):
        places = {name: state for state, name in enumerate(truth.graph.hashes)}
        for left, state in np.argwhere(np.isfinite(seen.values)):
            if left == 0 or seen.graph.ended[state] or state == len(seen.graph.won) - 1:
                continue
            value = truth.values[left, places[seen.graph.hashes[state]]]
            differences.append(seen.values[left, state] - value)
            if 0.2 < value < 0.8:
                scores.append(differences[-1] / np.sqrt(value * (1 - value) / 32))
    assert len(scores) >= 30
    assert abs(np.mean(differences)) <= 0.02
    assert kolmogorov(np.array(scores)) > 0.01


def test_the_correction_restores_the_exact_correlation(sampled):
    _, found, exacts = sampled
    known = [true_advantages(found, exacts, draw) for draw in found.draws]
    rng = np.random.default_rng(0)
    exact_draws = [
        replace(draw, advantage=truth, error=np.zeros(len(truth)))
        for draw, truth in zip(found.draws, known, strict=True)
    ]
    graphs = found.truths
    estimates = {
        "truth": known,
        "noisy": [truth + rng.normal(0, 0.2, len(truth)) for truth in known],
        "outcome": [
            trajectory_sums(draw.batch, draw.batch.reward) / 10 - draw.batch.won.mean()
            for draw in found.draws
        ],
    }
    for name, values in estimates.items():
        corrected = agreement(graphs, found.draws, values).correlation
        a, truth = np.concatenate(values), np.concatenate(known)
        expected = a @ truth / np.sqrt((a @ a) * (truth @ truth))
        assert corrected == pytest.approx(expected, abs=0.05), name
    noise = [rng.normal(size=len(draw.task)) for draw in found.draws]
    assert abs(agreement(graphs, found.draws, noise).correlation) < 0.06
    near = np.concatenate([draw.advantage for draw in found.draws])
    truth = np.concatenate([draw.advantage for draw in exact_draws])
    directly = near @ truth / np.sqrt((near @ near) * (truth @ truth))
    assert reliability(found.draws).correlation == pytest.approx(directly, abs=0.03)


def test_measures_that_noise_spoils_are_left_out(sampled):
    _, found, _ = sampled
    values = [draw.batch.reward for draw in found.draws]
    left_out = agreement(found.truths, found.draws, values)
    assert np.isnan([left_out.rank, left_out.wrong_signs, left_out.cosine]).all()
    assert np.isfinite([left_out.correlation, left_out.no_signal]).all()


@pytest.mark.parametrize("suite", ["alfworld-50", "webshop"])
def test_episodes_are_those_of_the_environment(suite):
    (task,) = SUITES[suite].sampled([0])
    rng = np.random.default_rng(0)
    found = sample(
        [task], 0.6, size=4, draws=1, training=1, continuations=2, rejected=0.1, penalty=0.01, rng=rng
    )
    env = open_env(SUITES[suite].env_id, split="train", options=SUITES[suite].options)
    (draw,), graph = found.draws, found.truths[0].graph
    for start, length in zip(draw.batch.starts.tolist(), draw.batch.lengths.tolist(), strict=True):
        observation, _ = env.reset(seed=0, options={"task": task.task})
        for row in range(start, start + length):
            assert draw.batch.texts[row] == observed_text(observation)
            assert graph.hashes[draw.state[row]] == env.state_hash()
            observation, _, terminated, truncated, info = env.step(draw.batch.actions[row])
            assert graph.hashes[draw.next_state[row]] == info["state_hash"]
            assert (draw.batch.terminated[row], draw.batch.truncated[row]) == (terminated, truncated)
            assert draw.batch.valid[row] == info["action_is_valid"]
        assert terminated or truncated
        assert draw.batch.won[start] == (terminated and info["won"])
    sums = np.bincount(graph.source, found.truths[0].policy, len(graph.won))
    np.testing.assert_allclose(sums[np.diff(graph.first) > 0], 1.0)


def test_a_board_of_continuations_has_no_exact_row():
    cell = CreditCell(suite="webshop", group_size=4)
    rows = list(measure("webshop", [cell], 0, algorithms=["grpo"], tasks=1, draws=2))
    assert [(row.algorithm, row.iterations) for row in rows] == [("continuations", 16), ("grpo", 0)]
    assert rows[1].record()["cosine"] is None


def test_a_share_of_wins_that_no_mixture_reaches_is_refused():
    tasks = SUITES["webshop"].sampled([0])
    with pytest.raises(UsageError, match="out of reach on these tasks: take one from 0"):
        sample(
            tasks,
            -0.1,
            size=2,
            draws=1,
            training=0,
            continuations=2,
            rejected=0.0,
            penalty=0.0,
            rng=np.random.default_rng(0),
        )
