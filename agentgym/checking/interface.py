"""Checks of an environment's interface: spaces, tasks, options, rendering, oracle."""

from __future__ import annotations

import itertools
import pickle
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any, cast

import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from agentgym.checking.evidence import (
    EPISODES,
    ContractError,
    Make,
    Transition,
    begin,
    expect,
    require,
    require_equal,
)
from agentgym.core.tasks import Task
from agentgym.core.types import Request
from agentgym.env import AgentEnv
from agentgym.errors import MissingPackageError, UsageError

TASK_ID = re.compile(r"[0-9a-f]{32}(-[0-9]+)?")
TASKS = 200
"""Tasks of a split that are looked at, from its beginning."""


def check_declarations(make: Make) -> None:
    """Suite, schema, kind of actions, step limit and spaces are of the types promised."""
    env = make()
    require(bool(env.suite) and isinstance(env.suite, str), "the class attribute `suite` must be a name")
    require(type(env.state_schema) is int, "the class attribute `state_schema` must be an int")
    require(
        env.action_kind in ("enumerated", "template"),
        f"the class attribute `action_kind` must be 'enumerated' or 'template', is {env.action_kind!r}",
    )
    require(type(env.max_steps) is int and env.max_steps > 0, "`max_steps` must be an int above 0")
    require("render_fps" in env.metadata, "metadata must declare 'render_fps'")
    require(env.action_space.contains("grüße"), "the action space must contain every string: use UnicodeText")


def check_spec_tells_the_step_limit(make: Make) -> None:
    """The environment's own ``spec.max_episode_steps`` is ``max_steps``, for wrappers that ask for it."""
    env = make(max_steps=7)
    env.spec = EnvSpec("checked/Env-v0", entry_point="checked:Env")
    stated = env.spec.max_episode_steps
    require(stated == 7, f"spec.max_episode_steps must be max_steps=7, is {stated}: leave `spec` to AgentEnv")


def check_tasks(make: Make) -> None:
    """The task set is ordered, pinned by its manifest and the same in every environment."""
    tasks, others = make().tasks, make().tasks
    require(len(tasks) > 0, "`tasks` must hold at least one task")
    require(
        re.fullmatch("[0-9a-f]{64}", tasks.manifest_sha256) is not None,
        "manifest_sha256 must be 64 hex digits",
    )
    require(
        tasks.manifest_sha256 == others.manifest_sha256,
        "two environments' task sets have different manifests",
    )
    some = list(itertools.islice(tasks, TASKS))
    ids = [task.id for task in some]
    require(
        ids == [task.id for task in itertools.islice(others, TASKS)],
        "two environments' tasks differ in order",
    )
    require(
        len(set(ids)) == len(ids),
        "task ids must be unique within a split: number duplicates with a suffix -n",
    )
    for task in some:
        require(
            TASK_ID.fullmatch(task.id) is not None,
            f"task id {task.id!r} must be 32 hex digits, -n if repeated",
        )
        require(tasks.find(task.id).id == task.id, f"tasks.find({task.id!r}) returns another task")
        require(pickle.loads(pickle.dumps(task)) == task, f"task {task.id} changes when pickled")


def check_splits_are_disjoint(make: Make) -> None:
    """No content is in two of the splits that the class names."""
    owner: dict[str, str] = {}
    for split in make().splits:
        for task in itertools.islice(make(split=split).tasks, TASKS):
            content = task.id.partition("-")[0]
            other = owner.setdefault(content, split)
            require(other == split, f"task {task.id} is in split {split!r} and in split {other!r}")


def check_gymnasium(make: Make) -> None:
    """Gymnasium's own checker passes."""
    env = make()
    try:
        with redirect_stdout(StringIO()):  # the checker tries every render mode, and `human` prints
            check_env(env, skip_render_check=env.spec is None, skip_close_check=env.spec is None)
    except MissingPackageError:
        pass  # frames of text take packages of an extra; all but close() was checked before them
    except Exception as error:
        message = str(error).partition("\n")[0]
        raise ContractError(f"gymnasium's check_env: {type(error).__name__}: {message}") from error


