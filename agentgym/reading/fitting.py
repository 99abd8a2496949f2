"""Arguments of a call, fitted to the types of its tool by one rule, wherever the call comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agentgym.reading.syntaxes import RawCall, UnreadableError, decode
from agentgym.reading.text import unfenced

_WHOLE = re.compile(r"[+-]?[0-9]{1,300}")
_TRUTH = {"true": True, "false": False}


def arguments_of(call: RawCall) -> tuple[dict[str, Any], str]:
    """Return a call's arguments as an object, and a note where they were said in another form.

    Null, nothing, an empty text, ``"null"`` and an empty list are no arguments. Text is JSON, perhaps in a
    code fence, perhaps encoded twice.

    Raises:
        UnreadableError: they are anything else, or something follows them.

    Example:
        >>> arguments_of(RawCall("look", "null"))
        ({}, "the arguments of look were 'null'")
    """
    value, times, name = call.arguments, 0, f"{call.name[:64]!r}"[1:-1]
    while isinstance(value, str) and value.strip() and times < 2:
        body = unfenced(value)
        value, end = decode(body)
        if end != len(body):
            raise UnreadableError(f"a call of {name} with something after its arguments")
        times += 1
    if value in (None, [], "") or (isinstance(value, str) and not value.strip()):
        return {}, f"the arguments of {name} were {call.arguments!r:.40}"
    if not isinstance(value, dict):
        raise UnreadableError("a tool call whose arguments are no JSON object")
    return value, "" if times < 2 else f"the arguments of {name} were encoded twice"


def fitted(call: RawCall, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return arguments with the types that a tool declares, and a note for each that was said as another.

    A number or truth value stands for a text, and a text that spells a number or truth value for it, as
    servers coerce them; null stands for an argument that need not be given. What fits in no such way stays,
    for the tool to refuse.

    Args:
        call: the call in the reply.
        parameters: the JSON Schema of the tool's arguments.

    Raises:
        UnreadableError: the arguments are no object.

    Example:
        >>> schema = {"properties": {"text": {"type": "string"}}, "required": ["text"]}
        >>> fitted(RawCall("answer", '{"text": 1994}'), schema)
        ({'text': '1994'}, ('text of answer was 1994',))
    """
    given, note = arguments_of(call)
    notes = [note] if note else []
    known, required = parameters.get("properties") or {}, parameters.get("required") or ()
    made: dict[str, Any] = {}
    for name, value in given.items():
        if value is None and name in known and name not in required:
            continue
        kind = known[name].get("type") if isinstance(known.get(name), dict) else None
        made[name] = _coerced(value, kind, call.typed)
        if call.typed and type(made[name]) is not type(value):
            notes.append(f"{name:.64} of {call.name:.64} was {value!r:.40}")
    return made, tuple(notes)


def _coerced(value: Any, kind: Any, typed: bool) -> Any:
    if isinstance(value, bool | int | float) and kind == "string":
        return json.dumps(value)
    if isinstance(value, float) and kind == "integer" and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and kind == "number" and not typed:
        return float(value)
    if not isinstance(value, str) or kind == "string":
        return value
    text = value.strip()
    if kind in ("integer", "number") and _WHOLE.fullmatch(text):
        return int(text)
    if kind == "number":
        try:
            return float(text)
        except ValueError:
            return value
    if kind == "boolean":
        return _TRUTH.get(text.lower(), value)
    if kind in ("object", "array", "null") or (kind is None and not typed):
        try:
            found, end = decode(text)
        except UnreadableError:
            return value
        return found if end == len(text) else value
    return value
