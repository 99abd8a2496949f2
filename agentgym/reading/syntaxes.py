"""Contents of tool calls as model families write them, each read in one pass from a place in the text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agentgym.io.untrusted import whole_text

MAX_CALLS = 128
"""Calls of a reply at most."""

MAX_NESTING = 32
"""Levels of lists and objects in an argument at most."""


class UnreadableError(Exception):
    """A reply cannot be read; the message says why, on one line."""


class RawCall(NamedTuple):
    """A tool call as the reply has it."""

    name: str
    arguments: Any
    """JSON as text, a decoded value, or None where there are none; with ``typed`` false, texts by name."""
    id: str = ""
    typed: bool = True
    """Whether the arguments carry JSON types; in the XML of some families every value is text."""


class Between(str):
    """The one argument of a call that stands between tags, such as ``<answer>``: text, whatever it is."""

    __slots__ = ()


_INK = re.compile(r"\S")
_BETWEEN = re.compile(r"[\s;,]*")
_NAMES = ("name", "tool_name", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "input")


def skip_blanks(text: str, begin: int) -> int:
    """Return the place of the first character from ``begin`` on that is no blank."""
    ink = _INK.search(text, begin)
    return ink.start() if ink else len(text)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, none of whose keys is there twice: which value was meant, nobody knows."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise UnreadableError("a tool call that gives a key twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of JSON")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=once, parse_float=_finite, parse_constant=_finite)


def decode(text: str, begin: int = 0) -> tuple[Any, int]:
    """Return the JSON value at a place, and where what follows it and its blanks begins.

    Raises:
        UnreadableError: there is none, it nests too deeply, or it gives a key twice.
    """
    try:
        value, end = _DECODER.raw_decode(text, skip_blanks(text, begin))
    except (ValueError, RecursionError) as error:  # bad syntax, a number that is too long, or deep nesting
        raise UnreadableError("a tool call that is not JSON") from error
    return value, skip_blanks(text, end)


# ---- JSON --------------------------------------------------------------------------------------


def read_json(text: str, begin: int) -> tuple[list[RawCall], int]:
    """Read an object, a list of objects, or several of them one after the other; none is an error."""
    calls: list[RawCall] = []
    end = begin
    while True:
        value, end = decode(text, end)
        calls += [call_of_table(each) for each in (value if isinstance(value, list) else [value])]
        if len(calls) > MAX_CALLS:
            raise UnreadableError(f"more than {MAX_CALLS} tool calls")
        between = _BETWEEN.match(text, end)
        following = between.end() if between else end
        if not text.startswith("{", following):
            return calls, end
        end = following


def call_of_table(value: Any) -> RawCall:
    """Return the call that a JSON object is, by any of the names that families have for its parts."""
    table = value if isinstance(value, dict) else {}
    if isinstance(table.get("function"), dict):  # OpenAI's messages nest the call
        table = {"id": table.get("id")} | table["function"]
    name = next((table[key] for key in _NAMES if isinstance(table.get(key), str)), "")
    if not name and [type(each) for each in table.values()] == [dict] and not table.keys() & {*_ARGUMENTS}:
        ((name, arguments),) = table.items()  # {"tool": {arguments}}
        return RawCall(name, arguments)
    if not name:
        raise UnreadableError("a tool call without a name")
    arguments = next((table[key] for key in _ARGUMENTS if key in table), None)
    return RawCall(name.removeprefix("functions."), arguments, str(table.get("id") or ""))


# ---- one tool, named before its arguments ------------------------------------------------------


def read_arguments(text: str, begin: int) -> tuple[Any, int]:
    """Read the JSON object of the arguments; nothing at all where the call ends at once."""
    at = skip_blanks(text, begin)
    return (None, at) if at == len(text) or text[at] not in '{["' else decode(text, at)


def read_pairs(
    text: str, begin: int, key: re.Pattern[str], value: re.Pattern[str]
) -> tuple[dict[str, str], int]:
    """Read arguments that are texts between tags; ``key`` opens one and names it, ``value`` closes it."""
    found: dict[str, str] = {}
    opened = key.match(text, begin)
    end = begin
    while opened is not None:
        closed = value.search(text, opened.end())
        if closed is None:
            raise UnreadableError(f"an argument {opened['key']!r} that is not closed")
        if opened["key"] in found:
            raise UnreadableError("a tool call that gives a key twice")
        if key.search(text, opened.end(), closed.start()):
            raise UnreadableError(f"an argument {opened['key']!r} that is not closed")
        found[opened["key"]] = text[opened.end() : closed.start()]
        end = closed.end()
        opened = key.match(text, end)
    return found, end


def read_between(text: str, begin: int, closing: str) -> tuple[Between, int]:
    """Read all up to what closes the call.

    Raises:
        UnreadableError: nothing does.
    """
    end = text.find(closing, begin)
    if end < 0:
        raise UnreadableError(f"an {closing.replace('/', '')} that is not closed")
    return Between(text[begin:end]), end


# ---- Gemma -------------------------------------------------------------------------------------

_GEMMA_KEY = re.compile(r"\s*([\w.-]{1,64})\s*:\s*")
_PLAIN = re.compile(r"[^,\]}<]{1,64}")
_NEXT = re.compile(r"\s*([,\]}])")
_CONSTANTS: Mapping[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}


def read_gemma(text: str, begin: int, quote: str, depth: int = 0) -> tuple[Any, int]:
    """Read an object with bare keys, a list, a text between two ``quote``, a number or a constant."""
    if depth > MAX_NESTING:
        raise UnreadableError("a tool call that nests too deeply")
    at = skip_blanks(text, begin)
    if text.startswith(quote, at):
        closed = text.find(quote, at + len(quote))
        if closed < 0:
            raise UnreadableError("a text in a tool call that is not closed")
        return text[at + len(quote) : closed], closed + len(quote)
    if text.startswith(("{", "["), at):
        return _gemma_members(text, at, quote, depth)
    plain = _PLAIN.match(text, at)
    if plain is None:
        raise UnreadableError("a tool call without a value where one belongs")
    word = plain[0].strip()
    try:
        return _plain_value(word), plain.end()
    except UnreadableError:
        return word, plain.end()


def _plain_value(word: str) -> Any:
    """Return a number or constant."""
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    value, end = decode(word)
    if end != len(word):
        raise UnreadableError("a tool call without a value where one belongs")
    return value


def _gemma_members(text: str, at: int, quote: str, depth: int) -> tuple[Any, int]:
    """Read an object or a list, which begins at ``at``."""
    keyed = text[at] == "{"
    pairs: list[tuple[str, Any]] = []
    end = at + 1
    following = _NEXT.match(text, end)
    while following is None or following[1] == ",":
        name = ""
        if keyed:
            key = _GEMMA_KEY.match(text, end)
            if key is None:
                raise UnreadableError("a tool call without a name where one belongs")
            name, end = key[1], key.end()
        value, end = read_gemma(text, end, quote, depth + 1)
        pairs.append((name, value))
        following = _NEXT.match(text, end)
        if following is None:
            raise UnreadableError("a tool call that is not closed")
        end = following.end()
    if (following[1] == "}") != keyed:
        raise UnreadableError("a tool call that is not closed")
    return once(pairs) if keyed else [value for _, value in pairs], following.end()


# ---- Python ------------------------------------------------------------------------------------

_CALLED = re.compile(r"\s*([A-Za-z_][\w.-]{0,63})\(\s*")
_KEYWORD = re.compile(r"([A-Za-z_]\w{0,63})\s*=\s*")
_AFTER_TEXT = (
    r"{quote}(?=\s*(?:,\s*[A-Za-z_]\w{{0,63}}\s*=|\)\s*(?:,\s*[A-Za-z_][\w.-]{{0,63}}\(|[\]\n;<]|$)))"
)
_ENDS: Mapping[str, re.Pattern[str]] = {
    q: re.compile(r"(?<!\\)" + _AFTER_TEXT.format(quote=q)) for q in ("'", '"')
}
_WHOLE: Mapping[str, re.Pattern[str]] = {
    q: re.compile(rf"(?s:[^{q}\\]|\\.)*+{_AFTER_TEXT.format(quote=q)}") for q in _ENDS
}
_ESCAPE = re.compile(
    r"\\(\n|[abfnrtv\\'\"/]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})"
)
_ESCAPED: Mapping[str, str] = {**dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)), "\n": ""}
_LITERAL = re.compile(r"[^,()\[\]{}\s]{1,64}")


def read_python(text: str, begin: int) -> tuple[list[RawCall], int]:
    r"""Read calls such as ``[look(), go(to='x', n=3)]``, the brackets left out or not.

    A text that is no literal of Python's ends at the first quote that is not escaped and after which an
    argument, a call or the list's end follows: some templates write texts without escaping what they hold.
    """
    at = skip_blanks(text, begin)
    if text.startswith(("{", "[{"), at):  # some models fall back to JSON between the same marks
        return read_json(text, at)
    listed = text.startswith("[", at)
    end = at + listed
    calls: list[RawCall] = []
    while (called := _CALLED.match(text, end)) is not None:
        arguments, end = _keywords(text, called.end())
        calls.append(RawCall(called[1], arguments))
        if len(calls) > MAX_CALLS:
            raise UnreadableError(f"more than {MAX_CALLS} tool calls")
        end = skip_blanks(text, end)
        if text.startswith((",", ";"), end):
            end += 1
    if not calls or (listed and not text.startswith("]", end)):
        raise UnreadableError("a tool call that is no Python call with named arguments")
    return calls, skip_blanks(text, end + listed)


def _keywords(text: str, begin: int) -> tuple[dict[str, Any], int]:
    """Read named arguments and the closing bracket."""
    pairs: list[tuple[str, Any]] = []
    end = begin
    while not text.startswith(")", end):
        key = _KEYWORD.match(text, end)
        if key is None:
            raise UnreadableError("a tool call that is no Python call with named arguments")
        value, end = _python_value(text, key.end())
        pairs.append((key[1], value))
        end = skip_blanks(text, end)
        if text.startswith(",", end):
            end = skip_blanks(text, end + 1)
        elif not text.startswith(")", end):
            raise UnreadableError("a tool call that is not closed")
    return once(pairs), end + 1


def _python_value(text: str, at: int) -> tuple[Any, int]:
    quote = text[at : at + 1]
    if quote in _ENDS:
        closed = _WHOLE[quote].match(text, at + 1) or _ENDS[quote].search(text, at + 1)
        if closed is None:
            raise UnreadableError("a text in a tool call that is not closed")
        # two escaped halves of a surrogate pair are one character
        return whole_text(_ESCAPE.sub(_unescaped, text[at + 1 : closed.end() - 1])), closed.end()
    if quote in ("{", "["):
        return decode(text, at)
    literal = _LITERAL.match(text, at)
    if literal is None:
        raise UnreadableError("a tool call without a value where one belongs")
    return _plain_value(literal[0]), literal.end()


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if code[1:] else _ESCAPED.get(code, code)


LISTS: Mapping[str, Callable[[str, int], tuple[Sequence[RawCall], int]]] = {
    "json": read_json,
    "python": read_python,
}
"""Syntaxes that name the tools themselves."""
