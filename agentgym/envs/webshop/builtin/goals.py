"""Wishes: goals made from products of the built-in catalogue, each with a purchase that scores 1.

The product a goal is made from has every attribute asked for, offers every value asked for, and costs no
more than the limit, whatever price is drawn from a range: buying it with these values scores 1. What makes
a goal hard is how few others would do, and how many almost would.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import or_
from typing import NamedTuple, TypeVar

from agentgym.core.rng import KeyRng
from agentgym.envs.webshop.builtin.catalogue import VERSION, builtin_catalogue
from agentgym.envs.webshop.builtin.departments import DEPARTMENTS, EVERYWHERE, Kind, plain
from agentgym.envs.webshop.builtin.phrases import CHOICES, LIMIT_ENDS, OPENERS, WITH
from agentgym.envs.webshop.data.products import Catalogue, Product
from agentgym.envs.webshop.engine.goals import LIMITS, LIMITS_ABOVE, NO_LIMIT, Goal

Item = TypeVar("Item")

DIFFICULTIES = ("easy", "medium", "hard")

KINDS = {kind.query: kind for department in DEPARTMENTS for kind in department.kinds}
"""Kinds of product by the search for them."""

HELD_OUT = frozenset(department.kinds[-1].query for department in DEPARTMENTS)
"""Kinds of product that no goal of the usual splits is for: one of each department."""

NEAR_MISSES = 2
"""Least number of other products of a hard goal's kind that meet all requirements but one."""

ATTEMPTS = 64
"""Wishes drawn for one candidate, at most."""

UNINDEXED = 2
"""Least number of a hard goal's attributes that no searched text has."""

STEPS = ((50, 1), (200, 5), (10_000, 10))
"""Steps of tight limits, in dollars: up to a price, the limit is a multiple of the second number."""

_HAS = frozenset(
    plain(attribute)
    for department in DEPARTMENTS
    for group in (EVERYWHERE, department.attributes, *(kind.attributes for kind in department.kinds))
    for attribute in group
    if attribute.startswith("+")
)
"""Attributes that a product has, rather than is."""


@dataclass(frozen=True, slots=True)
class Difficulty:
    """Requirements of a difficulty's goals."""

    attributes: tuple[int, int]
    """Least and largest number of attributes."""
    options: tuple[int, int]
    """Least and largest number of options; difficulties share none, so no two goals differ in it alone."""


LEVELS = {
    "easy": Difficulty((1, 2), (0, 0)),
    "medium": Difficulty((2, 3), (1, 1)),
    "hard": Difficulty((3, 5), (2, 3)),
}
"""Requirements by difficulty."""


class GeneratedGoal(NamedTuple):
    """A goal, and facts about it."""

    goal: Goal
    id: str
    """The goal's."""
    alternatives: int
    """Other products of its kind that meet all that is asked for; most of them score 1 too, and those
    whose titles have too little in common with the one asked for do not."""
    near_misses: int
    """Other products of its kind that meet all but one."""


