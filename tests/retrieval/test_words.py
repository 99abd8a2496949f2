"""Words are found as Lucene finds them; the expected lists were made by Lucene 9.9."""

import json
from pathlib import Path

import pytest

from agentgym.retrieval.words import MAX_WORD_LENGTH, words
from tests.pace import within

FOUND = {
    "Men's 2.5-inch T-Shirt": ["men's", "2.5", "inch", "t", "shirt"],
    "100,000 or 1,5;2 or 1:2": ["100,000", "or", "1,5;2", "or", "1", "2"],
    "a.b a:b a,b a;b a..b a. .b": ["a.b", "a:b", "a", "b", "a", "b", "a", "b", "a", "b"],
    "a1.b 1a.2 1.a": ["a1", "b", "1a", "2", "1", "a"],
    "_ a_b _c_ __": ["a_b", "_c_"],
    "don\u2019t va\u2018lue l'\u00e9t\u00e9": ["don\u2019t", "va\u2018lue", "l'\u00e9t\u00e9"],
    "1\u20442 \u00bd x\u00b2 \u2460": ["1\u20442", "x"],
    "\u5546\u54c1 \u30ab\u30bf\u30ab\u30ca \u3072\u3089": [
        *("\u5546", "\u54c1", "\u30ab\u30bf\u30ab\u30ca", "\u3072", "\u3089")
    ],
    "\u0e01\u0e02\u0e04 \ud55c\uad6d": ["\u0e01\u0e02\u0e04", "\ud55c\uad6d"],
    "hot \u2764\ufe0f\U0001f525 \u2605\u2122 \u2022 deal": [
        *("hot", "\u2764\ufe0f", "\U0001f525", "\u2605", "\u2122", "deal")
    ],
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd": [
        *("\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd")
    ],
    "soft\u00adhyphen so\u200bso": ["soft\u00adhyphen", "so", "so"],
    "\u0130stanbul STRASSE \u00c9T\u00c9": ["istanbul", "strasse", "\u00e9t\u00e9"],
    "Jose\u0301's re\u0301sume\u0301.doc 3,\u00ad000": [
        "jose\u0301's",
        "re\u0301sume\u0301.doc",
        "3,\u00ad000",
    ],
    "\u30ab\u3099\u30ab \u039f\u0394\u039f\u03a3": ["\u30ab\u3099\u30ab", "\u03bf\u03b4\u03bf\u03c3"],
    "a\ud800b \ud83d\ude00": ["a", "b"],
    "": [],
    "?! -- ...": [],
}
RECORDED = json.loads(Path(__file__).with_name("words.json").read_text())
"""Texts and Lucene's words, written by ``python -m benchmarks.parity.words``."""


@pytest.mark.parametrize(("text", "found"), FOUND.items())
def test_words(text, found):
    assert words(text) == found


def test_a_long_word_is_cut():
    assert [len(word) for word in words("x" * (2 * MAX_WORD_LENGTH + 3) + " y")] == [
        MAX_WORD_LENGTH,
        MAX_WORD_LENGTH,
        3,
        1,
    ]


def test_recorded_words():
    assert len(RECORDED) > 400
    assert [text for text, found in RECORDED if words(text) != found] == []


@pytest.mark.parametrize(
    "text",
    [
        *(
            "_" * 40_000,
            "_" * 40_000 + "a",
            "_\U0001f3fd" * 20_000,
            "\u200d" * 40_000,
            "a\u0301" * 20_000,
        ),
        *(
            "\u2600" + "\u200d" * 40_000,
            "\u24c2\u200d" * 20_000,
            "#" + "\u0301" * 40_000,
            "\u05d0'" * 20_000,
        ),
        *(
            "x" * 40_000,
            "\U0001f1e6" * 20_001,
            "_\u0301" * 20_000,
            "a." * 20_000,
            "\u2600\ufe0f" * 20_000,
        ),
    ],
    ids=lambda text: ascii(text[:3]),
)
def test_time_is_linear_in_the_text(text):
    within(1_000, words, text)  # the square of its length would take four times as many
