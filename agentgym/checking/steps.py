"""Checks of reset and step: returned values, accepted actions, and the end of episodes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from gymnasium.error import ResetNeeded

from agentgym.checking.evidence import (
    EPISODES,
    INVALID_RATE,
    OVERLONG,
    STEPS,
    STRANGE_ACTIONS,
    ContractError,
    Make,
    Transition,
    beats_of,
    begin,
    episode,
    expect,
    fill,
    first_difference,
    generator,
    random_rollout,
    require,
    require_equal,
    snapshots_of,
)

INFO_TYPES: dict[str, type] = {
    "task_id": str,
    "task_type": str,
    "turn": int,
    "state_hash": str,
    "admissible_actions": tuple,
    "action_is_valid": bool,
    "won": bool,
    "score": float,
    "progress": float,
}
"""Keys of every info, with their types; a suite may add keys of the types in `INFO_VALUE_TYPES`."""

INFO_VALUE_TYPES = (bool, int, float, str, tuple)


def check_reset_values(make: Make) -> None:
    """After reset: turn 0, the action counts as valid, nothing is won, the score is 0."""
    expected = {"turn": 0, "action_is_valid": True, "won": False, "score": 0.0}
    for seed in range(EPISODES):
        info = begin(make(), seed).info
        for key, value in expected.items():
            require(
                info.get(key) == value, f"info[{key!r}] after reset must be {value!r}, is {info.get(key)!r}"
            )


def check_returned_types(make: Make) -> None:
    """Rewards are floats, flags are bools, observations lie in their space, infos have constant types."""
    env = make()
    types: dict[str, type] = {}
    for beat in beats_of(env):
        inside = env.observation_space.contains(beat.observation)
        require(inside, f"an observation is outside observation_space: {beat.observation!r:.80}")
        require(type(beat.reward) is float, f"a reward must be a float, is a {type(beat.reward).__name__}")
        for name in ("terminated", "truncated"):
            flag = getattr(beat, name)
            require(type(flag) is bool, f"{name} must be a Python bool, is a {type(flag).__name__}")
        require(type(beat.info) is dict, f"info must be a dict, is a {type(beat.info).__name__}")
        types = types or {key: type(value) for key, value in beat.info.items()} | INFO_TYPES
        missing, extra = types.keys() - beat.info.keys(), beat.info.keys() - types.keys()
        require(not missing, f"info lacks {sorted(missing)}: every key is always present")
        require(not extra, f"info has {sorted(extra)} only sometimes: every key is always present")
        for key, value in beat.info.items():
            found, expected = type(value), types[key]
            require(found is expected, f"info[{key!r}] must be a {expected.__name__}, is a {found.__name__}")
            plain = found in INFO_VALUE_TYPES
            require(plain, f"info[{key!r}] is a {found.__name__}: use bool, int, float, str or tuple")
        strings = all(type(action) is str for action in beat.info["admissible_actions"])
        require(strings, "info['admissible_actions'] must hold strings only")


def check_info_values(make: Make) -> None:
    """Info agrees with the environment: task, turn, hash, actions; progress lies in [0, 1]."""
    env = make()
    for seed in range(EPISODES):
        for turn, beat in enumerate(episode(env, seed)):
            expected = {
                "task_id": env.task.id,
                "task_type": env.task.type,
                "turn": turn,
                "state_hash": env.state_hash(),
                "admissible_actions": env.admissible_actions(),
            }
            given = {key: beat.info[key] for key in expected}
            require_equal(given, expected, "info (here) must agree with the environment (there)")
            progress, score = beat.info["progress"], beat.info["score"]
            require(0.0 <= progress <= 1.0, f"info['progress'] must be in [0, 1], is {progress}")
            require(math.isfinite(score), f"info['score'] must be finite, is {score}")
            require(math.isfinite(beat.reward), f"a reward must be finite, is {beat.reward}")


def check_returned_values_are_fresh(make: Make) -> None:
    """Returned values are the caller's: neither side's changes reach the other."""
    env, twin = make(), make()
    returned = [begin(env)]
    begin(twin)
    frozen = copy.deepcopy(returned)
    for action in random_rollout(twin, generator(5), STEPS)[0]:
        returned.append(Transition(*env.step(action)))
        frozen.append(copy.deepcopy(returned[-1]))
        require(returned[-1].info is not returned[-2].info, "step must return a fresh info dict each time")
    require_equal(returned, frozen, "a later step changed what an earlier one returned")


def check_admissible_actions_are_accepted(make: Make) -> None:
    """Every admissible action is accepted, listed once, and passes `is_admissible`."""
    env = make()
    for snapshot in snapshots_of(env):
        env.restore(snapshot)
        listed = env.admissible_actions()
        require(
            type(listed) is tuple, f"admissible_actions() must return a tuple, is a {type(listed).__name__}"
        )
        require(len(set(listed)) == len(listed), "admissible_actions() lists an action twice")
        over = snapshot.terminated or snapshot.truncated
        require(bool(listed) != over, "admissible_actions() must be empty exactly when the episode is over")
        for action in listed:
            env.restore(snapshot)
            require(env.admissible_actions() == listed, "admissible_actions() must have a fixed order")
            accepted = env.is_admissible(fill(action))
            if env.action_kind == "enumerated":
                require(accepted, f"is_admissible({action!r}) must be true of an admissible action")
            if accepted:
                info = env.step(fill(action))[4]
                require(info["action_is_valid"], f"admissible action {fill(action)!r:.80} is rejected")


def check_rejected_actions_change_nothing(make: Make) -> None:
    """A string that is not admissible is reported, visible, costs a step and leaves the state alone.

    Where ``invalid_may_end`` is set, it may end the episode instead.
    """
    env = make()
    for snapshot in snapshots_of(env):
        if snapshot.terminated or snapshot.truncated:
            continue
        for action in STRANGE_ACTIONS:
            before, _ = env.restore(replace(snapshot, valid=True))
            known, state = env.state_hash(), env.snapshot().state
            admissible = env.is_admissible(action)
            try:
                beat = Transition(*env.step(action))
            except Exception as error:
                raise ContractError(f"action {action!r:.40} raises {error!r:.200}") from error
            valid = beat.info["action_is_valid"]
            require(
                valid == admissible,
                f"action {action!r:.40}: is_admissible says {admissible}, step says {valid}",
            )
            require(
                beat.info["turn"] == snapshot.turn + 1, f"rejected action {action!r:.40} must cost a step"
            )
            if valid or (env.invalid_may_end and beat.terminated):
                continue
            require(not beat.terminated, f"rejected action {action!r:.40} ends the game")
            require(env.state_hash() == known, f"rejected action {action!r:.40} changes the state hash")
            require_equal(env.snapshot().state, state, f"rejected action {action!r:.40} changes the state")
            differs = first_difference(before, beat.observation) is not None
            require(differs, f"the observation must say that action {action!r:.40} was rejected")


def check_overlong_actions(make: Make) -> None:
    """An action of more than `MAX_ACTION_LENGTH` characters is rejected, whatever it says."""
    env = make()
    begin(env)
    before = env.snapshot()
    listed = fill(env.admissible_actions()[0])
    for action in (OVERLONG, listed.rjust(len(OVERLONG)), listed.ljust(len(OVERLONG)), "1" * 10**6):
        what = f"an action of {len(action)} characters"
        env.restore(before)
        known = env.state_hash()
        require(not env.is_admissible(action), f"{what} must not be admissible")
        beat = Transition(*env.step(action))
        require(not beat.info["action_is_valid"], f"{what} must be rejected")
        require(env.state_hash() == known, f"{what} changes the state hash")


def check_actions_are_strings(make: Make) -> None:
    """An action of another type is a TypeError and costs nothing."""
    env = make()
    begin(env)
    before = env.snapshot()
    for action in (0, None, b"up", ["up"], np.int64(1)):
        with expect(TypeError, f"step({action!r})"):
            env.step(action)  # type: ignore[arg-type]
    require_equal(env.snapshot(), before, "an action of a wrong type changed the episode")


def check_ends(make: Make) -> None:
    """An episode is terminated or truncated, not both; then nothing is admissible and nothing plays on."""
    env = make()
    with expect(ResetNeeded, "step before the first reset"):
        env.step("")
    for seed in range(EPISODES):
        start, rate = begin(env, seed), 1.0 if seed % 2 else INVALID_RATE  # rejected actions reach the limit
        beats = [start, *random_rollout(env, generator(seed), env.max_steps, rate)[1]]
        last = beats[-1]
        require(
            last.terminated or last.truncated, f"an episode must be truncated after {env.max_steps} steps"
        )
        require(not (last.terminated and last.truncated), "an episode is both terminated and truncated")
        require(
            last.info["admissible_actions"] == (),
            "info['admissible_actions'] must be () when the episode is over",
        )
        require(env.admissible_actions() == (), "admissible_actions() must be () when the episode is over")
        for beat in beats:
            at_limit = beat.info["turn"] == env.max_steps and not beat.terminated
            require(
                beat.truncated == at_limit, f"truncated must mean that the {env.max_steps} steps are used up"
            )
        with expect(ResetNeeded, "step after the end of an episode"):
            env.step("")


CHECKS: tuple[Callable[[Make], None], ...] = (
    check_reset_values,
    check_returned_types,
    check_info_values,
    check_returned_values_are_fresh,
    check_admissible_actions_are_accepted,
    check_rejected_actions_change_nothing,
    check_overlong_actions,
    check_actions_are_strings,
    check_ends,
)
