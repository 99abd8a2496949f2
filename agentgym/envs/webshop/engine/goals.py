"""Goals of episodes, made of instructions, with a price limit.

The rules follow WebShop (``web_agent_site/engine/goal.py``), with one difference: there, prices and
limits are drawn from the process-wide generator before it is seeded, so that no two runs agree. Here
they follow from a seed and the product alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product as combinations
from typing import TypeAlias

from agentgym.core.arrays import sum_in_order
from agentgym.core.hashing import content_id
from agentgym.core.rng import KeyRng
from agentgym.envs.webshop.data.products import Catalogue, Goals, Instruction, Product

GoalOptions: TypeAlias = tuple[str, ...] | tuple[tuple[str, str], ...]
"""The values asked for, of human goals; (name, value) pairs, of synthetic ones."""

LIMITS = tuple(10.0 * i for i in range(1, 100))
"""Price limits, in dollars, that goals choose from."""

LIMITS_ABOVE = 4
"""Number of limits above a price that are candidates."""

NO_LIMIT = 1_000_000.0
"""The limit of a product that has fewer than two candidates; its instruction does not mention it."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal: the instruction, and the requirements that score the purchase."""

    asin: str
    """The product the goal was made from."""
    text: str
    """The instruction, with its price limit."""
    attributes: tuple[str, ...]
    options: GoalOptions
    price_upper: float
    """Price limit in dollars; `NO_LIMIT` for none."""
    weight: float = 1.0
    """Chance to be drawn, relative to the others."""

    @property
    def id(self) -> str:
        """32 hex digits of product, attributes and options: the parts that decide its split.

        Goals that differ in their wording or limit only share it, and so stay on one side.
        """
        return content_id((self.asin, self.attributes, self.options))


class Prices:
    """The price of each product, and a limit above it: pure functions of a seed and the product.

    Example:
        >>> prices = Prices(seed=0)
        >>> prices.of(Product("B000000001", "Desk Lamp", pricing=(12.5,)))
        12.5
        >>> 12.5 <= prices.of(Product("B000000002", "Desk Lamp", pricing=(12.5, 20.0))) <= 20.0
        True
    """

    def __init__(self, seed: int = 0):
        """Take the seed of all draws."""
        self.seed = seed

    def of(self, product: Product) -> float:
        """Return the price in dollars that a purchase is scored with.

        Where a range is shown it is drawn from the range, uniformly.
        """
        if len(product.pricing) == 1:
            return product.pricing[0]
        low, high = product.pricing
        return low + (high - low) * self._draws("price", product.asin).below(1 << 53) / (1 << 53)

    def limit(self, price: float, asin: str, number: int = 0) -> float:
        """Return the price limit of a goal; `NO_LIMIT` for none.

        It is the larger of two that are drawn from the first four of `LIMITS` above the price.

        ``price`` in dollars; ``number`` distinguishes the instructions of one product.
        """
        above = [limit for limit in LIMITS if limit > price][:LIMITS_ABOVE]
        if len(above) < 2:
            return NO_LIMIT
        draws = self._draws("limit", asin, number)
        first = draws.below(len(above))
        second = (first + 1 + draws.below(len(above) - 1)) % len(above)
        return above[max(first, second)]

    def _draws(self, *name: str | int) -> KeyRng:
        return KeyRng(int(content_id((self.seed, *name)), 16))


def limit_text(limit: float) -> str:
    """Return an instruction's words on its price limit."""
    return "" if limit == NO_LIMIT else f", and price lower than {limit:.2f} dollars"


def make_goals(catalogue: Catalogue, kind: Goals, prices: Prices) -> list[Goal]:
    """Return all goals of a catalogue, in the order of its products.

    Human goals weigh 1. A synthetic goal weighs the mean, over its attributes, of one over the number of
    goals that name the attribute. ``prices`` draws the limits.
    """
    found: list[Goal] = []
    count: Counter[str] = Counter()
    for instruction in catalogue.instructions(kind):
        if not instruction.attributes:
            continue
        number = count[instruction.asin]
        count[instruction.asin] += 1
        index = catalogue.index_of(instruction.asin)
        assert index is not None, "catalogues hold the products of their instructions"
        item = catalogue.product(index)
        limit = prices.limit(prices.of(item), item.asin, number)
        found += (
            _human(instruction, limit) if instruction.options is not None else _all(instruction, item, limit)
        )
    return found if kind == "human" else list(_weighed(found))


def _human(instruction: Instruction, limit: float) -> Iterator[Goal]:
    text = instruction.text.strip(".") + limit_text(limit)
    yield Goal(instruction.asin, text, instruction.attributes, instruction.options or (), limit)


def _all(instruction: Instruction, item: Product, limit: float) -> Iterator[Goal]:
    """Yield a goal for every combination of options; values that come twice give goals that do."""
    names = sorted(name for name, _ in item.options)
    values = dict(item.options)
    for combination in combinations(*(values[name] for name in names)):
        options = tuple(zip(names, combination, strict=True))
        chosen = ", and ".join(f"{name}: {value}" for name, value in options)
        text = f"{instruction.text}{' with ' if chosen else ''}{chosen}{limit_text(limit)}"
        yield Goal(item.asin, text, instruction.attributes, options, limit)


def _weighed(goals: Iterable[Goal]) -> Iterator[Goal]:
    goals = list(goals)
    count = Counter(attribute for goal in goals for attribute in goal.attributes)
    for goal in goals:
        weight = sum_in_order(1.0 / count[each] for each in goal.attributes) / len(goal.attributes)
        yield Goal(goal.asin, goal.text, goal.attributes, goal.options, goal.price_upper, weight)
