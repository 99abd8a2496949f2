"""Tasks of a data set's goals, and their splits.

Upstream's users divide goals by position in a list that each worker shuffles for itself, so that goals
kept for evaluation are met in training. The default splits here follow from a goal's content, whatever its
position; upstream's own divisions are there under names of their own.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from agentgym.core.tasks import DEFAULT_SIZES, ListTaskSet, Task, check_split
from agentgym.envs.webshop.data.products import Goals
from agentgym.envs.webshop.engine.goals import Goal, make_goals
from agentgym.envs.webshop.engine.world import ShopWorld
from agentgym.envs.webshop.splits import GoalDivision, split_of_goal
from agentgym.envs.webshop.suite import SUITE
from agentgym.errors import UsageError

UPSTREAM_SEED = 233
"""Seed of the shuffle that gives goals their numbers in upstream's environment."""

RANGES: Mapping[str, tuple[int, int | None]] = {
    "papers": (0, 500),
    "papers-train": (500, None),
    "upstream-test": (0, 500),
    "upstream-dev": (500, 1500),
    "upstream-train": (1500, None),
}
"""Splits by upstream's numbers. ``papers`` (500 of the 12,087 human goals) is what StepPO and 3SPO
evaluate on, and ``papers-train`` what they train on; the others are those of WebShop's own baselines."""

SPLITS = (*DEFAULT_SIZES, *RANGES)


class GoalSet(ListTaskSet):
    """Goals of a data set; a task's content is its `Goal`, its source id upstream's number."""

    def __init__(
        self, split: str, tasks: Iterable[Task], world: ShopWorld, kind: Goals, split_by: GoalDivision
    ):
        """Hold the tasks of a split; see `goal_tasks`."""
        super().__init__(split, tasks, dataset=world.name, suite=SUITE.name)
        divided = {} if split_by == "goal" else {"split_by": split_by}
        self.manifest = {**self.manifest, "goals": kind, **divided, **world.manifest}
        self._ends = np.cumsum([task.content.weight for task in self._tasks])

    def draw(self, rng: np.random.Generator) -> Task:
        """Draw a task by its goal's weight, as upstream does."""
        place = np.searchsorted(self._ends, rng.random() * self._ends[-1], side="right")
        return self._tasks[min(int(place), len(self) - 1)]

    def verify(self) -> None:
        """Recompute every id from the goal."""
        for task in self:
            if task.content.id != task.id.partition("-")[0]:
                raise UsageError(f"goal {task.source_id} is not the one its id {task.id} says; import again")
        super().verify()


def goal_tasks(world: ShopWorld, split: str, kind: Goals, *, split_by: GoalDivision = "goal") -> GoalSet:
    """Return the goals of a split.

    ``train``, ``valid`` or ``test`` are by content (the goal's, or its product's alone); others are `RANGES`.
    """
    check_split(split, SPLITS)
    if split.startswith("papers") and kind != "human":
        raise UsageError(f"split {split!r} is of human goals: pass goals='human'")
    if split in RANGES and split_by != "goal":
        known = ", ".join(DEFAULT_SIZES)
        raise UsageError(f"split {split!r} is by number: leave out split_by, or choose one of {known}")
    tasks = _every_task(world, kind)
    if not tasks:
        other = "synthetic" if kind == "human" else "human"
        raise UsageError(f"{world.name} has no {kind} goals: pass goals={other!r}")
    return GoalSet(split, _divided(tasks, split, split_by), world, kind, split_by)


def goal_splits(world: ShopWorld, kind: Goals, *, split_by: GoalDivision) -> tuple[str, ...]:
    """Return the splits that have tasks; see `goal_tasks`."""
    tasks = _every_task(world, kind)
    by_number = [split for split in RANGES if kind == "human" or not split.startswith("papers")]
    names = (*DEFAULT_SIZES, *(by_number if split_by == "goal" else ()))
    return tuple(split for split in names if _divided(tasks, split, split_by))


def in_upstream_order(goals: Sequence[Goal]) -> list[Goal]:
    """Return goals in the order of upstream's numbers: shuffled by Python's generator with seed 233."""
    shuffled = list(goals)
    random.Random(UPSTREAM_SEED).shuffle(shuffled)
    return shuffled


def _every_task(world: ShopWorld, kind: Goals) -> list[Task]:
    goals = in_upstream_order(make_goals(world.catalogue, kind, world.prices))
    return list(_tasks(goals, world))


def _tasks(goals: Iterable[Goal], world: ShopWorld) -> Iterator[Task]:
    """Yield a task for each goal. Duplicates are numbered here, so that a task is the same in any split."""
    seen: Counter[str] = Counter()
    for number, goal in enumerate(goals):
        name = goal.id
        seen[name] += 1
        suffix = f"-{seen[name]}" if seen[name] > 1 else ""
        yield Task(name + suffix, goal, str(number), world.item(goal.asin).category)


def _divided(tasks: Sequence[Task], split: str, split_by: GoalDivision) -> Sequence[Task]:
    if split in RANGES:
        first, end = RANGES[split]
        return tasks[first:end]
    return [task for task in tasks if split_of_goal(task.id, task.content.asin, split_by) == split]
