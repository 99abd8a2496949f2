"""Read-only shop, shared by all episodes of a process."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from agentgym.core.hashing import sha256_json
from agentgym.env import MAX_ACTION_LENGTH
from agentgym.envs.webshop.data.products import Catalogue, Product
from agentgym.envs.webshop.engine.goals import Goal, Prices
from agentgym.envs.webshop.engine.reward import PurchaseScorer, Score
from agentgym.envs.webshop.engine.taggers import DEFAULT, make_tagger, stored_nouns
from agentgym.envs.webshop.engine.visit import DONE, ITEM, RESULTS, START, SUB_PAGES, Visit
from agentgym.retrieval.index import Hits

START_VISIT = Visit()

MAX_QUERY_LENGTH = 3 * MAX_ACTION_LENGTH
"""Characters: lower case may take up to three for one."""

FOUND = 50
"""Products that a search finds at most."""

MAX_CACHED_QUERIES = 4_096
MAX_CACHED_PRODUCTS = 4_096
MAX_CACHED_SCORES = 4_096
MAX_CACHED_NOUNS = 65_536


class ProductSearcher(Protocol):
    """Ranks the products of a catalogue, as every `agentgym.retrieval.index.Index` over them does."""

    def search(self, query: str, k: int) -> Hits:
        """Return the best ``k`` products, by position; fewer where fewer match."""


class ShopWorld:
    """A catalogue, its search, its prices and its scores.

    What was searched, read or scored last is kept, so that episodes that do alike cost little.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        searcher: ProductSearcher,
        *,
        name: str,
        tagger: str = DEFAULT,
        prices: Prices | None = None,
        search: str = "bm25/1",
    ):
        """Put a world together; ``searcher`` is over the same products.

        ``prices`` None draws them with seed 0; ``tagger`` as `make_tagger` takes it; ``search`` names the
        ranking.
        """
        self.catalogue = catalogue
        self.searcher = searcher
        self.name = name
        self.tagger = make_tagger(tagger)
        self.prices = Prices() if prices is None else prices
        self.search = search
        self.listing = catalogue.listing
        self.at = lru_cache(MAX_CACHED_PRODUCTS)(catalogue.product)
        self.item = lru_cache(MAX_CACHED_PRODUCTS)(self._item)
        self.found = lru_cache(MAX_CACHED_QUERIES)(self._found)
        self._nouns = lru_cache(MAX_CACHED_NOUNS)(stored_nouns(self.tagger))
        self._scorer = PurchaseScorer(lambda product: self._nouns(product.title))
        self._scores = lru_cache(MAX_CACHED_SCORES)(self._score)

    @property
    def manifest(self) -> dict[str, str | int]:
        """JSON of everything that episodes depend on, besides the goals."""
        return {
            "catalogue_sha256": self.catalogue.sha256,
            "price_seed": self.prices.seed,
            "search": self.search,
            "tagger": self.tagger.id,
            "tagger_version": self.tagger.version,
        }

    @property
    def key(self) -> str:
        """Name and digest of the data and of everything else that decides a score: the scope of snapshots."""
        return f"{self.name}:{sha256_json(self.manifest)[:16]}"

    def score(self, visit: Visit, goal: Goal) -> Score:
        """Return the score of buying what is open, as it is chosen."""
        return self._scores(visit.asin, visit.options, goal)

    def check_visit(self, visit: Visit) -> None:
        """Raise a ValueError unless a visit has the form of one to this shop; its score is not looked at."""
        if visit.page == START:
            if visit != START_VISIT:
                raise ValueError("a visit to the start page has no past")
            return
        if visit.page not in (RESULTS, ITEM, *SUB_PAGES, DONE):
            raise ValueError(f"there is no page {visit.page!r:.60}")
        if not 0 < len(visit.query) <= MAX_QUERY_LENGTH or visit.number < 1:
            raise ValueError("it came from no search")
        if list(visit.visited) != sorted(set(visit.visited)):
            raise ValueError("its visited products are not sorted, or one is there twice")
        for asin in visit.visited:
            if self.catalogue.index_of(asin) is None:
                raise ValueError(f"{self.name} has no product {asin!r:.60}")
        if visit.page == RESULTS:
            if visit.asin or visit.options:
                raise ValueError("no product is open on a page of results")
            return
        if visit.asin not in visit.visited:
            raise ValueError("the product that is open was not opened")
        known = {(name, value) for name, values in self.item(visit.asin).options for value in values}
        names = [name for name, _ in visit.options]
        if not known.issuperset(visit.options) or names != sorted(set(names)):
            raise ValueError("its product has no such options")

    def _item(self, asin: str) -> Product:
        index = self.catalogue.index_of(asin)
        if index is None:
            raise KeyError(f"{self.name} has no product {asin!r}")
        return self.at(index)

    def _found(self, query: str) -> tuple[int, ...]:
        return tuple(self.searcher.search(query, FOUND).documents.tolist())

    def _score(self, asin: str, options: tuple[tuple[str, str], ...], goal: Goal) -> Score:
        item = self.item(asin)
        return self._scorer.score(
            item,
            goal,
            wished=self.item(goal.asin),
            price=self.prices.of(item),
            chosen=[value for _, value in options],
        )
