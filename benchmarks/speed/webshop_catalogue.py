"""Made-up catalogues of any size in the form that WebShop publishes, for measuring at full scale.

Words come as often as in the real texts (Zipf's law; the most frequent ones are real), so that a search does
as much work: an instruction has about twenty terms, and each product some seventy different ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

BLOCK = 2_000
"""Products drawn at a time; each block has a generator of its own."""

WORDS = 300_000
"""Size of the vocabulary."""

LENGTHS = {"title": 12, "description": 62, "bullet": 26, "bullets": 5, "query": 2, "attribute": 2}
"""Words in each text, bullets in each product."""

POOL = 5_000
"""Texts of features but the first."""

HUMAN = 0.0102
"""Instructions that people wrote, for each product: 12,087 for all."""

_HEAD = """
and for the to with of in is size color your you or this on it black are can high be from that will as not use
all up large quality small any made home white design our an easy perfect by style material please more have
make blue product pack soft set we no medium long light women package if one time has features at us free room
when other oz type great also red new full natural inch so suitable different fit designed day may green
comfortable includes products about manual look only skin grey length top which used men compatible out fabric
durable pink care living item office these due back each cotton dry etc best support contact into included
"""

_SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]


class Vocabulary:
    """Words by rank."""

    def __init__(self, size: int = WORDS):
        """Put the words together."""
        head = _HEAD.split()
        base = len(_SYLLABLES)
        tail = (
            "".join(_SYLLABLES[i // base**place % base] for place in range(3)) + str(i // base**3 or "")
            for i in range(size - len(head))
        )
        self.words = [*head, *tail]
        shares = 1 / (np.arange(size) + 3.0)
        self._ends = np.cumsum(shares / shares.sum())

    def draw(self, rng: np.random.Generator, count: int, *, above: int = 0) -> list[str]:
        """Draw words, by Zipf's law, of ranks from ``above`` on."""
        floor = self._ends[above - 1] if above else 0.0
        ranks = np.searchsorted(self._ends, floor + rng.random(count) * (1 - floor))
        return [self.words[rank] for rank in np.minimum(ranks, len(self.words) - 1).tolist()]


def asin(number: int) -> str:
    """Return the name of a product."""
    return f"B{number * 7919 % 10**9:09d}"


def write_upstream(folder: Path, count: int, *, seed: int = 0) -> None:
    """Write ``items_shuffle.json``, ``items_ins_v2.json`` and ``items_human_ins.json``.

    Args:
        folder: that exists.
        count: number of products.
        seed: of everything.
    """
    vocabulary = Vocabulary()
    with (
        (folder / "items_shuffle.json").open("w", encoding="utf-8") as products,
        (folder / "items_ins_v2.json").open("w", encoding="utf-8") as entries,
        (folder / "items_human_ins.json").open("w", encoding="utf-8") as human,
    ):
        for file, opening in ((products, "["), (entries, "{"), (human, "{")):
            file.write(opening)
        separator, human_separator = "", ""
        for number, record, entry in _records(vocabulary, count, seed):
            products.write(f"{separator}\n{json.dumps(record)}")
            entries.write(f'{separator}\n"{record["asin"]}": {json.dumps(entry)}')
            if int((number + 1) * HUMAN) > int(number * HUMAN):
                wish = {
                    "instruction": entry["instruction"],
                    "instruction_attributes": entry["attributes"][:2],
                    "instruction_options": [],
                }
                human.write(f'{human_separator}\n"{record["asin"]}": {json.dumps([wish])}')
                human_separator = ","
            separator = ","
        for file, closing in ((products, "\n]\n"), (entries, "\n}\n"), (human, "\n}\n")):
            file.write(closing)


def instructions(count: int, *, seed: int = 1) -> list[str]:
    """Return instructions like those that a program wrote for WebShop's products."""
    rng = np.random.default_rng(seed)
    vocabulary = Vocabulary()
    texts = []
    for _ in range(count):
        a, b, c, d, e, f, g, h, color, size = vocabulary.draw(rng, 10, above=20)
        wish = f"Find me {a} {b}, {c} {d} {e} {f} with {g} {h} with color: {color}, and size: {size}"
        texts.append(f"{wish}, and price lower than {rng.integers(1, 100)}0.00 dollars")
    return texts


def _records(
    vocabulary: Vocabulary, count: int, seed: int
) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
    """Yield number, product and entry of each product."""
    words_each = LENGTHS["title"] + LENGTHS["description"] + LENGTHS["bullet"] + 10
    pool = _sentences(vocabulary, seed)
    for first in range(0, count, BLOCK):
        rng = np.random.default_rng([seed, first])
        size = min(BLOCK, count - first)
        words = vocabulary.draw(rng, size * words_each)
        rare = vocabulary.draw(rng, size * 8, above=20)
        dice = rng.random((size, 3))
        for i in range(size):
            number = first + i
            text = words[i * words_each : (i + 1) * words_each]
            more = pool[number % (POOL - LENGTHS["bullets"]) :][: LENGTHS["bullets"] - 1]
            yield number, *_record(number, text, more, rare[8 * i : 8 * i + 8], dice[i])


def _sentences(vocabulary: Vocabulary, seed: int) -> list[str]:
    """Return texts that search does not look at: they may be the same in many products."""
    words = vocabulary.draw(np.random.default_rng(seed), POOL * LENGTHS["bullet"])
    return [" ".join(words[i::POOL]) for i in range(POOL)]


def _record(
    number: int, words: list[str], more: list[str], rare: list[str], dice: npt.NDArray[np.float64]
) -> tuple[dict[str, Any], dict[str, Any]]:
    name = asin(number)
    title, words = " ".join(words[: LENGTHS["title"]]), words[LENGTHS["title"] :]
    description, words = " ".join(words[: LENGTHS["description"]]), words[LENGTHS["description"] :]
    bullet, words = " ".join(words[: LENGTHS["bullet"]]), words[LENGTHS["bullet"] :]
    options: Any = ""
    if dice[0] < 0.47:
        picture = f"https://example.org/{name}.jpg"
        colors = [{"value": value, "price": 0, "image": picture} for value in words[:6]]
        options = {"Color": colors, "Size": [{"value": value, "asin": name} for value in words[6:10]]}
    price = f"${5 + int(dice[1] * 90_000) / 100}"
    attributes = [f"{rare[2 * i]} {rare[2 * i + 1]}" for i in range(3)]
    query = " ".join(rare[6:8])
    record = {
        "name": title.title(),
        "asin": name,
        "full_description": description,
        "small_description": [bullet, *more],
        "pricing": price if dice[2] < 0.9 else f"{price}${5 + int(dice[2] * 90_000) / 100}",
        "product_category": " \u203a ".join(rare[3:6]),
        "category": rare[6],
        "query": query,
        "customization_options": options,
        "images": [f"https://example.org/{name}.jpg"],
        "average_rating": 4.0,
    }
    wish = f"Find me {attributes[0]}, {attributes[1]} {query}"
    return record, {"attributes": attributes, "instruction": wish, "instruction_attributes": attributes[:2]}
