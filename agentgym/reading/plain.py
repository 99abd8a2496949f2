"""Replies that are no tool calls: the JSON object that ends a reply."""

from __future__ import annotations

import json

from agentgym.reading.text import read_text, unfenced

_DECODER = json.JSONDecoder()
_FENCE = "`~ \t\r\n"

_MAX_BRACES = 64
"""Braces in a preface at most, each of which is tried as the object's."""


def last_object(text: str) -> str:
    r"""Return the JSON object that ends a reply; all that it says where none does, or where there are two.

    A thought, a preface and a code fence may stand around it. The object is text, for the caller to parse.
    Empty where a thought or a call is not closed: what half a thought holds was not said.

    Example:
        >>> last_object('<think>Hm.</think>Here it is:\n```json\n{"a": 1}\n```')
        '{"a": 1}'
        >>> last_object('{"a": 1} or {"a": 2}')
        '{"a": 1} or {"a": 2}'
    """
    reply = unfenced(text)
    if not (reply.startswith("{") and reply.endswith("}")):
        reading = read_text(text)
        reply = "" if reading.problem else reading.text.rstrip(_FENCE)
    place = reply.find("{")
    for _ in range(_MAX_BRACES):
        try:
            _, end = _DECODER.raw_decode(reply, place)
        except json.JSONDecodeError as error:
            place = reply.find("{", max(error.pos, place + 1))
            if place < 0:
                return reply
        except (ValueError, RecursionError):  # no brace; a number's length; nesting
            return reply
        else:
            return reply[place:] if end == len(reply) else reply
    return reply
