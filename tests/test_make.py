"""The typed functions `make` and `make_vec`, and what a made environment says of itself."""

import copy
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics, TimeAwareObservation, TimeLimit

import agentgym
from agentgym import AgentEnv, AgentVectorEnv, SerialVectorEnv, UsageError
from agentgym.checking.evidence import begin, first_difference, replay
from agentgym.registration import ENVIRONMENTS, make, make_vec
from tests.corridor import CorridorEnv

ROOT = Path(__file__).resolve().parents[1]
SOKOBAN = "agentgym/Sokoban-v0"


@pytest.mark.parametrize("env_id", sorted(ENVIRONMENTS))
def test_they_make_what_gymnasium_makes(env_id):
    env, theirs = make(env_id, max_steps=7), gymnasium.make(env_id, max_steps=7).unwrapped
    assert isinstance(env, AgentEnv)
    assert env.unwrapped is env
    assert env.spec == theirs.spec
    assert first_difference(begin(env, 1), begin(theirs, 1)) is None
    envs = make_vec(env_id, 2, max_steps=7, autoreset_mode="SameStep")
    others = gymnasium.make_vec(env_id, num_envs=2, max_steps=7, autoreset_mode="SameStep")
    assert isinstance(envs, AgentVectorEnv)
    assert envs.spec == others.spec
    assert first_difference(envs.reset(seed=1), others.reset(seed=1)) is None


