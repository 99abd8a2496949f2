"""The oracle wins from wherever it is put, and remembers what it has planned."""

from itertools import islice

import pytest

from agentgym.agents import make_agent
from agentgym.envs.alfworld import oracle as module
from agentgym.envs.alfworld.env import ALFWorldEnv
from agentgym.envs.alfworld.planner.planner import Planner
from agentgym.rollout.worker import RolloutWorker
from agentgym.vector.serial import SerialVectorEnv
from tests.policy_requests import request_of


@pytest.fixture
def planned(monkeypatch):
    """Return the states that plans were asked for."""
    states = []
    solve = Planner.solve

    def counted(self, state, **options):
        states.append(state)
        return solve(self, state, **options)

    module.first_plan.cache_clear()  # what other tests had planned
    monkeypatch.setattr(Planner, "solve", counted)
    return states


def play(env, policy, info):
    """Let a policy finish an episode; return the last info."""
    while info["admissible_actions"]:
        (completion,) = policy.act([request_of(env, info)])
        *_, info = env.step(completion.action)
    return info


def test_it_wins_in_as_few_steps_as_possible(planned):
    env = ALFWorldEnv(split="valid_seen")
    oracle = env.oracle()
    for task in env.tasks[:12]:
        _, info = env.reset(options={"task": task.id})
        end = play(env, oracle, info)
        assert end["won"]
        assert end["turn"] == task.metadata["optimal_steps"]
    assert len(planned) == 12  # once an episode


def test_it_goes_on_from_wherever_it_is(planned):
    env = ALFWorldEnv()
    oracle = env.oracle()
    _, info = env.reset(options={"task": env.tasks[0].id})
    for _ in range(3):
        action = oracle.act([request_of(env, info)])[0].action
        *_, info = env.step(next(a for a in info["admissible_actions"] if a != action and "go to" in a))
    assert play(env, oracle, info)["won"]
    assert 2 <= len(planned) <= 4


def test_what_it_plays_does_not_depend_on_company():
    def actions(slots):
        envs = SerialVectorEnv(slots, env_class=ALFWorldEnv, split="valid_unseen", autoreset_mode="Disabled")
        worker = RolloutWorker(envs, make_agent("oracle", envs), env_id="agentgym/ALFWorld-v0")
        groups = worker.collect(envs.tasks.ids[:6], group_size=2, seed=0)
        return [[step.action for step in one.steps] for group in groups for one in group.trajectories]

    assert actions(1) == actions(5)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED", 30)
    monkeypatch.setattr(module, "MAX_CACHED_PLANNERS", 2)
    env = ALFWorldEnv()
    oracle = env.oracle()
    for task in islice(env.tasks, 20):
        _, info = env.reset(options={"task": task.id})
        assert play(env, oracle, info)["won"]
        assert len(oracle._next) <= 30 + 20
        assert len(oracle._planners) <= 2


def test_a_hopeless_state_gets_an_admissible_command(monkeypatch):
    monkeypatch.setattr(Planner, "solve", lambda self, state, **options: None)
    env = ALFWorldEnv()
    _, info = env.reset(seed=0)
    (completion,) = env.oracle().act([request_of(env, info)])
    assert completion.action in info["admissible_actions"]


@pytest.mark.assets
@pytest.mark.slow
def test_every_game_of_valid_seen_is_won():
    envs = SerialVectorEnv(
        64, env_class=ALFWorldEnv, split="valid_seen", dataset="official", autoreset_mode="Disabled"
    )
    worker = RolloutWorker(envs, make_agent("oracle", envs), env_id="agentgym/ALFWorld-v0")
    groups = worker.collect(envs.tasks.ids, group_size=1, seed=0)
    assert len(groups) == 140
    assert all(trajectory.won for group in groups for trajectory in group.trajectories)
    assert all(len(trajectory.steps) <= 50 for group in groups for trajectory in group.trajectories)
