"""The base class, by a tiny game: what it enforces, and in which words it refuses.

What holds of every environment is in the conformance kit (`test_checking`); here are exact values.
"""

import inspect
import pickle
from dataclasses import replace

import gymnasium
import pytest
from gymnasium.error import ResetNeeded

from agentgym import UsageError
from agentgym.core.hashing import StateHasher, canonical, content_id
from tests.corridor import CorridorEnv

TASK = "corridor3"


@pytest.fixture
def env():
    env = CorridorEnv()
    env.reset(seed=1, options={"task": TASK})
    return env


def test_the_info_of_a_reset():
    observation, info = CorridorEnv().reset(seed=1, options={"task": TASK})
    assert observation == "cell 0 of 3"
    assert info == {
        "task_id": content_id(3),
        "task_type": "odd1",
        "turn": 0,
        "state_hash": StateHasher("corridor", 1, content_id(3)).hash(canonical((0, False)), False),
        "admissible_actions": ("right", "fall"),
        "action_is_valid": True,
        "won": False,
        "score": 0.0,
        "progress": 0.0,
        "cell": 0,
    }


def test_a_step(env):
    observation, reward, terminated, truncated, info = env.step("right")
    assert observation == "cell 1 of 3"
    assert 0.0 < reward < 1.0
    assert (terminated, truncated) == (False, False)
    assert (info["turn"], info["cell"], info["progress"]) == (1, 1, 1 / 3)
    assert info["admissible_actions"] == ("right", "left", "fall")


def test_a_rejected_action(env):
    before = env.state_hash()
    observation, reward, terminated, truncated, info = env.step("left")
    assert observation == "cell 0 of 3; not accepted"
    assert (reward, terminated, truncated, info["action_is_valid"]) == (-0.5, False, False, False)
    assert (info["state_hash"], info["turn"]) == (before, 1)
    assert env.step("right")[4]["action_is_valid"]


def test_termination(env):
    for _ in range(3):
        _, _, terminated, truncated, info = env.step("right")
    assert (terminated, truncated, info["won"], info["score"], info["progress"]) == (
        True,
        False,
        True,
        1.0,
        1.0,
    )
    assert info["admissible_actions"] == env.admissible_actions() == ()
    assert not env.is_admissible("right")
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        env.step("right")


def test_attributes_that_need_an_episode_are_not_there_before_the_first_reset():
    env = CorridorEnv()
    assert inspect.getmembers(env)
    assert all(getattr(env, name) is not Ellipsis for name in dir(env))  # as wrappers of gem copy them
    assert (hasattr(env, "task"), getattr(env, "task", None)) == (False, None)
    with pytest.raises(ResetNeeded, match=r"CorridorEnv plays no task yet: call reset\(\)"):
        env.task  # noqa: B018 (raises)
    with pytest.raises(AttributeError, match=r"call reset\(\)"):
        gymnasium.wrappers.PassiveEnvChecker(env).unwrapped.task  # noqa: B018 (raises)
    env.reset(options={"task": TASK})
    assert dict(inspect.getmembers(env))["task"] is env.task


def test_truncation_is_at_the_limit_and_gives_way_to_termination():
    env = CorridorEnv(max_steps=3)
    env.reset(options={"task": TASK})
    assert [env.step("left")[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
    env.reset(options={"task": TASK})
    assert [env.step("right")[2:4] for _ in range(3)] == [(False, False), (False, False), (True, False)]


def test_the_terminal_flag_is_hashed(env):
    env.restore(replace(env.snapshot(), state=(1, False)))
    running = env.state_hash()
    env.restore(replace(env.snapshot(), terminated=True))
    assert env.state_hash() != running
    assert "(ended)" in env.state_text()


def test_truncation_is_not_hashed(env):
    known = env.state_hash()
    env.restore(replace(env.snapshot(), truncated=True))
    assert env.state_hash() == known
    assert env.admissible_actions() == ()


def test_state_text_shows_what_is_hashed(env):
    assert env.state_text() == f"corridor {content_id(3)}\n(0, False)"


@pytest.mark.parametrize("action", [0, None, b"right", ["right"], 1.5])
def test_other_types_are_type_errors(env, action):
    with pytest.raises(
        TypeError, match=f"an action of CorridorEnv is a string .* got {type(action).__name__}"
    ):
        env.step(action)
    assert env.snapshot().turn == 0


def test_before_the_first_reset():
    env = CorridorEnv()
    for call in (env.state_hash, env.snapshot, env.state_text, lambda: env.task, lambda: env.step("right")):
        with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
            call()


def test_bad_resets_change_nothing(env):
    before = env.snapshot()
    for options, message in [
        ({"tasks": [TASK]}, r"unknown reset option 'tasks' \(did you mean 'task'\?\); known: task"),
        ({"task": "corridor9"}, "no task 'corridor9' in split 'train'"),
        ({"task": [TASK]}, "no task"),
    ]:
        with pytest.raises(UsageError, match=message):
            env.reset(seed=5, options=options)
        assert env.snapshot() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_steps": 0}, "max_steps must be at least 1"),
        ({"max_steps": 2.5}, "max_steps must be at least 1 and whole, got 2.5"),
        ({"max_steps": True}, "max_steps must be at least 1 and whole"),
        ({"max_steps": "9"}, "max_steps must be at least 1 and whole"),
        ({"render_mode": "web"}, "unknown render_mode 'web'; choose one of ansi, rgb_array, human"),
    ],
)
def test_bad_constructor_values(options, message):
    with pytest.raises(UsageError, match=message):
        CorridorEnv(**options)


