"""Ask Lucene for its word-break classes and record its tokens: ``python -m benchmarks.parity.words``.

Writes ``agentgym/retrieval/word_breaks.json`` and ``tests/retrieval/words.json``. Needs what
``make test-java`` installs. Source of the classes: the StandardTokenizer of the jar of Anserini at hand,
probed with every character; its tables are of Unicode 12.1, which `check_version` checks (12.0's letters are
letters to it, and 13.0's are not; 12.1 added U+32FF alone, which is in no word). The jars of pyserini 0.25.0
and 1.6.0 hold the same tokenizer, byte for byte.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from agentgym.errors import UsageError
from agentgym.retrieval.engines.pyserini import java_class
from agentgym.retrieval.words import CLASSES

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = ROOT / "agentgym/retrieval/word_breaks.json"
RECORDED: Final = ROOT / "tests/retrieval/words.json"

EXEMPLARS: Final = {
    "ALetter": "A",
    "Hebrew_Letter": "\u05d0",
    "Numeric": "0",
    "Katakana": "\u30a2",
    "ExtendNumLet": "_",
    "MidLetter": ":",
    "MidNum": ",",
    "MidNumLet": ".",
    "Single_Quote": "'",
    "Double_Quote": '"',
    "Extend": "\u0301",
    "ZWJ": "\u200d",
    "Text_Selector": "\ufe0e",
    "Emoji_Selector": "\ufe0f",
    "Modifier": "\U0001f3fd",
    "Pictograph": "\u2600",
    "Letter_Pictograph": "\u24c2",
    "Complex_Context": "\u0e01",
    "Complex_Extend": "\u0e31",
    "Single": "\u6f22",
    "Regional_Indicator": "\U0001f1e6",
    "Keycap_Base": "#",
    "Keycap": "\u20e3",
    "Tag": "\U000e0041",
    "Tag_End": "\U000e007f",
}
"""A character of each class. Extend holds Format, and Single holds ideographs and hiragana."""

_FIRST = ("@", "a@a", "1@1", "@\u20e3", "\U0001f1e6@", "\u05d0@\u05d0")
"""A character that these do not tell from a blank is in no class."""

_PROBES = (
    *(
        "@1",
        "1@",
        "a@",
        "@a",
        "@@",
        "_@",
        "\u05d0@",
        "@'",
        '@"\u05d0',
        "\u30a2@",
        "@\u30a2",
        "\u0e01@",
        "@\u0e01",
    ),
    *("@.a", "a.@", "@,1", "1,@", "a@1", "1@a", "a\u0301@\u0301a", "\u3042@", "#@", "#\ufe0f@", "#@\u20e3"),
    *("\u2600@", "\u2600@\ufe0f", "\u2600\u200d@", "@\u200d\u2600", "\u2600@\u2600", "\u200d@", "\ufe0f@"),
    *("\u2600\ufe0f@", "\u2600\ufe0f@\U000e007f", "\u2600\ufe0f\U000e0041@", "\u2600\ufe0f\u200d@"),
    *("\U0001f3fd@", "@\U0001f3fd", "\u2600\ufe0f@\u2600", "a\ufe0f@"),
)
"""``@`` is the character."""

WRITTEN: Final = (
    *(
        "Jose\u0301's",
        "re\u0301sume\u0301.doc",
        "3,\u00ad000",
        "\u30ab\u3099\u30ab\u3099",
        "a\u200d.b",
        "a.\u0301b",
    ),
    *(
        "\u039f\u0394\u039f\u03a3 \u03a3\u03a3",
        "\u0130I\u0131",
        "STRA\u1e9eE",
        "\u08be \ua7c7 \u32ff",
        "\u1c90\u10d0",
    ),
    *("\u05d0'", "\u05d0'1", '\u05d0"\u05d0"\u05d0', "a.\u05d0'1", "\u05d0\"\u05d0'\u05d0", "\u05d0_'"),
    *(
        "\u24c2\u200d\u2600",
        "\u24c2\u200d\u24c2b",
        "\u2600\ufe0f\u200d\u24c2b",
        "1\ufe0f\u20e3 #\u20e3 *\ufe0f\u20e3",
    ),
    *(
        "\U0001f3f4\U000e0067\U000e007f",
        "\u2600\ufe0f\U000e0067\U000e007f",
        "\u200d\u200d\u2600",
        "a\U0001f3fd \U0001f3fd",
    ),
    *(
        "\U0001f1e6\U0001f1e7\U0001f1e8",
        "\U0001f1e6\u0301\U0001f1e7",
        "\u0e01\u0301\u0e31",
        "\u0e31\u0e01",
        "_\u0e31",
    ),
    *(
        "__ _\u0301_ _\u203fa",
        "_\u30a2_a_\u30a2",
        "\u30a2a",
        "\u6f22\u0301\u3042\u0301",
        "\uff11.\uff12 \uff21.\uff22",
    ),
    *(
        "x" * 254 + ".yy",
        "x" * 600,
        "_" * 300 + "a",
        "\U00010400" * 200,
        "a" + "\U00010400" * 200,
        "a" + "\u0301" * 300 + "b",
    ),
    *(
        "\u200d" * 300 + "\u2600",
        "1" * 254 + ",2",
        "_" * 254 + "a",
        "\u2600" + "\u200d\u2600" * 200,
        "\u24c2" * 127 + "\u200d\u2600",
    ),
)
"""Texts of each rule, of lower case, of versions of Unicode, and of words too long."""

_RECORDED = 400

_APART = "zzqzz"  # between texts that are analysed together
_TOGETHER = 2_000

Tokens = list[str]


def lucene_words(texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of Lucene's StandardAnalyzer, which lowers StandardTokenizer's.

    Args:
        texts: without lone surrogates, and without the word that keeps them apart.
    """
    analyse: Callable[..., object] = java_class("io.anserini.analysis.AnalyzerUtils").analyze
    standard = java_class("org.apache.lucene.analysis.standard.StandardAnalyzer")()
    found: list[Tokens] = []
    for start in range(0, len(texts), _TOGETHER):
        batch = texts[start : start + _TOGETHER]
        tokens = str(analyse(standard, f"\n{_APART}\n".join(batch)).toString())[1:-1].split(", ")  # type: ignore[attr-defined]
        lists: list[Tokens] = [[]]
        for token in tokens:
            if token == _APART:
                lists.append([])
            elif token:
                lists[-1].append(token)
        if len(lists) != len(batch):
            raise UsageError(f"a text holds {_APART!r}, which keeps texts apart: leave it out")
        found += lists
    return found


