"""ALFWorld drawing for people: the whole room, and the part that the player has seen."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from agentgym.core.elements import Child, Element, element
from agentgym.core.suite_spec import SuiteDrawing
from agentgym.core.types import Request, Step
from agentgym.envs.alfworld.engine.pddl import Fact
from agentgym.envs.alfworld.engine.scene import TREATED
from agentgym.envs.alfworld.env import REJECTED, ALFWorldEnv, ALFWorldState
from agentgym.envs.alfworld.memory import RoomMemory, kind_of
from agentgym.envs.alfworld.source import load_scene

_STATES = {**TREATED, "issliced": "sliced", "istoggled": "switched on"}
"""Predicates of things, and how the drawing says them."""

_WORD = re.compile(r"[a-z]+")


class _Room:
    """The facts of a state by the names that sentences use, and what a player knows of them."""

    def __init__(self, env: ALFWorldEnv, steps: Sequence[Step]):
        state: ALFWorldState = env.snapshot().state
        scene = load_scene(env.task.content, env.dialect)
        names = {id: name.strip() for id, name in scene.game.names.items()}
        facts: Mapping[str, list[Fact]] = defaultdict(list)
        for fact in sorted(scene.game.facts(state.bits)):
            facts[fact[0]].append(fact)
        self.goal = scene.goal
        self.place = state.place
        self.wanted = frozenset(_WORD.findall(scene.goal.lower()))
        self.held = [names[fact[-1]] for fact in facts["holds"]]
        self.receptacles = sorted({names[fact[1]] for fact in facts["receptacletype"]}, key=_in_order)
        self.openable = {names[fact[1]] for fact in facts["openable"]}
        self.open = {names[fact[1]] for fact in facts["opened"]}
        self.treated: dict[str, list[str]] = defaultdict(list)
        for predicate, word in _STATES.items():
            for fact in facts[predicate]:
                self.treated[names[fact[1]]].append(word)
        self.contents: dict[str, list[str]] = defaultdict(list)
        for fact in facts["inreceptacle"]:
            self.contents[names[fact[2]]].append(names[fact[1]])
        self.known = _known(env, steps, state.text)


def _known(env: ALFWorldEnv, steps: Sequence[Step], answer: str) -> RoomMemory:
    task = env.task
    return RoomMemory.of(
        Request(
            episode=0,
            task_id=task.id,
            task_type=task.type,
            turn=len(steps),
            observation=answer,
            admissible_actions=env.admissible_actions(),
            state_hash="",
            seed=0,
            history=tuple(steps),
        )
    )


def draw_room(env: ALFWorldEnv, steps: Sequence[Step]) -> Element:
    """Draw the room: receptacles as cards, open or closed, with what is in them."""
    room = _Room(env, steps)
    held: list[Child] = [_thing(room, name, seen=True) for name in room.held]
    return element(
        "div",
        element("p", element("strong", "Goal "), room.goal),
        element("p", element("strong", "At "), room.place, class_="now"),
        element("p", element("strong", "Holds "), *(held or ["nothing"]), class_="now"),
        element("ul", *(_receptacle(room, name) for name in room.receptacles), class_="cards"),
        element("p", "Dashed: in the room, but not seen yet.", class_="muted"),
        class_="room",
    )


def _receptacle(room: _Room, name: str) -> Element:
    door = ""
    if name in room.openable:
        door = "open" if name in room.open else "closed"
    contents = [_thing(room, thing, seen=thing in room.known.at) for thing in room.contents[name]]
    looked = name in room.known.searched
    empty = element("span", "empty" if looked else "not looked into", class_="muted")
    classes = ["card", *(["here"] if name == room.place else []), *([] if looked else ["unseen"])]
    return element(
        "li",
        element("strong", name, class_="accent" if kind_of(name) in room.wanted else None),
        element("span", door, class_="tag") if door else None,
        element("span", "you are here", class_="tag here") if name == room.place else None,
        element("div", *(contents or [empty])),
        class_=" ".join(classes),
    )


def _thing(room: _Room, name: str, *, seen: bool) -> Element:
    words = room.treated[name]
    wanted = ["accent"] if kind_of(name) in room.wanted else []
    return element(
        "span",
        f"{name} ({', '.join(words)})" if words else name,
        class_=" ".join(["chip", *wanted, *([] if seen else ["unseen"])]),
    )


def _in_order(name: str) -> tuple[str, int]:
    """Return the sort key that puts ``shelf 2`` before ``shelf 10``."""
    kind, _, number = name.rpartition(" ")
    return (kind, int(number)) if number.isdecimal() else (name, 0)


def told_beside(env: ALFWorldEnv) -> tuple[str, ...]:
    """Return what observations tell of the past: where the player has been, what it put down."""
    state: ALFWorldState = env.snapshot().state
    moved = f"Moved items: {', '.join(state.moved)}."
    return (REJECTED, f"Location: {state.place}.", *([moved] if state.moved else []))


DRAWING = SuiteDrawing(draw_room, told_beside)
