"""The LM-cut heuristic: an admissible estimate of the steps to a goal, by landmark cuts.

Ignoring that actions make atoms false, a *landmark* is a set of actions one of which every plan has.
Landmarks that share no action add up. They are found as cuts of the justification graph (Helmert and
Domshlak, "Landmarks, Critical Paths and Abstractions: What's the Difference Anyway?", ICAPS 2009): an
edge leads from the need of an action that is reached last to each atom it gives; the cut separates what
holds from what leads to the goal for nothing, actions of earlier cuts being free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agentgym.envs.alfworld.planner.planning_task import LiteralNumber, PlanningTask
from agentgym.envs.alfworld.planner.reductions import is_move

HOPELESS = 1 << 30
"""Steps to a goal that cannot be reached."""


class Bound(NamedTuple):
    """Lower bound of the path from a state to the goal."""

    steps: int
    """Number of steps that no plan undercuts; 0 only at the goal."""
    landmarks: Mapping[int, int]
    """Index of every action that belongs to a landmark -> the landmark's number; low ones are near the
    goal. A plan that begins with another action has all landmarks left to meet."""


class Relaxation:
    """A planning task in which nothing becomes false."""

    def __init__(self, task: PlanningTask):
        """Number the literals: 0 always holds, 1 is the goal."""
        numbers: dict[LiteralNumber, int] = {x: i for i, x in enumerate(sorted(task.needed()), start=2)}
        self._literals = list(numbers)
        self._givers: list[list[int]] = [[] for _ in range(len(numbers) + 2)]
        self._needs: list[tuple[int, ...]] = []
        self._gives: list[tuple[int, ...]] = []
        self._same: list[list[int]] = []
        """For each relaxed action, the task's actions that it stands for."""
        relaxed: dict[object, int] = {}
        for k, action in enumerate(task.actions):
            # the place one leaves does not matter: it can always be left
            needs = () if is_move(action) else tuple(sorted(numbers[x] for x in action.needs))
            gives = tuple(sorted(numbers[x] for x in action.gives if x in numbers))
            self._add(relaxed, needs or (0,), gives).append(k)
        self._costs = [1] * len(self._needs)
        for goal in task.goals:
            self._add(relaxed, tuple(numbers[x] for x in goal) or (0,), (1,))
        self._costs += [0] * (len(self._needs) - len(self._costs))
        self._waiting: list[list[int]] = [[] for _ in self._givers]
        for k, needs in enumerate(self._needs):
            for x in needs:
                self._waiting[x].append(k)

    def _add(self, relaxed: dict[object, int], needs: tuple[int, ...], gives: tuple[int, ...]) -> list[int]:
        k = relaxed.setdefault((needs, gives), len(relaxed))
        if k == len(self._needs):
            self._needs.append(needs)
            self._gives.append(gives)
            self._same.append([])
            for x in gives:
                self._givers[x].append(k)
        return self._same[k]

    def bound(self, state: int) -> Bound:
        """Return a lower bound on the steps from a state to the goal."""
        start = [0]
        start += [
            i
            for i, x in enumerate(self._literals, start=2)
            if (state >> x & 1 if x >= 0 else not state >> ~x & 1)
        ]
        costs = self._costs.copy()
        landmarks: dict[int, int] = {}
        steps = 0
        while True:
            levels, last = self._levels(start, costs)
            if levels[1] == HOPELESS:
                return Bound(HOPELESS, {})
            if levels[1] == 0:
                return Bound(steps, landmarks)
            for k in self._cut(start, costs, levels, last):
                costs[k] = 0
                landmarks.update(dict.fromkeys(self._same[k], steps))
            steps += 1

    def _levels(self, start: list[int], costs: list[int]) -> tuple[list[int], list[int]]:
        """Return for each literal its level, and for each action the need that is reached last.

        An action's level is the highest of its needs', a literal's the least of an action's that gives
        it, plus what that one costs. The last need of an action that cannot be reached is -1.
        """
        levels = [HOPELESS] * len(self._givers)
        last = [-1] * len(self._needs)
        missing = [len(needs) for needs in self._needs]
        for x in start:
            levels[x] = 0
        now, level = list(start), 0
        later: list[int] = []
        waiting, all_gives = self._waiting, self._gives
        while now:
            for x in now:  # grows while it is walked
                if levels[x] < level:
                    continue
                for k in waiting[x]:
                    missing[k] -= 1
                    if missing[k]:
                        continue
                    last[k] = x
                    reached = level + costs[k]
                    for y in all_gives[k]:
                        if levels[y] > reached:
                            levels[y] = reached
                            (later if costs[k] else now).append(y)
            now, later, level = later, [], level + 1
        return levels, last

    def _cut(self, start: list[int], costs: list[int], levels: list[int], last: list[int]) -> list[int]:
        """Return the actions on the border of what leads to the goal for nothing."""
        zone = {1}
        stack = [1]
        while stack:
            for k in self._givers[stack.pop()]:
                if not costs[k] and last[k] >= 0 and last[k] not in zone:
                    zone.add(last[k])
                    stack.append(last[k])
        before = set(start)
        stack = list(start)
        border: list[int] = []
        while stack:
            x = stack.pop()
            for k in self._waiting[x]:
                if last[k] != x:
                    continue
                for y in self._gives[k]:
                    if y in zone:
                        border.append(k)
                        break
                else:
                    for y in self._gives[k]:
                        if y not in before:
                            before.add(y)
                            stack.append(y)
        return border
