"""Plans: A* over a compiled game, guided by relaxed plans and kept to what matters for the goal.

1. From the state, the cost of reaching every literal is computed ignoring deletes, costs adding up
   (the additive heuristic of Bonet and Geffner, 2001).
2. Of the goal's alternatives (which object, which receptacle) the cheapest ones are kept, and of the
   operations those that reach what these need at no more than `SLACK` above the least cost.
3. A* searches over these operations. Its estimate is the length of a relaxed plan (Hoffmann and
   Nebel's FF, 2001): where the agent goes only once for two purposes, it counts once.

The estimate can exceed the truth, so a plan need not be the shortest; the tests compare.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from agentgym.envs.alfworld.game import Game
from agentgym.envs.alfworld.operations import Operation

ALTERNATIVES = 8
"""Alternatives of the goal that are looked at, cheapest first."""

SLACK = 1
"""How much worse than the best an operation may be and still be considered."""

MAX_NODES = 50_000
"""Nodes expanded before a state is taken for hopeless."""

Literal = int
"""Index i of a fluent atom that is true, or ~i of one that is false."""


@dataclass(frozen=True, slots=True)
class _Action:
    """An operation as the relaxation sees it."""

    operation: Operation
    needs: tuple[Literal, ...]
    gives: tuple[Literal, ...]


class Planner:
    """Finds plans in one game; holds nothing of any episode."""

    def __init__(self, game: Game):
        """List the game's operations."""
        self._game = game
        self._truth = (1 << game.planes.width) - 1
        actions = (self._action(operation) for operation in game.operations())
        # of the ways to do one thing (arrive at a place, say, facing this or that) one is enough
        self._actions = list({(a.needs, a.gives): a for a in actions}.values())
        self._goal = [(_literals(needs, forbids), needs, forbids) for needs, forbids in game.goal]

    def plan(self, state: int) -> list[Operation] | None:
        """Return operations that lead from ``state`` to the goal; None when none are found."""
        if self._game.won(state):
            return []
        actions = self._relevant(state)
        return None if actions is None else self._search(state, actions)

    def _action(self, operation: Operation) -> _Action:
        looked_at, wanted = operation.tests[0]
        became = operation.set & self._truth
        lost = ~operation.keep & ~operation.set & self._truth
        return _Action(operation, _literals(wanted, looked_at & ~wanted), _literals(became, lost))

    def _relevant(self, state: int) -> list[_Action] | None:
        """Return the actions worth considering; None when the goal cannot be reached."""
        relaxation = _Relaxation(self._actions)
        costs = relaxation.costs(state, self._goal_literals())
        priced = sorted(
            (sum(costs[x] for x in literals), k)
            for k, (literals, _, _) in enumerate(self._goal)
            if all(x in costs for x in literals)
        )
        if not priced:
            return None
        wanted = [x for _, k in priced[:ALTERNATIVES] for x in self._goal[k][0]]
        return relaxation.supporters(costs, wanted)

    def _goal_literals(self) -> set[Literal]:
        return {x for literals, _, _ in self._goal for x in literals}

    def _search(self, start: int, actions: Sequence[_Action]) -> list[Operation] | None:
        game, truth = self._game, self._truth
        relaxation = _Relaxation(actions)
        goals = [literals for literals, _, _ in self._goal]
        first = relaxation.estimate(start, goals)
        if first is None:
            return None
        best = {start & truth: 0}
        came: dict[int, tuple[int, Operation]] = {}
        queue = [(first, first, 0, start)]
        expanded = pushed = 0
        while queue:
            _, _, _, state = heappop(queue)
            cost = best[state & truth]
            if game.won(state):
                return _path(came, start, state, truth)
            expanded += 1
            if expanded > MAX_NODES:
                return None
            for action in actions:
                if not any(state & looked_at == wanted for looked_at, wanted in action.operation.tests):
                    continue
                after = game.apply(state, action.operation)
                key = after & truth
                if best.get(key, cost + 2) <= cost + 1:
                    continue
                left = relaxation.estimate(after, goals)
                if left is None:
                    continue
                best[key] = cost + 1
                came[key] = (state, action.operation)
                pushed += 1
                heappush(queue, (cost + 1 + left, left, pushed, after))
        return None


