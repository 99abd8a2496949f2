"""Product templates of the built-in shop: families of products that differ in little.

A family starts with one design; each further member is the one before it with something changed: an
attribute, the values of an option, the price, the brand. So whatever one looks for, there are others
that are almost it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from agentgym.core.rng import KeyRng
from agentgym.envs.webshop.builtin.choices import OPTIONS
from agentgym.envs.webshop.builtin.departments import DEPARTMENTS, EVERYWHERE, Department, Kind
from agentgym.envs.webshop.builtin.phrases import SYLLABLES

Options: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""Names and values, as `agentgym.envs.webshop.data.products.Product.options`."""

FAMILY_SIZES = (1, 1, 2, 2, 3, 4, 5, 6, 8, 10, 12)
"""Numbers of members of a family, one of which is drawn."""

FIRST_NAMES = 55
"""Products in a hundred that sellers call by the first name."""

ATTRIBUTE_COUNTS = (2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 6, 7)
OPTION_COUNTS = (0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3)
VALUE_COUNTS = (2, 2, 3, 3, 4, 4, 4, 5, 6, 6, 8, 10, 14)

BRANDS = len(SYLLABLES[0]) * len(SYLLABLES[1])
"""Number of brands."""

CENTS = (99, 99, 99, 95, 49, 0)
"""Cents of prices, one of which is drawn."""

RANGED = 9
"""Products in a hundred whose price is a range."""

CHANGES = ("attribute", "attribute", "values", "values", "price")
"""Differences of a member from the one before it, one of which is drawn."""

NEW_BRAND = 45
"""Members in a hundred that are made by somebody else than the one before."""

SAME_VOICE = 60
"""Members in a hundred that are described in the words of the one before."""


@dataclass(frozen=True, slots=True)
class Design:
    """A product before it is put into words."""

    department: Department
    kind: Kind
    noun: str
    """Name of the product by its seller."""
    brand: str
    attributes: tuple[str, ...]
    """Attributes, marked ``+`` where the product has them rather than is them."""
    options: Options
    pricing: tuple[int, ...]
    """Price in cents, or the ends of a range."""
    voice: int
    """Names the words it is described in."""


def family(draws: KeyRng) -> Iterator[Design]:
    """Yield the members of a family."""
    department = draws.pick(DEPARTMENTS)
    kind = draws.pick(department.kinds)
    design = Design(
        department,
        kind,
        _noun(kind, draws),
        brand(draws.below(BRANDS)),
        _attributes(department, kind, draws),
        _options(kind, draws),
        _pricing(_price(kind, draws), draws),
        draws.below(1 << 48),
    )
    yield design
    for _ in range(draws.pick(FAMILY_SIZES) - 1):
        design = _relative(design, draws)
        yield design


def brand(number: int) -> str:
    """Return the name of a brand: different numbers up to `BRANDS` give different names.

    Example:
        >>> brand(7), brand(8)
        ('Keliogil', 'Lumanix')
    """
    first, middle, last = SYLLABLES
    round_, place = divmod(number, len(first))
    name = first[place] + middle[(round_ + place) % len(middle)] + last[number * 5 % len(last)]
    return name.capitalize()


def attribute_pool(department: Department, kind: Kind) -> tuple[str, ...]:
    """Return the attributes of a kind of product, the most usual first."""
    return kind.attributes + department.attributes + EVERYWHERE


def _noun(kind: Kind, draws: KeyRng) -> str:
    return kind.noun if draws.below(100) < FIRST_NAMES else draws.pick(kind.also_called)


def _attributes(department: Department, kind: Kind, draws: KeyRng) -> tuple[str, ...]:
    pool = list(attribute_pool(department, kind))
    return tuple(pool.pop(_early(len(pool), draws)) for _ in range(draws.pick(ATTRIBUTE_COUNTS)))


def _early(size: int, draws: KeyRng) -> int:
    """Draw an index; the first are drawn more often than the last."""
    return min(draws.below(size), draws.below(size))


def _options(kind: Kind, draws: KeyRng) -> Options:
    keys = _sample(kind.options, min(draws.pick(OPTION_COUNTS), len(kind.options)), draws)
    chosen = {}
    for key in keys:
        name, values = OPTIONS[key]
        chosen[name] = _sample(values, min(draws.pick(VALUE_COUNTS), len(values)), draws)
    return tuple(chosen.items())


def _sample(items: Sequence[str], count: int, draws: KeyRng) -> tuple[str, ...]:
    """Return some of the items, in their order."""
    left = list(range(len(items)))
    chosen = sorted(left.pop(draws.below(len(left))) for _ in range(count))
    return tuple(items[i] for i in chosen)


def _price(kind: Kind, draws: KeyRng) -> int:
    """Return a price in cents; low ones are more usual. Whole numbers, the same on every machine."""
    low, high = kind.prices
    part = draws.below(1000)
    return _ending(low * 100 + (high - low) * 100 * part * part // 1_000_000, draws)


def _ending(cents: int, draws: KeyRng) -> int:
    return max(cents // 100, 2) * 100 + draws.pick(CENTS)


def _pricing(cents: int, draws: KeyRng) -> tuple[int, ...]:
    if draws.below(100) >= RANGED:
        return (cents,)
    return (cents, _ending(cents * draws.between(110, 190) // 100, draws) + 100)


def _relative(design: Design, draws: KeyRng) -> Design:
    """Return the next member of a family."""
    for change in {draws.pick(CHANGES): None, draws.pick(CHANGES): None}:
        design = _CHANGE[change](design, draws)
    if draws.below(100) < NEW_BRAND:
        design = replace(design, brand=brand(draws.below(BRANDS)))
    if draws.below(100) < SAME_VOICE:
        return design
    return replace(design, noun=_noun(design.kind, draws), voice=draws.below(1 << 48))


def _other_attribute(design: Design, draws: KeyRng) -> Design:
    """Replace an attribute, or leave one out where there are many."""
    attributes = list(design.attributes)
    place = draws.below(len(attributes))
    if len(attributes) > 3 and draws.below(3) == 0:
        del attributes[place]
    else:
        pool = [a for a in attribute_pool(design.department, design.kind) if a not in attributes]
        attributes[place] = pool[_early(len(pool), draws)]
    return replace(design, attributes=tuple(attributes))


def _other_values(design: Design, draws: KeyRng) -> Design:
    """Offer other values of one option; a design without options costs something else instead."""
    if not design.options:
        return _other_price(design, draws)
    options = dict(design.options)
    keys = {OPTIONS[key][0]: key for key in design.kind.options if OPTIONS[key][0] in options}
    name = draws.pick(list(options))
    values = OPTIONS[keys[name]][1]
    options[name] = _sample(values, min(draws.pick(VALUE_COUNTS), len(values)), draws)
    return replace(design, options=tuple(options.items()))


def _other_price(design: Design, draws: KeyRng) -> Design:
    low, high = design.kind.prices
    cents = design.pricing[0] * draws.between(60, 170) // 100
    cents = _ending(min(max(cents, low * 60), high * 150), draws)
    return replace(design, pricing=_pricing(cents, draws))


_CHANGE = {"attribute": _other_attribute, "values": _other_values, "price": _other_price}