def _signatures(characters: Sequence[str], probes: Sequence[str]) -> list[tuple[tuple[int, ...], ...]]:
    """Return how long the tokens of each probe are, for each character."""
    texts = [probe.replace("@", character) for character in characters for probe in probes]
    lengths = [tuple(map(len, tokens)) for tokens in lucene_words(texts)]
    return [tuple(lengths[i : i + len(probes)]) for i in range(0, len(lengths), len(probes))]


def ask_classes(codes: Sequence[int]) -> dict[str, list[int]]:
    """Return the characters of each class, in order.

    Args:
        codes: of the characters to ask about.

    Raises:
        UsageError: two classes of `EXEMPLARS` behave alike, or a character behaves like none of them.
    """
    named = dict(zip(_signatures(list(EXEMPLARS.values()), _FIRST + _PROBES), EXEMPLARS, strict=True))
    if len(named) != len(EXEMPLARS):
        raise UsageError(f"classes behave alike; told apart: {', '.join(named.values())}")
    blank = _signatures([" "], _FIRST)[0]
    found: dict[str, list[int]] = defaultdict(list)
    for start in range(0, len(codes), _TOGETHER):
        characters = [chr(code) for code in codes[start : start + _TOGETHER]]
        seen = zip(characters, _signatures(characters, _FIRST), strict=True)
        characters = [character for character, signature in seen if signature != blank]
        if characters:
            for character, signature in zip(
                characters, _signatures(characters, _FIRST + _PROBES), strict=True
            ):
                if signature not in named:
                    raise UsageError(f"U+{ord(character):04X} is in no class that is known: give it one")
                found[named[signature]].append(ord(character))
    return {name: found[name] for name in EXEMPLARS}


