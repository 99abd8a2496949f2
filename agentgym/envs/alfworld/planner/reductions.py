"""Reductions of a planning task that make no plan longer.

The length of a shortest plan does not change by leaving out

1. what cannot happen, even if nothing that was ever true became false (`reachable`);
2. actions that give nothing that an action or the goal needs, and atoms that nothing needs
   (`relevant`): a state that has every needed literal of another state can do whatever that one can;
3. undoing: actions that only make an atom false where falsehood serves only to make it true again,
   such as closing a cupboard (`without_undoing`);
4. taking things whose every use, and the use of what that changes, never bears on the goal
   (`without_idle_taking`): an agent that leaves such a thing alone has its hand free whenever the one
   who takes it does. What is in the hand already can still be put down;
5. stopping where nothing needs one to be (`without_detours`), where one might have gone on directly.

Each of the last three checks, on the task at hand, the conditions that its argument rests on, and
leaves the task as it is where they do not hold.
"""

from __future__ import annotations

from collections import defaultdict

from agentgym.envs.alfworld.planner.planning_task import (
    LiteralNumber,
    PlanningAction,
    PlanningTask,
    atom_of,
    holds,
)


def reachable(task: PlanningTask, state: int) -> PlanningTask:
    """Leave out actions that could not happen from ``state`` even if nothing true became false."""
    waiting: dict[LiteralNumber, list[int]] = defaultdict(list)
    missing = []
    for k, action in enumerate(task.actions):
        missing.append(len(action.needs))
        for literal in action.needs:
            waiting[literal].append(k)
    wanted = {x for goal in task.goals for x in goal}
    reached = [x for x in waiting.keys() | wanted if holds(state, x)]
    seen = set(reached)
    possible = [k for k, count in enumerate(missing) if not count]
    for k in possible:
        reached += [x for x in task.actions[k].gives if x not in seen]
        seen |= task.actions[k].gives
    for literal in reached:  # grows while it is walked
        for k in waiting.get(literal, ()):
            missing[k] -= 1
            if not missing[k]:
                possible.append(k)
                reached += task.actions[k].gives - seen
                seen |= task.actions[k].gives
    goals = tuple(goal for goal in task.goals if seen.issuperset(goal))
    return PlanningTask(tuple(task.actions[k] for k in sorted(possible)), goals)


def relevant(task: PlanningTask) -> PlanningTask:
    """Leave out actions that give nothing needed, and changes to atoms that nothing needs."""
    givers: dict[LiteralNumber, list[int]] = defaultdict(list)
    readers: dict[int, list[frozenset[LiteralNumber]]] = defaultdict(list)
    for k, action in enumerate(task.actions):
        for literal in action.gives:
            givers[literal].append(k)
        for atom, reads in action.conditions:
            readers[atom].append(reads)
    stack = list({x for goal in task.goals for x in goal})
    needed = set(stack)
    retained: set[int] = set()
    while stack:
        literal = stack.pop()
        news = [*readers.get(atom_of(literal), ())]
        for k in givers.get(literal, ()):
            if k not in retained:
                retained.add(k)
                news.append(task.actions[k].needs)
        for new in news:
            stack += new - needed
            needed |= new
    changing = needed | {~x for x in needed}
    actions = (_restricted(task.actions[k], changing) for k in sorted(retained))
    return PlanningTask(tuple(actions), task.goals)


def _restricted(action: PlanningAction, changing: set[LiteralNumber]) -> PlanningAction:
    """Return an action whose other changes are left out."""
    if action.gives <= changing:
        return action
    conditions = tuple((atom, reads) for atom, reads in action.conditions if atom in changing)
    return action._replace(gives=action.gives & changing, conditions=conditions)


def without_undoing(task: PlanningTask) -> PlanningTask:
    """Leave out actions whose only change is to give x, where x only lets actions give ~x and no more.

    A plan that does not undo has at every time what the other has, or ~x instead of x.
    """
    vital = {x for goal in task.goals for x in goal}
    for action in task.actions:
        vital |= {x for x in action.needs if action.gives != {~x}}
        vital |= action.uses - action.needs
    return PlanningTask(
        tuple(a for a in task.actions if len(a.gives) != 1 or not a.gives.isdisjoint(vital)), task.goals
    )


