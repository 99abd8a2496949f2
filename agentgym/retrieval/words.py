"""Words of a text by Unicode's rules (UAX #29), as Lucene's StandardTokenizer finds them.

A word is a run of letters, digits and underscores, with a single point, colon or apostrophe between two
letters or a single point, comma, semicolon or apostrophe between two digits. An ideograph is a word, a run
of katakana or of a script written without spaces is one, and so is an emoji.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

LONGEST = 255
"""Characters of a word; a longer one is cut into several."""

_MID = ".'\u2018\u2019\u2024\ufe52\uff07\uff0e"
_MID_LETTER = _MID + ":\u00b7\u0387\u05f4\u2027\ufe13\ufe55\uff1a"
_MID_DIGIT = _MID + ",;\u037e\u0589\u060c\u060d\u066c\u07f8\u2044\ufe10\ufe14\ufe50\ufe54\uff0c\uff1b"

_SINGLE = (
    "\u2e80-\u2e99\u2e9b-\u2ef3\u2f00-\u2fd5\u3005\u3007\u3021-\u3029\u3038-\u303b\u3041-\u3096\u309d-\u309f"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufa6d\ufa70-\ufad9\U0001b001-\U0001b11e\U0001f200\U00020000-\U0002fa1d"
)
"""Ideographs and hiragana."""

_KATAKANA = (
    "\u3031-\u3035\u309b\u309c\u30a0-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u32d0-\u32fe\u3300-\u3357\uff66-\uff9d"
)

_SPACELESS = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u109a-\u109f"
    "\u1780-\u17d3\u17d7\u17dc\u17dd\u1950-\u19df\u1a20-\u1aad\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaac2\uaadb-\uaadf"
)
"""Thai, Lao, Burmese, Khmer, Tai: where a word ends is in a dictionary, which is not used."""

_PICTURES = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u2388\u23cf\u23e9-\u23f3"
    "\u23f8-\u23fa\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2605\u2607-\u2612\u2614-\u2685\u2690-\u2705"
    "\u2708-\u2712\u2714\u2716\u271d\u2721\u2728\u2733\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763-\u2767"
    "\u2795-\u2797\u27a1\u27b0\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001f0ff\U0001f10d-\U0001f10f\U0001f12f\U0001f16c-\U0001f171\U0001f17e\U0001f17f\U0001f18e"
    "\U0001f191-\U0001f19a\U0001f1ad-\U0001f1e5\U0001f201-\U0001f20f\U0001f21a\U0001f22f\U0001f232-\U0001f23a"
    "\U0001f23c-\U0001f23f\U0001f249-\U0001f53d\U0001f546-\U0001f64f\U0001f680-\U0001f6ff"
    "\U0001f774-\U0001f77f\U0001f7d5-\U0001f7ff\U0001f80c-\U0001f80f\U0001f848-\U0001f84f\U0001f85a-\U0001f85f"
    "\U0001f888-\U0001f88f\U0001f8ae-\U0001f8ff\U0001f90c-\U0001f93a\U0001f93c-\U0001f945\U0001f947-\U0001fffd"
)
"""Emoji, and characters that may be shown as one."""

_ASCII = re.compile(r"[a-z0-9_]+(?:(?:(?<=[a-z])[.:'](?=[a-z])|(?<=[0-9])[.,;'](?=[0-9]))[a-z0-9_]+)*")


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case, in order.

    Example:
        >>> words("Men's 2.5-inch T-Shirt, 100% cotton_blend")
        ["men's", '2.5', 'inch', 't', 'shirt', '100', 'cotton_blend']
    """
    text = text.replace("\u0130", "i").lower()
    found = _ASCII.findall(text) if text.isascii() else _unicode()(text)
    if "_" in text:
        found = [word for word in found if word.strip("_")]
    if len(text) > LONGEST and any(len(word) > LONGEST for word in found):
        found = [word[i : i + LONGEST] for word in found for i in range(0, len(word), LONGEST)]
    return found


@cache
def _unicode() -> Callable[[str], list[str]]:
    """Return what finds words in any script; made where the first text needs it."""
    category = unicodedata.category
    scanned = [chr(code) for code in (*range(0x80, 0x3400), *range(0xA000, 0xAC00), *range(0xFB00, 0x10000))]
    mark = "".join(c for c in scanned if category(c) in ("Mn", "Mc", "Me", "Cf") and c != "\u200b")
    mark += "\uff9e\uff9f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
    number = "".join(c for c in scanned if category(c) == "No")  # fractions, superscripts, circles
    circled = "\u249c-\u24e9"
    apart = f"{_SINGLE}{_KATAKANA}{_SPACELESS}{number}\uff9e\uff9f"
    letter = rf"(?:[^\W\d_{apart}]|[{circled}])"
    sign = rf"(?:[^\W{apart}]|[{circled}])[{mark}]*"
    between_letters = rf"(?<=[^\W\d_{apart}])[{mark}]*[{_MID_LETTER}](?={letter})"
    between_digits = rf"(?<=\d)[{_MID_DIGIT}](?=\d)"
    word = rf"(?:{sign})+(?:(?:{between_letters}|{between_digits})(?:{sign})+)*"
    picture = rf"[{_PICTURES}][{mark}]*(?:(?<=\u200d)[{_PICTURES}][{mark}]*)*"
    pattern = (
        rf"{word}|[{_SINGLE}][{mark}]*|_*[{_KATAKANA}](?:[{_KATAKANA}_][{mark}]*)*"
        rf"|[{_SPACELESS}][{_SPACELESS}{mark}]*|[\U0001f1e6-\U0001f1ff]{{2}}|[0-9#*]\ufe0f?\u20e3|{picture}"
    )
    return re.compile(pattern).findall
