"""The conformance kit passes what keeps the contract and names the promise that anything else breaks."""

import random
from types import MappingProxyType

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from agentgym import AgentEnv, Outcome, Snapshot, Status, UnicodeText, UsageError
from agentgym.checking import (
    ContractError,
    check_agent_env,
    check_agent_vector_env,
    interface,
    states,
    steps,
    vector,
)
from agentgym.checking.evidence import factory, first_difference, run
from agentgym.hashing import content_id
from agentgym.tasks import ListTaskSet, Task
from agentgym.types import Completion
from agentgym.vector.core import Moves
from agentgym.vector.serial import SerialVectorEnv
from tests.corridor import CorridorEnv, CorridorVectorEnv

DEFECTS = []


def breaks(check, message):
    """Register a broken class with the check that must refuse it, and what that check must say."""
    return lambda broken: DEFECTS.append(pytest.param(check, broken, message, id=broken.__name__)) or broken


def splits_are_disjoint(make):
    interface.check_splits_are_disjoint(make, ("train", "test"))


@pytest.mark.parametrize("subject", [CorridorEnv, CorridorEnv(), lambda **options: CorridorEnv(**options)])
def test_a_sound_environment_passes(subject):
    check_agent_env(subject, splits=("train", "test"))


def test_a_sound_vector_environment_passes():
    check_agent_vector_env(CorridorVectorEnv)


def test_the_difference_is_named():
    left = {"a": (1, np.array([1.0, 2.0])), "b": "x"}
    assert first_difference(left, {"a": (1, np.array([1.0, 2.0])), "b": "x"}) is None
    assert "['a'][1]" in first_difference(left, {"a": (1, np.array([1.0, 2.5])), "b": "x"})
    assert "int" in first_difference((1,), (1.0,))
    assert "bool" in first_difference(np.array([1]), np.array([True]))
    assert first_difference(0.0, -0.0) is not None
    assert first_difference(float("nan"), float("nan")) is None
    assert "keys" in first_difference({}, {"a": 1})
    assert "length" in first_difference((1,), (1, 2))
    assert ".turn" in first_difference(
        *(Snapshot("s", 1, "d", None, (), t, True, False, False, None) for t in (1, 2))
    )


@pytest.mark.parametrize(("check", "broken", "message"), DEFECTS)
def test_a_defect_is_caught(check, broken, message):
    """By the check made for it, on its own, and so by the kit as a whole."""
    single = issubclass(broken, AgentEnv)
    with pytest.raises(ContractError, match=message) as caught:
        run((check,), factory(broken) if single else broken)
    assert "\n" not in str(caught.value)
    with pytest.raises(ContractError):
        check_agent_env(broken, splits=("train", "test")) if single else check_agent_vector_env(broken)


def test_every_check_can_fail():
    refused = {defect.values[0] for defect in DEFECTS}
    checks = {*interface.CHECKS, *steps.CHECKS, *states.CHECKS, *vector.CHECKS, splits_are_disjoint}
    assert checks - refused == {interface.check_gymnasium}, "the one left out is tested below"


def test_gymnasium_s_own_checker_is_asked():
    class NoActionSpace(CorridorEnv):
        def __init__(self, **options):
            super().__init__(**options)
            self.action_space = None

    with pytest.raises(ContractError, match="gymnasium's check_env"):
        interface.check_gymnasium(factory(NoActionSpace))


def test_other_environments_are_refused():
    with pytest.raises(ContractError, match="derive it from agentgym"):
        check_agent_env("CartPole-v1")
    with pytest.raises(ContractError, match="is not an AgentVectorEnv"):
        check_agent_vector_env("CartPole-v1")


# ---- what is declared ----------------------------------------------------------------------------


@breaks(interface.check_declarations, "`suite` must be a name")
class NoSuite(CorridorEnv):
    suite = ""


@breaks(interface.check_declarations, "`state_schema` must be an int")
class SchemaText(CorridorEnv):
    state_schema = "1"


@breaks(interface.check_declarations, "`action_kind` must be")
class UnknownKind(CorridorEnv):
    action_kind = "free"


@breaks(interface.check_declarations, "declare 'render_fps'")
class NoFramesPerSecond(CorridorEnv):
    metadata = MappingProxyType({"render_modes": ["ansi"]})


