"""Ray: a vector environment whose slots are actors of a cluster, for environments that are slow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agentgym.core.types import Snapshot
from agentgym.env import AgentEnv
from agentgym.io.optional import load
from agentgym.registration import class_of
from agentgym.vector.batching import Moves, Starts, batch_observations, info_columns
from agentgym.vector.core import AgentVectorEnv


class RayEpisode:
    """Body of an actor: an environment, and what its episode began with."""

    def __init__(self, env_class: type[AgentEnv[Any]], options: dict[str, Any]):
        """Make the environment where the actor is."""
        self.env = env_class(**options)

    def reset(self, task: str | None, seed: int | None, rollout: int) -> tuple[Any, Any, Snapshot]:
        """Start an episode; return observation, info and a snapshot of it."""
        given = {"rollout": rollout} if task is None else {"task": task, "rollout": rollout}
        return *self.env.reset(seed=seed, options=given), self.env.snapshot()

    def restore(self, snapshot: Snapshot, actions: Sequence[str] = ()) -> tuple[Any, dict[str, Any]]:
        """Restore an episode and play actions; return what `AgentEnv.restore` does."""
        shown = self.env.restore(snapshot)
        for action in actions:
            shown = self.env.step(action)[::4]
        return shown

    def call(self, name: str, *given: Any) -> Any:
        """Call a method of the environment."""
        return getattr(self.env, name)(*given)


class RayVectorEnv(AgentVectorEnv):
    """N Ray actors, each with one slot; a lost actor is replaced, and its episode is played again up to now.

    Ray reserves no core for an actor: as many run as memory allows.
    """

    @classmethod
    def of(cls, env_id: str, num_envs: int, **options: Any) -> RayVectorEnv:
        """Return slots of a registered environment, in mode DISABLED; ``options`` are its constructor's."""
        return cls(num_envs, env_class=class_of(env_id), autoreset_mode="Disabled", **options)

    def _make_slots(self) -> None:
        self._ray = load("ray", "ray", "RayVectorEnv")
        if not self._ray.is_initialized():
            self._ray.init(log_to_driver=False)
        self._actors = [self._actor() for _ in self._every_slot]
        self._seen: list[Any] = [None] * self.num_envs
        self._starts: list[Snapshot | None] = [None] * self.num_envs
        self._played: list[list[str]] = [[] for _ in self._every_slot]

    def _actor(self) -> Any:
        make, options = self._ray.remote(num_cpus=0)(RayEpisode), self.prototype._arguments[1]
        return make.remote(type(self.prototype), options)

    def _call(self, slots: Sequence[int], method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of the slots' actors at once and return their results, in order."""
        calls = [(i, method, given) for i, given in zip(slots, arguments, strict=True)]
        pending = [getattr(self._actors[slot], method).remote(*given) for slot, _, given in calls]
        return [self._result(each, *call) for each, call in zip(pending, calls, strict=True)]

    def _result(self, pending: Any, slot: int, method: str, given: tuple[Any, ...]) -> Any:
        try:
            return self._ray.get(pending)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayActorError:
            self._actors[slot] = self._actor()
            if self._starts[slot] is not None:
                self._ray.get(self._actors[slot].restore.remote(self._starts[slot], self._played[slot]))
            return self._ray.get(getattr(self._actors[slot], method).remote(*given))

    def _reset_slots(
        self, slots: Sequence[int], tasks: Sequence[str | None], seeds: Sequence[int | None]
    ) -> Starts:
        given = [(task, seed, self._rollouts[i]) for i, task, seed in zip(slots, tasks, seeds, strict=True)]
        found = self._call(slots, "reset", given)
        for i, (seen, _, snapshot) in zip(slots, found, strict=True):
            self._seen[i], self._starts[i], self._played[i] = seen, snapshot, []
        return Starts(self._observe_slots(slots), info_columns([info for _, info, _ in found]))

    def _step_slots(self, slots: Sequence[int], actions: Sequence[str]) -> Moves:
        found = self._call(slots, "call", [("step", action) for action in actions])
        for i, action, (seen, *_) in zip(slots, actions, found, strict=True):
            self._seen[i] = seen
            self._played[i].append(action)
        _, rewards, ended, cut, rows = zip(*found, strict=True)
        won, over, stopped = np.array(rewards, np.float64), np.array(ended, np.bool_), np.array(cut, np.bool_)
        return Moves(self._observe_slots(slots), won, over, stopped, info_columns(rows))

    def _observe_slots(self, slots: Sequence[int]) -> Any:
        return batch_observations([self._seen[i] for i in slots])

    def _snapshot_slot(self, slot: int) -> Snapshot:
        return self._call([slot], "call", [("snapshot",)])[0]  # type: ignore[no-any-return]

    def _restore_slot(self, slot: int, snapshot: Snapshot) -> tuple[Any, dict[str, Any]]:
        ((seen, info),) = self._call([slot], "restore", [(snapshot,)])
        self._seen[slot], self._starts[slot], self._played[slot] = seen, snapshot, []
        return seen, info

    def measures(self, slot: int) -> dict[str, float]:
        """Return the measures of the episode in a slot, as `AgentEnv.measures`."""
        return dict(self._call([slot], "call", [("measures",)])[0])

    def close_extras(self, **kwargs: Any) -> None:
        """End the actors; the cluster goes on."""
        for actor in self._actors:
            self._ray.kill(actor)
