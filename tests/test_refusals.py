"""All or nothing: what is refused, or fails on the way, leaves every slot as it was."""

import copy

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from agentgym import UsageError
from agentgym.envs.sokoban.array_env import SokobanArrayEnv, SokobanArrayVectorEnv
from agentgym.envs.sokoban.vector import SokobanVectorEnv, VisualSokobanVectorEnv
from agentgym.registration import open_env, open_vector
from tests.corridor import CorridorEnv, CorridorVectorEnv

SUITES = [
    "agentgym/EZPoints-v0",
    "agentgym/Sokoban-v0",
    "agentgym/ALFWorld-v0",
    "agentgym/WebShop-v0",
    "agentgym/MuSiQue-v0",
    "agentgym/Sotopia-v0",
]


class LostEnv(CorridorEnv):
    """A corridor whose second task cannot be loaded, as where its file is gone."""

    def _load(self, task):
        self.np_random.random()
        super()._load(task)
        if task.id == self.tasks[1].id:
            raise UsageError("its file is gone")


class LostVectorEnv(CorridorVectorEnv):
    env_class = LostEnv


@pytest.mark.parametrize("form", [SokobanVectorEnv, VisualSokobanVectorEnv])
def test_a_refused_reset_shows_the_old_boards(form):
    """Once, the slots before a bad seed had new boards under their old texts and hashes."""
    envs, other = form(2, split="test"), form(2, split="test")
    for each in (envs, other):
        each.reset(seed=0)
    arrays = copy.deepcopy(vars(envs._batch))
    for refuse in (
        lambda: envs.reset(seed=[5, -1]),
        lambda: envs.reset_at([0, 1], None, [5, "6"]),
        lambda: envs.reset(options={"tasks": [envs.tasks[3].id, "no such task"]}),
    ):
        with pytest.raises(UsageError):
            refuse()
        for name, array in arrays.items():
            np.testing.assert_array_equal(getattr(envs._batch, name), array)
    theirs, ours = other.step(["zzz", "up"]), envs.step(["zzz", "up"])
    assert ours[4]["state_hash"].tolist() == theirs[4]["state_hash"].tolist()
    texts = [each[0] if form is SokobanVectorEnv else each[0]["text"] for each in (ours, theirs)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("suite", SUITES)
def test_a_refused_reset_leaves_every_suite_as_it_was(suite):
    envs = open_vector(suite, 3)
    envs.reset(seed=0)
    before = [envs.snapshot(i) for i in range(3)]
    for seeds in ([5, 6, -1], [5, 6, True], [5, 6, 1.5]):
        with pytest.raises(UsageError, match="a seed is a whole number of at least 0"):
            envs.reset(seed=seeds)
        assert [envs.snapshot(i) for i in range(3)] == before


def test_a_game_that_cannot_be_loaded_leaves_all_slots():
    envs, other = LostVectorEnv(3), LostVectorEnv(3)
    good, bad = envs.tasks[0].id, envs.tasks[1].id
    with pytest.raises(UsageError, match="gone"):
        envs.reset(seed=0, options={"tasks": [good, good, bad]})
    with pytest.raises(ResetNeeded):
        envs.snapshot(0)
    for each in (envs, other):
        each.reset(seed=0, options={"tasks": [good] * 3})
        each.step(["right", "left", "no such action"])
    for seeds in (None, [4, 5, 6]):
        with pytest.raises(UsageError, match="gone"):
            envs.reset_at([0, 1, 2], [good, good, bad], seeds)
        assert [envs.snapshot(i) for i in range(3)] == [other.snapshot(i) for i in range(3)]
    assert envs._observe_slots([0, 1, 2]) == other._observe_slots([0, 1, 2])
    single = LostEnv()
    single.reset(seed=0, options={"task": good})
    before = single.snapshot()
    with pytest.raises(UsageError, match="gone"):
        single.reset(options={"task": bad})
    assert single.snapshot() == before


def test_a_group_that_starts_differently_begins_nothing():
    class Anywhere(CorridorEnv):
        def _load(self, task):
            super()._load(task)
            self._cell = int(self.np_random.integers(1, 4))

    class AnywhereVectorEnv(CorridorVectorEnv):
        env_class = Anywhere

    envs = AnywhereVectorEnv(4)
    envs.reset(seed=0)
    before = [envs.snapshot(i) for i in range(4)]
    with pytest.raises(UsageError, match="give them equal seeds"):
        envs.reset(seed=[1, 2, 3, 4], options={"tasks": [envs.tasks[0].id] * 4})
    assert [envs.snapshot(i) for i in range(4)] == before


@pytest.mark.parametrize("suite", [*SUITES, "agentgym/VisualSokoban-v0"])
def test_before_reset_every_suite_says_the_same(suite):
    env, envs = open_env(suite), open_vector(suite, 2)
    for call in (
        env.admissible_actions,
        env.state_hash,
        env.snapshot,
        lambda: env.is_admissible("up"),
        lambda: env.task,
        lambda: env.step("up"),
        lambda: envs.step(["up", "up"]),
        lambda: envs.snapshot(0),
        lambda: envs.step_at([0], ["up"]),
        lambda: envs.copy(0, 1),
    ):
        with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
            call()


@pytest.mark.parametrize("suite", SUITES)
def test_numbers_are_whole(suite):
    envs = open_vector(suite, 3)
    envs.reset(seed=np.int64(3))
    before = [envs.snapshot(i) for i in range(3)]
    for slot in (
        "2",
        b"1",
        True,
        1.9,
        float("inf"),
        np.float64(1),
        np.bool_(True),
        None,
        10**30,
        "9" * 9_999,
    ):
        for refuse in (
            lambda slot=slot: envs.step_at([slot], ["x"]),
            lambda slot=slot: envs.reset_at([slot]),
            lambda slot=slot: envs.snapshot(slot),
        ):
            with pytest.raises(UsageError, match="slot") as refused:
                refuse()
            assert len(str(refused.value)) < 200
    for refuse in (
        lambda: envs.step({0: "x", 1: "x", 2: "x"}),
        lambda: envs.step(b"abc"),
        lambda: envs.step(None),
        lambda: envs.step(iter("abc")),
        lambda: envs.step_at(0, ["x"]),
        lambda: envs.reset(options=["task"]),
        lambda: envs.reset(options="task"),
        lambda: envs.reset(options={1: 2}),
        lambda: envs.prototype.reset(options=["task"]),
        lambda: envs.prototype.reset(seed=-1),
    ):
        with pytest.raises(UsageError):
            refuse()
    assert [envs.snapshot(i) for i in range(3)] == before
    envs.step_at(np.array([2, 0]), np.array(["a", "b"]))
    envs.reset_at((np.int32(1),), None, np.array([4]))


def test_array_forms_refuse_as_a_whole():
    envs, other = SokobanArrayVectorEnv(3, split="test"), SokobanArrayVectorEnv(3, split="test")
    for call in (envs.action_masks, SokobanArrayEnv(split="test").action_masks):
        with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
            call()
    for each in (envs, other):
        each.reset(seed=0)
    mask = np.array([True, True, False])
    for arguments in (
        {"seed": [5, 6, -1]},
        {"seed": [5, 6, True]},
        {"seed": -1},
        {"seed": 7, "options": {"tasks": [None, None, "no such task"]}},
        {"seed": [7, "8", None], "options": {"reset_mask": mask}},
        {"options": ["tasks"]},
    ):
        with pytest.raises(UsageError):
            envs.reset(**arguments)
    left, right = envs.step([0, 1, 2]), other.step([0, 1, 2])
    np.testing.assert_array_equal(left[0], right[0])
    assert left[4]["task_id"].tolist() == right[4]["task_id"].tolist()
    assert envs.reset()[1]["task_id"].tolist() == other.reset()[1]["task_id"].tolist()
    single = SokobanArrayEnv(split="test")
    single.reset(seed=1)
    for arguments in ({"seed": -1}, {"seed": 5, "options": {"task": "nowhere"}}, {"options": ["task"]}):
        with pytest.raises(UsageError):
            single.reset(**arguments)
