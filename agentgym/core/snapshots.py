"""Episode state for copies and pickles, and the validation of snapshots."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, Self, TypeVar

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from agentgym.core.encoding import typed
from agentgym.core.tasks import Task
from agentgym.core.types import NamedTask, Snapshot
from agentgym.errors import UsageError

T = TypeVar("T")


def call(creator: Callable[..., T], args: tuple[Any, ...], options: dict[str, Any]) -> T:
    """Call a class with pickled arguments."""
    return creator(*args, **options)


class HeldEpisode(NamedTuple):
    """Episode state of a copied environment, beside its constructor's arguments."""

    snapshot: Snapshot | None
    """Snapshot of the episode; None before the first reset."""
    generator: np.random.Generator | None
    seed: int | None
    action_space: gymnasium.Space[Any]
    observation_space: gymnasium.Space[Any]
    spec: EnvSpec | None
    rollout: int = 0

    @classmethod
    def of(cls, env: Any) -> Self:
        """Take what an `AgentEnv` holds, as values of its own."""
        return cls(
            None if env._task is None else env.snapshot(),
            *copy.deepcopy((env._np_random, env._np_random_seed)),
            *copy.deepcopy((env.action_space, env.observation_space)),
            copy.deepcopy(env._spec),
            env.rollout,
        )


class EpisodeCopies:
    """Pickling and deep copies of an `AgentEnv`: its episode by value, the read-only world not at all."""

    def __reduce__(self: Any) -> tuple[Any, ...]:
        """Pickle the constructor's arguments and the episode; the world is opened again."""
        return call, (type(self), *self._arguments), (self.tasks.manifest_sha256, HeldEpisode.of(self))

    def __setstate__(self: Any, state: tuple[str, HeldEpisode]) -> None:
        """Restore from a pickle; the data must be those it was pickled with."""
        manifest, held = state
        if manifest != self.tasks.manifest_sha256:
            raise UsageError(
                f"a pickled {type(self).__name__} played tasks of manifest {manifest[:12]}, these are of "
                f"{self.tasks.manifest_sha256[:12]}: unpickle it beside the same data"
            )
        self._take_up(held)

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        """Copy the episode; the read-only world is shared."""
        twin = memo[id(self)] = self.spawn()
        twin._take_up(HeldEpisode.of(self))
        return twin

    def _take_up(self: Any, held: HeldEpisode) -> None:
        if held.snapshot is not None:
            self._put_back(held.snapshot)
        self._np_random, self._np_random_seed = held.generator, held.seed
        self.action_space, self.observation_space = held.action_space, held.observation_space
        self._spec, self.rollout = held.spec, held.rollout


class Undo(NamedTuple):
    """State for undoing a failed reset or restore."""

    task: Task | None
    state: Any
    turn: int
    valid: bool
    terminated: bool
    truncated: bool
    generator: np.random.Generator | None
    seed: int | None
    stand: Any
    """The state of the generator where it is kept, as numpy gives it."""
    more: Any = None
    """The game's own, of what `_state` does not hold."""
    rollout: int = 0

    @classmethod
    def of(cls, env: Any, seed: int | None) -> Self:
        """Save the fields of an `AgentEnv` before a restore, or a reset with that seed.

        Never by way of its ``__dict__``: an object whose dictionary was once asked for is slower ever after.
        """
        task, generator = env._task, env._np_random
        return cls(
            task,
            None if task is None else env._state(),
            env._turn,
            env._valid,
            env._terminated,
            env._truncated,
            generator,
            env._np_random_seed,
            # a reset with a seed binds a new generator and does not change this one, so no copy is needed
            generator.bit_generator.state if seed is None and generator is not None else None,
            rollout=env.rollout,
        )

    def apply(self, env: Any) -> None:
        """Put an `AgentEnv` back to where it stood."""
        env.rollout, env.answers = self.rollout, None
        if self.task is not None:
            env._begin(self.task)
            env._set_state(self.state)
        env._task, env._turn, env._valid = self.task, self.turn, self.valid
        env._terminated, env._truncated = self.terminated, self.truncated
        env._np_random, env._np_random_seed = self.generator, self.seed
        if self.stand is not None:
            env._np_random.bit_generator.state = self.stand


_BITS = (128, 128, 1, 32)
"""Largest bit lengths of the four numbers of a generator's state."""


def check_kind(snapshot: Snapshot, suite: str, schemas: Sequence[int], data: str) -> None:
    """Refuse a value that is no snapshot, or a snapshot of another suite, schema or data set."""
    given: object = snapshot
    if not isinstance(given, Snapshot):
        raise UsageError(
            f"restore takes a Snapshot, as snapshot() or Snapshot.from_bytes() returns it, "
            f"got {type(given).__name__}"
        )
    theirs = snapshot.suite, snapshot.schema, snapshot.data
    if theirs not in [(suite, schema, data) for schema in schemas]:
        raise UsageError(
            f"cannot restore a snapshot of suite {theirs[0]!r:.60} schema {theirs[1]!r:.60} data "
            f"{theirs[2]!r:.60} into suite {suite!r} schema {schemas[0]} data {data!r}: open its own"
        )


def checked(snapshot: Snapshot, state_type: Any, max_steps: int, find: Callable[[str], Task]) -> Snapshot:
    """Return a snapshot with its task looked up and its state of the game's type.

    `UsageError` where a value is of another type, or impossible. ``state_type`` as `typed` takes it.
    """
    with refusals_explained(snapshot):
        task = _task(snapshot.task, find)
        state = typed(state_type, snapshot.state)
        _check_flags(snapshot)
        _check_generator(snapshot.rng)
    turn, over = snapshot.turn, snapshot.terminated or snapshot.truncated
    if turn > max_steps or (turn == max_steps and not over):
        raise UsageError(
            f"the snapshot is at step {turn}, which a step limit of {max_steps} does not reach: "
            "restore it with a higher max_steps"
        )
    if task is snapshot.task and state is snapshot.state:
        return snapshot
    return replace(snapshot, task=task, state=state)


@contextmanager
def refusals_explained(snapshot: Snapshot) -> Iterator[None]:
    """Turn a game's errors on an impossible state into a UsageError of one line."""
    try:
        yield
    except UsageError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(
            f"the snapshot is none of suite {snapshot.suite!r}: {why:.200}; take it anew"
        ) from error


def _task(task: object, find: Callable[[str], Task]) -> Task:
    if isinstance(task, NamedTask):
        return find(typed(str, task.id, "the task's id"))
    if not isinstance(task, Task):
        raise ValueError(f"its task is a {type(task).__name__}")
    typed(str, task.id, "the task's id")
    return task


def _check_flags(snapshot: Snapshot) -> None:
    typed(int, snapshot.turn, "turn")
    if snapshot.turn < 0:
        raise ValueError(f"turn is at least 0, got {snapshot.turn}")
    for name in ("valid", "terminated", "truncated"):
        typed(bool, getattr(snapshot, name), name)
    if snapshot.terminated and snapshot.truncated:
        raise ValueError("it is both terminated and truncated")


def _check_generator(rng: object) -> None:
    if rng is None:
        return
    if not isinstance(rng, tuple) or len(rng) != len(_BITS):
        raise ValueError(f"rng is None or {len(_BITS)} numbers, got {rng!r:.60}")
    for number, bits in zip(rng, _BITS, strict=True):
        if type(number) is not int or not 0 <= number < 1 << bits:
            raise ValueError(f"a number of rng is from 0 to 2**{bits} - 1, got {number!r:.60}")
    if not rng[1] % 2:
        raise ValueError("the second number of rng is odd")
