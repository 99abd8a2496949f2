"""Departments of the built-in shop: the kinds of product in each, and their attributes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

from agentgym.io.untrusted import loads_toml


class Kind(NamedTuple):
    """A kind of product."""

    noun: str
    """Name of one product, in lower case."""
    query: str
    """Name of several products, which is the search for them."""
    path: tuple[str, ...]
    """Categories below the department's."""
    prices: tuple[int, int]
    """Lowest and highest usual price, in dollars."""
    options: tuple[str, ...]
    """Keys of `choices.OPTIONS` that products of the kind may have."""
    attributes: tuple[str, ...]
    """Attributes that only products of this kind can be or, marked ``+``, have."""
    also_called: tuple[str, ...]
    """Other names, by which sellers may call a product; a goal uses the noun."""


@dataclass(frozen=True, slots=True)
class Department:
    """A department of the shop."""

    name: str
    """The short category."""
    root: str
    """First category of every path."""
    attributes: tuple[str, ...]
    """Attributes that all its products can be or, marked ``+``, have."""
    uses: tuple[str, ...]
    """Uses of its products."""
    kinds: tuple[Kind, ...]


def _read() -> tuple[Department, ...]:
    text = files("agentgym.envs.webshop.builtin").joinpath("departments.toml").read_text(encoding="utf-8")
    return tuple(
        Department(
            each["name"],
            each["root"],
            _split(each["attributes"]),
            _split(each["uses"]),
            tuple(_kind(noun, *row) for noun, row in each["kinds"].items()),
        )
        for each in loads_toml(text, "departments.toml")["department"]
    )


def _kind(
    noun: str, path: str, low: int, high: int, options: str, attributes: str, also: str, query: str = ""
) -> Kind:
    prices, keys = (low, high), tuple(options.split())
    return Kind(noun, query or f"{noun}s", _split(path, ">"), prices, keys, _split(attributes), _split(also))


def _split(text: str, separator: str = ",") -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(separator))


EVERYWHERE = ("long lasting", "eco friendly", "gift ready", "responsibly made", "+lifetime warranty")
"""Attributes that products of any department can be or, marked ``+``, have."""

DEPARTMENTS = _read()
"""Twelve, of six kinds each; the last kind of each is held out."""


def plain(attribute: str) -> str:
    """Return an attribute as products and goals write it, without the mark.

    Example:
        >>> plain("+pen loop"), plain("lay flat")
        ('pen loop', 'lay flat')
    """
    return attribute.removeprefix("+")
