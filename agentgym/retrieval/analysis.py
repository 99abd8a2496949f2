"""From text to terms, as Lucene's English analyser with Porter's stemmer does it (Anserini's default).

The chain: words, without ``'s``, without stop words, Porter's stems in Martin Porter's later form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from Stemmer import Stemmer

from agentgym.retrieval.words import words

ANALYSER = "lucene-english-porter/2"
"""Names this chain in manifests; another chain gets another name. The first version cut words at points and
commas that a mark follows or precedes, and lowered by the rules of the Python at hand."""

STOP_WORDS = frozenset(
    """
    a an and are as at be but by for if in into is it no not of on or such
    that the their then there these they this to was will with
    """.split()  # noqa: SIM905 (a line a word is no help)
)
"""Lucene's 33."""

_POSSESSIVE = ("'s", "\u2019s", "\uff07s")

_SECOND = re.compile(r"(?P<stem>.+?)(?P<end>bl|log)(?:ys?|is?|ies)")
_ENDINGS = ("ed", "ing")
_SINGLED = frozenset("aeiouylszbdfgmnprt")
"""Words that PyStemmer's form of the algorithm stems otherwise than Lucene's: there the second step has
``-bli`` -> ``-ble`` and ``-logi`` -> ``-log``, and a double consonant becomes single but for ll, ss, zz."""


_VOWELS = frozenset("aeiou")

_MAX_CACHED = 1 << 17
"""Words that are remembered."""


class Analyser(dict[str, str]):
    """The term of each word; empty for a word that is not indexed. Words that were seen are remembered.

    Example:
        >>> Analyser().terms("The technology of women's dresses")
        ['technolog', 'women', 'dress']
    """

    def __init__(self) -> None:
        """Load the stemmer."""
        stemmer = Stemmer("porter")
        self._stem: Callable[[str], str] = stemmer.stemWord

    def terms(self, text: str) -> list[str]:
        """Return the terms of a text, in order."""
        return [term for word in words(text) if (term := self[word])]

    def __missing__(self, word: str) -> str:
        """Find the term of a word."""
        term = word[:-2] if word.endswith(_POSSESSIVE) else word
        if term in STOP_WORDS:
            term = ""
        elif len(term) > 2:
            term = self._stem(_rewrite(term))
        if len(self) >= _MAX_CACHED:
            self.clear()
        self[word] = term
        return term


shared_analyser = cache(Analyser)
"""The one that indexes of a process have in common: what a corpus was read with knows a query's words."""


def _rewrite(word: str) -> str:
    """Return a word that PyStemmer stems as Lucene stems ``word``."""
    if match := _SECOND.fullmatch(word):
        log = match["end"] == "log"
        if _has_measure(match["stem"] + "o" * log):
            return match["stem"] + ("log" if log else "ble")
    return _single(word)


def _single(word: str) -> str:
    """Return a word without its ending and half of the double consonant before it, where it has both.

    A vowel must precede the consonant. Linear in the word, which a pattern for it is not.
    """
    for ending in _ENDINGS:
        stem = word[: -len(ending) - 1]
        if word.endswith(ending) and stem and stem[-1] == word[len(stem)] and stem[-1] not in _SINGLED:
            before = stem[:-1]
            if "y" in before[1:] or not _VOWELS.isdisjoint(before):
                return stem
    return word


def _has_measure(stem: str) -> bool:
    """Return whether a consonant follows a vowel: Porter's m > 0."""
    vowel = False
    for i, letter in enumerate(stem):
        if letter in "aeiou" or (letter == "y" and i > 0 and not vowel):
            vowel = True
        elif vowel:
            return True
    return False