@breaks(interface.check_rendering, "offer 'ansi'")
class NoAnsi(CorridorEnv):
    metadata = MappingProxyType({"render_modes": [], "render_fps": 1})


@breaks(interface.check_rendering, "'ansi' must render a string")
class RendersNothing(CorridorEnv):
    def render(self):
        return None


@breaks(interface.check_rendering, "rendering changes the episode")
class RenderingPlays(CorridorEnv):
    def render(self):
        self._cell += 1
        return "moved"


@breaks(interface.check_declarations, "action space must contain every string")
class NarrowActions(CorridorEnv):
    def __init__(self, **options):
        super().__init__(**options)
        self.action_space = spaces.Text(3)


class OwnTasks(CorridorEnv):
    def __init__(self, **options):
        super().__init__(**options)
        self.tasks = self.make_tasks(self.tasks)


@breaks(interface.check_tasks, "manifest")
class UnpinnedTasks(OwnTasks):
    def make_tasks(self, tasks):
        tasks.manifest = {"made": id(tasks)}
        return tasks


@breaks(interface.check_tasks, "must be unique")
class RepeatedIds(OwnTasks):
    def make_tasks(self, tasks):
        tasks._tasks += tasks._tasks[:1]
        return tasks


@breaks(interface.check_tasks, "32 hex digits, -n if repeated")
class FreeIds(OwnTasks):
    def make_tasks(self, tasks):
        return ListTaskSet("train", [Task("one", 1, "first")], dataset="builtin", suite="corridor")


@breaks(splits_are_disjoint, "is in split 'test' and in split 'train'")
class OverlappingSplits(CorridorEnv):
    def __init__(self, *, split="train", **options):
        super().__init__(split="train" if split == "test" else split, **options)


@breaks(interface.check_bad_options, "an unknown task must raise UsageError, raised KeyError")
class UnknownTaskIsKeyError(OwnTasks):
    def make_tasks(self, tasks):
        class Strict(type(tasks)):
            def find(self, key):
                return self._tasks[self._by_key[key]]

        tasks.__class__ = Strict
        return tasks


@breaks(interface.check_bad_options, "an unknown reset option must raise UsageError, raised nothing")
class AnyOption(CorridorEnv):
    def reset(self, *, seed=None, options=None):
        known = {key: value for key, value in (options or {}).items() if key == "task"}
        return super().reset(seed=seed, options=known)


@breaks(interface.check_bad_options, "split='no such value' must raise UsageError, raised nothing")
class AnySplit(CorridorEnv):
    def __init__(self, *, split="train", **options):
        super().__init__(split="test" if split == "test" else "train", **options)


@breaks(interface.check_step_limit_is_an_option, "message of one line")
class LongComplaint(CorridorEnv):
    def __init__(self, *, max_steps=None, **options):
        if max_steps == 0:
            raise UsageError("no steps\nat all")
        super().__init__(max_steps=max_steps, **options)


@breaks(interface.check_step_limit_is_an_option, "max_steps=2")
class OwnLimit(CorridorEnv):
    def __init__(self, *, max_steps=None, **options):
        super().__init__(max_steps=None if max_steps == 2 else max_steps, **options)


@breaks(interface.check_oracle_wins, "wins none of the first")
class LosingOracle(CorridorEnv):
    def oracle(self):
        class Falls:
            def act(self, requests):
                return [Completion("fall") for _ in requests]

        return Falls()


# ---- what reset and step return --------------------------------------------------------------------


@breaks(steps.check_reset_values, r"info\['score'\] after reset must be 0.0")
class ScoreAtStart(CorridorEnv):
    def _status(self):
        return Status(False, 0.5, 0.0)


@breaks(steps.check_returned_types, "outside observation_space")
class LongObservations(CorridorEnv):
    def __init__(self, **options):
        super().__init__(**options)
        self.observation_space = UnicodeText(max_length=4)


@breaks(steps.check_returned_types, "a reward must be a float, is a int")
class IntegerReward(CorridorEnv):
    def _apply(self, action):
        return super()._apply(action)._replace(reward=1)


@breaks(steps.check_returned_types, "truncated must be a Python bool")
class NumpyFlags(CorridorEnv):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, np.bool_(truncated), info


@breaks(steps.check_returned_types, "info lacks")
class ForgottenKey(CorridorEnv):
    def _info(self):
        info = super()._info()
        del info["progress"]
        return info


