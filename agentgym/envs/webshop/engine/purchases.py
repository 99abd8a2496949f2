"""The best purchases there are for a goal, by the true score."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache, reduce
from itertools import product as combinations
from operator import or_
from typing import NamedTuple

from agentgym.envs.webshop.data.products import Product
from agentgym.envs.webshop.engine.goals import Goal
from agentgym.envs.webshop.engine.visit import BACK, BUY, PREVIOUS, SUB_PAGES, Visit, parse
from agentgym.envs.webshop.engine.world import ShopWorld

EXHAUSTIVE = 20_000
"""Products up to which all of a catalogue are compared; of more, those that likely searches find."""

_BUTTONS = frozenset((BACK, PREVIOUS, BUY, *SUB_PAGES))


class Purchase(NamedTuple):
    """A product, its chosen options, and the purchase's score."""

    asin: str
    options: tuple[tuple[str, str], ...]
    """Name and value, only of options that count, in the order of the product's."""
    score: float


def purchases(world: ShopWorld, goal: Goal) -> Iterator[Purchase]:
    """Yield a purchase of each product that may be a good one, best first.

    Of equal scores, the product that the goal was made from comes first, and then the order of the
    catalogue decides. As long as one of score 1 suffices, nothing else is looked at.
    """
    own = best_choice(world, goal, world.item(goal.asin))
    if own.score == 1.0:
        yield own
    # (minus the score, or a bound of it; the place; the purchase, where it is known)
    heap: list[tuple[float, int, Purchase | None]] = [(-own.score, -1, own)] if own.score < 1.0 else []
    places = _places(world, goal)
    heap += [(-_bound(world, goal, world.at(i)), i, None) for i in places if world.at(i).asin != goal.asin]
    heapq.heapify(heap)
    while heap:
        _, place, purchase = heapq.heappop(heap)
        if purchase is not None:
            yield purchase
        else:
            purchase = best_choice(world, goal, world.at(place))
            heapq.heappush(heap, (-purchase.score, place, purchase))


def best_choice(world: ShopWorld, goal: Goal, product: Product) -> Purchase:
    """Return the best purchase of one product: the fewest values that meet most requirements.

    Only values count that can be chosen: those that an action can say, that are no button's text, and
    that no later option of the product has too.
    """
    met: dict[str, dict[str, int]] = {}
    for value, name in choosable(product).items():
        if wanted := _met(world, goal, product.asin, name, value):
            met.setdefault(name, {})[value] = wanted
    chosen: tuple[tuple[str, str], ...] = ()
    best = 0
    for values in combinations(*([None, *values] for values in met.values())):
        pairs = tuple((name, value) for name, value in zip(met, values, strict=True) if value is not None)
        count = reduce(or_, (met[name][value] for name, value in pairs), 0).bit_count()
        if count > best or (count == best and len(pairs) < len(chosen)):
            chosen, best = pairs, count
    score = world.score(Visit(asin=product.asin, options=tuple(sorted(chosen))), goal)
    return Purchase(product.asin, chosen, score.total)


def choosable(product: Product) -> dict[str, str]:
    """Return the values of a product that can be chosen, and the option that each is chosen for.

    Example:
        >>> choosable(Product("B000000001", "Mug", options=(("color", ("red", "a[b]", "buy now")),)))
        {'red': 'color'}
    """
    return {
        value: name
        for name, values in product.options
        for value in values
        if value not in _BUTTONS and parse(f"click[{value}]") == ("click", value)
    }


def _met(world: ShopWorld, goal: Goal, asin: str, name: str, value: str) -> int:
    """Return the required options that a value meets, as bits."""
    visit = Visit(asin=asin, options=((name, value),))
    return sum(world.score(visit, single).options << i for i, single in enumerate(_singles(goal)))


@lru_cache(maxsize=1024)
def _singles(goal: Goal) -> tuple[Goal, ...]:
    """Return goals that ask for one of the options each."""
    return tuple(replace(goal, options=goal.options[i : i + 1]) for i in range(len(goal.options)))


def _bound(world: ShopWorld, goal: Goal, product: Product) -> float:
    """Return the upper bound of a product's score: all of its values chosen at once."""
    everything = tuple((name, value) for value, name in choosable(product).items())
    return world.score(Visit(asin=product.asin, options=everything), goal).total


def _places(world: ShopWorld, goal: Goal) -> Iterable[int]:
    """Return the positions of the products that are compared."""
    if len(world.catalogue) <= EXHAUSTIVE:
        return range(len(world.catalogue))
    own = world.item(goal.asin)
    queries = (goal.text, own.title, own.query, " ".join(goal.attributes))
    return sorted({place for query in queries for place in world.found(query.lower())})
