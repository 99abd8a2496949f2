"""Walkthrough agent: the actions that the tasks' own authors recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from agentgym.agents.scripted import ScriptedPolicy
from agentgym.core.tasks import Task, TaskSet
from agentgym.core.types import Completion, Policy, Request
from agentgym.errors import UnsupportedEnvError, UsageError
from agentgym.vector.core import AgentVectorEnv


@runtime_checkable
class Recorded(Protocol):
    """An environment some of whose tasks come with actions that win them."""

    def walkthrough(self, task: Task) -> tuple[str, ...] | None:
        """Return the recorded actions; None where the task has none."""


def make_walkthrough(envs: AgentVectorEnv) -> Policy:
    """Make the agent ``walkthrough``; `UnsupportedEnvError` where no actions are recorded."""
    if not isinstance(envs.prototype, Recorded):
        name = type(envs.prototype).__name__
        raise UnsupportedEnvError(f"{name} has no recorded walkthroughs; use the agent 'oracle'")
    return WalkthroughPolicy(envs.prototype, envs.tasks)


class WalkthroughPolicy:
    """Plays each task's recorded actions.

    An episode whose actions are used up before it is over ends as ``agent_error``.
    """

    def __init__(self, recorded: Recorded, tasks: TaskSet):
        """Take the environment that knows the actions, and its tasks."""
        self._recorded, self._tasks = recorded, tasks
        self._script: dict[str, tuple[str, ...]] = {}
        self._policy = ScriptedPolicy(self._script, source="the walkthrough")

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Return each episode's next action."""
        for request in requests:
            if request.task_id not in self._script:
                self._script[request.task_id] = self._find(request.task_id)
        return self._policy.act(requests)

    def _find(self, task_id: str) -> tuple[str, ...]:
        task = self._tasks.find(task_id)
        actions = self._recorded.walkthrough(task)
        if actions is None:
            raise UsageError(f"task {task_id} ({task.source_id}) has no walkthrough; use the agent 'oracle'")
        return actions