@breaks(steps.check_returned_types, "only sometimes")
class OccasionalKey(CorridorEnv):
    def _extra_info(self):
        return {"cell": self._cell} | ({"moved": True} if self._cell else {})


@breaks(steps.check_returned_types, r"info\['cell'\] must be a int, is a float")
class ChangingType(CorridorEnv):
    def _extra_info(self):
        return {"cell": self._cell / 2 if self._cell else 0}


@breaks(steps.check_returned_types, r"info\['cell'\] is a list")
class ListInInfo(CorridorEnv):
    def _extra_info(self):
        return {"cell": [self._cell]}


@breaks(steps.check_returned_types, r"info\['won'\] must be a bool, is a int")
class IntegerWon(CorridorEnv):
    def _status(self):
        return Status(int(super()._status().won), 0.0, 0.0)


@breaks(steps.check_returned_types, "must hold strings only")
class ActionsOfNumbers(CorridorEnv):
    def _admissible(self):
        return ("right", "fall", 3)


@breaks(steps.check_info_values, r"\['turn'\] is 0 here and 1 there")
class StoppedClock(CorridorEnv):
    def _info(self):
        return super()._info() | {"turn": 0}


@breaks(steps.check_info_values, r"\['state_hash'\] is")
class OtherHashInInfo(CorridorEnv):
    def _info(self):
        return super()._info() | {"state_hash": "0" * 32}


@breaks(steps.check_info_values, r"\['admissible_actions'\] has length 1 here")
class OtherActionsInInfo(CorridorEnv):
    def _info(self):
        return super()._info() | {"admissible_actions": ("right",)}


@breaks(steps.check_info_values, r"progress'\] must be in \[0, 1\]")
class TooMuchProgress(CorridorEnv):
    def _status(self):
        return super()._status()._replace(progress=2.0 * self._cell)


@breaks(steps.check_info_values, "must be finite")
class EndlessReward(CorridorEnv):
    def _apply(self, action):
        return super()._apply(action)._replace(reward=float("inf"))


@breaks(steps.check_returned_values_are_fresh, "fresh info dict each time")
class CachedInfo(CorridorEnv):
    def _info(self):
        self.__dict__.setdefault("_cache", {}).update(super()._info())
        return self._cache


@breaks(steps.check_returned_values_are_fresh, "a later step changed what an earlier one returned")
class AliasedImage(CorridorEnv):
    def __init__(self, **options):
        super().__init__(**options)
        image = spaces.Box(0, 255, (2, 2, 3), np.uint8)
        self.observation_space = spaces.Dict({"text": UnicodeText(), "image": image})

    def _load(self, task):
        super()._load(task)
        self._image = np.zeros((2, 2, 3), np.uint8)

    def _observe(self):
        self._image[:] = self._cell
        return {"text": super()._observe(), "image": self._image}


# ---- actions and the end ------------------------------------------------------------------------------


@breaks(steps.check_admissible_actions_are_accepted, "is rejected")
class RejectsWhatItLists(CorridorEnv):
    def _apply(self, action):
        return Outcome(0.0, valid=False) if action == "left" else super()._apply(action)


@breaks(steps.check_admissible_actions_are_accepted, "lists an action twice")
class ListsTwice(CorridorEnv):
    def _admissible(self):
        return (*super()._admissible(), "fall")


@breaks(steps.check_admissible_actions_are_accepted, "must return a tuple")
class ListsInList(CorridorEnv):
    def admissible_actions(self):
        return list(super().admissible_actions())

    def _info(self):
        return super()._info() | {"admissible_actions": tuple(self.admissible_actions())}


@breaks(steps.check_admissible_actions_are_accepted, "fixed order")
class ShuffledActions(CorridorEnv):
    calls = 0

    def _admissible(self):
        self.calls += 1
        actions = super()._admissible()
        return actions[::-1] if self.calls % 2 else actions


@breaks(steps.check_admissible_actions_are_accepted, r"is_admissible\('right'\) must be true")
class DeniesAll(CorridorEnv):
    def is_admissible(self, action):
        return False


@breaks(steps.check_rejected_actions_change_nothing, "UnicodeEncodeError")
class AsciiOnly(CorridorEnv):
    def _apply(self, action):
        action.encode("ascii")
        return super()._apply(action)


@breaks(steps.check_rejected_actions_change_nothing, "changes the state")
class StumblesWhenRejected(CorridorEnv):
    def _apply(self, action):
        outcome = super()._apply(action)
        if not outcome.valid:
            self._fallen = not self._fallen
        return outcome


