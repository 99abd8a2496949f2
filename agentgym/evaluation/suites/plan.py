"""Planned episodes of a suite, and its opened environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.core.suite_spec import ANY_SUCCESS, FIRST_SUCCESS, REGRET_MEASURES, Measure
from agentgym.core.tasks import Task, TaskSet
from agentgym.env import AgentEnv
from agentgym.errors import UsageError, nearest
from agentgym.evaluation.suites.suite import PlayedEnv, Suite, SuiteEnv
from agentgym.registration import open_env, open_vector, suite_spec
from agentgym.vector.core import AgentVectorEnv


@dataclass(frozen=True, slots=True)
class PlannedEpisode:
    """An episode that a suite asks for."""

    env: str
    """Label of the environment."""
    task: Task
    seed: int
    rollout: int

    @property
    def key(self) -> tuple[str, str, int]:
        """Environment, task and rollout, as `agentgym.evaluation.log.results.EvalSample.key`."""
        return self.env, self.task.id, self.rollout


def open_slots(env: PlayedEnv, num_envs: int) -> AgentVectorEnv:
    """Make the vector environment a suite names; errors as `agentgym.registration.open_vector`."""
    return open_vector(env.id, num_envs, split=env.split, options=env.kwargs, where=_where(env))


def open_single(env: PlayedEnv) -> AgentEnv[Any]:
    """Make the single environment a suite names; errors as `open_slots`."""
    return open_env(env.id, split=env.split, options=env.kwargs, where=_where(env))


def columns(env: SuiteEnv) -> tuple[Measure, ...]:
    """Return the measures that a suite's tables show of an environment, those over attempts included."""
    spec = suite_spec(env.id)
    own = {measure.name: measure for measure in (*spec.measures, *(REGRET_MEASURES if spec.distance else ()))}
    known = own | {measure.name: measure for measure in (FIRST_SUCCESS, ANY_SUCCESS)}
    for name in env.measures:
        if name not in known:
            choose = f"choose from {', '.join(own)}" if own else "it has none; remove measures"
            raise UsageError(f"{_where(env)}no measure {name!r}{nearest(name, known)}; {choose}")
    return tuple(known[name] for name in env.measures)


def planned_episodes(suite: Suite, env: PlayedEnv, tasks: TaskSet) -> list[PlannedEpisode]:
    """Return every episode a suite asks for in one environment, task by task."""
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
        PlannedEpisode(env.label, task, suite.episode_seed(env.label, index, rollout), rollout)
        for index, task in enumerate(chosen)
        for rollout in range(suite.attempts)
    ]


def _named(tasks: TaskSet, env: PlayedEnv, name: str) -> Task:
    task = tasks.find(name)
    if task.id != name:  # a source id, under which a task could appear twice
        raise UsageError(f"environment {env.label!r}: name task {name!r} by its id, {task.id}")
    return task


def _where(env: PlayedEnv) -> str:
    return f"environment {env.label!r}: "
