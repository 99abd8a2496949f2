"""Rendering: pages from templates, and data from values, with whatever strangers wrote shown as text."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from agentgym.core.hashing import sha256_json
from agentgym.evaluation.log.redaction import Redactor
from agentgym.io.optional import load

if TYPE_CHECKING:
    from jinja2 import Environment

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'"
)
"""Content security policy of every page: its own files, no inline script or style, no connections."""

MAX_CELL_LENGTH = 400
"""Most characters of a text in a table; a longer one is cut, with an ellipsis."""

_UNSEEN = re.compile(r"[^\S\n\t ]|[\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def shown(value: object) -> object:
    r"""Return a text without secrets, with invisible and direction-changing characters as escapes.

    Line breaks and tabs stay. What is no text, or markup already, is left as it is.

    Example:
        >>> print(shown("a\x1b[31mb"))
        a\x1b[31mb
    """
    if type(value) is not str:
        return value
    text = _redactor().redact(value)
    if text.isprintable() and text.isascii():
        return text
    return "".join(c if _visible(c) else repr(c)[1:-1] for c in text)


def without_secrets(value: Any) -> Any:
    """Return plain data without the secrets in its texts."""
    if isinstance(value, str):
        return _redactor().redact(value)
    if isinstance(value, dict):
        return {without_secrets(key): without_secrets(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(inner) for inner in value]
    return value


@cache
def _redactor() -> Redactor:
    return Redactor()


def _visible(character: str) -> bool:
    if character in "\n\t":
        return True
    return character.isprintable() and not _UNSEEN.match(character)


def cut(text: str, most: int = MAX_CELL_LENGTH) -> str:
    """Return the beginning of a long text, and how much of it is left out."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def render(template: str, here: str, **values: Any) -> str:
    """Return a page of ``templates`` in the section ``here``; texts among the values are escaped."""
    return _templates().get_template(template).render(here=here, policy=POLICY, **values)


def data_script(key: str, value: Any) -> str:
    r"""Return a script that hands a value to the page: pages opened from a disk cannot fetch data.

    ``key``: the page's name for it; ``value``: plain data.

    Example:
        >>> print(data_script("board/1", "</script>"), end="")
        agentgym.data("board/1", "\u003c/script>");
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return f"agentgym.data({json.dumps(key)}, {text.replace('<', chr(92) + 'u003c')});\n"


def slug(*names: str) -> str:
    """Return a file name: the usable characters of some names, and digits that make it unique.

    Example:
        >>> slug("GiGPO", "agentgym/Sokoban-v0")
        'gigpo-agentgym-sokoban-v0-1bd12a'
    """
    kept = re.sub(r"[^a-z0-9]+", "-", "-".join(names).lower()).strip("-")[:60]
    return f"{kept}-{sha256_json(list(names))[:6]}".strip("-")


@cache
def _templates() -> Environment:
    jinja2 = load("jinja2", "site", "`agentgym site`", "Jinja2")
    made: Environment = jinja2.Environment(
        loader=jinja2.PackageLoader("agentgym.site"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["cut"] = cut
    return made