@breaks(steps.check_rejected_actions_change_nothing, "is_admissible says False, step says True")
class AcceptsSilently(CorridorEnv):
    def _apply(self, action):
        return super()._apply(action)._replace(valid=True)


@breaks(steps.check_rejected_actions_change_nothing, "the observation must say")
class RejectsInSilence(CorridorEnv):
    def _observe(self):
        return f"cell {self._cell} of {self.task.content}"


@breaks(steps.check_rejected_actions_change_nothing, "ends the game")
class EndsWhenRejected(CorridorEnv):
    def _apply(self, action):
        outcome = super()._apply(action)
        return outcome if outcome.valid else outcome._replace(terminated=True)


@breaks(steps.check_actions_are_strings, r"step\(0\) must raise TypeError, raised nothing")
class ConvertsActions(CorridorEnv):
    def step(self, action):
        return super().step(str(action))


@breaks(
    steps.check_ends,
    "step after the end of an episode must raise",
)
class PlaysOn(CorridorEnv):
    def step(self, action):
        if self._terminated or self._truncated:
            self.reset()
        return super().step(action)


@breaks(steps.check_ends, "both terminated and truncated")
class EndsTwice(CorridorEnv):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated or terminated, info


@breaks(steps.check_ends, "truncated after 12 steps")
class NeverTruncates(CorridorEnv):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, False, info


@breaks(steps.check_ends, "when the episode is over")
class ListsAfterTheEnd(CorridorEnv):
    def admissible_actions(self):
        return self._admissible()


# ---- states ----------------------------------------------------------------------------------------------


@breaks(states.check_hash_names_the_state, "must not depend on turn")
class HashCountsSteps(CorridorEnv):
    def _identity(self):
        return (*self._state(), self._turn)


@breaks(steps.check_info_values, r"\['state_hash'\] is")
class HashOfTheMoment(CorridorEnv):
    calls = 0

    def _identity(self):
        self.calls += 1
        return self.calls


@breaks(states.check_hash_names_the_state, "must be 32 hex digits")
class ShortHash(CorridorEnv):
    def state_hash(self):
        return super().state_hash()[:16]

    def _info(self):
        return super()._info() | {"state_hash": self.state_hash()}


@breaks(states.check_hash_names_the_state, "or an ended and a running one, hash equal")
class HashWithoutTask(CorridorEnv):
    def state_hash(self):
        return content_id(self._cell)

    def _info(self):
        return super()._info() | {"state_hash": self.state_hash()}


@breaks(states.check_hash_decides_the_future, "two states hash equal but differ after action")
class HashLeavesOut(CorridorEnv):
    def _identity(self):
        return self._fallen


@breaks(states.check_hash_names_the_state, "must not depend on turn|hashes differently")
class HashRemembersThePath(CorridorEnv):
    def _load(self, task):
        super()._load(task)
        self._path = ""

    def _apply(self, action):
        self._path += "x"
        return super()._apply(action)

    def _identity(self):
        return (*self._state(), self._path)


@breaks(states.check_snapshot_is_a_value, "immutable")
class MutableState(CorridorEnv):
    def _load(self, task):
        self._both = [0, False]

    _cell = property(lambda self: self._both[0], lambda self, cell: self._both.__setitem__(0, cell))
    _fallen = property(lambda self: self._both[1], lambda self, fallen: self._both.__setitem__(1, fallen))

    def _state(self):
        return self._both

    def _identity(self):
        return tuple(self._both)

    def _set_state(self, state):
        self._both = state


@breaks(states.check_snapshot_is_a_value, "pickle")
class UnpicklableState(CorridorEnv):
    def _state(self):
        return (*super()._state(), lambda: None)

    def _identity(self):
        return self._cell

    def _set_state(self, state):
        super()._set_state(state[:2])


@breaks(states.check_restore_replays, "after restore differs")
class ForgetsItsMood(CorridorEnv):
    """A counter that pays is in neither the state nor the hash."""

    def _load(self, task):
        super()._load(task)
        self._mood = 0.0

    def _apply(self, action):
        self._mood += 1.0
        outcome = super()._apply(action)
        return outcome._replace(reward=outcome.reward + self._mood)


