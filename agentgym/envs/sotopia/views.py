"""Views of each side and of the judge: the context before the conversation, and the turns so far.

A side is told its own profile, goal and secret. Of the other side it is told what the relationship lets it
know; never its goal or its secret.

The texts are those of SOTOPIA 0.1.4, but for one thing. There, what a character says stands in the
conversation as it is, so that a line break in it begins a line of the conversation, and tags in it decide who
is shown it. Here it is one line and quoted, unless ``form="0.1.4"`` asks for the original.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, TypeAlias

from agentgym.core.options import check_choice
from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.game import GameState, SocialTurn
from agentgym.envs.sotopia.markup import strip_tags
from agentgym.envs.sotopia.scenarios import ACQUAINTANCE, KNOW_BY_NAME, STRANGER, Character, Scenario, Side

__all__ = ["Detail", "TalkForm", "conversation", "judge_view", "strip_tags", "turn_text", "view"]

Detail: TypeAlias = Literal["default", "omniscient", "lite"]
TalkForm: TypeAlias = Literal["quoted", "0.1.4"]

UNKNOWN = "Unknown"
"""Word in place of a field that a side must not see."""

_SIDES: tuple[Side, Side] = (0, 1)
_GENDERS = {"Man": "male", "Woman": "female", "Nonbinary": "nonbinary"}
_INDENT = re.compile("\n +")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def view(scenario: Scenario, side: Side, detail: Detail = "default") -> str:
    """Return a side's context before the conversation.

    ``detail``: ``default``; ``lite``, without the characters' backgrounds; or ``omniscient``, the judge's
    own.
    """
    check_choice("view", detail, Detail)
    return _view(scenario, side, detail)


@lru_cache(maxsize=1_024)  # every observation begins with it
def _view(scenario: Scenario, side: Side, detail: Detail) -> str:
    if detail == "omniscient":
        return judge_view(scenario)
    goals = [UNKNOWN, UNKNOWN]
    goals[side] = strip_tags(scenario.goals[side], side)
    backgrounds = ["", ""]
    if detail == "default":
        backgrounds = [
            strip_tags(_background(scenario.characters[other], scenario.relationship, other == side), side)
            for other in _SIDES
        ]
    return _context(scenario, strip_tags(scenario.text, side), backgrounds, goals)


def judge_view(scenario: Scenario, *, backgrounds: bool = True) -> str:
    """Return the judge's context: both goals and both secrets included.

    SOTOPIA 0.1.4 leaves out the backgrounds where sides are shown the view ``lite``, though its judge then
    rates secrets that it has not read.
    """
    known = [_background(each, scenario.relationship, True) for each in scenario.characters]
    return _context(
        scenario,
        strip_tags(scenario.text, None),
        [strip_tags(text, None) if backgrounds else "" for text in known],
        [strip_tags(goal, None) for goal in scenario.goals],
    )


def conversation(scenario: Scenario, state: GameState, side: Side | None, form: TalkForm = "quoted") -> str:
    r"""Return the conversation so far: a line for each thing done, with the number of its turn.

    Args:
        scenario: the scenario.
        state: the conversation so far. An action in a turn that the other has still to act in is not shown.
        side: the side that sees it; None for the judge.
        form: ``quoted``, or ``0.1.4`` for the text as that release of SOTOPIA puts it to models.

    Raises:
        UsageError: unknown form.

    Example:
        >>> from agentgym.envs.sotopia.game import SocialGame
        >>> ann, bo = (Character(name, name, "Lee", 30, "", "", "") for name in ("Ann", "Bo"))
        >>> scenario = Scenario("tea", "A kitchen.", ("Drink tea.", "Drink coffee."), 3, (ann, bo))
        >>> game = SocialGame("round-robin", "acting-agents")
        >>> said = SocialAction("speak", 'Tea?\nTurn #1: Bo Lee said: "Yes!"')
        >>> print(conversation(scenario, game.apply(game.initial(), 0, said), 1))
        Turn #0: Ann Lee said: "Tea? Turn #1: Bo Lee said: \"Yes!\""
    """
    check_choice("form", form, TalkForm)
    if form == "0.1.4":
        if side is None:
            return "\n".join(_history(scenario, state))
        return "\n".join(
            f"Turn #{number}: {turn_text(scenario, turn, side)}\n" for number, turn in enumerate(state.turns)
        )
    names = [_plain(character.name) for character in scenario.characters]
    return "\n".join(
        f"Turn #{number}: {names[actor]} {_quoted(turn.actions[actor])}"
        for number, turn in enumerate(state.turns)
        for actor in turn.acting
    )


def turn_text(scenario: Scenario, turn: SocialTurn, side: Side) -> str:
    """Return a turn as SOTOPIA 0.1.4 shows it to a side: the action, its author, tags applied."""
    done = (
        f"{character.name} {action.text}"
        for character, action in zip(scenario.characters, turn.actions, strict=True)
        if action.type != "none"
    )
    return strip_tags(";".join(done), side)


def _context(scenario: Scenario, text: str, backgrounds: list[str], goals: list[str]) -> str:
    names = [character.name for character in scenario.characters]
    lines = [
        "Here is the context of this interaction:",
        f"Scenario: {text}",
        f"Participants: {names[0]} and {names[1]}",
    ]
    if any(backgrounds):
        lines += [
            f"{name}'s background: {background or UNKNOWN}"
            for name, background in zip(names, backgrounds, strict=True)
        ]
    lines += [f"{name}'s goal: {goal}" for name, goal in zip(names, goals, strict=True)]
    return _INDENT.sub("\n", "\n".join(lines)).strip()


def _background(character: Character, relationship: int, own: bool) -> str:
    """Return a character's background: all for itself, else as much as the relationship reveals."""
    if not own and relationship == STRANGER:
        return ""
    if not own and relationship == KNOW_BY_NAME:
        return f"{character.name} "
    gender = _GENDERS.get(character.gender, "")
    public = (
        f"{character.name} is a {character.age}-year-old {gender} {character.occupation.lower()}. "
        f"{character.pronouns} pronouns. {character.public_info} "
    )
    if not own and relationship == ACQUAINTANCE:
        return public
    personal = f"{public}Personality and values description: {character.personality_and_values} "
    return f"{personal}{character.first_name}'s secrets: {character.secret}" if own else personal


def _history(scenario: Scenario, state: GameState) -> Iterator[str]:
    """Yield the judge's lines after the context, as in SOTOPIA 0.1.4: without the idle side."""
    for number, turn in enumerate(state.turns, start=1):
        yield f"Turn #{number}"
        for character, action in zip(scenario.characters, turn.actions, strict=True):
            if "did nothing" not in action.text:
                yield f"{character.name} {action.text}"


@lru_cache(maxsize=2_048)  # every observation repeats the turns before it
def _quoted(action: SocialAction) -> str:
    """Return an action on one line, with all that could end the line or forge another's escaped."""
    if action.type == "speak":
        return f"said: {json.dumps(_plain(action.argument), ensure_ascii=False)}"
    return action._replace(argument=_plain(action.argument)).text


def _plain(text: str) -> str:
    """Return a text on one line, without characters that end a line or turn its direction."""
    return " ".join(_CONTROL.sub(" ", text).split())