def check_version(classes: dict[str, list[int]]) -> None:
    """Refuse classes of another version of Unicode than 12.1.

    Raises:
        UsageError: a letter of Unicode 12.0 is none, or one of 13.0 is one.
    """
    letters = set(classes["ALetter"])
    if not letters.issuperset(_NEW_IN_12) or not letters.isdisjoint(_NEW_IN_13):
        raise UsageError("this tokenizer is not of Unicode 12.1: correct the texts that name the version")


_NEW_IN_12: Final = (0x1CFA, 0xA7BA, 0xA7C2, 0xAB66, 0x10FE0, 0x119A0, 0x1E100, 0x1E2C0)
_NEW_IN_13: Final = (0x08BE, 0xA7C7, 0xA7F5, 0xAB68, 0x10E80, 0x10FB0, 0x11900, 0x18AF3)


def _range_texts(codes: Iterable[int]) -> Iterator[str]:
    """Yield ranges of characters, as ``41-5A``."""
    pairs: list[list[int]] = []
    for code in codes:
        if pairs and pairs[-1][1] == code - 1:
            pairs[-1][1] = code
        else:
            pairs.append([code, code])
    for first, last in pairs:
        yield f"{first:X}" if first == last else f"{first:X}-{last:X}"


def write_table(classes: dict[str, list[int]]) -> str:
    """Return the text of ``agentgym/retrieval/word_breaks.json``."""
    ranges = {name: " ".join(_range_texts(codes)) for name, codes in classes.items()}
    return json.dumps(ranges, indent=1) + "\n"


def draw_texts(seed: int, count: int) -> list[str]:
    """Return texts of characters of all classes and of blanks.

    Half of them are of at most five classes, whose characters meet the more often; one in 250 begins with one
    character 100 to 598 times, and as many are repeated to some 600 characters.
    """
    rng = np.random.default_rng(seed)
    pools = [np.array(codes_of(name)) for name in CLASSES]
    pools += [
        np.array([*map(ord, letters)]) for letters in ("aAsS\u00e9\u03a3\u0130\u1e9e\u00df", " -\n?\u00ac")
    ]
    texts = []
    for number in range(count):
        few = rng.integers(len(pools), size=rng.integers(2, 6)) if number % 2 else np.arange(len(pools))
        drawn = few[rng.integers(len(few), size=rng.integers(1, 17))]
        places = rng.random(len(drawn))
        characters = [
            chr(pools[pool][int(place * len(pools[pool]))]) for pool, place in zip(drawn, places, strict=True)
        ]
        if number % 250 == 0:
            characters[0] *= 100 + number % 499
        elif number % 250 == 1:
            characters *= 600 // len(characters)
        texts.append("".join(characters))
    return texts


def codes_of(name: str) -> list[int]:
    """Return the characters of a class, as the committed table has it."""
    pairs = [text.partition("-") for text in CLASSES[name].split()]
    return [code for first, _, last in pairs for code in range(int(first, 16), int(last or first, 16) + 1)]


def main() -> None:
    """Write the table and the recorded cases."""
    classes = ask_classes([*range(0xD800), *range(0xE000, 0x110000)])
    check_version(classes)
    TABLE.write_text(write_table(classes), encoding="utf-8")
    texts = [*WRITTEN, *draw_texts(seed=0, count=_RECORDED)]
    rows = [json.dumps(row) for row in zip(texts, lucene_words(texts), strict=True)]
    RECORDED.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
    print(f"{sum(map(len, classes.values())):,} characters in classes, {len(texts)} texts recorded")


if __name__ == "__main__":
    main()
