"""Actions of a character, as action strings and as lines of the conversation.

An action is ``speak[...]``, ``non-verbal[...]``, ``action[...]``, ``leave`` or ``none``
(`agentgym.core.calls` says how any text is written between the brackets). SOTOPIA's own form, a JSON object
with ``action_type`` and ``argument``, is read as well, since published models answer in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

from agentgym.core.calls import Call, read_calls, write_calls
from agentgym.errors import UsageError
from agentgym.io.untrusted import loads_json

ActionType: TypeAlias = Literal["none", "speak", "non-verbal communication", "action", "leave"]

ACTION_TYPES: tuple[ActionType, ...] = get_args(ActionType)
"""Types of actions, in the order in which they are offered."""

CALLS: Mapping[str, ActionType] = {
    "speak": "speak",
    "non-verbal": "non-verbal communication",
    "action": "action",
}
"""The action types that take words, by the name that an action string calls them."""

_NAMES = {kind: name for name, kind in CALLS.items()}


class SocialAction(NamedTuple):
    """A character's action in a turn.

    Example:
        >>> SocialAction("speak", "Hello!").written
        'speak[Hello!]'
        >>> SocialAction("speak", "Hello!").text
        'said: "Hello!"'
    """

    type: ActionType
    argument: str = ""
    """The words, or what is done; empty for ``none`` and ``leave``."""

    @property
    def written(self) -> str:
        """The action string."""
        name = _NAMES.get(self.type)
        return self.type if name is None else write_calls([Call(name, self.argument)])

    @property
    def text(self) -> str:
        """The action's words in the conversation, after the character's name; as in SOTOPIA."""
        match self.type:
            case "none":
                return "did nothing"
            case "speak":
                return f'said: "{self.argument}"'
            case "leave":
                return "left the conversation"
            case _:
                return f"[{self.type}] {self.argument}"


NOTHING = SocialAction("none")


def read_action(text: str) -> SocialAction | None:
    """Return the action that a string is; None where it is none.

    Example:
        >>> read_action('{"action_type": "speak", "argument": "Hello!"}')
        SocialAction(type='speak', argument='Hello!')
        >>> read_action("shout[Hello!]") is None
        True
    """
    if text in ("none", "leave"):
        return SocialAction(cast(ActionType, text))
    if text.startswith("{"):
        return _read_json(text)
    calls = read_calls(text, CALLS)
    if calls is None or len(calls) != 1 or not calls[0].text.strip():
        return None
    return SocialAction(CALLS[calls[0].name], calls[0].text)


def _read_json(text: str) -> SocialAction | None:
    try:
        record = loads_json(text, "action", half_characters="kept")
    except UsageError:
        return None
    if not isinstance(record, dict) or record.keys() - {"action_type", "argument"}:
        return None
    kind, argument = record.get("action_type"), record.get("argument", "")
    if kind not in ACTION_TYPES or not isinstance(argument, str):
        return None
    if kind not in _NAMES:
        return SocialAction(kind)
    return SocialAction(kind, argument) if argument.strip() else None
