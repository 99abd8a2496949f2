"""Queries that the original's search answers without its index, where they are allowed.

``<r>`` finds products at random, ``<a> ATTRIBUTE``, ``<c> CATEGORY`` and ``<q> QUERY`` all products that have
the attribute, are of the category, or were collected with the query. An agent that may use them needs no
skill at searching, so that they are off unless they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from agentgym.core.hashing import content_id
from agentgym.core.rng import KeyRng
from agentgym.envs.webshop.data.products import Catalogue, Product
from agentgym.retrieval.index import Hits, Index


class SpecialSearch:
    """A search that answers special queries itself.

    Unlike the original's, its random products are always the same for the same query, so that a page is a
    function of the state.
    """

    def __init__(self, catalogue: Catalogue, index: Index):
        """Take the products, and the search for all other queries."""
        self._catalogue = catalogue
        self._index = index
        self.name = f"{index.manifest.engine} and special queries"

    def search(self, query: str, k: int) -> Hits:
        """Return the hits of a query; of ``<a>``, ``<c>`` and ``<q>`` all products, in order.

        Example:
            >>> from agentgym.envs.webshop.data.products import ListCatalogue
            >>> from agentgym.retrieval.engines.bm25 import build_bm25
            >>> shop = ListCatalogue([Product("A", "red lamp", category="garden"), Product("B", "red rug")])
            >>> search = SpecialSearch(shop, build_bm25([("A", "red lamp"), ("B", "red rug")], corpus="two"))
            >>> [search.search(query, 10).documents.tolist() for query in ("<c> garden", "rug", "<c>")]
            [[0], [1], []]
        """
        kind, _, wanted = query.partition(" ")
        wanted = wanted.strip()
        if kind == "<r>":
            return _unranked(self._some(query, k))
        if kind == "<a>":
            return _unranked([i for i, item in self._products() if wanted in item.attributes])
        if kind == "<c>":
            first = wanted.partition(" ")[0]
            return _unranked([i for i, item in self._products() if first and item.category == first])
        if kind == "<q>":
            return _unranked([i for i, item in self._products() if item.query == wanted])
        return self._index.search(query, k)

    def _products(self) -> Iterator[tuple[int, Product]]:
        return ((i, self._catalogue.product(i)) for i in range(len(self._catalogue)))

    def _some(self, query: str, k: int) -> list[int]:
        draws = KeyRng(int(content_id(query), 16))
        found: dict[int, None] = {}
        while len(found) < min(k, len(self._catalogue)):
            found[draws.below(len(self._catalogue))] = None
        return list(found)


def _unranked(found: list[int]) -> Hits:
    return Hits(np.array(found, np.int32), np.zeros(len(found), np.float32))
