"""The contract of a vector environment, enforced once, over slots that may be stored anyhow.

`AgentVectorEnv` owns what all forms share: autoreset modes, masks, partial steps and resets, groups.
A form implements six hooks over a list of slots. `agentgym.vector.serial` keeps the slots as
environments of one process, native forms as arrays.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Container, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv

from agentgym.core.arrays import Bools, Floats, all_of, any_of
from agentgym.core.options import check_options, check_reset_options, options_of
from agentgym.core.queries import AnswerSource
from agentgym.core.snapshots import call
from agentgym.core.tasks import TaskSet
from agentgym.core.types import Policy, Snapshot
from agentgym.env import AgentEnv
from agentgym.vector.arguments import (
    as_actions,
    as_seeds,
    as_slots,
    autoreset_mode_of,
    check_groups,
    checked_count,
    checked_mask,
    checked_rollouts,
    checked_seeds,
    one_step_limit,
    per_slot,
)
from agentgym.vector.batching import (
    Moves,
    Starts,
    as_objects,
    batch_space,
    info_rows,
    merge_moves,
    object_array,
    replace_rows,
    spread,
    take,
    with_masks,
)

RESET_OPTIONS = ("tasks", "reset_mask", "rollouts")
"""Keys that ``reset(options=...)`` of a vector environment understands."""


SPACES = ("single_action_space", "single_observation_space", "action_space", "observation_space")
"""Attributes that hold a vector environment's spaces."""


class _HeldSlots(NamedTuple):
    """State of a copied vector environment, beside its constructor's arguments."""

    prototype: tuple[str, Any]
    """State of the prototype, as `AgentEnv.__reduce__` gives it."""
    snapshots: dict[int, Snapshot]
    """Episodes of the slots that have begun."""
    over: Bools
    begun: Bools
    generator: np.random.Generator | None
    seed: int | None
    spec: EnvSpec | None
    spaces: dict[str, gymnasium.Space[Any]]


