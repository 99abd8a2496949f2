"""Opening the environments that suites name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import gymnasium
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import AutoresetMode

from agentgym.env import AgentEnv
from agentgym.evaluation.suite import Suite, SuiteEnv
from agentgym.tasks import Task, TaskSet, nearest
from agentgym.types import UsageError
from agentgym.vector.core import AgentVectorEnv


@dataclass(frozen=True, slots=True)
class PlannedEpisode:
    """An episode that a suite asks for."""

    task: Task
    seed: int
    rollout: int


def open_vector(env: SuiteEnv, num_envs: int) -> AgentVectorEnv:
    """Make the vector environment a suite names, with ``num_envs`` slots.

    Raises:
        UsageError: unknown id, option or option value.
        MissingDataError: its data is not on this machine.
    """
    _check(env)
    made = gymnasium.make_vec(env.id, num_envs=num_envs, autoreset_mode=AutoresetMode.DISABLED, **env.options)
    return cast(AgentVectorEnv, made)


def open_single(env: SuiteEnv) -> AgentEnv[Any]:
    """Make the single environment a suite names; errors as `open_vector`."""
    _check(env)
    return cast(AgentEnv[Any], gymnasium.make(env.id, disable_env_checker=True, **env.options).unwrapped)


def planned_episodes(suite: Suite, env: SuiteEnv, tasks: TaskSet) -> list[PlannedEpisode]:
    """Return every episode a suite asks for in one environment, task by task.

    Raises:
        UsageError: the split has fewer tasks than the suite asks for, or none of an id that it names.
    """
    if not isinstance(env.tasks, int):
        chosen: Sequence[Task] = [_named(tasks, env, name) for name in env.tasks]
    elif len(tasks) < env.tasks:
        raise UsageError(
            f"environment {env.label!r}: split {env.split!r} has {len(tasks)} tasks, "
            f"the suite asks for {env.tasks}; lower tasks"
        )
    else:
        chosen = tasks[: env.tasks]
    return [
        PlannedEpisode(task, suite.episode_seed(env.label, index, rollout), rollout)
        for index, task in enumerate(chosen)
        for rollout in range(suite.attempts)
    ]


def _named(tasks: TaskSet, env: SuiteEnv, name: str) -> Task:
    task = tasks.find(name)
    if task.id != name:  # a source id, by which one task could be named twice
        raise UsageError(f"environment {env.label!r}: name task {name!r} by its id, {task.id}")
    return task


def _check(env: SuiteEnv) -> None:
    """Turn what Gymnasium would report in its own ways into a message about the suite."""
    where = f"environment {env.label!r}"
    spec = gymnasium.registry.get(env.id)
    if spec is None:
        known = [name for name in gymnasium.registry if name.startswith("agentgym/")]
        raise UsageError(
            f"{where}: unknown id {env.id!r}{nearest(env.id, known)}; known: {', '.join(sorted(known))}"
        )
    assert spec.entry_point is not None  # a vector entry point alone cannot be verified
    creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    known = _options_of(creator)
    for option in env.options:
        if option not in known:
            raise UsageError(
                f"{where}: unknown option {option!r}{nearest(option, known)}; known: {', '.join(known)}"
            )


def _options_of(creator: Callable[..., Any]) -> list[str]:
    """Return the arguments of a constructor, with those it passes on to its base classes."""
    names: list[str] = []
    for made_by in inspect.getmro(creator) if inspect.isclass(creator) else [creator]:
        parameters = inspect.signature(made_by).parameters.values()
        named = [p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]
        names += named
        if len(named) == len(parameters):
            break  # it passes nothing on
    return names