def test_an_environment_without_a_vector_form_is_wrapped():
    gymnasium.register(
        "tests/Corridor-v1", entry_point="tests.corridor:CorridorEnv", kwargs={"split": "test"}
    )
    try:
        envs = make_vec("tests/Corridor-v1", 2)
        assert isinstance(envs, SerialVectorEnv)
        assert envs.tasks.split == make("tests/Corridor-v1").tasks.split == "test"
    finally:
        del gymnasium.registry["tests/Corridor-v1"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make("agentgym/Sokobn-v0"), r"unknown id 'agentgym/Sokobn-v0' \(did you mean"),
        (lambda: make(SOKOBAN, splt="test"), r"unknown option 'splt' \(did you mean 'split'\?\)"),
        (
            lambda: make(SOKOBAN, max_episode_steps=5),
            r"unknown option 'max_episode_steps' \(did you mean 'max_steps'",
        ),
        (lambda: make(SOKOBAN, split="tst"), r"unknown split 'tst' \(did you mean 'test'\?\)"),
        (lambda: make("CartPole-v1"), r"is not an AgentEnv: .* gymnasium\.make"),
        (
            lambda: make_vec(SOKOBAN, 2, autoreset="Disabled"),
            r"unknown option 'autoreset' \(did you mean 'autoreset_mode'",
        ),
        (lambda: make_vec(SOKOBAN, 2, autoreset_mode="Of"), "unknown autoreset_mode 'Of'"),
        (lambda: make_vec(SOKOBAN, 0), "num_envs must be at least 1"),
        (lambda: gymnasium.make(SOKOBAN, splt="test"), r"unknown option 'splt' \(did you mean 'split'\?\)"),
        (
            lambda: gymnasium.make_vec(SOKOBAN, num_envs=2, splt="x"),
            r"unknown option 'splt' \(did you mean 'split'\?\)",
        ),
        (lambda: gymnasium.make_vec(SOKOBAN, num_envs=2, autoreset="x"), r"did you mean 'autoreset_mode'\?"),
        (
            lambda: gymnasium.make("agentgym/VisualSokoban-v0", tile=1),
            "unknown option 'tile' .*known: .*tile_size",
        ),
        (lambda: gymnasium.make_vec(SOKOBAN, vectorization_mode="sync", splt="x"), "did you mean 'split'"),
    ],
)
def test_bad_input_is_one_line_with_the_nearest_name(call, message):
    with pytest.raises(UsageError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


# ---- the step limit -----------------------------------------------------------------------------


def test_the_made_environment_tells_its_step_limit():
    assert gymnasium.spec(SOKOBAN).max_episode_steps is None
    for options, limit in (({}, 120), ({"max_steps": 500}, 500)):
        env = gymnasium.make(SOKOBAN, **options)
        assert env.spec.max_episode_steps == env.unwrapped.spec.max_episode_steps == limit
        assert env.unwrapped.max_steps == limit
        assert TimeAwareObservation(env).max_timesteps == limit
        assert gymnasium.spec(SOKOBAN).max_episode_steps is None


def test_no_time_limit_is_added():
    env = gymnasium.make(SOKOBAN, max_steps=500)
    env.reset(seed=0)
    ends = [env.step("no such action")[2:4] for _ in range(500)]
    assert ends == [(False, False)] * 499 + [(False, True)]
    while env is not env.unwrapped:
        assert not isinstance(env, TimeLimit)
        env = env.env


@pytest.mark.parametrize(
    "remake", [lambda env: env, lambda env: gymnasium.make(env.spec, max_episode_steps=-1)]
)
def test_a_win_on_the_last_step_is_terminated_only(remake):
    plain = make(SOKOBAN, split="test", max_optimal=4)
    plain.reset(seed=3)
    solution = solve(plain)
    env = remake(gymnasium.make(SOKOBAN, split="test", max_optimal=4, max_steps=len(solution)))
    env.reset(seed=3)
    steps = replay(env, solution)
    assert [(step.terminated, step.truncated) for step in steps[:-1]] == [(False, False)] * (
        len(solution) - 1
    )
    assert (steps[-1].terminated, steps[-1].truncated, steps[-1].info["won"]) == (True, False, True)


def solve(env):
    """Return a shortest solution from the state now, by trying all."""
    states = [((), env.snapshot())]
    while True:
        actions, snapshot = states.pop(0)
        for action in ("up", "down", "left", "right"):
            env.restore(snapshot)
            *_, info = env.step(action)
            if info["won"]:
                return (*actions, action)
            states.append(((*actions, action), env.snapshot()))


# ---- copies -------------------------------------------------------------------------------------


def test_a_copy_keeps_what_is_outside_of_the_episode():
    env = gymnasium.make(SOKOBAN, split="test", max_steps=9).unwrapped
    env.action_space.seed(3)
    first = env.np_random.random()
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert twin.spec == env.spec
        assert twin.action_space.sample() == copy.deepcopy(env.action_space).sample()
        assert twin.np_random.bit_generator.state == env.np_random.bit_generator.state
        assert twin.max_steps == 9
        assert twin.tasks is env.tasks
    assert first != env.np_random.random()


def test_a_deep_copy_shares_the_world():
    env = make("agentgym/WebShop-v0")
    env.reset(seed=0)
    assert copy.deepcopy(env).tasks is env.tasks
    envs = make_vec("agentgym/WebShop-v0", 2)
    assert copy.deepcopy(envs).tasks is envs.tasks


def test_copies_of_wrapped_environments_go_on_alike():
    env = RecordEpisodeStatistics(gymnasium.make(SOKOBAN, max_steps=9))
    env.reset(seed=5)
    env.step("up")
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert first_difference(twin.step("left")[:4], copy.deepcopy(env).step("left")[:4]) is None


def test_a_pickle_is_small_and_refuses_other_data(monkeypatch):
    env = make("agentgym/WebShop-v0")
    env.reset(seed=0)
    pickled = pickle.dumps(env)
    assert len(pickled) < 10_000
    monkeypatch.setattr("tests.corridor.LENGTHS", (1, 2))
    before = pickle.dumps(CorridorEnv())
    monkeypatch.setattr("tests.corridor.LENGTHS", (1, 3))
    with pytest.raises(UsageError, match="unpickle it beside the same data"):
        pickle.loads(before)


def test_an_old_copy_is_untouched_by_play():
    envs = make_vec("agentgym/VisualSokoban-v0", 2)
    envs.reset(seed=1)
    twin = copy.deepcopy(envs)
    before = twin.snapshot(0)
    for _ in range(5):
        envs.step(("up", "down"))
    assert first_difference(twin.snapshot(0), before) is None
    assert np.shares_memory(envs.reset(seed=1)[0]["image"], twin.reset(seed=1)[0]["image"]) is False


# ---- types --------------------------------------------------------------------------------------


def test_what_they_return_is_typed():
    """What type checkers of other projects are told; `make test-parity` runs one on README's first block."""
    assert get_type_hints(make)["return"] == AgentEnv[Any]
    assert get_type_hints(make_vec)["return"] is AgentVectorEnv
    assert (Path(agentgym.__file__).parent / "py.typed").is_file()


@pytest.mark.slow
@pytest.mark.peer
def test_readme_s_first_block_is_typed(tmp_path):
    """`mypy --strict` accepts it, as it stands in a project of somebody else."""
    pytest.importorskip("mypy")
    _, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition("```python\n")
    block, _, _ = rest.partition("```")
    lines = [line[4:] for line in block.splitlines() if line.startswith((">>> ", "... "))]
    assert any("agentgym.make(" in line for line in lines)
    calls = ["reveal_type(env)", 'reveal_type(agentgym.make_vec("agentgym/Sokoban-v0", 2))']
    (tmp_path / "first.py").write_text("\n".join([*lines, *calls]) + "\n")
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "first.py"],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT), "PATH": "", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert 'Revealed type is "agentgym.env.AgentEnv[Any]"' in result.stdout
    assert 'Revealed type is "agentgym.vector.core.AgentVectorEnv"' in result.stdout


def test_signatures_are_those_of_the_constructors():
    assert list(inspect.signature(CorridorEnv).parameters) == ["split", "dataset", "max_steps", "render_mode"]
    assert agentgym.make is make
