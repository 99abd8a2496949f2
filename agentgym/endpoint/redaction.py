"""Redaction: a key that a server repeats, in any encoding, is removed before a text is cut or stored."""

from __future__ import annotations

import re
from html.entities import html5

HIDDEN = "[key]"
"""Replacement for a key, or a part of one."""

MIN_KEY_LENGTH = 8
"""Least characters of a key, or of a part of it: shorter ones may be ordinary words, such as ``EMPTY``."""

_DRAWN = 20
"""Least length of a random key, in characters; it has digits, too."""
_GRAM = 4
_ROUNDS = 4
"""Most nested encodings that are decoded in search of a key."""
_NAMES = {name: value for name, value in html5.items() if len(value) == 1 and value.isascii()}
_ENCODED = re.compile(
    r"\\{1,16}+(?:(?:[uU]\{?0*+|[xX])([2-7][0-9a-fA-F])\}?|([!-\[\]-~]))"  # JSON and its kin
    r"|%(?:25){0,4}([2-7][0-9a-fA-F])"
    r"|&(?:amp;){0,4}(?:#[xX]0*+([2-7][0-9a-fA-F]);?|#0*+([1-9][0-9]{1,2});?"
    rf"|({'|'.join(sorted(map(re.escape, _NAMES), reverse=True))}))"
)


class KeyRedactor:
    """Remover of a key from texts.

    Parts of it count too, since a server may have cut it: a run of at least `MIN_KEY_LENGTH` of its
    characters, in upper or lower case.

    Example:
        >>> redact = KeyRedactor("sesame-0123456789")
        >>> redact("open sesame-0123456789!"), redact("cut: 0123456789"), redact("sesame%2D0123")
        ('open [key]!', 'cut: [key]', '[key]')
    """

    def __init__(self, key: str):
        """Take the key; one of fewer than `MIN_KEY_LENGTH` characters is ignored."""
        forms = dict.fromkeys(map(_lower, (key, _decoded(key))))
        self._forms = [form for form in forms if len(form) >= MIN_KEY_LENGTH]
        self._grams = [_runs(form, _GRAM) for form in self._forms]
        drawn = len(key) >= _DRAWN and any(map(str.isdigit, key))
        self.of_answers = MIN_KEY_LENGTH if drawn else max(MIN_KEY_LENGTH, min(len(key) // 2, _DRAWN))
        """Characters of a run in what a model says, which may hold a word of a key that is made of words, as
        ``sk-no-key-required`` is."""

    def __call__(self, text: str, shortest: int = MIN_KEY_LENGTH) -> str:
        """Return a text in which `HIDDEN` replaces each run of ``shortest`` or more of the key's characters.

        Where a run appears in another encoding only, as in JSON, an address or HTML, it replaces the whole
        text.
        """
        if not self._forms:
            return text
        text = self._without(text, shortest)
        plain = text
        for _ in range(_ROUNDS):
            before, plain = plain, _decoded(plain)
            if plain == before:
                return text
            if self._without(plain, shortest) != plain:
                return HIDDEN
        return text

    def _without(self, text: str, shortest: int) -> str:
        """Return a text without runs as they are."""
        for form, grams in zip(self._forms, self._grams, strict=True):
            lower = _lower(text)
            size = min(shortest, len(form))
            step = size - _GRAM + 1  # a run holds one of the places that are looked at, with all of its gram
            places = [at for at in range(0, len(text), step) if lower[at : at + _GRAM] in grams]
            if not places:
                continue
            runs, parts, end = _runs(form, size), [], 0
            for start in (start for at in places for start in range(max(0, at - step + 1), at + 1)):
                if lower[start : start + size] in runs:
                    parts += [text[end:start], HIDDEN] if start >= end else []
                    end = start + size
            text = "".join((*parts, text[end:]))
        return text


def _lower(text: str) -> str:
    """Return a text in lower case, of the same length: one letter alone becomes two."""
    return text.replace("\u0130", "i").lower()


def _runs(text: str, size: int) -> frozenset[str]:
    return frozenset(text[start : start + size] for start in range(len(text) - size + 1))


def _decoded(text: str) -> str:
    """Return a text with its escapes of every kind decoded."""
    if "\\" not in text and "%" not in text and "&" not in text:
        return text
    return _ENCODED.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    _, plain, _, _, decimal, name = found.groups()
    if plain or name:
        return plain or _NAMES[name]
    return chr(int(decimal) if decimal else int(found[found.lastindex or 0], 16))
