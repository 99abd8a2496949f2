"""Product index by kind and attributes: exact, and fast enough for every generated goal."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from operator import or_

from agentgym.envs.webshop.data.products import Catalogue


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
