"""The process form: the slots of one vector environment spread over worker processes.

For games whose step costs far more than a message between processes (about 0.1 ms). Each worker
holds its own world and a vector environment of k slots; texts and arrays travel by pickle through
pipes, never through shared memory.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import struct
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from agentgym.core.options import is_whole
from agentgym.core.queries import AnswerSource, UnansweredError
from agentgym.core.types import Snapshot
from agentgym.errors import UsageError
from agentgym.registration import class_of, find_spec, open_vector
from agentgym.vector.batching import Moves, Rows, Starts, merge_columns, merge_observations
from agentgym.vector.core import AgentVectorEnv

OF_ALL_SLOTS = ("autoreset_mode", "max_steps", "max_episode_steps")
"""Options that workers are not given: they step under DISABLED, with the one step limit."""

RECOVERY_SECONDS = 5.0
"""How long a worker may take to end, or to answer what was asked before a call was broken off."""

MAX_TIMEOUT = 1_000_000
"""Seconds: longer ones are no number of milliseconds to the system."""

_State: TypeAlias = Literal["idle", "asked", "torn"]
"""Of the talk with a worker: it waits for a message; its answer is due; a message was broken off."""


class _Answer(NamedTuple):
    """Message of a worker."""

    value: Any
    error: Exception | None


class WorkerError(RuntimeError):
    """A worker process died, or did not answer in time. All episodes are lost; `reset` starts anew."""


class ShardedVectorEnv(AgentVectorEnv):
    """N slots over worker processes, equal to the in-process form step for step and bit for bit.

    Worker processes are spawned, so a script that makes one at its top level needs the usual
    ``if __name__ == "__main__":`` guard.

    A call that is broken off (a worker died or hung, Ctrl-C) ends the episodes of all slots: `reset` starts
    anew, with new worker processes for those that are gone.

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
        worker_timeout: float | None = 600.0,
        **options: Any,
    ):
        """Start the workers.

        Args:
            env_id: as `agentgym.registration.open_env`.
            num_envs: number of slots over all workers.
            num_workers: number of processes; at most one per slot is started.
            worker_timeout: longest time, in seconds, that a worker may take to start or to answer a call;
                None waits for ever.
            **options: those of `AgentVectorEnv` and of the environment.

        Raises:
            UsageError: as `agentgym.registration.open_vector`, fewer than one worker, or no such timeout.
            WorkerError: a worker did not start.
        """
        self._workers: list[_Worker] = []  # first: a constructor that fails closes what it has made
        if not is_whole(num_workers) or num_workers < 1:
            raise UsageError(f"num_workers must be at least 1 and whole, got {num_workers!r:.60}")
        given: Any = worker_timeout  # passed on from tables of options
        if given is not None and not (isinstance(given, int | float) and 0 < given <= MAX_TIMEOUT):
            raise UsageError(
                f"worker_timeout is a number of seconds above 0 and up to {MAX_TIMEOUT}, or None, "
                f"got {given!r:.60}"
            )
        self._env_id, self._num_workers, self._timeout = env_id, num_workers, worker_timeout
        self._options = {**find_spec(env_id).kwargs, **options}
        super().__init__(num_envs, env_class=class_of(env_id), **self._options)

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the workers."""
        for worker in self._workers:
            worker.stop()

    def answer_from(self, source: AnswerSource) -> None:
        """Refuse: worker processes ask for themselves; answers are recorded in one process."""
        raise UsageError("worker processes ask for themselves: record and replay answers in the plain form")

    # ---- hooks -----------------------------------------------------------------------------

    def _make_slots(self) -> None:
        shards = np.array_split(np.arange(self.num_envs), min(self._num_workers, self.num_envs))
        self._home = [(w, k) for w, shard in enumerate(shards) for k in range(len(shard))]
        self._workers = []
        try:
            for shard in shards:
                self._workers.append(self._new_worker(len(shard)))
            for worker in self._workers:
                _value_of(worker.receive())
        except BaseException:
            self.close_extras()
            raise

    def _check_tasks(self, slots: Sequence[int], tasks: Sequence[str | None]) -> None:
        self._revive(slots)
        known: Container[object] = self.tasks
        if any(key is not None and key not in known for key in tasks):
            # a stream's tasks are known by id to the process that drew them
            self._scatter("check_tasks", slots, tasks)

    def _checkpoint(self, slots: Sequence[int], seeds: Sequence[int | None]) -> list[int]:
        return list(slots)

    def _roll_back(self, checkpoint: list[int]) -> None:
        if all(worker.state == "idle" for worker in self._workers):  # else all episodes are lost
            self._scatter("undo_reset", checkpoint)

    def _reset_slots(
        self, slots: Sequence[int], tasks: Sequence[str | None], seeds: Sequence[int | None]
    ) -> Starts:
        parts = self._scatter("reset", slots, tasks, seeds, [self._rollouts[i] for i in slots])
        observations = merge_observations([(rows, answer[0]) for rows, answer in parts], len(slots))
        return Starts(observations, _merge_infos([(rows, answer[1]) for rows, answer in parts], len(slots)))

    def _step_slots(self, slots: Sequence[int], actions: Sequence[str]) -> Moves:
        if self.prototype.query_backends:  # before any worker plays: a step is taken as a whole or not at all
            missing = self._scatter("gather", slots, actions)
            failed = [(slots[rows[k]], reason) for rows, answer in missing for k, reason in answer]
            if failed:
                raise UnansweredError.at(failed)
        parts = self._scatter("step", slots, actions)
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
        return merge_observations(self._scatter("observe", slots), len(slots))

    def _snapshot_slot(self, slot: int) -> Snapshot:
        return self._call("snapshot", slot)  # type: ignore[no-any-return]

    def _restore_slot(self, slot: int, snapshot: Snapshot) -> tuple[Any, dict[str, Any]]:
        self._revive([slot])
        return self._call("restore", slot, snapshot)  # type: ignore[no-any-return]

    # ---- calls -----------------------------------------------------------------------------

    def _call(self, method: str, slot: int, *arguments: Any) -> Any:
        worker, local = self._home[slot]
        (answer,) = self._exchange({worker: _message(method, local, *arguments)})
        return _value_of(answer)

    def _scatter(self, method: str, slots: Sequence[int], *columns: Sequence[Any]) -> list[tuple[Rows, Any]]:
        """Call a method over the slots of every worker concerned; answers carry their positions."""
        positions: dict[int, list[int]] = {}
        for position, slot in enumerate(slots):
            positions.setdefault(self._home[slot][0], []).append(position)
        messages = {}
        for worker, where in positions.items():
            local = [self._home[slots[p]][1] for p in where]
            messages[worker] = _message(method, local, *([column[p] for p in where] for column in columns))
        answers = self._exchange(messages)
        # only now, when all have answered, is an error raised
        return [
            (np.array(where), _value_of(answer))
            for where, answer in zip(positions.values(), answers, strict=True)
        ]

    def _exchange(self, messages: Mapping[int, bytes]) -> list[_Answer]:
        """Send each worker its message and return their answers; broken off, all episodes are lost."""
        try:
            for worker, message in messages.items():
                self._workers[worker].send(message)
            return [self._workers[worker].receive() for worker in messages]
        except BaseException:
            self._lose_episodes()
            raise

    def _lose_episodes(self) -> None:
        self._begun[:] = False
        self._over[:] = False

    def _revive(self, slots: Sequence[int]) -> None:
        """Replace workers that are gone, before slots begin anew.

        Raises:
            WorkerError: one died unnoticed, and episodes in other slots than these with it.
        """
        gone = [number for number, worker in enumerate(self._workers) if not worker.recover()]
        if not gone:
            return
        error = self._workers[gone[0]].death()
        others = [i for i, (home, _) in enumerate(self._home) if home in gone and i not in slots]
        broken_off = bool(self._begun[others].any())
        try:
            for number in gone:
                self._workers[number].stop()
                self._workers[number] = self._new_worker(sum(home == number for home, _ in self._home))
            for number in gone:
                _value_of(self._workers[number].receive())
        except BaseException:
            self._lose_episodes()
            raise
        if broken_off:
            self._lose_episodes()
            raise error

    def _new_worker(self, num_envs: int) -> _Worker:
        options = {key: value for key, value in self._options.items() if key not in OF_ALL_SLOTS}
        options["max_steps"] = self.max_steps
        return _Worker(self._env_id, num_envs, options, self._timeout)


class _Worker:
    """One process, spoken to in turns: one `send`, then one `receive`."""

    def __init__(self, env_id: str, num_envs: int, options: dict[str, Any], timeout: float | None):
        context = multiprocessing.get_context("spawn")
        self._timeout = timeout
        self._pipe, far_end = context.Pipe()
        if timeout is not None:
            _limit_transfers(self._pipe, timeout)
        self._process = context.Process(target=_serve, args=(far_end, env_id, num_envs, options), daemon=True)
        self.state: _State = "asked"  # whether it has started
        self._process.start()
        far_end.close()

    def send(self, message: bytes) -> None:
        self.state = "torn"  # until it is through: what breaks it off leaves half a message in the pipe
        try:
            self._pipe.send_bytes(message)
        except BlockingIOError as error:
            raise self._lateness() from error
        except OSError as error:
            raise self.death() from error
        self.state = "asked"

    def receive(self) -> _Answer:
        try:
            if not self._pipe.poll(self._timeout):
                self.state = "torn"  # it hangs
                raise self._lateness()
            self.state = "torn"
            answer = self._pipe.recv_bytes()
        except BlockingIOError as error:
            raise self._lateness() from error
        except (EOFError, OSError) as error:
            raise self.death() from error
        self.state = "idle"
        return pickle.loads(answer)  # type: ignore[no-any-return]

    def recover(self) -> bool:
        """Return whether the worker waits for a message, after discarding an unread answer."""
        if self.state == "asked":
            try:
                if self._pipe.poll(RECOVERY_SECONDS):
                    self.receive()
            except WorkerError:
                return False
        return self.state == "idle" and self._process.is_alive()

    def stop(self) -> None:
        if self.state == "torn":
            self._process.kill()
        elif self._process.is_alive():
            try:
                self._pipe.send_bytes(pickle.dumps(None))
            except OSError:
                self._process.terminate()
        self._process.join(timeout=RECOVERY_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._pipe.close()

    def death(self) -> WorkerError:
        self._process.join(timeout=1)
        ending = f"ended with exit code {self._process.exitcode}"
        if self._process.exitcode is None:
            ending = "does not answer"
        return WorkerError(
            f"a worker process {ending}: look for its message above, or lower num_workers if "
            "memory ran out; its episodes are lost, reset() starts anew"
        )

    def _lateness(self) -> WorkerError:
        return WorkerError(
            f"a worker process did not answer within {self._timeout:g} seconds: raise worker_timeout if "
            "the environment takes that long; its episodes are lost, reset() starts anew"
        )


class _Shard:
    """A worker process's part: some of the slots, under DISABLED."""

    def __init__(self, envs: AgentVectorEnv):
        self._envs = envs
        self._undo: Any = None

    def check_tasks(self, slots: list[int], tasks: list[str | None]) -> None:
        self._envs._check_tasks(slots, tasks)

    def reset(
        self, slots: list[int], tasks: list[str | None], seeds: list[int | None], rollouts: list[int]
    ) -> Any:
        envs = self._envs
        self._undo = None
        # snapshots, whatever the form keeps itself: this reset may be undone after it has succeeded
        before = AgentVectorEnv._checkpoint(envs, slots, seeds), envs._over.copy(), envs._begun.copy()
        answer = envs.reset_at(slots, tasks, seeds, rollouts)
        self._undo = before
        return answer

    def undo_reset(self, slots: list[int]) -> None:
        """Undo the last reset, unless it failed and has undone itself."""
        if self._undo is not None:
            checkpoint, self._envs._over, self._envs._begun = self._undo
            AgentVectorEnv._roll_back(self._envs, checkpoint)
            self._undo = None

    def gather(self, slots: list[int], actions: list[str]) -> list[tuple[int, str]]:
        """Gather the answers that actions need; return the positions of those without, and why."""
        try:
            self._envs.gather_answers(slots, actions)  # type: ignore[attr-defined]
        except UnansweredError as error:
            return [(slots.index(slot), str(error)) for slot in error.slots]
        return []

    def step(self, slots: list[int], actions: list[str]) -> Any:
        return self._envs.step_at(slots, actions)

    def observe(self, slots: list[int]) -> Any:
        return self._envs._observe_slots(slots)

    def snapshot(self, slot: int) -> Snapshot:
        return self._envs.snapshot(slot)

    def restore(self, slot: int, snapshot: Snapshot) -> Any:
        return self._envs.restore(slot, snapshot)