class _Relaxation:
    """A set of actions without their deletes."""

    def __init__(self, actions: Sequence[_Action]):
        self.actions = actions
        self._waiting: dict[Literal, list[int]] = defaultdict(list)
        self._givers: dict[Literal, list[int]] = defaultdict(list)
        for k, action in enumerate(actions):
            for literal in action.needs:
                self._waiting[literal].append(k)
            for literal in action.gives:
                self._givers[literal].append(k)

    def costs(self, state: int, targets: Iterable[Literal] = ()) -> dict[Literal, int]:
        """Return the additive cost of every literal that can be reached or is looked at."""
        costs = {x: 0 for x in (*self._waiting, *targets) if _holds(state, x)}
        missing = [0] * len(self.actions)
        prices = [1] * len(self.actions)
        queue: list[tuple[int, Literal]] = []

        def offer(k: int) -> None:
            for literal in self.actions[k].gives:
                if costs.get(literal, prices[k] + 1) > prices[k]:
                    costs[literal] = prices[k]
                    heappush(queue, (prices[k], literal))

        for k, action in enumerate(self.actions):
            missing[k] = sum(x not in costs for x in action.needs)
        ready = [k for k, count in enumerate(missing) if not count]
        for k in ready:
            offer(k)
        done = {x for x, cost in costs.items() if cost == 0}
        while queue:
            cost, literal = heappop(queue)
            if literal in done:
                continue
            done.add(literal)
            for k in self._waiting.get(literal, ()):
                missing[k] -= 1
                prices[k] += cost
                if not missing[k]:
                    offer(k)
        return costs

    def supporters(self, costs: dict[Literal, int], wanted: Iterable[Literal]) -> list[_Action]:
        """Return the actions that reach what is wanted, and what they need in turn, at little cost."""
        chosen: set[int] = set()
        stack = list(wanted)  # even what holds already: it may have to be given up for a while
        seen = set(stack)
        while stack:
            prices = {
                k: 1 + sum(costs[x] for x in self.actions[k].needs)
                for k in self._givers[stack.pop()]
                if all(x in costs for x in self.actions[k].needs)
            }
            for k, price in prices.items():
                if price <= min(prices.values()) + SLACK:
                    chosen.add(k)
                    missing = {x for x in self.actions[k].needs if costs[x]} - seen
                    stack.extend(missing)
                    seen |= missing
        return self._with_ways(chosen)

    def _with_ways(self, chosen: set[int]) -> list[_Action]:
        """Add the actions that lead to what the chosen ones need from where others of them lead.

        Going to a place is chosen from where the agent is now; it must also be possible from the
        other places.
        """
        needed = {x for k in chosen for x in self.actions[k].needs}
        given = {x for k in chosen for x in self.actions[k].gives if x >= 0}
        for k, action in enumerate(self.actions):
            if k in chosen:
                continue
            same = {
                self.actions[j].operation.schema for g in action.gives for j in self._givers[g] if j in chosen
            }
            if (
                action.operation.schema in same
                and all(x in given or x < 0 for x in action.needs)
                and needed & set(action.gives)
            ):
                chosen.add(k)
        return [self.actions[k] for k in sorted(chosen)]

    def estimate(self, state: int, goals: Sequence[tuple[Literal, ...]]) -> int | None:
        """Return the length of a relaxed plan to the cheapest goal; None when there is none."""
        targets = {x for literals in goals for x in literals}
        costs = self.costs(state, targets)
        reachable = [literals for literals in goals if all(x in costs for x in literals)]
        if not reachable:
            return None
        goal = min(reachable, key=lambda literals: sum(costs[x] for x in literals))
        plan: set[int] = set()
        stack = [x for x in goal if costs[x]]
        seen = set(stack)
        while stack:
            literal = stack.pop()
            k = min(
                (k for k in self._givers[literal] if all(x in costs for x in self.actions[k].needs)),
                key=lambda k: sum(costs[x] for x in self.actions[k].needs),
            )
            plan.add(k)
            for need in self.actions[k].needs:
                if costs[need] and need not in seen:
                    seen.add(need)
                    stack.append(need)
        return len(plan)


def _path(came: dict[int, tuple[int, Operation]], start: int, end: int, truth: int) -> list[Operation]:
    path = []
    while end & truth != start & truth:
        end, operation = came[end & truth]
        path.append(operation)
    return path[::-1]


def _literals(true: int, false: int) -> tuple[Literal, ...]:
    return (*_indexes(true), *(~i for i in _indexes(false)))


def _indexes(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _holds(state: int, literal: Literal) -> bool:
    return bool(state >> literal & 1) if literal >= 0 else not state >> ~literal & 1
