"""Defects of vector environments."""

import numpy as np
from gymnasium.vector import AutoresetMode

from agentgym import Snapshot
from agentgym.checking import refusals, vector
from agentgym.vector.batching import Moves
from agentgym.vector.serial import SerialVectorEnv
from tests.corridor import CorridorVectorEnv
from tests.defective import breaks
from tests.defective.states import PythonsGenerator, StartsAnywhere


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


# the message depends on which of its slots happen to start alike, one time in a hundred
@breaks(vector.check_tasks_and_groups, "start from (different states|the same state hash)")
class StartsAnywhereVectorEnv(SerialVectorEnv):
    env_class = StartsAnywhere


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


@breaks(vector.check_copies_go_on, "changes the episode in a slot")
class PicklesTheFirstSlot(CorridorVectorEnv):
    def __setstate__(self, held):
        super().__setstate__(held)
        if self._begun[0]:
            self.copy(0, 1)


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


@breaks(refusals.check_refused_steps_change_nothing, "'2' in step_at must raise UsageError, raised nothing")
class AnySlots(CorridorVectorEnv):
    def step_at(self, slots, actions):
        return super().step_at([int(i) for i in slots], actions)


@breaks(refusals.check_actions_of_other_types_change_nothing, "action 3 must raise TypeError")
class AnyActions(CorridorVectorEnv):
    def _advance(self, slots, actions):
        return super()._advance(slots, [str(action) for action in actions])


@breaks(refusals.check_refused_resets_change_nothing, "an unknown task was refused, yet it changed slot 0")
class HalfReset(CorridorVectorEnv):
    def _start(self, slots, tasks, seeds, rollouts=None):
        for i, task in zip(slots, tasks, strict=True):
            self._reset_slots([i], [task], [None])
        return super()._start(slots, tasks, seeds)


@breaks(refusals.check_refused_resets_change_nothing, "after refused calls, a step shows another state")
class ForgetsWhatItShowed(CorridorVectorEnv):
    def reset(self, *, seed=None, options=None):
        try:
            return super().reset(seed=seed, options=options)
        except ValueError:
            self.max_reached = True
            raise

    def _step_slots(self, slots, actions):
        moves = super()._step_slots(slots, actions)
        stale = getattr(self, "max_reached", False)
        return moves._replace(observations=("stale",) * len(slots)) if stale else moves


@breaks(vector.check_constructor, "num_envs=1.5 must raise UsageError")
class AnyCount(CorridorVectorEnv):
    def __init__(self, num_envs=1, **options):
        super().__init__(num_envs if num_envs == 0 else int(num_envs), **options)


@breaks(vector.check_step_limit_has_two_names, "max_episode_steps=3 must set max_steps to 3")
class OneNameOnly(CorridorVectorEnv):
    def __init__(self, num_envs=1, *, max_episode_steps=None, **options):
        super().__init__(num_envs, **options)


@breaks(vector.check_metadata, "default mode must be NEXT_STEP")
class OtherDefault(CorridorVectorEnv):
    def __init__(self, num_envs=1, *, autoreset_mode=AutoresetMode.SAME_STEP, **options):
        super().__init__(num_envs, autoreset_mode=autoreset_mode, **options)


@breaks(vector.check_global_generators, "global `random`")
class GlobalChanceVectorEnv(SerialVectorEnv):
    env_class = PythonsGenerator
