"""The score of a purchase.

``score = type * (attributes + options + price) / (goal attributes + goal options + 1)``, as in WebShop
(Yao et al. 2022, Equation 1, and ``web_agent_site/engine/goal.py``), which this follows in every case:

* attributes: goal attributes that resemble one of the product's, or stand in its texts;
* options: goal options that resemble one chosen;
* price: 1 if it is within the limit;
* type: 1, 0.5, 0.1 or 0, by how much the product is of the kind wished for.

Two texts resemble each other if their token-set ratio, rounded to per cents, is above 85.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz import fuzz, utils

from agentgym.envs.webshop.data.products import Product
from agentgym.envs.webshop.engine.colours import COLOURS
from agentgym.envs.webshop.engine.goals import Goal
from agentgym.envs.webshop.engine.taggers import Nouns

RESEMBLANCE = 85
"""Ratio in percent above which texts resemble each other."""

NO_NOUNS = 0.2
"""Title score where the title wished for has no nouns."""


MAX_CACHED_COMPARISONS = 4_096
"""Attributes and values that are ready to be compared."""

_DROPPED = dict.fromkeys(range(128, 256))
"""Characters that comparison leaves out."""


@dataclass(frozen=True, slots=True)
class Score:
    """The terms of a purchase's score."""

    total: float
    """Score in [0, 1]; 1 is success."""
    type: float
    attributes: int
    """Goal attributes met."""
    options: int
    """Goal options met."""
    price: bool
    query_match: bool
    category_match: bool
    title_score: float
    """Share of the nouns wished for that the product's title has."""


class PurchaseScorer:
    """Scores purchases.

    Example:
        >>> lamp = Product("B000000001", "Desk Lamp", options=(("color", ("red",)),), attributes=("led",))
        >>> wish = Goal(lamp.asin, "a red lamp", ("led",), ("red",), price_upper=50.0)
        >>> scorer = PurchaseScorer(nouns=lambda item: ("lamp",))
        >>> scorer.score(lamp, wish, wished=lamp, price=20.0, chosen=()).total
        0.6666666666666666
        >>> scorer.score(lamp, wish, wished=lamp, price=20.0, chosen=("dark red",)).total
        0.6666666666666666
        >>> scorer.score(lamp, wish, wished=lamp, price=20.0, chosen=("bright red",)).total
        1.0
    """

    def __init__(self, nouns: Callable[[Product], Nouns]):
        """Take what finds the nouns of a product's title."""
        self._nouns = nouns
        self._compared = lru_cache(MAX_CACHED_COMPARISONS)(_compared)
        self._colour = lru_cache(MAX_CACHED_COMPARISONS)(colour_of)

    def score(
        self, bought: Product, goal: Goal, *, wished: Product, price: float, chosen: Sequence[str]
    ) -> Score:
        """Return the score of a purchase.

        ``wished``: the product the goal was made from; ``price``: of ``bought``, in dollars; ``chosen``: the
        values chosen of its options.
        """
        attributes = self._attributes(bought, goal)
        options = self._options(chosen, goal)
        affordable = price <= goal.price_upper
        query_match = bought.query == wished.query
        category_match = len(_categories(bought) & _categories(wished)) >= 2
        title_score = self._title_score(bought, wished)
        kind = _type(query_match or category_match, title_score)
        # the original's order of operations makes the result the same to the last bit
        total = (attributes + options + affordable) / (len(goal.attributes) + len(goal.options) + 1) * kind
        return Score(total, kind, attributes, options, affordable, query_match, category_match, title_score)

    def _attributes(self, bought: Product, goal: Goal) -> int:
        texts = (bought.title.lower(), " ".join(bought.bullets).lower(), bought.description.lower())
        return sum(
            any(wanted in text for text in texts) or any(resemble(own, wanted) for own in bought.attributes)
            for wanted in goal.attributes
        )

    def _options(self, chosen: Sequence[str], goal: Goal) -> int:
        colour = self._colour
        taken = [colour(value) for value in chosen]
        return sum(any(self._resemble(own, colour(wanted)) for own in taken) for wanted in goal.options)

    def _resemble(self, one: str, other: str) -> bool:
        return _alike(self._compared(one), self._compared(other))

    def _title_score(self, bought: Product, wished: Product) -> float:
        nouns = self._nouns(wished)
        if not nouns:
            return NO_NOUNS
        return len(set(self._nouns(bought)) & set(nouns)) / len(nouns)


def resemble(one: str, other: str) -> bool:
    """Return whether two texts resemble each other.

    Example:
        >>> resemble("water proof", "proof water"), resemble("red", "blue")
        (True, False)
    """
    return _alike(_compared(one), _compared(other))


def _alike(one: str, other: str) -> bool:
    return round(fuzz.token_set_ratio(one, other, score_cutoff=RESEMBLANCE)) > RESEMBLANCE


def _compared(text: str) -> str:
    """Return the compared part of a text."""
    return utils.default_process(text.translate(_DROPPED))


def colour_of(option: str | tuple[str, str]) -> str:
    """Return an option's text for comparisons: the first colour in it, else the option itself.

    A synthetic goal's option is a (name, value) pair. The original looks for a colour among the two, not
    inside them, and otherwise compares the pair as Python prints it.

    Example:
        >>> colour_of("light red"), colour_of(("color", "red")), colour_of(("color", "light red"))
        ('light', 'red', "('color', 'light red')")
    """
    return next((colour for colour in COLOURS if colour in option), str(option))


def _type(alike: bool, title_score: float) -> float:
    if title_score == 0.0:
        return 0.0
    if title_score < 0.1:
        return 0.1
    return 1.0 if alike or title_score > 0.2 else 0.5


def _categories(item: Product) -> set[str]:
    return {part.strip() for part in item.product_category.split("\u203a")}