@breaks(states.check_restore_replays, "restore must return what was current")
class RestoresWithoutInfo(CorridorEnv):
    def restore(self, snapshot):
        return super().restore(snapshot)[0], {}


@breaks(states.check_restore_refuses_strangers, "another suite, schema or data set must raise ValueError")
class TakesAnySnapshot(CorridorEnv):
    def _check_snapshot(self, snapshot):
        pass


@breaks(states.check_seed_decides_the_episode, "differ between two environments")
class OwnChance(CorridorEnv):
    def _load(self, task):
        super()._load(task)
        self._own = np.random.default_rng()

    def _apply(self, action):
        outcome = super()._apply(action)
        return outcome._replace(reward=float(self._own.random()))

    def restore(self, snapshot):
        answer = super().restore(snapshot)
        self._own = np.random.default_rng(0)
        return answer


@breaks(states.check_task_option, "must fix the whole initial state")
class StartsAnywhere(CorridorEnv):
    def _load(self, task):
        super()._load(task)
        self._cell = int(self.np_random.integers(-100, 1))

    def _status(self):
        return Status(False, 0.0, 0.0)


@breaks(states.check_task_option, "starts another task")
class ChoosesItsTask(CorridorEnv):
    def reset(self, *, seed=None, options=None):
        if options and "task" in options and "no such" not in options["task"]:
            options = {"task": self.tasks[-1].id}
        return super().reset(seed=seed, options=options)


@breaks(states.check_global_generators, "global `random`")
class PythonsGenerator(CorridorEnv):
    def _load(self, task):
        super()._load(task)
        random.random()


@breaks(states.check_global_generators, "global `numpy.random`")
class NumpysGenerator(CorridorEnv):
    def _load(self, task):
        super()._load(task)
        np.random.rand()  # noqa: NPY002


@breaks(
    states.check_environments_are_independent,
    "depends on what other|changes another",
)
class SharedFloor(CorridorEnv):
    floor = [0]  # noqa: RUF012 (the defect)

    _cell = property(lambda self: self.floor[0], lambda self, cell: self.floor.__setitem__(0, cell))


# ---- vector environments -----------------------------------------------------------------------------------


@breaks(vector.check_returned_types, "rewards must be ndarray float64")
class SmallRewards(CorridorVectorEnv):
    def _step_slots(self, slots, actions):
        moves = super()._step_slots(slots, actions)
        return moves._replace(rewards=moves.rewards.astype(np.float32))


@breaks(vector.check_returned_types, "must be a tuple of N strings")
class ListOfTexts(CorridorVectorEnv):
    def _observe_slots(self, slots):
        return list(super()._observe_slots(slots))


@breaks(vector.check_equals_sync_vector_env, "differs from SyncVectorEnv")
class OwnSeeds(CorridorVectorEnv):
    def _reset_slots(self, slots, tasks, seeds):
        return super()._reset_slots(slots, tasks, [None if seed is None else seed + 1 for seed in seeds])


@breaks(vector.check_equals_sync_vector_env, "differs from SyncVectorEnv")
class WideTurns(CorridorVectorEnv):
    def _step_slots(self, slots, actions):
        moves = super()._step_slots(slots, actions)
        return moves._replace(infos=moves.infos | {"turn": moves.infos["turn"].astype(object)})


@breaks(vector.check_equals_sync_vector_env, "differs from SyncVectorEnv")
class RoundedRewards(CorridorVectorEnv):
    def _step_slots(self, slots, actions):
        moves = super()._step_slots(slots, actions)
        return moves._replace(rewards=np.round(moves.rewards, 12))


@breaks(vector.check_equals_sync_vector_env, "differs from SyncVectorEnv")
class OneEnvironmentForAll(CorridorVectorEnv):
    def _make_slots(self):
        super()._make_slots()
        self.envs = self.envs[:1] * self.num_envs


@breaks(vector.check_partial_steps_equal_single_environments, "differs from a single environment")
class SortsSlots(CorridorVectorEnv):
    def _step_slots(self, slots, actions):
        return super()._step_slots(sorted(slots), actions)


@breaks(vector.check_partial_steps_equal_single_environments, "differs from a single environment")
class ReseedsAlways(CorridorVectorEnv):
    def _reset_slots(self, slots, tasks, seeds):
        masked = len(slots) < self.num_envs and self.autoreset_mode is AutoresetMode.DISABLED
        if masked and any(tasks):
            seeds = [3] * len(slots)
        return super()._reset_slots(slots, tasks, seeds)