def test_reset_draws_from_its_own_generator():
    env, twin = CorridorEnv(), CorridorEnv()
    env.reset(seed=3)
    drawn = [env.reset()[1]["task_id"] for _ in range(20)]
    twin.reset(seed=3)
    assert [twin.reset()[1]["task_id"] for _ in range(20)] == drawn
    assert len(set(drawn)) > 3
    assert CorridorEnv().reset(seed=3)[1] == CorridorEnv().reset(seed=3)[1]


def test_naming_a_task_draws_nothing():
    env, twin = CorridorEnv(), CorridorEnv()
    env.reset(seed=3)
    twin.reset(seed=3)
    env.reset(options={"task": TASK})
    assert env.reset()[1]["task_id"] == twin.reset()[1]["task_id"]


def test_a_snapshot_holds_chance_too(env):
    snapshot = pickle.loads(pickle.dumps(env.snapshot()))
    rewards = [env.step("right")[1] for _ in range(3)]
    other = CorridorEnv()
    observation, info = other.restore(snapshot)
    assert (observation, info["turn"]) == ("cell 0 of 3", 0)
    assert [other.step("right")[1] for _ in range(3)] == rewards


def test_a_snapshot_of_an_unseeded_environment_keeps_it_unseeded():
    env = CorridorEnv()
    env.reset(options={"task": TASK})
    assert env.snapshot().rng is None
    seeded = CorridorEnv()
    seeded.reset(seed=1)
    seeded.restore(env.snapshot())
    assert seeded.snapshot() == env.snapshot()


def test_restored_environments_do_not_share_chance(env):
    other = CorridorEnv()
    other.restore(env.snapshot())
    other.step("right")
    rewards = [env.step("right")[1] for _ in range(2)]
    env.reset(seed=1, options={"task": TASK})
    assert [env.step("right")[1] for _ in range(2)] == rewards


def test_restore_brings_the_rejection_back(env):
    observation = env.step("left")[0]
    snapshot = env.snapshot()
    env.step("right")
    assert env.restore(snapshot)[0] == observation == "cell 0 of 3; not accepted"


@pytest.mark.parametrize(("part", "value"), [("suite", "maze"), ("schema", 2), ("data", "other")])
def test_a_stranger_s_snapshot_is_refused_and_both_are_named(env, part, value):
    with pytest.raises(ValueError, match="into suite 'corridor' schema 1 data 'corridor'") as caught:
        env.restore(replace(env.snapshot(), **{part: value}))
    assert repr(value) in str(caught.value)


def test_a_snapshot_of_another_split_restores():
    env = CorridorEnv(split="test")
    env.reset(seed=0)
    other = CorridorEnv()
    _, info = other.restore(env.snapshot())
    assert info["task_id"] == content_id(7)
    assert info["state_hash"] == env.state_hash()


def test_spawned_environments_share_the_world_only(env):
    twin = env.spawn()
    with pytest.raises(ResetNeeded):
        twin.snapshot()
    assert twin.tasks is env.tasks
    before = env.snapshot()
    twin.reset(seed=9)
    twin.step("right")
    assert env.snapshot() == before


def test_rendering():
    env = CorridorEnv(render_mode="ansi")
    observation, _ = env.reset(options={"task": TASK})
    assert env.render() == observation
    assert CorridorEnv().render() is None


def test_signatures_are_gymnasium_s():
    assert list(inspect.signature(CorridorEnv.reset).parameters) == ["self", "seed", "options"]
    assert list(inspect.signature(CorridorEnv.step).parameters) == ["self", "action"]


def test_a_snapshot_holds_the_generator_as_a_value():
    env = CorridorEnv()
    env.reset(seed=5)
    env.np_random.integers(9, dtype="uint32")  # leaves half a word over
    snapshot = env.snapshot()
    drawn = env.np_random.integers(9, size=20, dtype="uint32").tolist()
    assert len({snapshot.rng, env.snapshot().rng}) == 2
    env.restore(snapshot)
    assert env.np_random.integers(9, size=20, dtype="uint32").tolist() == drawn