class AgentVectorEnv(VectorEnv[Any, Any, Any]):
    """N episodes of one environment, stepped together or slot by slot.

    Beyond `gymnasium.vector.VectorEnv`:

    * ``reset(options={"tasks": [...], "reset_mask": bool[N]})`` names each slot's task; slots given
      one task form a group, whose members must start from the same state hash.
    * `step_at` and `reset_at` advance only the slots named.
    * `snapshot`, `restore` and `copy` work per slot.

    Observations are a ``tuple[str, ...]``, for image games a dict of ``text`` and ``image``
    (uint8[N, H, W, 3]); rewards are float64[N]; infos hold, for each key, an array and its mask.
    """

    env_class: ClassVar[type[AgentEnv[Any]]]
    """Class of the single environment, where a subclass fixes it."""

    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Keep the arguments for copies."""
        self = super().__new__(cls)
        self._arguments = (args, options)
        return self

    def __init__(
        self,
        num_envs: int = 1,
        *,
        env_class: type[AgentEnv[Any]] | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        max_steps: int | None = None,
        max_episode_steps: int | None = None,
        **options: Any,
    ):
        """Make N slots.

        Args:
            num_envs: number of slots, N.
            env_class: the single environment; None for the class attribute of a subclass.
            autoreset_mode: what happens to a slot whose episode is over.
            max_steps: step limit; None for the suite's default.
            max_episode_steps: Gymnasium's name for ``max_steps``.
            **options: of the single environment.

        Raises:
            UsageError: fewer than one slot, an unknown mode or option, or two step limits.
        """
        num_envs = checked_count(num_envs)
        self.autoreset_mode = autoreset_mode_of(autoreset_mode)
        single = env_class or self.env_class
        check_options(options, {**options_of(type(self)), **options_of(single)})
        self.prototype = single(max_steps=one_step_limit(max_steps, max_episode_steps), **options)
        """An environment made with the options of all slots."""
        self._prepare(num_envs)

    def _prepare(self, num_envs: int) -> None:
        """Set what follows from the prototype, and make the slots."""
        self.num_envs = num_envs
        self.render_mode = self.prototype.render_mode
        self.metadata = {**self.prototype.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_action_space = self.prototype.action_space
        self.single_observation_space = self.prototype.observation_space
        self.action_space = batch_space(self.prototype.action_space, num_envs)
        self.observation_space = batch_space(self.prototype.observation_space, num_envs)
        self._over = np.zeros(num_envs, dtype=np.bool_)
        self._begun = np.zeros(num_envs, dtype=np.bool_)
        self._every_slot = list(range(num_envs))
        self._rollouts = [0] * num_envs
        """Index of the attempt at the task, for the episodes that `_reset_slots` starts."""
        self._make_slots()

    # ---- hooks of a form -------------------------------------------------------------------

    @abstractmethod
    def _make_slots(self) -> None:
        """Make the storage of N slots, none of which has begun, from ``self.prototype``."""

    @abstractmethod
    def _reset_slots(
        self, slots: Sequence[int], tasks: Sequence[str | None], seeds: Sequence[int | None]
    ) -> Starts:
        """Start an episode in each slot; None draws the task, or leaves the generator as it is."""

    @abstractmethod
    def _step_slots(self, slots: Sequence[int], actions: Sequence[str]) -> Moves:
        """Step slots whose episodes are running; the observations' arrays are the caller's."""

    @abstractmethod
    def _observe_slots(self, slots: Sequence[int]) -> Any:
        """Return the observations of slots as they are."""

    @abstractmethod
    def _snapshot_slot(self, slot: int) -> Snapshot:
        """Take a snapshot of a slot, as `AgentEnv.snapshot`."""

    @abstractmethod
    def _restore_slot(self, slot: int, snapshot: Snapshot) -> tuple[Any, dict[str, Any]]:
        """Restore a slot, as `AgentEnv.restore`."""

    # ---- hooks that a form may do better ----------------------------------------------------

    def _check_tasks(self, slots: Sequence[int], tasks: Sequence[str | None]) -> None:
        """Raise a UsageError unless every task named can be started in its slot."""
        known: Container[object] = self.tasks
        named: list[Any] = [key for key in tasks if key is not None]
        for key in named:
            if not isinstance(key, str):
                self.tasks.find(key)  # raises an error that names the key
        for key in set(named):  # members of a group are looked up once
            if key not in known:
                self.tasks.find(key)

    def _checkpoint(self, slots: Sequence[int], seeds: Sequence[int | None]) -> Any:
        """Return the state that `_roll_back` needs to undo a reset of slots with seeds."""
        return {slot: self._snapshot_slot(slot) for slot in slots if self._begun[slot]}

    def _roll_back(self, checkpoint: Any) -> None:
        """Undo a reset that has failed, wherever it got to."""
        for slot, snapshot in checkpoint.items():
            self._restore_slot(slot, snapshot)

    # ---- Gymnasium -------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Start episodes in all slots, or in those of a mask.

        Args:
            seed: int s seeds slot i with s + i; a list seeds each slot.
            options: ``tasks`` (length N, by id or source id; None draws) and ``reset_mask``
                (bool[N]); entries outside the mask are ignored. ``rollouts`` (length N) says which attempt
                at its task each is; None for 0.

        Returns:
            Observations of all N slots, and infos with masks that say which slots were reset.

        Raises:
            UsageError: unknown option, wrong length, or members of a group that start differently.
        """
        given = check_reset_options(options, RESET_OPTIONS)
        slots = checked_mask(given.get("reset_mask"), self.num_envs)
        tasks = per_slot(given.get("tasks"), self.num_envs, "tasks")
        rollouts = checked_rollouts(per_slot(given.get("rollouts"), self.num_envs, "rollouts"))
        seeds = as_seeds(seed, slots, self.num_envs)
        missing = sorted(set(np.flatnonzero(~self._begun).tolist()) - set(slots))
        if missing:
            raise ResetNeeded(f"slot {missing[0]} has never been reset: reset all slots once, without a mask")
        starts = self._start(slots, [tasks[i] for i in slots], seeds, [rollouts[i] for i in slots])
        if len(slots) == self.num_envs:
            return starts.observations, with_masks(starts.infos, self.num_envs)
        infos = {key: spread(column, slots, self.num_envs) for key, column in starts.infos.items()}
        mask = np.zeros(self.num_envs, dtype=np.bool_)
        mask[slots] = True
        infos.update({f"_{key}": mask.copy() for key in starts.infos})
        return self._observe_slots(self._every_slot), infos

    def step(self, actions: Sequence[str]) -> tuple[Any, Floats, Bools, Bools, dict[str, Any]]:
        """Step every slot.

        Args:
            actions: N strings.

        Returns:
            observations, rewards float64[N], terminations bool[N], truncations bool[N], infos.

        Raises:
            ResetNeeded: a slot's episode is over and the mode is DISABLED.
        """
        moves, ended, finals = self._advance(self._every_slot, actions)
        infos = with_masks(moves.infos, self.num_envs)
        if finals is not None:
            mask = np.zeros(self.num_envs, dtype=np.bool_)
            mask[ended] = True
            infos["final_obs"] = spread(as_objects(finals.observations, len(ended)), ended, self.num_envs)
            infos["final_info"] = {
                key: spread(column, ended, self.num_envs) for key, column in finals.infos.items()
            }
            infos["final_info"].update({f"_{key}": mask.copy() for key in finals.infos})
            infos["_final_obs"], infos["_final_info"] = mask.copy(), mask
        return moves.observations, moves.rewards, moves.terminations, moves.truncations, infos

    def render(self) -> tuple[Any, ...] | None:
        """Return one frame per slot, or None without a render mode."""
        if self.render_mode is None:
            return None
        return tuple(self._render_slot(i) for i in self._every_slot)

    # ---- partial steps, groups, snapshots ---------------------------------------------------

    def step_at(
        self, slots: Sequence[int], actions: Sequence[str]
    ) -> tuple[Any, Floats, Bools, Bools, dict[str, Any]]:
        """Step only the slots named.

        Args:
            slots: n different slot numbers.
            actions: n strings.

        Returns:
            As `step`, with leading dimension n and infos without masks. Under SAME_STEP
            ``final_obs`` and ``final_info`` are object arrays, None where no episode ended.
        """
        chosen = as_slots(slots, self.num_envs)
        moves, ended, finals = self._advance(chosen, actions)
        infos: dict[str, Any] = dict(moves.infos)
        if finals is not None:
            where = [chosen.index(i) for i in ended]
            rows = info_rows(finals.infos, len(ended))
            infos["final_obs"] = spread(as_objects(finals.observations, len(ended)), where, len(chosen))
            infos["final_info"] = spread(object_array(rows), where, len(chosen))
        return moves.observations, moves.rewards, moves.terminations, moves.truncations, infos

    def reset_at(
        self,
        slots: Sequence[int],
        tasks: Sequence[str | None] | None = None,
        seeds: Sequence[int | None] | None = None,
        rollouts: Sequence[int | None] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Start episodes in only the slots named.

        Args:
            slots: n different slot numbers.
            tasks: n task ids or source ids; None draws.
            seeds: n seeds; None leaves a slot's generator as it is.
            rollouts: n indexes of attempts at the tasks; None for 0.

        Returns:
            observations and infos with leading dimension n, without masks.
        """
        chosen = as_slots(slots, self.num_envs)
        n = len(chosen)
        given = checked_seeds(per_slot(seeds, n, "seeds"))
        attempts = checked_rollouts(per_slot(rollouts, n, "rollouts"))
        starts = self._start(chosen, per_slot(tasks, n, "tasks"), given, attempts)
        return starts.observations, dict(starts.infos)

    def snapshot(self, slot: int) -> Snapshot:
        """Return everything that decides the future of the episode in a slot."""
        (slot,) = as_slots([slot], self.num_envs)
        if not self._begun[slot]:
            raise ResetNeeded(f"slot {slot} plays no task yet: call reset() before snapshot()")
        return self._snapshot_slot(slot)

    def restore(self, slot: int, snapshot: Snapshot) -> tuple[Any, dict[str, Any]]:
        """Put a snapshot's episode into a slot.

        Returns:
            The single observation and info that were current when it was taken.

        Raises:
            UsageError: as `AgentEnv.restore`; the slot stays as it was.
        """
        (slot,) = as_slots([slot], self.num_envs)
        observation, info = self._restore_slot(slot, snapshot)
        self._over[slot] = snapshot.terminated or snapshot.truncated
        self._begun[slot] = True
        return observation, info

    def copy(self, source: int, target: int) -> tuple[Any, dict[str, Any]]:
        """Put the episode of one slot into another as well; as ``restore(target, snapshot(source))``."""
        return self.restore(target, self.snapshot(source))

    def measures(self, slot: int) -> dict[str, float]:
        """Return the measures of the episode in a slot, as `AgentEnv.measures`."""
        self.prototype.restore(self.snapshot(slot))
        return self.prototype.measures()

    def answer_from(self, source: AnswerSource) -> None:
        """Take answers from a source from now on, such as one that records them."""
        self.prototype.answer_source = source

    @property
    def tasks(self) -> TaskSet:
        """The tasks of the split played."""
        return self.prototype.tasks

    @property
    def max_steps(self) -> int:
        """The step limit of an episode."""
        return self.prototype.max_steps

    def oracle(self) -> Policy:
        """Return the policy that plays this environment as well as is known."""
        return self.prototype.oracle()

    # ---- copies ----------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the constructor's arguments and the episodes, as `AgentEnv.__reduce__` does."""
        return call, (type(self), *self._arguments), self._held()

    def __setstate__(self, held: _HeldSlots) -> None:
        """Restore from a pickle; the data must be those it was pickled with."""
        self.prototype.__setstate__(held.prototype)
        for slot, snapshot in held.snapshots.items():
            self._restore_slot(slot, snapshot)
        self._over, self._begun = held.over, held.begun
        self._np_random, self._np_random_seed = held.generator, held.seed
        self.spec = held.spec
        for name, space in held.spaces.items():
            setattr(self, name, space)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the episodes; the read-only world is shared."""
        twin = memo[id(self)] = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.prototype = self.prototype.spawn()
        twin._rollouts = list(self._rollouts)
        twin._make_slots()
        twin.__setstate__(self._held())
        return twin

    def _held(self) -> _HeldSlots:
        """Return the state beside the constructor's arguments, as values of its own."""
        return _HeldSlots(
            self.prototype.__reduce__()[2],
            {i: self._snapshot_slot(i) for i in np.flatnonzero(self._begun).tolist()},
            self._over.copy(),
            self._begun.copy(),
            *copy.deepcopy((self._np_random, self._np_random_seed, self.spec)),
            copy.deepcopy({name: getattr(self, name) for name in SPACES}),
        )

    # ---- inside ----------------------------------------------------------------------------

    def _start(
        self,
        slots: list[int],
        tasks: Sequence[str | None],
        seeds: Sequence[int | None],
        rollouts: Sequence[int] | None = None,
    ) -> Starts:
        """Start episodes in all of the slots, or in none: an error leaves every slot as it was."""
        self._check_tasks(slots, tasks)
        checkpoint = self._checkpoint(slots, seeds)
        try:
            for slot, rollout in zip(slots, rollouts or [0] * len(slots), strict=True):
                self._rollouts[slot] = rollout
            starts = self._reset_slots(slots, tasks, seeds)
            check_groups(tasks, starts)
        except BaseException:
            self._roll_back(checkpoint)
            raise
        self._over[slots] = False
        self._begun[slots] = True
        return starts

    def _advance(self, slots: list[int], actions: Sequence[str]) -> tuple[Moves, list[int], Starts | None]:
        """Step slots under the autoreset mode; also return the slots that ended, and how, if reset."""
        actions = as_actions(actions, len(slots))
        whole = slots == self._every_slot  # not only the same length: `step_at` takes slots in any order
        if not all_of(self._begun if whole else self._begun[slots]):
            raise ResetNeeded("a slot plays no task yet: call reset() before step()")
        over = self._over if whole else self._over[slots]
        if any_of(over):
            if self.autoreset_mode is not AutoresetMode.NEXT_STEP:
                slot = slots[int(np.flatnonzero(over)[0])]
                raise ResetNeeded(
                    f"the episode in slot {slot} is over: reset it first (reset_mask, reset_at or restore)"
                )
            moves = self._advance_or_reset(slots, actions, over)
        else:
            moves = self._step_slots(slots, actions)
        ended = moves.terminations | moves.truncations
        if whole:
            self._over = ended
        else:
            self._over[slots] = ended
        if self.autoreset_mode is not AutoresetMode.SAME_STEP or not any_of(ended):
            return moves, [], None
        return self._reset_ended(slots, moves, np.flatnonzero(ended))

    def _advance_or_reset(self, slots: list[int], actions: Sequence[str], over: Bools) -> Moves:
        """NEXT_STEP: slots that ended before are reset and ignore their action."""
        old, live = np.flatnonzero(over), np.flatnonzero(~over)
        fresh = [slots[k] for k in old]
        starts = self._start(fresh, [None] * len(fresh), [None] * len(fresh))
        still = np.zeros(len(old), dtype=np.bool_)
        begun = Moves(starts.observations, np.zeros(len(old)), still, still, starts.infos)
        if not live.size:
            return begun
        moved = self._step_slots([slots[k] for k in live], [actions[int(k)] for k in live])
        return merge_moves([(old, begun), (live, moved)], len(slots))

    def _reset_ended(
        self, slots: list[int], moves: Moves, where: npt.NDArray[np.intp]
    ) -> tuple[Moves, list[int], Starts]:
        """SAME_STEP: slots that ended now are reset; rewards and flags stay those of the end."""
        ended = [slots[k] for k in where]
        finals = Starts(take(moves.observations, where), {k: v[where] for k, v in moves.infos.items()})
        starts = self._start(ended, [None] * len(ended), [None] * len(ended))
        observations = replace_rows(moves.observations, where, starts.observations)
        infos = {}
        for key, rows in starts.infos.items():
            column = moves.infos[key]
            infos[key] = column.astype(np.promote_types(column.dtype, rows.dtype))
            infos[key][where] = rows
        merged = Moves(observations, moves.rewards, moves.terminations, moves.truncations, infos)
        return merged, ended, finals

    def _render_slot(self, slot: int) -> Any:
        """Draw a slot through the prototype, which then holds that slot's episode."""
        self.prototype.restore(self.snapshot(slot))
        return self.prototype.render()
