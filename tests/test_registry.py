"""The contract, over everything registered: what holds for one environment holds for all."""

import json
import os
import pickle
import subprocess
import sys

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit
from gymnasium.wrappers import vector as vector_wrappers

import agentgym
from agentgym import AgentEnv, AgentVectorEnv, UsageError
from agentgym.checking import check_agent_env, check_agent_vector_env
from agentgym.checking.evidence import OVERLONG, begin, first_difference, generator, random_rollout
from agentgym.core.policies import SnapshotPolicy
from agentgym.registration import ARRAY_ENVIRONMENTS, ENVIRONMENTS, REMOTE_ENVIRONMENTS, register_environments
from tests.policy_requests import request_of

IDS = sorted(ENVIRONMENTS)

EPISODES_OF_EVERY_ID = f"""
import json
import gymnasium, agentgym
from agentgym.checking.evidence import OVERLONG, begin, generator, random_rollout
found = {{}}
for env_id in {IDS}:
    env = gymnasium.make(env_id).unwrapped
    for seed in range(3):
        start = begin(env, seed)
        actions, beats = random_rollout(env, generator(seed), 20)
        hashes = [beat.info["state_hash"] for beat in beats]
        found[f"{{env_id}} {{seed}}"] = [start.info["state_hash"], actions, hashes]
print(json.dumps(found))
"""


def test_what_is_listed_is_registered():
    registered = {env_id for env_id in gymnasium.registry if env_id.startswith("agentgym/")}
    assert registered == {*ENVIRONMENTS, *ARRAY_ENVIRONMENTS, *REMOTE_ENVIRONMENTS}
    assert len(IDS) >= 3


def test_registering_twice_changes_nothing():
    before = dict(gymnasium.registry)
    register_environments()
    assert gymnasium.registry == before


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasium_accepts_it(env_id, capsys):
    check_env(gymnasium.make(env_id).unwrapped)
    capsys.readouterr()  # render_mode "human" prints


@pytest.mark.parametrize("env_id", IDS)
def test_it_keeps_the_contract(env_id, capsys):
    check_agent_env(env_id)
    capsys.readouterr()


@pytest.mark.parametrize("env_id", IDS)
def test_its_vector_form_keeps_the_contract(env_id):
    check_agent_vector_env(env_id)


@pytest.mark.parametrize("env_id", IDS)
def test_it_is_found_through_its_module(env_id):
    assert isinstance(gymnasium.make(f"agentgym:{env_id}").unwrapped, AgentEnv)


@pytest.mark.parametrize("env_id", IDS)
def test_its_oracle_needs_a_snapshot(env_id):
    env = gymnasium.make(env_id).unwrapped
    _, info = env.reset(seed=0)
    oracle = env.oracle()
    if not isinstance(oracle, SnapshotPolicy):
        assert "number_line" in type(oracle).__module__  # the example, as tests/test_one_folder.py has it
        return
    with pytest.raises(UsageError, match=r"the oracle reads Request\.snapshot: build requests with one"):
        oracle.act([request_of(env, info, snapshot=None)])


@pytest.mark.parametrize("env_id", IDS)
def test_its_spec_travels(env_id):
    """Through pickle and JSON, options included, and makes the same environment again."""
    spec = gymnasium.make(env_id, max_steps=7).spec
    for copy in (pickle.loads(pickle.dumps(spec)), EnvSpec.from_json(spec.to_json())):
        assert copy == spec
        made = gymnasium.make(copy).unwrapped
        assert made.max_steps == 7
        assert first_difference(begin(made, 1), begin(gymnasium.make(spec).unwrapped, 1)) is None


@pytest.mark.parametrize("env_id", IDS)
def test_its_vector_spec_makes_it_again(env_id):
    envs = gymnasium.make_vec(env_id, num_envs=3, max_steps=7)
    again = gymnasium.make_vec(pickle.loads(pickle.dumps(envs.spec)))
    assert (again.num_envs, again.max_steps) == (3, 7)
    assert first_difference(again.reset(seed=2), envs.reset(seed=2)) is None


@pytest.mark.parametrize("env_id", IDS)
def test_make_vec_gives_our_form_and_gymnasium_s(env_id):
    """Our form by default; Sync and Async on demand, all with the same results."""
    ours = gymnasium.make_vec(env_id, num_envs=2)
    sync = gymnasium.make_vec(env_id, num_envs=2, vectorization_mode="sync")
    processes = gymnasium.make_vec(env_id, num_envs=2, vectorization_mode="async")
    assert isinstance(ours, AgentVectorEnv)
    assert isinstance(sync, SyncVectorEnv)
    assert isinstance(processes, AsyncVectorEnv)
    expected = [ours.reset(seed=4), ours.step(("no such action", ""))]
    for envs in (sync, processes):
        assert first_difference([envs.reset(seed=4), envs.step(("no such action", ""))], expected) is None
        envs.close()


@pytest.mark.parametrize("env_id", IDS)
def test_time_limit_wraps_it(env_id):
    env = TimeLimit(gymnasium.make(env_id), 3)
    env.reset(seed=0)
    assert [env.step(OVERLONG)[3] for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize("env_id", IDS)
def test_record_episode_statistics_wraps_it(env_id):
    env = RecordEpisodeStatistics(gymnasium.make(env_id, max_steps=3))
    env.reset(seed=0)
    steps = [env.step(OVERLONG) for _ in range(3)]
    assert steps[-1][4]["episode"]["l"] == 3
    assert steps[-1][4]["episode"]["r"] == pytest.approx(sum(step[1] for step in steps))


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_record_episode_statistics_wraps_its_vector_form(env_id, mode):
    envs = vector_wrappers.RecordEpisodeStatistics(
        gymnasium.make_vec(env_id, num_envs=2, max_steps=3, autoreset_mode=mode)
    )
    envs.reset(seed=0)
    for _ in range(3):
        *_, infos = envs.step((OVERLONG,) * 2)
    assert infos["episode"]["l"].tolist() == [3, 3]
    assert infos["_episode"].tolist() == [True, True]


@pytest.mark.parametrize("env_id", IDS)
def test_wrappers_show_its_attributes(env_id):
    env = gymnasium.make(env_id)
    _, info = env.reset(seed=0)
    assert env.get_wrapper_attr("state_hash")() == info["state_hash"]
    assert env.get_wrapper_attr("admissible_actions")() == info["admissible_actions"]


def test_episodes_are_the_same_in_every_process():
    """Whatever PYTHONHASHSEED is: in another process, and in this one."""
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-c", EPISODES_OF_EVERY_ID],
        env={**os.environ, "PYTHONHASHSEED": other},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    for env_id in IDS:
        env = gymnasium.make(env_id).unwrapped
        for seed in range(3):
            start = begin(env, seed)
            actions, beats = random_rollout(env, generator(seed), 20)
            hashes = [beat.info["state_hash"] for beat in beats]
            assert found[f"{env_id} {seed}"] == [start.info["state_hash"], actions, hashes]


def test_slots_share_one_world():
    """All slots of a vector environment play from one task set."""
    for env_id in IDS:
        envs = gymnasium.make_vec(env_id, num_envs=3)
        assert all(spawned.tasks is envs.tasks for spawned in (envs.prototype.spawn(), envs.prototype))


def test_public_names_exist_in_order():
    assert sorted(agentgym.__all__) == agentgym.__all__
    assert all(hasattr(agentgym, name) for name in agentgym.__all__)
