"""The sections of a prompt, and which slots each may and must have."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import NamedTuple

from agentgym.errors import UsageError, nearest


class Section(NamedTuple):
    """Rules of a section's text."""

    needs: frozenset[str]
    """Slots that have to be there: without them the prompt would leave out what they stand for."""
    takes: frozenset[str] = frozenset()
    """Slots that may be there."""
    optional: bool = False
    """Whether a wording may do without it."""


def _section(needs: str = "", takes: str = "", *, optional: bool = False) -> Section:
    return Section(frozenset(needs.split()), frozenset(takes.split()), optional)


SECTIONS: Mapping[str, Section] = {
    "role": _section(optional=True),
    "task": _section("task"),
    "omitted": _section("dropped"),
    "history": _section(takes="shown turn", optional=True),
    "exchange": _section("observation action", "number"),
    "observation": _section("observation", "turn"),
    "cut": _section("cut"),
    "location": _section("location", optional=True),
    "held": _section("held", optional=True),
    "moved": _section("moved", optional=True),
    "actions": _section(takes="actions"),
    "stuck": _section(),
}
"""Sections by name, in the order in which they stand in a prompt.

``role`` is followed by the answer's format; what never changes comes first, then what stays the same
throughout an episode. ``omitted`` and ``cut`` are there when a budget was too small, ``exchange`` once
per past turn, ``stuck`` instead of ``actions`` when there are none; ``task``, ``location``, ``held`` and
``moved`` are left out when their slot is empty. Without the slot of ``actions`` a wording tells no
possible action: it is for constrained choice alone.
"""

ANSWER = _section(takes="example")
"""The text of an answer's format."""

TOOLS = _section(takes="tools")
"""The text of an answer that lists the environment's tools."""


def check_text(text: str, section: Section, where: str) -> None:
    """Check the slots of a section's text.

    Args:
        text: a text with slots as ``{name}``; other braces are doubled.
        section: rules of the text.
        where: names the text in messages.

    Raises:
        UsageError: a lone brace, an unknown slot, one with a format or conversion, or one missing.
    """
    known = section.needs | section.takes
    found = set()
    try:
        pieces = list(Formatter().parse(text))
    except ValueError as error:
        raise UsageError(f"{where}: {error}: write {{{{ and }}}} for braces that are no slot") from error
    for _, slot, spec, conversion in pieces:
        if slot is None:
            continue
        if slot not in known:
            has = ", ".join(sorted(known)) or "none"
            raise UsageError(f"{where} has no slot {slot!r}{nearest(slot, known)}; its slots: {has}")
        if spec or conversion:
            raise UsageError(f"{where}: write the slot {slot!r} as {{{slot}}}, without a format")
        found.add(slot)
    for slot in sorted(section.needs - found):
        raise UsageError(f"{where} lacks the slot {{{slot}}}: add it")
