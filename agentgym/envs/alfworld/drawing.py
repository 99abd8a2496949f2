"""ALFWorld drawing for people: the whole room, and the part that the player has seen."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from weakref import WeakKeyDictionary

from agentgym.core.markup import Child, Element, element
from agentgym.core.suite_spec import SuiteDrawing
from agentgym.core.types import Step
from agentgym.envs.alfworld.engine.pddl import Fact
from agentgym.envs.alfworld.engine.scene import TREATED
from agentgym.envs.alfworld.env import REJECTED, ALFWorldEnv, ALFWorldState
from agentgym.envs.alfworld.memory import RoomMemory, kind_of
from agentgym.envs.alfworld.source import load_scene

_STATES = {**TREATED, "issliced": "sliced", "istoggled": "switched on"}
"""Predicates of things, and how the drawing says them."""

_WORD = re.compile(r"[a-z]+")


class _Room:
    """The facts of a state by the names that sentences use, and a player's knowledge of them."""

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


_SEEN: WeakKeyDictionary[ALFWorldEnv, tuple[tuple[Step, ...], RoomMemory]] = WeakKeyDictionary()
"""Knowledge of each environment's player at the last drawing, and the steps that had led there."""


def _known(env: ALFWorldEnv, steps: Sequence[Step], answer: str) -> RoomMemory:
    before, memory = _SEEN.get(env, ((), RoomMemory()))
    if not before or len(steps) < len(before) or steps[len(before) - 1] is not before[-1]:
        before, memory = (), RoomMemory()
    answers = (*(step.observation for step in steps[len(before) + 1 :]), answer)
    for step, reply in zip(steps[len(before) :], answers, strict=False):
        memory.take(step, reply)
    _SEEN[env] = tuple(steps), memory
    return memory.look(env.admissible_actions())


def draw_room(env: ALFWorldEnv, steps: Sequence[Step]) -> Element:
    """Draw the room: receptacles as cards, open or closed, with what is in them."""
    room = _Room(env, steps)
    held: list[Child] = []
    for name in room.held:
        text, style = _label(room, name, seen=True)
        held.append(element("span", text, class_=style))
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
    things = tuple([_label(room, thing, seen=thing in room.known.at) for thing in room.contents[name]])
    wanted, looked = kind_of(name) in room.wanted, name in room.known.searched
    return _card(name, door, things, wanted=wanted, looked=looked, here=name == room.place)


@lru_cache(1 << 14)
def _card(
    name: str, door: str, things: tuple[tuple[str, str], ...], *, wanted: bool, looked: bool, here: bool
) -> Element:
    """Draw a receptacle; most are the same from step to step."""
    empty = element("span", "empty" if looked else "not looked into", class_="muted")
    classes = ["card", *(["here"] if here else []), *([] if looked else ["unseen"])]
    return element(
        "li",
        element("strong", name, class_="accent" if wanted else None),
        element("span", door, class_="tag") if door else None,
        element("span", "you are here", class_="tag here") if here else None,
        element("div", *([element("span", text, class_=style) for text, style in things] or [empty])),
        class_=" ".join(classes),
    )


def _label(room: _Room, name: str, *, seen: bool) -> tuple[str, str]:
    """Return a thing's name with what was done to it, and its classes."""
    words = room.treated.get(name)
    wanted = ["accent"] if kind_of(name) in room.wanted else []
    text = f"{name} ({', '.join(words)})" if words else name
    return text, " ".join(["chip", *wanted, *([] if seen else ["unseen"])])


def _in_order(name: str) -> tuple[str, int]:
    """Return the sort key that puts ``shelf 2`` before ``shelf 10``."""
    kind, _, number = name.rpartition(" ")
    return (kind, int(number)) if number.isdecimal() else (name, 0)


def side_texts(env: ALFWorldEnv) -> tuple[str, ...]:
    """Return what observations tell of the past: where the player has been, what it put down."""
    state: ALFWorldState = env.snapshot().state
    moved = f"Moved items: {', '.join(state.moved)}."
    return (REJECTED, f"Location: {state.place}.", *([moved] if state.moved else []))


DRAWING = SuiteDrawing(draw_room, side_texts)
