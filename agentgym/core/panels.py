"""Panels: named, hashed lists of tasks that stay the same wherever a policy is evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from agentgym.core.hashing import sha256_json
from agentgym.core.tasks import Task, TaskSet


@dataclass(frozen=True)
class TaskPanel:
    """The tasks of an evaluation, in the order in which they are played."""

    name: str
    """Name such as ``valid``, a whole split, or ``valid[:128]``, its first tasks in its own order."""
    tasks: tuple[Task, ...]

    @classmethod
    def first(cls, tasks: TaskSet, count: int) -> TaskPanel:
        """Return the first tasks of a split in its own order, or all where it has no more than ``count``."""
        whole = count >= len(tasks)
        name = tasks.split if whole else f"{tasks.split}[:{count}]"
        return cls(name, tuple(tasks[:count]))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the task ids in order: equal on every machine that evaluates on the same tasks."""
        return sha256_json([task.id for task in self.tasks])

    def header(self) -> Mapping[str, str | int]:
        """Return how records name the panel."""
        return {"name": self.name, "tasks": len(self.tasks), "sha256": self.digest}
