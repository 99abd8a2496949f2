"""Observations of a character: the same text for learners and for models that are partners."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from agentgym.envs.sotopia.actions import CALLS, ActionType, SocialAction, read_action
from agentgym.envs.sotopia.game import GameState
from agentgym.envs.sotopia.scenarios import Scenario, Side
from agentgym.envs.sotopia.views import Detail, conversation, strip_tags, view

SLOTS: Final = {"speak": "words", "non-verbal": "gesture", "action": "deed"}
"""Words in angle brackets of a template, by the name that action strings have."""

_NAMES = {type: name for name, type in CALLS.items()}

_SHORT = 1_024
"""Characters of a text whose action is kept: the same one is read several times in a step."""


@lru_cache
def templates(types: tuple[ActionType, ...]) -> tuple[str, ...]:
    """Return the actions of some types, with slots.

    Example:
        >>> templates(("none", "speak", "leave"))
        ('none', 'speak[<words>]', 'leave')
    """
    return tuple(_template(type) for type in types)


def _template(type: ActionType) -> str:
    name = _NAMES.get(type)
    return type if name is None else f"{name}[<{SLOTS[name]}>]"


def page(scenario: Scenario, side: Side, state: GameState, detail: Detail) -> str:
    """Return all that a character knows: its context and the conversation so far."""
    talk = conversation(scenario, state, side) or "(nothing yet)"
    return f"{view(scenario, side, detail)}\n\nConversation so far:\n{talk}"


@lru_cache(maxsize=1_024)
def goal(scenario: Scenario, side: Side) -> str:
    """Return a side's own goal, on one line."""
    return " ".join(strip_tags(scenario.goals[side], side).split())


def read_move(text: str) -> SocialAction | None:
    """Return the action that a string is, its words with single blanks; None where it is none.

    What cannot be written down, such as half a surrogate pair, is none.

    Example:
        >>> read_move("speak[ Good   morning! ]")
        SocialAction(type='speak', argument='Good morning!')
    """
    return _read_again(text) if len(text) <= _SHORT else _read(text)


def _read(text: str) -> SocialAction | None:
    action = read_action(text.strip())
    if action is None or not action.argument:
        return action
    if not action.argument.isascii() and any("\ud800" <= letter <= "\udfff" for letter in action.argument):
        return None
    return action._replace(argument=" ".join(action.argument.split()))


_read_again = lru_cache(maxsize=1_024)(_read)
