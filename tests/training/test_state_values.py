"""Values of states, by continuations and exact ones: they are the policy's, and its gradient follows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from agentgym.core.rng import TurnRng
from agentgym.core.types import Completion
from agentgym.credit.behaviour import mixture
from agentgym.credit.board import CreditCell, compare, contestants
from agentgym.credit.continuations import Sample
from agentgym.credit.graph import WIN_REWARD, explore
from agentgym.credit.truth import Truth
from agentgym.errors import UsageError
from agentgym.history.run import read_metrics
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.collect.rollout_batch import Collected
from agentgym.training.config import TrainConfig, override
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.packing import step_rows
from agentgym.training.machine.resources import resolve
from agentgym.training.run import start
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages.branching.worker import BranchingWorker
from agentgym.training.stages.state_values import ExactCollector, VineCollector

EZPOINTS, SOKOBAN = "agentgym/EZPoints-v0", "agentgym/Sokoban-v0"
SMALL = {
    "model": "tiny:0.1m",
    "iterations": 2,
    "rollout.tasks": 2,
    "rollout.group_size": 3,
    "rollout.num_envs": 6,
    "learner.learning_rate": 3e-3,
    "objective.kl_coefficient": 0.0,
    "evaluation.every": 0,
}
EASY = {"env_options.max_optimal": 2, "env_options.max_steps": 5, "env_options.reward": "sparse10"}
"""Boards that random weights win now and then."""


def config(algorithm, env_id=EZPOINTS, **changes):
    plain = TrainConfig(algorithm=algorithm, env_id=env_id)
    return override(plain, SMALL | {key.replace("__", "."): value for key, value in changes.items()})


def sokoban(algorithm, **changes):
    return TrainingSetup.open(resolve(override(config(algorithm, SOKOBAN), EASY | changes)))


# ---- continuations ----------------------------------------------------------------------------------


PENALTY = 1.0
"""The invalid-action penalty."""


class KnownPolicy:
    """Plays a truth's policy on the task's graph."""

    def __init__(self, truth):
        self.truth = truth
        self.numbers = {name: number for number, name in enumerate(truth.graph.hashes)}
        self.requests = 0

    def act(self, requests):
        self.requests += len(requests)
        return [Completion(self._action(request), response_ids=(0,)) for request in requests]

    def _action(self, request):
        graph, state = self.truth.graph, self.numbers[request.state_hash]
        edges = np.arange(graph.first[state], graph.first[state + 1])
        draw = TurnRng(request.seed, request.turn).below(1 << 53) / (1 << 53)
        chosen = np.searchsorted(np.cumsum(self.truth.policy[edges]), draw)
        return graph.actions[edges[min(chosen, len(edges) - 1)]]


@pytest.fixture(scope="module")
def known():
    """A group of a policy of known probabilities that wins half, is rejected often and meets the limit."""
    envs = open_vector(EZPOINTS, 32, options={"max_steps": 6})
    task = envs.tasks.ids[0]
    graph = explore(envs.prototype.spawn(), task, rejected=True)
    truth = Truth.of(graph, mixture(graph, 0.8, rejected=0.2), horizon=6, penalty=PENALTY / WIN_REWARD)
    policy = KnownPolicy(truth)
    (group,) = RolloutWorker(envs, policy, env_id=EZPOINTS).collect([task], group_size=12, seed=0)
    return group, policy, BranchingWorker(envs, policy, env_id=EZPOINTS)


def test_continuations_estimate_the_true_values(known):
    group, policy, worker = known
    assert any(member.end_reason == "step_limit" for member in group.trajectories)
    vine = VineCollector(None, worker, Ranks(), 60, PENALTY)
    estimates = vine.values(group.trajectories)
    truth = {}
    for member, values in zip(group.trajectories, estimates, strict=True):
        for turn, (step, value) in enumerate(zip(member.steps, values, strict=True)):
            state = policy.numbers[step.state_hash]
            path = tuple(each.action for each in member.steps[:turn])
            assert (
                truth.setdefault(path, (value, WIN_REWARD * policy.truth.values[6 - turn, state]))[0] == value
            )
    estimate, exact = np.array(list(truth.values())).T
    assert len(exact) > 15
    error = 0.5 * WIN_REWARD / np.sqrt(60)  # the most that a mean of wins and losses deviates
    assert np.abs(estimate - exact).max() < 4 * error
    assert abs((estimate - exact).mean()) < 3 * error / np.sqrt(len(exact))
    assert np.ptp(exact) > 4 * error


def test_episodes_that_begin_alike_share_continuations(known):
    group, policy, worker = known
    one, other = group.trajectories[:2]
    vine = VineCollector(None, worker, Ranks(), 2, 0.0)
    policy.requests = 0
    first = vine.values([one])[0]
    alone = policy.requests
    twins = vine.values([one, one])
    assert policy.requests == 2 * alone
    assert twins[0].tolist() == twins[1].tolist() == first.tolist()
    (mine, others) = vine.values([one, other])
    assert mine[0] == others[0]


def test_a_game_that_leads_elsewhere_is_refused(known):
    group, _, worker = known
    member = max(group.trajectories, key=lambda each: len(each.steps))
    other = replace(member, steps=(replace(member.steps[0], next_state_hash="elsewhere"), *member.steps[1:]))
    with pytest.raises(
        UsageError, match="led to state elsewhere, and to another one when played again"
    ) as raised:
        VineCollector(None, worker, Ranks(), 2, 0.0).values([other])
    assert "\n" not in str(raised.value)


def test_steps_of_continuations_are_spent_and_not_trained_on(tmp_path):
    start(config("vine", algorithm_options__continuations=3), tmp_path / "run", logs=["jsonl"])
    first, last = read_metrics(tmp_path / "run")
    trained = round(first.steps_per_episode * 6)
    assert sum(first.step_groups.values()) == trained
    # three from the first state of each of two tasks take three steps at least
    assert first.env_steps >= trained + 2 * 3
    assert last.episodes == 12


# ---- all states -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exact():
    """A collector with a model of random weights, and a task that it wins in two episodes of five."""
    setup = sokoban("exact", **{"rollout.num_envs": 64})
    with torch.no_grad():
        setup.language_model.model.double()
    return ExactCollector.open(setup), setup.worker.envs.tasks.ids[0]


def test_the_first_value_is_the_mean_return(exact):
    collector, task = exact
    truth = collector.truth(task)
    (group,) = collector.setup.worker.collect([task], group_size=500, seed=1)
    returns = np.array([member.episode_return for member in group.trajectories])
    value = WIN_REWARD * truth.values[-1, 0]
    assert 2.0 < value < 8.0
    assert abs(returns.mean() - value) < 3 * returns.std() / np.sqrt(500)


def test_advantages_weigh_scores_to_the_gradient(exact):
    """dV / dtheta = E[sum_t A_t dlog pi(a_t | s_t) / dtheta], along a random direction of the weights."""
    collector, task = exact
    setup, size = collector.setup, 400
    (group,) = setup.worker.collect([task], group_size=size, seed=2)
    truth = collector.truth(task)
    values = [collector.tasks[task].values(member, truth) for member in group.trajectories]
    columns = Collected([group]).with_values(values).columns
    rewards = np.array([step.reward for member in group.trajectories for step in member.steps])
    advantages = rewards + columns["next_values"] - columns["values"]
    rows = step_rows([group], setup.speller)
    generator = torch.Generator().manual_seed(0)
    weights = list(setup.language_model.model.parameters())
    direction = [torch.randn(each.shape, generator=generator, dtype=each.dtype) for each in weights]

    def moved(distance):
        with torch.no_grad():
            for weight, part in zip(weights, direction, strict=True):
                weight.add_(distance * part)

    found, step = [], 1e-5
    for distance in (step, -2 * step):
        moved(distance)
        value = WIN_REWARD * collector.truth(task).values[-1, 0]
        found.append((value, setup.learner.log_probs(rows)))
    moved(step)
    (above, log_above), (below, log_below) = found
    tokens = np.repeat(advantages, [len(row.response_ids) for row in rows]) * (log_above - log_below)
    episode = np.repeat(
        np.arange(size), [sum(len(s.completion.response_ids) for s in m.steps) for m in group.trajectories]
    )
    scores = np.bincount(episode, tokens, size) / (2 * step)
    gradient = (above - below) / (2 * step)
    error = scores.std() / np.sqrt(size)
    assert abs(gradient) > 5 * error  # so that a wrong sign or size would show
    assert abs(scores.mean() - gradient) < 3 * error


def test_estimators_are_compared_under_the_policy_of_a_model(exact):
    collector, task = exact
    truth = collector.truth(task)
    sampled = Sample.of([truth], 64, 6, 2, np.random.default_rng(0))
    won = np.mean([draw.batch.won[draw.batch.starts].mean() for draw in sampled.draws])
    assert won == pytest.approx(truth.values[-1, 0], abs=4 * 0.5 / np.sqrt(6 * 64))
    cell = CreditCell(suite="sokoban", group_size=64)
    rows = list(compare(sampled, cell, 0, contestants(["grpo", "ppo"], [1, 2])))
    assert [(row.algorithm, row.iterations) for row in rows] == [
        ("exact", 0),
        ("grpo", 0),
        ("ppo", 1),
        ("ppo", 2),
    ]
    best, *others = (row.agreement.correlation for row in rows)
    assert best == pytest.approx(1)
    assert 0 < max(others) < 1


def test_a_task_is_listed_once_and_asked_anew(exact):
    collector, task = exact
    listed = collector.tasks[task]
    before = collector.truth(task).values[-1, 0]
    head = collector.setup.language_model.model.get_output_embeddings().weight
    with torch.no_grad():
        head.mul_(1.5)
    after = collector.truth(task).values[-1, 0]
    with torch.no_grad():
        head.div_(1.5)
    assert collector.tasks[task] is listed
    assert after != before


@pytest.mark.parametrize(
    ("algorithm", "changes", "message"),
    [
        ("vine", {"rollout__max_staleness": 1}, "rollout.max_staleness is 1, but VinePPO values states by"),
        (
            "vine",
            {"algorithm_options__continuations": 0},
            "continuations must be a whole number of at least 1",
        ),
        ("exact", {"rollout__max_staleness": 1}, "rollout.max_staleness is 1, but Exact credit values"),
        ("exact", {"prompting__history": 1}, "prompting.history is 1, but .* set it to 0"),
        ("exact", {"prompting__context": "window"}, "prompting.context is window, but .* set it to rebuilt"),
        ("exact", {"prompting__choice": "free"}, "prompting.choice is free, but .* set it to constrained"),
        (
            "exact",
            {"env_options__rewards": "gym-cards"},
            "earned -1, and not 10 for a win or 0: set env_options.reward=sparse10",
        ),
        ("exact", {"algorithm_options__max_states": 100}, "more than 100 states: lower"),
        (
            "exact",
            {"env_id": "benchmarks.algorithms.games:agentgym-bench/NoisyEZPoints-v0"},
            "in state .*: switch the game's noise off",
        ),
    ],
)
def test_what_makes_no_sense_is_one_line(tmp_path, algorithm, changes, message):
    with pytest.raises(UsageError, match=message) as raised:
        start(config(algorithm, **changes), tmp_path / "run", logs=[])
    assert "\n" not in str(raised.value)


def test_a_prompt_that_tells_the_past_is_refused(exact):
    collector, task = exact
    truth = collector.truth(task)
    (group,) = collector.setup.worker.collect([task], group_size=1, seed=1)
    (member,) = group.trajectories
    longer = replace(member.steps[0].completion, prompt_ids=(0, *member.steps[0].completion.prompt_ids))
    other = replace(member, steps=(replace(member.steps[0], completion=longer), *member.steps[1:]))
    with pytest.raises(UsageError, match="tells more than state") as raised:
        collector.tasks[task].values(other, truth)
    assert "\n" not in str(raised.value)


def test_episodes_whose_rollout_decides_their_chance_begin_apart():
    """Members of a group of Noisy EZPoints share the seed, not the noise."""
    from benchmarks.algorithms.games import NOISY_EZPOINTS

    env_id = f"benchmarks.algorithms.games:{NOISY_EZPOINTS}"
    envs = open_vector(env_id, 8)
    policy = envs.prototype.oracle()
    (group,) = RolloutWorker(envs, policy, env_id=env_id).collect([envs.tasks.ids[0]], group_size=8, seed=0)
    vine = VineCollector(None, BranchingWorker(envs, policy, env_id=env_id), Ranks(), 1, 0.0)
    for member, values in zip(group.trajectories, vine.values(group.trajectories), strict=True):
        assert len(values) == len(member.steps)
        # the noise is part of the state, so the oracle's continuation ends as its episode did
        assert values.tolist() == [member.episode_return] * len(values)
