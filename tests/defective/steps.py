"""Defects of what reset and step return, of actions, and of the end of an episode."""

import numpy as np
from gymnasium import spaces

from agentgym import Outcome, Status, UnicodeText
from agentgym.checking import (
    steps,
)
from tests.corridor import CorridorEnv
from tests.defective import breaks


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


@breaks(steps.check_overlong_actions, "an action of 8193 characters must not be admissible")
class AdmitsAnyLength(CorridorEnv):
    def is_admissible(self, action):
        return len(action) > 8_192 or super().is_admissible(action)


@breaks(steps.check_overlong_actions, "an action of 8193 characters must be rejected")
class PlaysOverlongActions(CorridorEnv):
    def _reject(self, action):
        return Outcome(-0.5, valid=len(action) > 100)


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
