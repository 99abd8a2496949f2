"""Words of a text by Unicode's rules (UAX #29), as Lucene's StandardTokenizer finds them.

A word is a run of letters, digits and underscores, with a single point, colon or apostrophe between two
letters or a single point, comma, semicolon or apostrophe between two digits. An ideograph is a word, a run
of katakana or of a script written without spaces is one, and so is an emoji. Marks belong to the character
before them. The classes of characters are Lucene's own (``word_breaks.json``), whatever version of Unicode
this Python has.
"""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

CLASSES: Final[Mapping[str, str]] = json.loads(
    files("agentgym.retrieval").joinpath("word_breaks.json").read_text(encoding="utf-8")
)
"""Ranges of characters in hexadecimal, by class of Unicode 12.1's rules; a surrogate is in none."""

MAX_WORD_LENGTH: Final = 255
"""UTF-16 units that are read at a time: a word is cut there, and what decides where it ends lies within."""

_ASCII = re.compile(r"[a-z0-9_]+(?:(?:(?<=[a-z])[.:'](?=[a-z])|(?<=[0-9])[.,;'](?=[0-9]))[a-z0-9_]+)*")

_BEYOND = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
"""Characters that the pattern of `_unicode` does not hold: long lists of such ranges make a pattern slow."""

_SURROGATES = {"Modifier": "\ud800", "Regional_Indicator": "\ud801", "Tag": "\ud802", "Tag_End": "\ud803"}
"""Surrogates that stand for classes without a shorter character; in a text, a surrogate is a blank."""


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case, in order.

    Example:
        >>> words("Men's 2.5-inch T-Shirt, 100% cotton_blend")
        ["men's", '2.5', 'inch', 't', 'shirt', '100', 'cotton_blend']
    """
    if text.isascii():
        plain = text = text.lower()
        found = _ASCII.findall(text)
        if "_" in text:
            found = [word for word in found if word.strip("_")]
        return _within(text, plain) if _is_long(found) else found
    plain = _BEYOND.sub(lambda match: _stand_for(match[0]), text)
    if plain is text:
        found = _unicode().findall(text)
    else:
        found = [text[slice(*match.span(1))] for match in _unicode().finditer(plain)]
    if "" in found:
        found = [word for word in found if word]
    if _is_long(found):
        found = _within(text, plain)
    # one character at a time, as Java: no sigma is final, and the dotted capital I is one letter
    lowered = "\n".join(found).replace("\u0130", "i").replace("\u03a3", "\u03c3").lower()
    return lowered.split("\n") if found else []


def _is_long(found: list[str]) -> bool:
    """Return whether a word may be longer than Lucene's are."""
    return max(map(len, found), default=0) > MAX_WORD_LENGTH // 2


def _within(text: str, plain: str) -> list[str]:
    """Return the words of a text some of which are too long.

    ``plain``: the same text, with substitutes for characters that the pattern does not hold.
    """
    pattern, found, at = _unicode(), [], 0
    while match := pattern.search(plain, at):
        at, end = match.span()
        if match[1] is None or _units(text[at:end]) <= MAX_WORD_LENGTH:
            found += [text[at:end]] if match[1] else []
            at = end
        while at < end:
            seen = text[at : at + MAX_WORD_LENGTH].encode("utf-16-le", "surrogatepass")[: 2 * MAX_WORD_LENGTH]
            width = len(seen.decode("utf-16-le", "ignore"))
            part = pattern.match(plain[at : at + width])
            length = part.end() if part and part[1] else 0
            found += [text[at : at + length]] if length else []
            at += length or 1
    return found


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _ranges(name: str) -> Iterator[tuple[int, int]]:
    """Yield the first and the last code of each range of a class."""
    for text in CLASSES[name].split():
        first, _, last = text.partition("-")
        yield int(first, 16), int(last or first, 16)


@cache
def _beyond() -> list[tuple[int, int, str]]:
    """Return the ranges above U+FFFF, ascending, each with what stands for it."""
    found = []
    for name in CLASSES:
        stand_in = _SURROGATES.get(name) or chr(next(_ranges(name))[0])
        found += [(first, last, stand_in) for first, last in _ranges(name) if last > 0xFFFF]
    return sorted(found)


