"""SOTOPIA drawn for people: the conversation as speech bubbles, private goals behind a switch."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.core.markup import Element, element
from agentgym.core.suite_spec import SuiteDrawing
from agentgym.core.types import Step
from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.env import NOT_READ, SotopiaEnv
from agentgym.envs.sotopia.markup import strip_tags
from agentgym.envs.sotopia.ratings import DIMENSIONS, Ratings
from agentgym.envs.sotopia.scenarios import Scenario, Side
from agentgym.envs.sotopia.state import SotopiaState

_SIDES: tuple[Side, Side] = (0, 1)
_PLACES = ("left", "right")


def draw_talk(env: SotopiaEnv, steps: Sequence[Step]) -> Element:
    """Draw the situation, each side's goal, and the conversation."""
    state: SotopiaState = env.snapshot().state
    scenario: Scenario = env.task.content.scenario
    own: Side | None = env.task.content.side
    bubbles = [
        _bubble(scenario, side, turn.actions[side], number)
        for number, turn in enumerate(state.talk.turns, start=1)
        for side in turn.acting
    ]
    if state.talk.pending is not None:
        bubbles.append(_bubble(scenario, 0, state.talk.pending, len(state.talk.turns) + 1))
    return element(
        "div",
        element("p", strip_tags(scenario.text, None)),
        element("details", element("summary", "Private goals"), *_goals(scenario)),
        element("p", *_people(scenario, own), class_="muted"),
        element("ol", *bubbles, class_="bubbles") if bubbles else element("p", "Nobody has spoken yet."),
        _rated(scenario, state.ratings) if state.ratings is not None else None,
        class_="talk",
    )


def _goals(scenario: Scenario) -> list[Element]:
    return [
        element("p", element("strong", f"{scenario.characters[side].name} "), strip_tags(goal, None))
        for side, goal in zip(_SIDES, scenario.goals, strict=True)
    ]


def _people(scenario: Scenario, own: Side | None) -> list[str]:
    names = [person.name for person in scenario.characters]
    if own is None:
        return [f"The agent plays both {names[0]} (left) and {names[1]} (right)."]
    return [f"The agent plays {names[own]} ({_PLACES[own]}), a partner {names[1 - own]}."]


def _bubble(scenario: Scenario, side: Side, action: SocialAction, number: int) -> Element:
    spoken = action.type == "speak"
    return element(
        "li",
        element("span", f"{number} {scenario.characters[side].name}", class_="muted"),
        element("p", action.argument) if spoken else element("p", element("em", action.text)),
        class_=f"bubble {_PLACES[side]}",
    )


def _rated(scenario: Scenario, ratings: tuple[Ratings, Ratings]) -> Element:
    heads = [element("th", person.name) for person in scenario.characters]
    rows = [
        element(
            "tr",
            element("th", name.replace("_", " ")),
            *(element("td", str(getattr(side, name))) for side in ratings),
        )
        for name in DIMENSIONS
    ]
    head = element("thead", element("tr", element("th", "Rating"), *heads))
    return element("table", head, element("tbody", *rows))


def notices(env: SotopiaEnv) -> tuple[str, ...]:
    """Return the notice of an action that could not be read, with its advice."""
    return (NOT_READ, "Choose one of the actions listed.", "Write one action, such as speak[your words].")


DRAWING = SuiteDrawing(draw_talk, notices)
