"""Tags of SOTOPIA's texts: the viewers of each part.

``<extra_info>``, ``<clarification_hint>`` and ``<strategy_hint>`` mark parts of a text, ``<p>`` any part; an
attribute ``viewer="agent_0"`` or ``viewer="agent_1"`` shows a part to side 0 or 1 only,
``viewer="environment"`` to nobody but the judge. What stands in any other tag is for the judge only, too.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping

from agentgym.envs.sotopia.scenarios import Side

SHOWN = frozenset(("root", "p", "extra_info", "clarification_hint", "strategy_hint"))
"""Tags whose content sides are shown."""

_PIECE = re.compile(r"<(/?)([A-Za-z_][\w.-]*)((?:\s+[\w.:-]+\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'))*)\s*(/?)>")
_ATTRIBUTE = re.compile(r"([\w.:-]+)\s*=\s*(?:\"([^\"<]*)\"|'([^'<]*)')")


def strip_tags(text: str, viewer: Side | None) -> str:
    """Return a text without its tags, and without what the viewer is not shown.

    Where an ampersand begins no entity, all of them are text. What is no XML even so, such as a bare ``<``,
    is read all the same: what is no tag is text, and a tag that is never closed reaches to the end.

    The viewer None is the judge, who is shown everything.

    Example:
        >>> strip_tags('Sell it (<extra_info>for <p viewer="agent_0">at least 40</p>!</extra_info>)', 1)
        'Sell it (for !)'
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # XML knows one line break
    if "<" not in text and "&" not in text:
        return text
    for attempt in (text, text.replace("&", "&amp;")):
        parser = ET.XMLParser(target=_Shown(viewer))
        try:
            parser.feed("<root>")
            parser.feed(attempt)
            parser.feed("</root>")
            return str(parser.close())
        except (ET.ParseError, UnicodeEncodeError):  # half of a surrogate pair cannot be encoded
            continue
    return _strip_loosely(text, viewer)


class _Shown:
    """Collects what a viewer is shown, tag by tag."""

    def __init__(self, viewer: Side | None):
        self._viewer = viewer
        self._depth = 0
        self._hidden = 0
        """How many open tags hide what is in them: all within the first that does."""
        self._parts: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._hidden or not self._shows(tag, attributes):
            self._hidden += 1

    def end(self, tag: str) -> None:
        if self._hidden:
            self._hidden -= 1

    def data(self, text: str) -> None:
        if not self._hidden:
            self._parts.append(text)

    def close(self) -> str:
        return "".join(self._parts)

    def _shows(self, tag: str, attributes: Mapping[str, str]) -> bool:
        if self._viewer is None:
            return True
        return tag in SHOWN and attributes.get("viewer", f"agent_{self._viewer}") == f"agent_{self._viewer}"


def _strip_loosely(text: str, viewer: Side | None) -> str:
    shown = _Shown(viewer)
    open_tags: list[str] = []
    at = 0
    for piece in _PIECE.finditer(text):
        shown.data(text[at : piece.start()])
        at = piece.end()
        closing, tag, attributes, empty = piece.groups()
        if not closing:
            shown.start(tag, {key: first or second for key, first, second in _ATTRIBUTE.findall(attributes)})
            open_tags.append(tag)
        if tag in open_tags and (closing or empty):
            while open_tags.pop() != tag:
                shown.end(tag)
            shown.end(tag)
    shown.data(text[at:])
    return shown.close()