@breaks(vector.check_returned_values_are_fresh, "a later step changed what an earlier one returned")
class OneBuffer(CorridorVectorEnv):
    def _make_slots(self):
        super()._make_slots()
        self._rewards = np.zeros(self.num_envs)

    def _step_slots(self, slots, actions):
        moves = super()._step_slots(slots, actions)
        if len(slots) < self.num_envs:
            return moves
        self._rewards[:] = moves.rewards
        return Moves(moves.observations, self._rewards, *moves[2:])


@breaks(vector.check_tasks_and_groups, "starts other tasks")
class DropsTasks(CorridorVectorEnv):
    def _reset_slots(self, slots, tasks, seeds):
        if len(slots) == self.num_envs:
            tasks = tasks[:1] * len(slots)
        return super()._reset_slots(slots, tasks, seeds)


class StartsAnywhereVectorEnv(SerialVectorEnv):
    env_class = StartsAnywhere


breaks(vector.check_tasks_and_groups, "start from different states")(StartsAnywhereVectorEnv)


@breaks(
    vector.check_reset_mask_leaves_others_alone,
    "reset_mask leaves out slot 0, yet it changed",
)
class ResetsAll(CorridorVectorEnv):
    def reset(self, *, seed=None, options=None):
        answer = super().reset(seed=seed, options=options)
        if options and "reset_mask" in options:
            self.reset_at([0])
        return answer


@breaks(vector.check_snapshots_travel, "a slot's snapshot differs")
class SnapshotWithoutChance(CorridorVectorEnv):
    def _snapshot_slot(self, slot):
        taken = super()._snapshot_slot(slot)
        return Snapshot(taken.suite, taken.schema, taken.data, taken.task, taken.state, *_of(taken), None)


def _of(snapshot):
    return snapshot.turn, snapshot.valid, snapshot.terminated, snapshot.truncated


@breaks(vector.check_snapshots_travel, "into another slot returns something else")
class RestoresToTheStart(CorridorVectorEnv):
    def _restore_slot(self, slot, snapshot):
        self.envs[slot].restore(snapshot)
        self._seen[slot], info = self.envs[slot].reset(options={"task": snapshot.task.id})
        return self._seen[slot], info


@breaks(vector.check_snapshots_travel, "does not hold the episode")
class RestoresTheChanceOfTheSlot(CorridorVectorEnv):
    def _restore_slot(self, slot, snapshot):
        answer = super()._restore_slot(slot, snapshot)
        self.envs[slot].np_random.random()
        return answer


@breaks(
    vector.check_finished_slots_wait,
    "stepping a finished slot under DISABLED must raise",
)
class RevivesFinishedSlots(CorridorVectorEnv):
    def step(self, actions):
        if self.autoreset_mode is AutoresetMode.DISABLED and self._over.any():
            self.reset_at(np.flatnonzero(self._over).tolist())
        return super().step(actions)


@breaks(vector.check_bad_use, "a slot named twice must raise UsageError, raised nothing")
class AnySlots(CorridorVectorEnv):
    def _check_slots(self, slots):
        chosen = [int(i) for i in slots]
        return chosen if max(chosen) < self.num_envs else super()._check_slots(slots)


@breaks(vector.check_bad_use, "an unknown task changed slot 0")
class HalfReset(CorridorVectorEnv):
    def _start(self, slots, tasks, seeds):
        for i, task in zip(slots, tasks, strict=True):
            self._reset_slots([i], [task], [None])
        return super()._start(slots, tasks, seeds)


@breaks(vector.check_step_limit_has_two_names, "max_episode_steps=3 must set max_steps to 3")
class OneNameOnly(CorridorVectorEnv):
    def __init__(self, num_envs=1, *, max_episode_steps=None, **options):
        super().__init__(num_envs, **options)


@breaks(vector.check_metadata, "default mode must be NEXT_STEP")
class OtherDefault(CorridorVectorEnv):
    def __init__(self, num_envs=1, *, autoreset_mode=AutoresetMode.SAME_STEP, **options):
        super().__init__(num_envs, autoreset_mode=autoreset_mode, **options)


class GlobalChanceVectorEnv(SerialVectorEnv):
    env_class = PythonsGenerator


breaks(vector.check_global_generators, "global `random`")(GlobalChanceVectorEnv)