def without_idle_taking(task: PlanningTask, start: int) -> PlanningTask:
    """Leave out the taking of objects that never matter to the goal.

    A *hand* is a literal ``free`` and literals of which, with it, exactly one holds at any time:
    every action that changes one of them swaps ``free`` and another. From a thing's being held follow
    the atoms that its uses change, the uses of these, and so on. Where these atoms meet no goal, the
    states with and without them have the same ways to the goal, but for the hand, which is free for
    other things at least as often when the thing is never taken.

    ``start``: any state from which the states to plan in can be reached.
    """
    goal_atoms = {atom_of(x) for goal in task.goals for x in goal}
    needed = task.needed()
    for free, things in _hands(task, start):
        if ~free in needed:
            continue
        uses: dict[int, list[PlanningAction]] = defaultdict(list)
        for action in task.actions:
            for atom in {atom_of(x) for x in action.uses} | (things & action.gives):
                uses[atom].append(action)
        idle = {x for x in things if not _consequences(x, uses, atom_of(free)) & goal_atoms}
        actions = tuple(a for a in task.actions if not (free in a.needs and a.gives & idle))
        task = PlanningTask(actions, task.goals)
    return task


def _hands(task: PlanningTask, start: int) -> list[tuple[LiteralNumber, frozenset[LiteralNumber]]]:
    """Return hands: the literal that means it is free, and those of the things it may hold."""
    unsure = {atom for action in task.actions for atom, _ in action.conditions}
    held: dict[LiteralNumber, set[LiteralNumber]] = defaultdict(set)
    for action in task.actions:
        for free in action.gives:
            if free < 0 and ~free not in action.needs:
                held[free] |= {x for x in action.needs if x >= 0 and ~x in action.gives}
    return [
        (free, frozenset(things))
        for free, things in sorted(held.items())
        if things
        and unsure.isdisjoint({~free, *things})
        and sum(holds(start, x) for x in (free, *things)) == 1
        and all(_swaps(action, free, things) for action in task.actions)
    ]


def _swaps(action: PlanningAction, free: LiteralNumber, things: set[LiteralNumber]) -> bool:
    """Return whether an action leaves a hand alone, or swaps ``free`` and one thing of it."""
    taken = things & action.gives
    dropped = things & {~x for x in action.gives}
    if free in action.gives:
        return not taken and len(dropped) == 1 and dropped <= action.needs
    if ~free in action.gives:
        return not dropped and len(taken) == 1 and free in action.needs
    return not taken and not dropped


def _consequences(thing: LiteralNumber, uses: dict[int, list[PlanningAction]], hand: int) -> set[int]:
    """Return the atoms that holding a thing can change, the hand's own left out."""
    found = {thing}
    stack = [thing]
    while stack:
        for action in uses[stack.pop()]:
            new = {atom_of(x) for x in action.gives} - found - {hand}
            found |= new
            stack += new
    return found


def without_detours(task: PlanningTask, state: int, *, of_any: bool = False) -> PlanningTask:
    """Leave out moves to where nothing but a move needs one to be, if one could have gone on directly.

    ``of_any``: whether moves away from such places stay, so that the task serves every state.
    """
    moves = [(min(a.needs), max(a.gives), a) for a in task.actions if is_move(a)]
    others = tuple(a for a in task.actions if not is_move(a))
    places = {x for origin, target, _ in moves for x in (origin, target)}
    needed = PlanningTask(others, task.goals).needed()
    touched = {atom_of(x) for action in others for x in action.gives}
    if sum(holds(state, x) for x in places) != 1 or touched & places or any(~x in needed for x in places):
        return task
    exits: dict[LiteralNumber, set[LiteralNumber]] = defaultdict(set)
    entries: dict[LiteralNumber, set[LiteralNumber]] = defaultdict(set)
    for origin, target, _ in moves:
        exits[origin].add(target)
        entries[target].add(origin)
    detours = {y for y in places - needed if all(exits[y] - {x} <= exits[x] for x in entries[y])}
    passed = set() if of_any else {y for y in detours if not holds(state, y)}
    direct = (a for origin, target, a in moves if origin not in passed and target not in detours)
    return PlanningTask((*others, *direct), task.goals)


def is_move(action: PlanningAction) -> bool:
    """Return whether an action does nothing but swap the one literal it needs for another."""
    if len(action.needs) != 1 or len(action.gives) != 2 or action.conditions:
        return False
    (origin,) = action.needs
    return origin >= 0 and ~origin in action.gives and max(action.gives) >= 0


def simplified(task: PlanningTask, start: int) -> PlanningTask:
    """Leave out of a game's task the parts that no state reached from ``start`` needs."""
    before = -1
    while len(task.actions) != before:
        before = len(task.actions)
        task = without_idle_taking(without_undoing(relevant(task)), start)
    return relevant(task)


def seen_from(task: PlanningTask, state: int) -> PlanningTask:
    """Leave out of a simplified task the parts that a plan from ``state`` does not need."""
    return relevant(without_detours(relevant(reachable(task, state)), state))