def _serve(pipe: Connection, env_id: str, num_envs: int, options: dict[str, Any]) -> None:
    """Answer calls until None comes or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    shard: _Shard | None = None

    def start() -> None:
        nonlocal shard
        shard = _Shard(open_vector(env_id, num_envs, options=options))

    try:
        pipe.send_bytes(_answer_of(start))
        while (message := pickle.loads(pipe.recv_bytes())) is not None:
            method, arguments = message
            pipe.send_bytes(_answer_of(partial(getattr(shard, method), *arguments)))
    except (EOFError, ConnectionError):
        return


def _answer_of(call: Callable[[], Any]) -> bytes:
    """Return a call's result or exception as an answer, pickled."""
    try:
        answer = _Answer(call(), None)
    except Exception as raised:  # noqa: BLE001 (sent to the parent, which raises it)
        answer = _Answer(None, raised)
    try:
        message = pickle.dumps(answer)
        if answer.error is not None:
            pickle.loads(message)  # an exception may pickle and not come back
    except Exception as problem:  # noqa: BLE001 (any class may be at fault)
        error = answer.error or problem
        message = pickle.dumps(_Answer(None, RuntimeError(f"{type(error).__name__}: {error}")))
    return message


def _message(method: str, *arguments: Any) -> bytes:
    """Pickle a call, before any worker is sent one."""
    try:
        return pickle.dumps((method, arguments))
    except Exception as error:
        raise UsageError(
            f"what is sent to worker processes must be picklable ({type(error).__name__}: {error}): "
            "pass plain strings"
        ) from error


def _value_of(answer: _Answer) -> Any:
    if answer.error is not None:
        raise answer.error
    return answer.value


def _limit_transfers(pipe: Connection, seconds: float) -> None:
    """Let a write or read that blocks so long fail with `BlockingIOError`: the other end hangs."""
    whole = int(seconds)
    limit = struct.pack("@ll", whole, max(int((seconds - whole) * 1e6), 0 if whole else 1))
    with socket.socket(fileno=os.dup(pipe.fileno())) as end:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


def _merge_infos(parts: Sequence[tuple[Rows, dict[str, Any]]], n: int) -> dict[str, Any]:
    return {key: merge_columns([(rows, infos[key]) for rows, infos in parts], n) for key in parts[0][1]}