class Shop:
    """The built-in catalogue, and the goals that can be made in it."""

    def __init__(self, size: int, seed: int):
        """Look through the catalogue of this size and seed."""
        self.catalogue = builtin_catalogue(size, seed)
        self.seed = seed
        self.index = ProductIndex(self.catalogue)
        self._targets = {
            (difficulty, held_out): [
                product
                for product in (self.catalogue.product(i) for i in range(size))
                if (product.query in HELD_OUT) == held_out and _suits(product, difficulty)
            ]
            for difficulty in DIFFICULTIES
            for held_out in (False, True)
        }

    def product(self, asin: str) -> Product:
        """Return a product by name."""
        index = self.catalogue.index_of(asin)
        assert index is not None, "goals name products of the catalogue"
        return self.catalogue.product(index)

    def make_goal(self, difficulty: str, number: int, *, held_out: bool) -> GeneratedGoal | None:
        """Make one goal; None where none of `ATTEMPTS` is as difficult as it should be.

        ``number`` is the candidate's; ``held_out``: for a product of a kind that is held out.
        """
        draws = KeyRng(VERSION, self.seed, 2, DIFFICULTIES.index(difficulty), int(held_out), number)
        targets = self._targets[difficulty, held_out]
        if not targets:
            return None
        made = (self._draw(draws.pick(targets), difficulty, draws) for _ in range(ATTEMPTS))
        return next((goal for goal in made if goal is not None), None)

    def _draw(self, product: Product, difficulty: str, draws: KeyRng) -> GeneratedGoal | None:
        level = LEVELS[difficulty]
        attributes = _some(product.attributes, level.attributes, draws)
        chosen = tuple(
            (name, draws.pick(values)) for name, values in _some(product.options, level.options, draws)
        )
        values = tuple(value for _, value in chosen)
        if difficulty == "hard" and not self._is_hard(product, attributes, values):
            return None
        goal, identity = self._worded(product, attributes, chosen)
        requirements = self.index.requirements(attributes, values, goal.price_upper)
        of_kind = self.index.of_kind(product.query)
        return GeneratedGoal(
            goal,
            identity,
            alternatives=(self.index.meeting(requirements) & of_kind).bit_count() - 1,
            near_misses=(self.index.missing_one(requirements) & of_kind).bit_count(),
        )

    def _worded(
        self, product: Product, attributes: tuple[str, ...], chosen: tuple[tuple[str, str], ...]
    ) -> tuple[Goal, str]:
        """Return the goal for a product with these attributes and choices, and its id.

        All follows from the identity, so that equal ids mean equal goals.
        """
        values = tuple(value for _, value in chosen)
        identity = Goal(product.asin, "", attributes, values, NO_LIMIT).id
        draws = KeyRng(VERSION, self.seed, 3, int(identity, 16))
        difficulty = _difficulty(len(chosen))
        price = max(product.pricing)
        limit = tight_limit(price) if difficulty == "hard" else _limit(price, difficulty, draws)
        text = _text(KINDS[product.query], attributes, chosen, limit, draws)
        return Goal(product.asin, text, attributes, values, limit), identity

    def same_words(self, goal: Goal) -> Iterator[tuple[Goal, str]]:
        """Yield the goals for other products that have the text of this one, and their ids.

        Not all of them need be made; but every goal that is made with this text is among them.
        """
        product = self.product(goal.asin)
        wanted = [value for value in goal.options if isinstance(value, str)]
        requirements = self.index.requirements(goal.attributes, wanted, goal.price_upper)
        others = self.index.meeting(requirements) & self.index.of_kind(product.query)
        while others:
            position = (others & -others).bit_length() - 1
            others &= others - 1
            other = self.catalogue.product(position)
            if other.asin == goal.asin:
                continue
            attributes = tuple(one for one in other.attributes if one in goal.attributes)
            chosen = tuple(
                (name, value) for name, values in other.options for value in values if value in wanted
            )
            twin, identity = self._worded(other, attributes, chosen)
            if twin.text == goal.text:
                yield twin, identity

    def _is_hard(self, product: Product, attributes: Sequence[str], values: Sequence[str]) -> bool:
        """Return whether nothing else in the shop would do, but several others almost would.

        And of what is asked for, search, which looks at some of the texts only, leaves much to be read.
        """
        if len(unindexed(product, attributes)) < UNINDEXED:
            return False
        limit = tight_limit(max(product.pricing))
        requirements = self.index.requirements(attributes, values, limit)
        if self.index.meeting(requirements).bit_count() > 1:
            return False
        missing = self.index.missing_one(requirements) & self.index.of_kind(product.query)
        return missing.bit_count() >= NEAR_MISSES


@lru_cache(maxsize=4)
def builtin_shop(size: int, seed: int) -> Shop:
    """Return the shop over `builtin_catalogue`; the same object for the same arguments."""
    return Shop(size, seed)


def _difficulty(options: int) -> str:
    """Return the difficulty of goals that ask for so many options."""
    return next(name for name, level in LEVELS.items() if level.options[0] <= options <= level.options[1])


def unindexed(product: Product, attributes: Sequence[str]) -> list[str]:
    """Return the attributes that stand in no text which search looks at."""
    text = product.indexed_text
    return [attribute for attribute in attributes if attribute not in text]


def _suits(product: Product, difficulty: str) -> bool:
    level = LEVELS[difficulty]
    if len(product.attributes) < level.attributes[0] or len(product.options) < level.options[0]:
        return False
    return difficulty != "hard" or len(unindexed(product, product.attributes)) >= UNINDEXED


def _some(items: Sequence[Item], bounds: tuple[int, int], draws: KeyRng) -> tuple[Item, ...]:
    """Return some of the items, in their order; how many is drawn from the bounds."""
    left = list(range(len(items)))
    count = draws.between(bounds[0], min(bounds[1], len(items)))
    chosen = sorted(left.pop(draws.below(len(left))) for _ in range(count))
    return tuple(items[i] for i in chosen)


