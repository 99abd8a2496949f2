"""Checks of states: hashes, snapshots, the seeds and tasks they come from, their independence."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

from gymnasium.error import ResetNeeded

from agentgym.checking.evidence import (
    EPISODES,
    STEPS,
    Make,
    Transition,
    begin,
    expect,
    fill,
    first_difference,
    generator,
    random_rollout,
    replay,
    require,
    require_equal,
    snapshots_of,
    untouched_global_generators,
)
from agentgym.core.types import Snapshot

STATE_HASH = re.compile(r"[0-9a-f]{32}")


def check_hash_names_the_state(make: Make) -> None:
    """32 hex digits that depend on task, state and terminal flag; not on turn, chance or path."""
    env, other = make(), make()
    seen: list[tuple[str, bool, Any, str]] = []
    for snapshot in snapshots_of(env):
        env.restore(snapshot)
        name = env.state_hash()
        require(STATE_HASH.fullmatch(name) is not None, f"state_hash() must be 32 hex digits, is {name!r}")
        require(env.state_hash() == name, "state_hash() changes when asked twice")
        require(isinstance(env.state_text(), str), "state_text() must be a string")
        earlier = max(snapshot.turn - 1, 0)
        other.restore(replace(snapshot, turn=earlier, rng=None, valid=not snapshot.valid))
        require(other.state_hash() == name, "state_hash() must not depend on turn, chance or the last action")
        seen.append((snapshot.task.id, snapshot.terminated, snapshot.state, name))
    for (task, ended, state, name), (task2, ended2, state2, name2) in itertools.combinations(seen, 2):
        alike = (task, ended) == (task2, ended2)
        if alike and first_difference(state, state2) is None:
            require(name == name2, "the same state hashes differently when reached again")
        require(
            alike or name != name2, "states of different tasks, or an ended and a running one, hash equal"
        )


def check_hash_decides_the_future(make: Make) -> None:
    """States of one task that hash equal answer equally, chance being equal: nothing hidden is left out.

    Observations may tell of the past, and so may the info keys that say so (`AgentEnv.past_keys`).
    """
    env = make()
    by_hash: dict[str, Snapshot] = {}
    for snapshot in snapshots_of(env):
        if snapshot.terminated or snapshot.truncated:
            continue
        env.restore(snapshot)
        first = by_hash.setdefault(env.state_hash(), snapshot)
        if first_difference(first.state, snapshot.state) is None:
            continue
        for action in env.admissible_actions():
            answers = []
            for start in (first, replace(snapshot, rng=first.rng, turn=first.turn)):
                env.restore(start)
                beat = Transition(*env.step(fill(action)))
                present = {key: value for key, value in beat.info.items() if key not in env.past_keys}
                answers.append((*beat[1:-1], present))
            promise = f"two states hash equal but differ after action {fill(action)!r:.40}"
            require_equal(answers[0], answers[1], promise)


def check_snapshot_is_a_value(make: Make) -> None:
    """A snapshot is frozen, survives pickling, and stays as it was while the episode goes on."""
    env = make()
    begin(env)
    snapshot = env.snapshot()
    with expect(FrozenInstanceError, "assigning to a snapshot"):
        snapshot.turn = 7  # type: ignore[misc]
    before = pickle.loads(pickle.dumps(snapshot))
    require_equal(before, snapshot, "a snapshot changes when pickled")
    random_rollout(env, generator(1), STEPS)
    begin(env)
    random_rollout(env, generator(2), STEPS)
    require_equal(snapshot, before, "playing on changes a snapshot: _state() must return an immutable value")


def check_restore_replays(make: Make) -> None:
    """From a snapshot, the same actions give the same results to the bit: here, elsewhere, after pickling."""
    env, elsewhere = make(), make()
    begin(elsewhere, seed=99)
    for seed in range(EPISODES):
        last = [begin(env, seed), *random_rollout(env, generator(seed), seed)[1]][-1]
        if last.terminated or last.truncated:
            continue
        snapshot, current = env.snapshot(), (last.observation, last.info)
        actions, expected = random_rollout(env, generator(seed + 100), STEPS)
        for where, carried in ((env, snapshot), (elsewhere, pickle.loads(pickle.dumps(snapshot)))):
            require_equal(where.restore(carried), current, "restore must return what was current")
            require_equal(where.snapshot(), snapshot, "a snapshot taken right after restore differs")
            require_equal(replay(where, actions), expected, "play after restore differs from play before it")
            require_equal(where.restore(carried), current, "restoring a second time differs")


def check_bytes_hold_a_snapshot(make: Make) -> None:
    """`Snapshot.to_bytes` and `Snapshot.from_bytes` keep all of a snapshot, in the same bytes each time."""
    env, elsewhere = make(), make()
    for snapshot in snapshots_of(env):
        data = snapshot.to_bytes()
        again = Snapshot.from_bytes(data)
        require(again.to_bytes() == data, "a snapshot read from bytes has other bytes")
        current = env.restore(snapshot)
        require_equal(elsewhere.restore(again), current, "restore from bytes must return what was current")
        require_equal(elsewhere.snapshot(), snapshot, "a snapshot restored from bytes differs")
        with expect(ValueError, "a snapshot's bytes with one changed"):
            Snapshot.from_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def check_copies_go_on(make: Make) -> None:
    """`pickle` and `copy.deepcopy` give an environment that goes on alike, whatever stage it is at."""
    for played in (None, 0, 3, STEPS):
        env = make()
        if played is not None:
            begin(env, 1)
            random_rollout(env, generator(1), played)
        twins = {"deepcopy": copy.deepcopy(env), "pickle": pickle.loads(pickle.dumps(env))}
        if played is not None:
            for how, twin in twins.items():
                require_equal(twin.snapshot(), env.snapshot(), f"{how} changes an episode")
        if played is not None and env.admissible_actions():
            actions, expected = random_rollout(env, generator(2), STEPS)
            for how, twin in twins.items():
                require_equal(replay(twin, actions), expected, f"an episode goes on differently after {how}")
        seed = 7 if played is None else None
        start = begin(env, seed)
        for how, twin in twins.items():
            require_equal(begin(twin, seed), start, f"the next episode differs after {how}")


def check_restore_refuses_strangers(make: Make) -> None:
    """A snapshot of another suite, schema or data set, or of impossible values, is a ValueError."""
    env = make()
    begin(env)
    snapshot = env.snapshot()
    for stranger in (
        replace(snapshot, suite="no such suite"),
        replace(snapshot, schema=-1),
        replace(snapshot, data="no such data"),
    ):
        with expect(ValueError, "restoring a snapshot of another suite, schema or data set"):
            env.restore(stranger)
    impossible: tuple[dict[str, Any], ...] = (
        {"task": None},
        {"task": "no task"},
        {"turn": "x"},
        {"turn": -1},
        {"turn": 10**9},
        {"turn": True},
        {"valid": None},
        {"terminated": "x"},
        {"truncated": 1},
        {"rng": "x"},
        {"rng": (0, 0, 0, 0)},
        {"rng": (-1, 1, 0, 0)},
    )
    for values in impossible:
        with expect(ValueError, f"restoring a snapshot with {values}"):
            env.restore(replace(snapshot, **values))
    for other in (None, "x", b"x", (), snapshot.state):
        with expect(ValueError, f"restore({other!r:.40})"):
            env.restore(other)  # type: ignore[arg-type]
    require_equal(env.snapshot(), snapshot, "a refused snapshot changed the episode")
    with expect(ResetNeeded, "snapshot before the first reset"):
        make().snapshot()


def check_seed_decides_the_episode(make: Make) -> None:
    """The same seed gives the same episodes in two environments, the following unseeded ones included."""
    env, twin = make(), make()
    for seed in range(EPISODES):
        require_equal(
            begin(env, seed), begin(twin, seed), f"reset(seed={seed}) differs between two environments"
        )
        for follow_up in range(2):
            actions, expected = random_rollout(env, generator(seed + follow_up), STEPS)
            require_equal(
                replay(twin, actions), expected, f"episodes of seed {seed} differ between two environments"
            )
            require_equal(
                begin(env, None), begin(twin, None), f"resets after seed {seed} draw different tasks"
            )


def check_task_option(make: Make) -> None:
    """A task is named by id or source id and fixes the initial state, whatever the seed."""
    env = make()
    for task in itertools.islice(env.tasks, EPISODES):
        start = begin(env, 1, task.id)
        require(start.info["task_id"] == task.id, f"options={{'task': {task.id!r}}} starts another task")
        known = env.state_hash()
        for seed, key in ((2, task.id), (None, task.id), (3, task.source_id)):
            again = begin(env, seed, key)
            require(again.info["task_id"] == task.id, f"options={{'task': {key!r}}} starts another task")
            require(
                env.state_hash() == known, "a task must fix the whole initial state: it changes with the seed"
            )
            require_equal(
                again.observation, start.observation, "a task's first observation changes with the seed"
            )


def check_global_generators(make: Make) -> None:
    """Neither ``random`` nor ``numpy.random`` is touched by anything an environment does."""
    with untouched_global_generators("the environment"):
        env = make()
        for seed in range(EPISODES):
            begin(env, seed)
            random_rollout(env, generator(seed), STEPS)
            env.restore(env.snapshot())


def check_environments_are_independent(make: Make) -> None:
    """Two environments stepped in turns do as each does alone."""
    alone = make()
    begin(alone, 11)
    actions, expected = random_rollout(alone, generator(11), STEPS)
    left, right, spawned = make(), make(), alone.spawn()
    for env in (left, right, spawned):
        require_equal(begin(env, 11), begin(make(), 11), "an episode depends on what other environments did")
    for action, beat in zip(actions, expected, strict=True):
        for env in (left, right, spawned):
            require_equal(Transition(*env.step(action)), beat, "stepping one environment changes another")


CHECKS: tuple[Callable[[Make], None], ...] = (
    check_restore_replays,  # first, since the others restore
    check_hash_names_the_state,
    check_hash_decides_the_future,
    check_snapshot_is_a_value,
    check_bytes_hold_a_snapshot,
    check_copies_go_on,
    check_restore_refuses_strangers,
    check_seed_decides_the_episode,
    check_task_option,
    check_global_generators,
    check_environments_are_independent,
)
