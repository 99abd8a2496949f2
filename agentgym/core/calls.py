r"""Calls: an action that searches, expands or answers, written ``name[text]``, several to an action.

Actions are strings, so calls that are made at once stand on lines of their own. A line break within a text is
written ``\n`` and a backslash ``\\``: any text comes through. A closing bracket needs no care, since a
call ends with its line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

_ESCAPED = re.compile(r"\\(.)")
_CALL = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)\[(.*)\]")
_MEANING = {"n": "\n", "r": "\r", "\\": "\\"}


class Call(NamedTuple):
    """A call of an action that takes a text."""

    name: str
    text: str


def write_calls(calls: Iterable[Call]) -> str:
    r"""Return the action that makes calls, in order.

    Example:
        >>> write_calls([Call("search", "a [red] shoe"), Call("search", "two\nlines")])
        'search[a [red] shoe]\nsearch[two\\nlines]'
    """
    return "\n".join(f"{name}[{_escaped(text)}]" for name, text in calls)


def read_calls(action: str, names: Collection[str]) -> tuple[Call, ...] | None:
    r"""Return the calls of an action, in order; None where it is anything else.

    One call a line; blanks around a line do not count. ``names``: the tools.

    Example:
        >>> read_calls("search[red shoes]\nsearch[two\\nlines]", ["search"])
        (Call(name='search', text='red shoes'), Call(name='search', text='two\nlines'))
        >>> read_calls("buy[red shoes]", ["search"]) is None
        True
    """
    calls = []
    for line in action.strip().split("\n"):
        found = _CALL.fullmatch(line.strip())
        if found is None or found[1] not in names:
            return None
        calls.append(Call(found[1], _ESCAPED.sub(_meant, found[2])))
    return tuple(calls)


def begins_call(action: str, names: Collection[str]) -> bool:
    """Return whether a line begins as a call does: one that is broken, or in the wrong company."""
    return any(line.lstrip().startswith(tuple(f"{name}[" for name in names)) for line in action.split("\n"))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _meant(escape: re.Match[str]) -> str:
    return _MEANING.get(escape[1], escape[0])  # an unknown escape stays as typed
