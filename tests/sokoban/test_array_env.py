"""The array form: Gymnasium's checker, parity with the text form, and with SyncVectorEnv."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import FlattenObservation, TimeAwareObservation

from agentgym import UsageError
from agentgym.checking import check_agent_env
from agentgym.checking.evidence import first_difference
from agentgym.envs.sokoban.array_env import PLANES, SokobanArrayEnv, SokobanArrayVectorEnv
from agentgym.envs.sokoban.env import SokobanEnv
from agentgym.registration import class_of

ID = "agentgym/SokobanArray-v0"
SYMBOL_OF = {
    (0, 0, 0, 0): " ",
    (1, 0, 0, 0): "#",
    (0, 1, 0, 0): ".",
    (0, 0, 1, 0): "$",
    (0, 1, 1, 0): "*",
    (0, 0, 0, 1): "@",
    (0, 1, 0, 1): "+",
}
OPTIONS = [
    {},
    {"actions": "full", "reward": "sparse", "num_boxes": 2, "dim_room": (7, 7)},
    {"parity": "gym-sokoban", "max_optimal": 4},
    {"stream": True, "split": "valid"},
]


@pytest.fixture(name="levels")
def two_sizes(tmp_path):
    """A file of two levels of different sizes."""
    path = tmp_path / "levels.txt"
    path.write_text("; 0\n######\n#@ $.#\n######\n\n; 1\n#####\n#@$.#\n#   #\n#####\n")
    return str(path)


def text_of(planes):
    return "\n".join("".join(SYMBOL_OF[tuple(cell)] for cell in row) for row in planes.tolist())


def play_both(options, episodes=4):
    """Play the array form and the text form side by side and compare everything they share."""
    arrays = gymnasium.make(ID, **options).unwrapped
    texts = SokobanEnv(effective_only=True, **options)
    lenient = SokobanEnv(**options)
    rng = np.random.Generator(np.random.PCG64(5))
    for seed in range(episodes):
        (planes, info), (_, told), (board, _) = (env.reset(seed=seed) for env in (arrays, texts, lenient))
        ended = False
        while not ended:
            compare(arrays, planes, info, board, told)
            action = int(rng.integers(len(arrays.names)))
            planes, *ours, info = arrays.step(np.int64(action))
            _, *_, told = texts.step(arrays.names[action])
            board, *theirs, _ = lenient.step(arrays.names[action])
            assert ours == theirs
            ended = ours[1] or ours[2]
        assert info["won"] == told["won"]


def compare(arrays, planes, info, board, told):
    assert planes.dtype == np.uint8
    assert arrays.observation_space.contains(planes)
    assert text_of(planes) == board
    masked = tuple(name for name, allowed in zip(arrays.names, info["action_mask"], strict=True) if allowed)
    assert masked == told["admissible_actions"] != ()
    assert {key: info[key] for key in ("task_id", "turn", "won", "progress")} == {
        key: told[key] for key in ("task_id", "turn", "won", "progress")
    }


@pytest.mark.parametrize("options", OPTIONS)
def test_equals_the_text_form_step_for_step(options):
    play_both({**options, "max_steps": 40})


def test_gymnasium_accepts_it(capsys):
    check_env(gymnasium.make(ID).unwrapped)
    capsys.readouterr()  # render_mode "human" prints


def test_is_outside_of_the_text_contract():
    with pytest.raises(UsageError, match=r"is not an AgentEnv: .* open it with gymnasium\.make"):
        class_of(ID)
    with pytest.raises(AssertionError, match="is not an AgentEnv"):
        check_agent_env(ID)


def test_tasks_are_those_of_sokoban(levels):
    env, text = gymnasium.make(ID, split="test").unwrapped, SokobanEnv(split="test")
    assert env.tasks is text.tasks
    task = text.tasks[3]
    assert env.reset(options={"task": task.id})[1]["task_id"] == task.id
    small = gymnasium.make(ID, dataset=levels).unwrapped
    planes, _ = small.reset(options={"task": small.tasks[1].id})
    assert planes.shape == small.observation_space.shape == (4, 6, len(PLANES))
    assert text_of(planes) == "#####" + "#\n#@$.##\n#   ##\n######"


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("options", OPTIONS)
def test_vector_form_equals_sync_vector_env(options, mode):
    compare_with_sync({**options, "max_steps": 7}, mode)


def test_vector_form_takes_levels_of_several_sizes(levels):
    compare_with_sync({"dataset": levels, "max_steps": 5}, AutoresetMode.SAME_STEP)


def compare_with_sync(options, mode, steps=30):
    native = gymnasium.make_vec(ID, num_envs=5, autoreset_mode=mode, **options)
    sync = SyncVectorEnv([lambda: SokobanArrayEnv(**options)] * 5, autoreset_mode=mode)
    assert isinstance(native, SokobanArrayVectorEnv)
    assert native.observation_space == sync.observation_space
    assert native.action_space == sync.action_space
    assert first_difference(native.reset(seed=3), sync.reset(seed=3)) is None
    native.action_space.seed(1)
    for _ in range(steps):
        actions = native.action_space.sample()
        ours, theirs = native.step(actions), sync.step(actions)
        assert first_difference(ours, theirs) is None
        assert native.observation_space.contains(ours[0])
        over = theirs[2] | theirs[3]
        if mode is AutoresetMode.DISABLED and over.any():
            again = [envs.reset(options={"reset_mask": over.copy()}) for envs in (native, sync)]
            assert first_difference(*again) is None
    assert native.action_masks().tolist() == [env.action_masks().tolist() for env in sync.envs]


def test_what_was_returned_is_the_caller_s():
    envs = gymnasium.make_vec(ID, num_envs=3)
    kept = [envs.reset(seed=0)]
    frozen = copy.deepcopy(kept)
    for _ in range(8):
        kept.append(envs.step(np.array([0, 1, 2])))
        frozen.append(copy.deepcopy(kept[-1]))
    assert first_difference(kept, frozen) is None


def test_wall_is_added_below_levels_as_wide_as_the_largest_but_not_as_high(levels):
    single, envs = SokobanArrayEnv(dataset=levels), SokobanArrayVectorEnv(2, dataset=levels)
    task = single.tasks[0].id
    planes, _ = single.reset(options={"task": task})
    both, _ = envs.reset(options={"tasks": [task, task]})
    np.testing.assert_array_equal(both, np.stack([planes, planes]))


@pytest.mark.parametrize("travel", [copy.deepcopy, lambda envs: pickle.loads(pickle.dumps(envs))])
@pytest.mark.parametrize("played", [None, 0, 4, 7])
def test_copies_go_on_alike(travel, played):
    envs = gymnasium.make_vec(ID, num_envs=3, max_steps=7)
    env = gymnasium.make(ID, max_steps=7).unwrapped
    if played is not None:
        envs.reset(seed=1)
        env.reset(seed=1)
        for _ in range(played):
            envs.step(np.array([0, 1, 2]))
            env.step(1)
    twins, twin = travel(envs), travel(env)
    if played is None:
        assert first_difference(twins.reset(seed=2), envs.reset(seed=2)) is None
        assert first_difference(twin.reset(seed=2), env.reset(seed=2)) is None
    for _ in range(12):
        assert first_difference(twins.step(np.array([3, 0, 1])), envs.step(np.array([3, 0, 1]))) is None
    if played not in (None, 7):
        assert first_difference(twin.step(2), env.step(2)) is None
    assert first_difference(twin.reset(), env.reset()) is None
    assert twin.spec == env.spec


def test_wrappers_find_the_step_limit_and_the_mask():
    env = gymnasium.make(ID, max_steps=9)
    assert env.unwrapped.spec.max_episode_steps == 9
    assert gymnasium.spec(ID).max_episode_steps is None
    observation, info = TimeAwareObservation(FlattenObservation(env)).reset(seed=0)
    assert observation.shape == (6 * 6 * 4 + 1,)
    assert env.get_wrapper_attr("action_masks")().tolist() == info["action_mask"].astype(bool).tolist()
    assert info["action_mask"][env.action_space.sample(mask=info["action_mask"])] == 1


def test_rendering():
    for mode, kind in (("ansi", str), ("rgb_array", np.ndarray)):
        envs = gymnasium.make_vec(ID, num_envs=2, render_mode=mode)
        single = gymnasium.make(ID, render_mode=mode)
        envs.reset(seed=4)
        single.reset(seed=4)
        frames = envs.render()
        assert len(frames) == 2
        assert isinstance(frames[0], kind)
        assert first_difference(frames[0], single.render()) is None
    assert gymnasium.make_vec(ID, num_envs=2).render() is None


def test_bad_use():
    with pytest.raises(UsageError, match=r"unknown option 'splt' \(did you mean 'split'\?\)"):
        gymnasium.make(ID, splt="test")
    with pytest.raises(UsageError, match="unknown option 'effective_only'"):
        gymnasium.make_vec(ID, num_envs=2, effective_only=True)
    env = gymnasium.make(ID).unwrapped
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    for action in (4, -1, "up", 1.0):
        with pytest.raises(UsageError, match="an action is a number from 0 to 3"):
            env.step(action)
    envs = gymnasium.make_vec(ID, num_envs=2, autoreset_mode="Disabled", max_steps=1)
    with pytest.raises(ResetNeeded):
        envs.step(np.array([0, 0]))
    with pytest.raises(ResetNeeded, match="without a mask"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(UsageError, match="did you mean 'tasks'"):
        envs.reset(options={"task": "x"})
    with pytest.raises(UsageError, match="no task 'x'"):
        envs.reset(options={"tasks": ["x", None]})
    with pytest.raises(UsageError, match="one entry per slot"):
        envs.reset(seed=[1])
    envs.reset(seed=0)
    for actions in (np.array([0]), np.array([0, 4]), ["up", "up"]):
        with pytest.raises(UsageError, match="actions are 2 numbers"):
            envs.step(actions)
    envs.step(np.array([0, 0]))
    with pytest.raises(ResetNeeded, match="slot 0 is over"):
        envs.step(np.array([0, 0]))
    with pytest.raises(UsageError, match="num_envs must be at least 1"):
        gymnasium.make_vec(ID, num_envs=0)