def tight_limit(price: float) -> float:
    """Return the lowest round limit, in dollars, that a price is within.

    Example:
        >>> tight_limit(23.49), tight_limit(61.95), tight_limit(212.0)
        (24.0, 65.0, 220.0)
    """
    step = next(step for below, step in STEPS if price < below)
    return float(-(-price // step) * step)


def _limit(price: float, difficulty: str, draws: KeyRng) -> float:
    """Return a limit in dollars: as WebShop draws it, or for easy goals the loosest of those, or none."""
    above = [limit for limit in LIMITS if limit > price][:LIMITS_ABOVE]
    if len(above) < 2 or (difficulty == "easy" and draws.below(2)):
        return NO_LIMIT
    if difficulty == "easy":
        return above[-1]
    first = above.pop(draws.below(len(above)))
    return max(first, draws.pick(above))


def _text(
    kind: Kind, attributes: Sequence[str], chosen: Sequence[tuple[str, str]], limit: float, draws: KeyRng
) -> str:
    """Put a goal into words."""
    is_ = [attribute for attribute in attributes if attribute not in _HAS]
    has = [attribute for attribute in attributes if attribute in _HAS]
    if is_ and draws.below(2):
        words = f"{', '.join(is_)} {kind.noun}"
    else:
        words = kind.noun + (f" that is {_listed(is_)}" if is_ else "")
    text = f"{draws.pick(OPENERS)} {_article(words)} {words}"
    if has:
        text += f" {draws.pick(WITH)} {_listed(has)}"
    if chosen:
        pattern = draws.pick(CHOICES)
        text += "".join(f", {pattern.format(name=name, value=value)}" for name, value in chosen)
    return text if limit == NO_LIMIT else text + draws.pick(LIMIT_ENDS).format(limit=limit)


def _article(words: str) -> str:
    return "an" if words[0] in "aeiou" and not words.startswith("one ") else "a"


def _listed(items: Sequence[str]) -> str:
    """Join as one says it: ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(items[:-1]), items[-1])))


class ProductIndex:
    """Sets of products as bits of an integer: bit i stands for product i of the catalogue.

    Example:
        >>> from agentgym.envs.webshop.data.products import ListCatalogue, Product
        >>> lamp = Product("B000000001", "Lamp", pricing=(9.0,), attributes=("brass",))
        >>> dear = Product("B000000002", "Lamp", pricing=(90.0,), attributes=("brass",))
        >>> index = ProductIndex(ListCatalogue([lamp, dear]))
        >>> [bin(bits) for bits in index.requirements(["brass"], [], limit=50.0)]
        ['0b11', '0b1']
    """

    def __init__(self, catalogue: Catalogue):
        """Go through a catalogue once."""
        self._attribute: defaultdict[str, int] = defaultdict(int)
        self._value: defaultdict[str, int] = defaultdict(int)
        self._kind: defaultdict[str, int] = defaultdict(int)
        prices = []
        for i in range(len(catalogue)):
            item, bit = catalogue.product(i), 1 << i
            self._kind[item.query] |= bit
            for attribute in item.attributes:
                self._attribute[attribute] |= bit
            for value in {value for _, values in item.options for value in values}:
                self._value[value] |= bit
            prices.append((min(item.pricing), bit))
        prices.sort()
        self._prices = [price for price, _ in prices]
        self._cheaper = [0, *accumulate((bit for _, bit in prices), or_)]
        self._all = (1 << len(catalogue)) - 1

    def requirements(self, attributes: Sequence[str], values: Sequence[str], limit: float) -> list[int]:
        """Return the products that meet each requirement: attributes, values of options, price.

        Of a range of prices the lowest counts, so none is left out that could be within the limit.
        """
        return [
            *(self._attribute.get(attribute, 0) for attribute in attributes),
            *(self._value.get(value, 0) for value in values),
            self._cheaper[bisect_right(self._prices, limit)],
        ]

    def of_kind(self, query: str) -> int:
        """Return the products of a kind."""
        return self._kind.get(query, 0)

    def meeting(self, requirements: Sequence[int]) -> int:
        """Return the products that meet all requirements."""
        met = self._all
        for bits in requirements:
            met &= bits
        return met

    def missing_one(self, requirements: Sequence[int]) -> int:
        """Return the products that meet all requirements but one."""
        all_met, one_missed = self._all, 0
        for bits in requirements:
            one_missed = (one_missed & bits) | (all_met & ~bits)
            all_met &= bits
        return one_missed
