"""Checks that a vector environment takes a call as a whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from operator import methodcaller
from typing import Any, TypeAlias

import numpy as np

from agentgym.checking.evidence import choose, expect, generator, require_equal
from agentgym.errors import UsageError
from agentgym.vector.core import AgentVectorEnv

MakeVector: TypeAlias = Callable[..., AgentVectorEnv]
"""Constructor of a vector environment of ``num_envs`` slots; takes the environment's keyword arguments."""

SLOTS = 4
AHEAD = 4
"""Steps that must go as if nothing had been refused."""

Calls: TypeAlias = dict[str, Callable[[AgentVectorEnv], Any]]


def _resets(known: str) -> Calls:
    """Return refused resets, each with what is wrong in the last slot named."""
    calls: Calls = {
        "an unknown task": lambda envs: envs.reset(seed=7, options={"tasks": [known] * 3 + ["no such task"]}),
        "an unknown task in reset_at": lambda envs: envs.reset_at([1, 0], [known, "no such task"], [5, 5]),
        "a task that is no string": lambda envs: envs.reset_at([1, 0], [None, 5]),  # type: ignore[list-item]
        "too few tasks": lambda envs: envs.reset(options={"tasks": [known]}),
        "too few seeds": lambda envs: envs.reset(seed=[1, 2]),
        "an unknown reset option": lambda envs: envs.reset(options={"no such option": 1}),
        "reset options that are no dict": lambda envs: envs.reset(options=["tasks"]),  # type: ignore[arg-type]
        "a reset_mask that is a list": lambda envs: envs.reset(options={"reset_mask": [True] * SLOTS}),
        "an empty reset_mask": lambda envs: envs.reset(options={"reset_mask": np.zeros(SLOTS, np.bool_)}),
        "seed=-1": lambda envs: envs.reset(seed=-1),
    }
    for seed in (-1, True, "1", 1.0, float("inf"), np.float64(1)):
        row: Any = [5, 6, 7, seed]
        calls[f"seed {seed!r} among others"] = methodcaller("reset", seed=row)
        calls[f"seed {seed!r} in reset_at"] = methodcaller("reset_at", range(SLOTS), None, row)
    return calls


def _steps() -> Calls:
    texts = [""] * SLOTS
    calls: Calls = {
        "too few actions": lambda envs: envs.step(texts[1:]),
        "one string for all actions": lambda envs: envs.step("a" * SLOTS),
        "a dict of actions": lambda envs: envs.step(dict.fromkeys("abcd", "")),  # type: ignore[arg-type]
        "a set of actions": lambda envs: envs.step(set("abcd")),  # type: ignore[arg-type]
        "no slot": lambda envs: envs.step_at([], []),
        "a slot named twice": lambda envs: envs.step_at([0, 0], ["", ""]),
        "a slot that does not exist": lambda envs: envs.step_at([0, SLOTS], ["", ""]),
    }
    for slot in ("2", b"1", True, 1.9, 1.0, -1, None, float("inf"), np.float64(1), np.True_):
        name: Any = slot
        for what, call in (
            ("step_at", lambda envs, name=name: envs.step_at([0, name], ["", ""])),
            ("reset_at", lambda envs, name=name: envs.reset_at([0, name])),
            ("snapshot", lambda envs, name=name: envs.snapshot(name)),
            ("copy", lambda envs, name=name: envs.copy(0, name)),
        ):
            calls[f"slot {slot!r} in {what}"] = call
    return calls


def check_refused_resets_change_nothing(make: MakeVector) -> None:
    """A reset that is refused for one slot is a one-line UsageError, and no slot begins anew."""
    _check_refused(make, UsageError, lambda envs: _resets(envs.tasks[0].id))


def check_refused_steps_change_nothing(make: MakeVector) -> None:
    """A step with wrong counts or slots is a one-line UsageError, and no slot moves."""
    _check_refused(make, UsageError, lambda envs: _steps())


def check_actions_of_other_types_change_nothing(make: MakeVector) -> None:
    """An action that is not a string is a TypeError, and no slot moves."""
    texts: list[Any] = ["", "", "", ""]
    calls: Calls = {}
    for action in (3, None, b"up", ["up"]):
        row = [*texts[1:], action]
        calls[f"action {action!r}"] = methodcaller("step", row)
        calls[f"action {action!r} in step_at"] = methodcaller("step_at", [1, 0], row[2:])
    _check_refused(make, TypeError, lambda envs: calls)


def _check_refused(
    make: MakeVector, error: type[Exception], calls_of: Callable[[AgentVectorEnv], Calls]
) -> None:
    """Make every wrong call of one vector environment; its untouched twin must stay equal."""
    with closing(make(SLOTS)) as envs, closing(make(SLOTS)) as other:
        rng = generator(8)
        for each in (envs, other):
            each.reset(seed=0)
        _step_alike(envs, other, rng, "before anything was refused")
        for occasion, call in calls_of(envs).items():
            with expect(error, occasion):
                call(envs)
            for slot in range(SLOTS):
                ours, theirs = envs.snapshot(slot), other.snapshot(slot)
                require_equal(ours, theirs, f"{occasion} was refused, yet it changed slot {slot}")
        for _ in range(AHEAD):
            _step_alike(envs, other, rng, "after refused calls")
        require_equal(envs.reset(), other.reset(), "after refused calls, reset() draws other tasks")


def _step_alike(envs: AgentVectorEnv, other: AgentVectorEnv, rng: np.random.Generator, occasion: str) -> None:
    slots = range(SLOTS)
    listed = [envs.prototype.spawn() for _ in slots]
    for slot, single in zip(slots, listed, strict=True):
        single.restore(envs.snapshot(slot))
    actions = [choose(single.admissible_actions(), rng) for single in listed]
    require_equal(envs.step(actions), other.step(actions), f"{occasion}, a step shows another state")


CHECKS: tuple[Callable[[MakeVector], None], ...] = (
    check_refused_resets_change_nothing,
    check_refused_steps_change_nothing,
    check_actions_of_other_types_change_nothing,
)
"""Checks of every promise, each with vector environments of its own."""
