"""Actions that a person types: what a line means where some actions are admissible."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from agentgym.core.suite_spec import ScreenHints
from agentgym.core.types import Policy
from agentgym.env import MAX_ACTION_LENGTH
from agentgym.errors import UsageError, nearest
from agentgym.vector.core import AgentVectorEnv

DIRECTIONS = {"w": "up", "a": "left", "s": "down", "d": "right"}
"""Letters that do what the arrow keys do."""

_SLOT = re.compile(r"<[^<>]*>")

_NAMED = 6
"""Actions that a refusal names; of more, it says how many they are."""


def make_human(envs: AgentVectorEnv) -> Policy:
    """Raise a UsageError: a person plays by a command, which shows an episode and takes actions back."""
    raise UsageError("a person plays by `agentgym play ENV`, or on the site of `agentgym serve webshop`")


def has_numbers(actions: Sequence[str]) -> bool:
    """Return whether actions can be chosen by number: not where an action is itself a number."""
    return not any(action.isdigit() for action in actions)


def keys_for(hints: ScreenHints, actions: Sequence[str]) -> dict[str, str]:
    """Return the action of each key that acts at once; none where actions are no directions.

    Example:
        >>> keys_for(ScreenHints(), ("up", "down"))["w"]
        'up'
        >>> keys_for(ScreenHints(), ("up", "look"))
        {}
    """
    choices = hints.keys
    if not choices and actions and set(actions) <= set(DIRECTIONS.values()):
        choices = {name: (name,) for name in DIRECTIONS.values()}
    keys = {
        key: next((action for action in meanings if action in actions), meanings[0])
        for key, meanings in choices.items()
    }
    return keys | {letter: keys[key] for letter, key in DIRECTIONS.items() if key in keys}


def choose(
    line: str,
    actions: Sequence[str],
    *,
    keys: Mapping[str, str] | None = None,
    accepts: Callable[[str], bool] | None = None,
) -> str:
    """Return the admissible action that a typed line means.

    In this order: an admissible action, its number from 1, a key, the beginning of exactly one admissible
    action. Nothing else is ever played.

    ``actions``: admissible ones, or templates with slots in angle brackets; ``keys``: see `keys_for`, None
    for those of the actions themselves; ``accepts``: `AgentEnv.is_admissible` of the state, None to go by
    ``actions``.

    Example:
        >>> moves = ("up", "down", "left", "right")
        >>> [choose(line, moves) for line in ("up", "2", "d", "le")]
        ['up', 'down', 'right', 'left']
        >>> choose("rigth", moves)
        Traceback (most recent call last):
        agentgym.errors.UsageError: no action 'rigth' here (did you mean 'right'?)
    """
    if len(line) > MAX_ACTION_LENGTH:
        raise UsageError(f"an action has at most {MAX_ACTION_LENGTH:,} characters, this has {len(line):,}")
    line = line.strip()
    whole = [action for action in actions if not _SLOT.search(action)]
    if line in whole or (line and (accepts or _filled(actions))(line)):
        return line
    if has_numbers(actions) and line.isdecimal():
        return _numbered(line, actions)
    if keys is None:
        keys = keys_for(ScreenHints(), actions)
    if keys.get(line) in whole:
        return keys[line]
    begun = [action for action in actions if line and action.lower().startswith(line.lower())]
    same = [action for action in begun if len(action) == len(line)]
    if len(same or begun) == 1 and (same or begun)[0] in whole:
        return (same or begun)[0]
    raise UsageError(_refusal(keys.get(line, line), actions, begun))


def _filled(templates: Sequence[str]) -> Callable[[str], bool]:
    """Return the predicate of lines that fill in one of the templates."""
    patterns = [".+".join(map(re.escape, _SLOT.split(t))) for t in templates if _SLOT.search(t)]
    return lambda line: any(re.fullmatch(pattern, line) for pattern in patterns)


def _numbered(line: str, actions: Sequence[str]) -> str:
    if not 1 <= int(line) <= len(actions):
        raise UsageError(f"no action {line}: they are numbered from 1 to {len(actions)}")
    action = actions[int(line) - 1]
    if _SLOT.search(action):
        raise UsageError(f"write your own text where it says {_SLOT.findall(action)[0]}: {action}")
    return action


def _refusal(line: str, actions: Sequence[str], begun: Sequence[str]) -> str:
    """Return why a line is not played, and what it could mean."""
    if len(begun) == 1:
        return f"write your own text where it says {_SLOT.findall(begun[0])[0]}: {begun[0]}"
    meant = begun or [action for action in actions if line and line.lower() in action.lower()]
    if meant:
        more = f" and {len(meant) - _NAMED} more" if len(meant) > _NAMED else ""
        return f"{line!r} could mean: {', '.join(meant[:_NAMED])}{more}; type more of it"
    listed = f": choose one of {', '.join(actions)}" if 0 < len(actions) <= _NAMED else ""
    return f"no action {line!r} here{nearest(line, actions) or listed}"
