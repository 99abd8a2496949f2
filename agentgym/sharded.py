"""The process form: the slots of one vector environment spread over worker processes.

For games whose step costs far more than a message between processes (about 0.1 ms). Each worker
holds its own world and a vector environment of k slots; texts and arrays travel by pickle through
pipes, never through shared memory.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from agentgym.errors import UsageError
from agentgym.registration import class_of, find_spec, open_vector
from agentgym.types import Snapshot
from agentgym.vector.batching import Moves, Rows, Starts, merge_columns, merge_observations
from agentgym.vector.core import AgentVectorEnv

OF_ALL_SLOTS = ("autoreset_mode", "max_steps", "max_episode_steps")
"""Options that workers are not given: they step under DISABLED, with the one step limit."""


class ShardedVectorEnv(AgentVectorEnv):
    """N slots over worker processes, equal to the in-process form step for step and bit for bit.

    Worker processes are spawned, so a script that makes one at its top level needs the usual
    ``if __name__ == "__main__":`` guard.

    Example:
        >>> import agentgym
        >>> envs = ShardedVectorEnv("agentgym/EZPoints-v0", 4, num_workers=2)
        >>> envs.reset(seed=0)[1]["turn"].tolist()
        [0, 0, 0, 0]
        >>> envs.close()
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int = 1,
        *,
        num_workers: int = 2,
        **options: Any,
    ):
        """Start the workers.

        Args:
            env_id: as `agentgym.registration.open_env`.
            num_envs: number of slots over all workers.
            num_workers: number of processes; at most one per slot is started.
            **options: those of `AgentVectorEnv` and of the environment.

        Raises:
            UsageError: as `agentgym.registration.open_vector`, or fewer than one worker.
        """
        self._workers: list[_Worker] = []  # first: a constructor that fails closes what it has made
        if num_workers < 1:
            raise UsageError(f"num_workers must be at least 1, got {num_workers}")
        self._env_id, self._num_workers = env_id, num_workers
        self._options = {**find_spec(env_id).kwargs, **options}
        super().__init__(num_envs, env_class=class_of(env_id), **self._options)

    def _make_slots(self) -> None:
        shards = np.array_split(np.arange(self.num_envs), min(self._num_workers, self.num_envs))
        self._home = [(w, k) for w, shard in enumerate(shards) for k in range(len(shard))]
        context = multiprocessing.get_context("spawn")
        options = {key: value for key, value in self._options.items() if key not in OF_ALL_SLOTS}
        options["max_steps"] = self.max_steps
        self._workers = [_Worker(context, self._env_id, len(shard), options) for shard in shards]
        for worker in self._workers:
            worker.receive()

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the workers."""
        for worker in self._workers:
            worker.stop()

    def _reset_slots(
        self, slots: Sequence[int], tasks: Sequence[str | None], seeds: Sequence[int | None]
    ) -> Starts:
        parts = self._scatter("reset_at", slots, tasks, seeds)
        observations = merge_observations([(rows, answer[0]) for rows, answer in parts], len(slots))
        return Starts(observations, _merge_infos([(rows, answer[1]) for rows, answer in parts], len(slots)))

    def _step_slots(self, slots: Sequence[int], actions: Sequence[str]) -> Moves:
        parts = self._scatter("step_at", slots, actions)
        n = len(slots)
        rewards, terminations, truncations = (
            merge_columns([(rows, answer[k]) for rows, answer in parts], n) for k in (1, 2, 3)
        )
        return Moves(
            merge_observations([(rows, answer[0]) for rows, answer in parts], n),
            rewards,
            terminations,
            truncations,
            _merge_infos([(rows, answer[4]) for rows, answer in parts], n),
        )

    def _observe_slots(self, slots: Sequence[int]) -> Any:
        parts = self._scatter("_observe_slots", slots)
        return merge_observations(parts, len(slots))

    def _snapshot_slot(self, slot: int) -> Snapshot:
        return self._call("snapshot", slot)  # type: ignore[no-any-return]

    def _restore_slot(self, slot: int, snapshot: Snapshot) -> tuple[Any, dict[str, Any]]:
        return self._call("restore", slot, snapshot)  # type: ignore[no-any-return]

    def _call(self, method: str, slot: int, *arguments: Any) -> Any:
        worker, local = self._home[slot]
        self._workers[worker].send(method, local, *arguments)
        return self._workers[worker].receive()

    def _scatter(self, method: str, slots: Sequence[int], *columns: Sequence[Any]) -> list[tuple[Rows, Any]]:
        """Call a method over the slots of every worker concerned; answers carry their positions."""
        positions: dict[int, list[int]] = {}
        for position, slot in enumerate(slots):
            positions.setdefault(self._home[slot][0], []).append(position)
        for worker, where in positions.items():
            local = [self._home[slots[p]][1] for p in where]
            self._workers[worker].send(method, local, *([column[p] for p in where] for column in columns))
        # every worker must answer before an error is raised, or pipes would run out of step
        answers = [(np.array(where), self._workers[w].receive_or_error()) for w, where in positions.items()]
        for _, answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers


class _Worker:
    """One process, spoken to in turns: one `send`, then one `receive`."""

    def __init__(self, context: Any, env_id: str, num_envs: int, options: dict[str, Any]):
        self._pipe, far_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(far_end, env_id, num_envs, options), daemon=True)
        self._process.start()
        far_end.close()

    def send(self, method: str, *arguments: Any) -> None:
        try:
            self._pipe.send((method, arguments))
        except OSError as error:
            raise self._death() from error

    def receive_or_error(self) -> Any:
        try:
            return self._pipe.recv()
        except (EOFError, OSError):
            return self._death()

    def receive(self) -> Any:
        answer = self.receive_or_error()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        if self._process.is_alive():
            try:
                self._pipe.send(None)
            except OSError:
                self._process.terminate()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._pipe.close()

    def _death(self) -> RuntimeError:
        self._process.join(timeout=1)
        return RuntimeError(
            f"a worker process ended with exit code {self._process.exitcode}: "
            "look for its message above, or lower num_workers if memory ran out"
        )


def _serve(pipe: Connection, env_id: str, num_envs: int, options: dict[str, Any]) -> None:
    """Answer calls until None comes or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop

    def answer(call: Callable[[], Any]) -> None:
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 (sent to the parent, which raises it)
            result = error
        pipe.send(result)

    envs: AgentVectorEnv | None = None

    def start() -> None:
        nonlocal envs
        envs = open_vector(env_id, num_envs, options=options)

    answer(start)
    try:
        while (message := pipe.recv()) is not None:
            method, arguments = message
            answer(lambda m=method, a=arguments: getattr(envs, m)(*a))  # type: ignore[misc]
    except EOFError:
        return


def _merge_infos(parts: Sequence[tuple[Rows, dict[str, Any]]], n: int) -> dict[str, Any]:
    return {key: merge_columns([(rows, infos[key]) for rows, infos in parts], n) for key in parts[0][1]}
