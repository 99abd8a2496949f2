"""The built-in catalogue: the same products on every machine, made in a second."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, count

from agentgym.core.rng import KeyRng
from agentgym.envs.webshop.builtin.departments import plain
from agentgym.envs.webshop.builtin.descriptions import DescriptionWords, write
from agentgym.envs.webshop.builtin.product_templates import Design, family
from agentgym.envs.webshop.data.products import ListCatalogue, Product
from agentgym.errors import UsageError

VERSION = 1
"""Version of the words and rules; products of different versions have nothing in common."""

BUILTIN = "builtin"
"""Name of the data set that comes with the package."""

SIZE = 3_000
"""Products, unless told otherwise."""

MIN_PRODUCTS = 2_000
"""Products that it takes to ask for enough different things."""

MAX_PRODUCTS = 1_000_000
"""Products; all of them are in memory, with the index over their texts."""

SEPARATOR = " \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NAMES = len(_DIGITS) ** 8
_STRIDE = 1_148_264_301_737
"""Shares no factor with `_NAMES`, so that different numbers give different names."""


@lru_cache(maxsize=4)
def builtin_catalogue(size: int = SIZE, seed: int = 0) -> ListCatalogue:
    """Return the first products of an endless sequence; the same object for the same arguments.

    At least `MIN_PRODUCTS` products; ``seed`` names the sequence.
    """
    check_shop(size, seed)
    products = _products(seed)
    return ListCatalogue([next(products) for _ in range(size)])


def shop_of(dataset: str) -> tuple[int, int] | None:
    """Return the size and seed of a built-in shop's name; None for any other data set.

    ``builtin``, ``builtin:SIZE`` or ``builtin:SIZE:SEED``.

    Example:
        >>> shop_of("builtin"), shop_of("builtin:5000"), shop_of("builtin:5000:7"), shop_of("small")
        ((3000, 0), (5000, 0), (5000, 7), None)
    """
    name, *numbers = dataset.split(":")
    if name != BUILTIN:
        return None
    if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        raise UsageError(f"cannot read {dataset!r}: write builtin, builtin:SIZE or builtin:SIZE:SEED")
    size, seed = (*map(int, numbers), *(SIZE, 0)[len(numbers) :])
    check_shop(size, seed)
    return size, seed


def check_shop(size: object, seed: object) -> None:
    """Raise a UsageError unless there is a catalogue of this size and seed."""
    if not isinstance(size, int) or isinstance(size, bool) or size < MIN_PRODUCTS:
        raise UsageError(f"the built-in shop has at least {MIN_PRODUCTS} products, got {size!r}")
    if size > MAX_PRODUCTS:
        raise UsageError(f"the built-in shop has at most {MAX_PRODUCTS} products, got {size!r}")
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise UsageError(f"the built-in shop's seed must be a whole number from 0 on, got {seed!r}")


def asin(number: int, seed: int = 0) -> str:
    """Return the name of a product: ten letters and digits that tell nothing of its number.

    Example:
        >>> asin(0), asin(1)
        ('B1ENI6X1NT', 'B1TB0DU3BM')
    """
    left = (number + 1 + 1_000_003 * seed) * _STRIDE % _NAMES
    digits = ""
    for _ in range(8):
        left, digit = divmod(left, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return f"B1{digits}"


def _products(seed: int) -> Iterator[Product]:
    titles: set[str] = set()
    designs = chain.from_iterable(family(KeyRng(VERSION, seed, 0, number)) for number in count())
    for number, design in enumerate(designs):
        words = write(design, KeyRng(VERSION, seed, 1, design.voice))
        title = words.title
        while title in titles:
            title = f"{words.title}, Model {asin(number, seed)[-4:]}"
            words = words._replace(title=title)
        titles.add(title)
        yield _product(asin(number, seed), design, words)


def _product(name: str, design: Design, words: DescriptionWords) -> Product:
    department, kind = design.department, design.kind
    return Product(
        asin=name,
        title=words.title,
        description=words.description,
        bullets=words.bullets,
        category=department.name,
        query=kind.query,
        product_category=SEPARATOR.join((department.root, *kind.path)),
        pricing=tuple(cents / 100 for cents in design.pricing),
        options=design.options,
        attributes=tuple(plain(attribute) for attribute in design.attributes),
    )
