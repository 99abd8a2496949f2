"""The search of a shop: an index over the texts of its products."""

from __future__ import annotations

from collections.abc import Iterator

from agentgym.data.directory import cache_directory
from agentgym.envs.webshop.data.products import Catalogue
from agentgym.retrieval.engines.bm25 import FOLDER, build_bm25
from agentgym.retrieval.index import Index
from agentgym.retrieval.opening import SearchEngine, open_or_build


def search_in_memory(catalogue: Catalogue, name: str) -> Index:
    """Return BM25 search over some ten thousand products; ``name`` is the data set's, for the manifest."""
    return build_bm25(documents(catalogue), corpus=name)


def open_search(catalogue: Catalogue, engine: SearchEngine) -> Index:
    """Return search over a catalogue from the cache, where it is built at first use."""
    kind = FOLDER if engine == "bm25" else engine
    folder = cache_directory() / "webshop" / f"{kind}-{catalogue.sha256[:16]}"
    corpus = f"webshop {catalogue.sha256}"
    return open_or_build(
        engine, folder, lambda: documents(catalogue), corpus=corpus, count=len(catalogue), renew=True
    )


def documents(catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    """Yield the name and the indexed text of every product, in order."""
    for index in range(len(catalogue)):
        product = catalogue.product(index)
        yield product.asin, product.indexed_text