@lru_cache(1 << 12)
def _stand_for(character: str) -> str:
    """Return a character of the same class that the pattern holds."""
    code = ord(character)
    place = bisect(_beyond(), (code, 0x110000)) - 1
    if place >= 0:
        _, last, stand_in = _beyond()[place]
        if code <= last:
            return stand_in
    return " "


def _set(name: str) -> str:
    """Return a class as a set of a pattern, without brackets and without characters above U+FFFF."""
    if name in _SURROGATES:
        return _SURROGATES[name]
    return "".join(f"\\u{first:04x}-\\u{last:04x}" for first, last in _ranges(name) if last <= 0xFFFF)


@cache
def _unicode() -> re.Pattern[str]:
    """Return the pattern of words in any script, as its first group; empty for skipped characters."""
    letter, hebrew, digit, kana, line = map(
        _set, ("ALetter", "Hebrew_Letter", "Numeric", "Katakana", "ExtendNumLet")
    )
    both = _set("Letter_Pictograph")
    letter += both
    dot, quote = _set("MidNumLet"), _set("Single_Quote")
    colon, comma = _set("MidLetter") + dot, _set("MidNum") + dot + quote
    spaceless = _set("Complex_Context") + _set("Complex_Extend")
    joiner, shown = _set("ZWJ"), _set("Emoji_Selector")
    held = "".join(map(_set, ("Extend", "ZWJ", "Modifier", "Complex_Extend", "Keycap", "Tag", "Tag_End")))
    mark = held + _set("Text_Selector") + shown

    letters = rf"[{letter}][{letter}{mark}]*"
    any_letters = rf"(?:{letters}|[{hebrew}][{mark}]*)"
    joined = rf"[{colon}{quote}][{mark}]*{any_letters}"
    quoted = rf"[{quote}][{mark}]*|[{_set('Double_Quote')}][{mark}]*[{hebrew}][{mark}]*"
    between = rf"(?:[{colon}][{mark}]*{any_letters})(?:{joined})*"
    digits = rf"[{digit}][{digit}{mark}]*(?:[{comma}][{mark}]*[{digit}][{digit}{mark}]*)*"
    run = (
        rf"(?:(?:{letters}(?:{joined})*|{digits}|[{hebrew}][{mark}]*(?:{quoted}|{between})?)+"
        rf"|[{kana}][{kana}{mark}]*)"
    )
    lines = rf"[{line}][{line}{mark}]*"
    word = rf"(?:{lines})?{run}(?:{lines}{run}?)*"

    picture = _set("Pictograph")
    modifier, tag, tag_end = _set("Modifier"), _set("Tag"), _set("Tag_End")

    def next_(pictures: str) -> str:
        """A further picture, after a joiner."""
        return rf"(?:(?:(?<=[{joiner}])|(?<=[{shown}])[{joiner}]+)[{pictures}][{held}]*[{shown}]?)"

    toned = rf"(?:(?<=[{shown}])[{joiner}][{modifier}][{held}]*)"
    first = (
        rf"(?:[{joiner}]*[{picture}{both}][{held}]*(?:[{shown}](?:[{tag}]+[{tag_end}])?)?"
        rf"|[{modifier}][{held}]*)"
    )
    pictures = rf"{first}(?:{next_(picture + both)}|{toned})*"
    both_first = (
        rf"[{both}][{held}]*[{shown}]?(?:{next_(both)}|{toned})*{next_(picture)}"
        rf"(?:{next_(picture + both)}|{toned})*"
    )
    keycap = _set("Keycap")
    key = rf"[{_set('Keycap_Base')}](?:[{held}]*[{shown}][{keycap}][{held}]*|[{held}]*[{keycap}][{held}]*)"
    flag = rf"(?:[{_set('Regional_Indicator')}][{mark}]*){{2}}"
    # stepped over at once: that each character looks ahead anew would take the square of their number
    apart = (
        rf"[{line}]++(?=[{line}{mark}]{{0,{MAX_WORD_LENGTH}}}+(?![{letter}{hebrew}{digit}{kana}]))"
        rf"|[{joiner}]++(?![{picture}{both}])"
    )
    return re.compile(
        rf"{apart}|({both_first}|{word}|[{_set('Single')}][{mark}]*|[{spaceless}][{spaceless}{mark}]*"
        rf"|{pictures}|{key}|{flag})"
    )
