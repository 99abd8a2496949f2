"""The products of a catalogue as passages, for indexes and servers outside the shop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agentgym.core.types import Passage
from agentgym.envs.webshop.builtin.catalogue import builtin_catalogue
from agentgym.envs.webshop.data.productfiles import read_catalogue
from agentgym.envs.webshop.data.products import Catalogue


def builtin_passages() -> Iterator[Passage]:
    """Yield the products of the built-in shop: what its search reads, the title first."""
    return _passages(builtin_catalogue())


def read_passages(files: Sequence[Path]) -> Iterator[Passage]:
    """Yield the products of WebShop's files."""
    return _passages(read_catalogue(*files))


def _passages(catalogue: Catalogue) -> Iterator[Passage]:
    for index in range(len(catalogue)):
        product = catalogue.product(index)
        title = " ".join(product.title.split())
        yield Passage(product.asin, title, product.indexed_text.removeprefix(product.title.lower()).strip())
