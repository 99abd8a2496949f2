"""Defects of hashes, snapshots, seeds, tasks and chance."""

import random
from typing import Any

import numpy as np

from agentgym import Status
from agentgym.checking import (
    states,
    steps,
)
from agentgym.core.hashing import content_id
from tests.corridor import CorridorEnv
from tests.defective import breaks


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


@breaks(states.check_copies_go_on, "goes on differently after deepcopy|while checking: `pickle` and")
class SharesTheEpisode(CorridorEnv):
    def __deepcopy__(self, memo):
        return self


@breaks(states.check_copies_go_on, "pickle changes an episode")
class PicklesWithoutChance(CorridorEnv):
    def __setstate__(self, state):
        super().__setstate__(state)
        self._np_random = np.random.default_rng(0)


@breaks(states.check_snapshot_is_a_value, "immutable")
class MutableState(CorridorEnv):
    def _load(self, task):
        self._both = [0, False]

    _cell = property(lambda self: self._both[0], lambda self, cell: self._both.__setitem__(0, cell))
    _fallen = property(lambda self: self._both[1], lambda self, fallen: self._both.__setitem__(1, fallen))

    state_type = Any

    def _state(self):
        return self._both

    def _identity(self):
        return tuple(self._both)

    def _set_state(self, state):
        self._both = state


@breaks(states.check_snapshot_is_a_value, "local object")
class UnpicklableState(CorridorEnv):
    state_type = Any

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


@breaks(states.check_bytes_hold_a_snapshot, "a snapshot of suite 'corridor' has no bytes")
class KeepsASet(CorridorEnv):
    state_type = Any

    def _state(self):
        return frozenset(super()._state())

    def _set_state(self, state):
        self._cell, self._fallen = max(state), False

    def _check_state(self, task, state, terminated):
        pass


@breaks(states.check_restore_refuses_strangers, "another suite, schema or data set must raise ValueError")
class TakesAnySnapshot(CorridorEnv):
    def _check_snapshot(self, snapshot):
        return snapshot


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