def check_step_limit_is_an_option(make: Make) -> None:
    """``max_steps`` truncates, at the step it names; a limit below 1 is a UsageError."""
    env = make(max_steps=2)
    for seed in range(EPISODES):
        begin(env, seed)
        first = Transition(*env.step("no such action"))
        require(not first.truncated, "max_steps=2 truncates after 1 step")
        if not first.terminated:
            second = Transition(*env.step("no such action"))
            require(second.truncated or second.terminated, "max_steps=2 does not truncate after 2 steps")
    with expect(UsageError, "max_steps=0"):
        make(max_steps=0)


def check_bad_options(make: Make) -> None:
    """An unknown option, task or constructor value is a one-line UsageError."""
    env = make()
    begin(env)
    before = env.snapshot()
    with expect(UsageError, "an unknown reset option"):
        env.reset(seed=1, options={"no such option": 1})
    with expect(UsageError, "an unknown task"):
        env.reset(seed=1, options={"task": "no such task"})
    with expect(UsageError, "a task that is no string"):
        env.reset(seed=1, options={"task": ["no such task"]})
    options: Any = ["task"]
    with expect(UsageError, "reset options that are no dict"):
        env.reset(seed=1, options=options)
    for seed in (-1, True, "1", 1.0):
        with expect(UsageError, f"seed={seed!r}"):
            env.reset(seed=cast(int, seed))
    require_equal(env.snapshot(), before, "a refused reset changed the episode")
    for option in ("split", "dataset"):
        with expect(UsageError, f"{option}='no such value'"):
            make(**{option: "no such value"})


def check_nothing_answers_before_reset(make: Make) -> None:
    """Before the first reset all that tells of an episode raises ResetNeeded."""
    env = make()
    for call in ("admissible_actions", "state_hash", "state_text", "snapshot"):
        with expect(ResetNeeded, f"{call}() before the first reset"):
            getattr(env, call)()
    for call in ("is_admissible", "step"):
        with expect(ResetNeeded, f"{call}('') before the first reset"):
            getattr(env, call)("")
    with expect(ResetNeeded, "task before the first reset"):
        env.task  # noqa: B018


def check_rendering(make: Make) -> None:
    """``ansi`` renders a string, ``rgb_array`` uint8[H, W, 3]; rendering changes nothing."""
    modes = make().metadata["render_modes"]
    require("ansi" in modes, "metadata['render_modes'] must offer 'ansi'")
    for mode in (mode for mode in ("ansi", "rgb_array") if mode in modes):
        env = make(render_mode=mode)
        begin(env)
        before = env.snapshot()
        try:
            frame = env.render()
        except MissingPackageError:
            continue  # frames of text take packages of an extra
        if mode == "ansi":
            require(
                isinstance(frame, str), f"render_mode 'ansi' must render a string, is {type(frame).__name__}"
            )
        else:
            picture = isinstance(frame, np.ndarray) and frame.dtype == np.uint8 and frame.shape[2:] == (3,)
            require(picture, "render_mode 'rgb_array' must render uint8[H, W, 3]")
        require_equal(env.snapshot(), before, "rendering changes the episode")
    begin(plain := make())
    require(plain.render() is None, "render() without a render mode must return None")


def check_oracle_wins(make: Make) -> None:
    """The oracle, where there is one, wins at least one of the first tasks."""
    env = make()
    if type(env).oracle is AgentEnv.oracle:
        return
    require(
        any(_oracle_wins(env, number, task) for number, task in enumerate(itertools.islice(env.tasks, 8))),
        "oracle() wins none of the first 8 tasks",
    )


def _oracle_wins(env: AgentEnv[Any], number: int, task: Task) -> bool:
    oracle = env.oracle()
    beat = begin(env, number, task.id)
    while not (beat.terminated or beat.truncated):
        request = Request(
            episode=number,
            task_id=task.id,
            task_type=task.type,
            turn=beat.info["turn"],
            observation=beat.observation,
            admissible_actions=beat.info["admissible_actions"],
            state_hash=beat.info["state_hash"],
            seed=number,
            snapshot=env.snapshot,
        )
        (completion,) = oracle.act([request])
        beat = Transition(*env.step(completion.action))
    return bool(beat.info["won"])


CHECKS: tuple[Callable[[Make], None], ...] = (
    check_declarations,
    check_spec_tells_the_step_limit,
    check_tasks,
    check_splits_are_disjoint,
    check_step_limit_is_an_option,
    check_bad_options,
    check_nothing_answers_before_reset,
    check_rendering,
    check_oracle_wins,
    check_gymnasium,
)
