"""A catalogue of millions of products in one file, read product by product.

As Python objects WebShop's 1.18 million products take more than ten gigabytes. Here a product is read where
it is needed; opening maps the file and reads nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from agentgym.core.hashing import sha256_json
from agentgym.data.recordfile import NumberedRecords, RecordFile, StoreWriter, open_unchanged, sorted_keys
from agentgym.envs.webshop.data.products import (
    CatalogueDigest,
    Goals,
    Instruction,
    ListedProduct,
    ListingPlace,
    Product,
    unpack_listing,
)
from agentgym.errors import UsageError

SUFFIX = ".products"

_KINDS: tuple[Goals, ...] = get_args(Goals)


class ProductStoreWriter(StoreWriter):
    """Writes a store; nothing is there under its name before all of it is.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "two.products"
        >>> with ProductStoreWriter(path) as writer:
        ...     writer.add(Product("B2", "Desk Lamp"), 0)
        ...     writer.add(Product("B1", "Chair"), 2, synthetic=[Instruction("B1", "a chair", ("wood",))])
        ...     writer.finish()
        >>> shop = StoredCatalogue(path)
        >>> len(shop), shop.product(1).title, shop.index_of("B1"), shop.index_of("B3")
        (2, 'Chair', 1, None)
        >>> len(StoredCatalogue(path, first=2)), [wish.text for wish in shop.instructions("synthetic")]
        (1, ['a chair'])
    """

    def __init__(self, path: Path):
        """Begin a store that will be at ``path``."""
        super().__init__(path)
        self._digest = CatalogueDigest()
        self._asins: list[str] = []
        self._positions = array("q")
        self._products = NumberedRecords(self._file, "product_")
        self._listings = array("i")
        self._instructions = {kind: NumberedRecords(self._file, f"{kind}_") for kind in _KINDS}
        self._owners: dict[Goals, array[int]] = {kind: array("q") for kind in _KINDS}

    def add(
        self,
        product: Product,
        position: int,
        *,
        human: Iterable[Instruction] = (),
        synthetic: Iterable[Instruction] = (),
    ) -> None:
        """Append a product with its instructions.

        Names must differ; ``position``: of its record in its file, counted from 0.
        """
        packed = product.pack()
        self._digest.add_product(packed)
        self._products.add(packed)
        self._listings.extend(ListingPlace.of(product, packed))
        self._positions.append(position)
        for kind, instructions in zip(_KINDS, (human, synthetic), strict=True):
            for instruction in instructions:
                raw = instruction.pack()
                self._digest.add_instruction(kind, raw)
                self._instructions[kind].add(raw)
                self._owners[kind].append(len(self._asins))
        self._asins.append(product.asin)

    def finish(self) -> None:
        """Put the file in its place."""
        asins, order = sorted_keys(
            self._asins, lambda asin: f"two products are named {asin!r:.60}: leave the second one out"
        )
        columns: dict[str, npt.NDArray[Any]] = {
            "asins": asins,
            "order": order,
            "positions": np.array(self._positions, np.int64),
            **self._products.columns(),
            "listings": np.array(self._listings, np.int32),
        }
        for kind in _KINDS:
            columns |= self._instructions[kind].columns()
            columns[f"{kind}_owners"] = np.array(self._owners[kind], np.int32)
        self._file.finish(columns, {"sha256": self._digest.hexdigest()})


class StoredCatalogue:
    """A finished store, as an `agentgym.envs.webshop.data.products.Catalogue`.

    It may show only the first of its products.
    """

    def __init__(self, path: Path, *, first: int | None = None):
        """Map the file, uncached; `open_store` caches it.

        ``first``: how many records of the imported file are looked at; None for all.
        """
        if first is not None and first < 1:
            raise UsageError(f"ask for the first 1 or more products of a catalogue, not for {first}")
        self.path = path
        self._file = RecordFile(path)
        columns = self._file.columns
        self._starts = columns["product_starts"]
        listings = columns.get("listings")  # older stores have none
        self._listings = None if listings is None else listings.reshape(-1, 3)
        positions = columns["positions"]
        self._length = len(positions) if first is None else int(positions.searchsorted(first))
        self._whole = self._length == len(positions)

    @property
    def sha256(self) -> str:
        """64 hex digits over all products and instructions, in order.

        Of a part they follow from those of the whole and from the part's size.
        """
        whole: str = self._file.about["sha256"]
        return whole if self._whole else sha256_json({"of": whole, "products": self._length})

    def __len__(self) -> int:
        """Number of products."""
        return self._length

    def product(self, index: int) -> Product:
        """Read product ``index``; IndexError where there is none."""
        return Product.unpack(self._file.record(self._within(index), "product_"))

    def listing(self, index: int) -> ListedProduct:
        """Read what a page of results shows of product ``index``, and nothing else of it."""
        start = int(self._starts[self._within(index)])
        if self._listings is None:
            return self.product(index).listing
        head, price, size = self._listings[index].tolist()
        return unpack_listing(self._file.read(start, head), self._file.read(start + price, size))

    def _within(self, index: int) -> int:
        if not 0 <= index < self._length:
            raise IndexError(f"the catalogue has {self._length:,} products, none at {index}")
        return index

    def index_of(self, asin: str) -> int | None:
        """Return the position of a product; None where there is no such product."""
        index = self._file.find(asin, "asins", "order")
        return None if index is None or index >= self._length else index

    def instructions(self, kind: Goals) -> Iterator[Instruction]:
        """Yield the instructions of one kind, in the order of the products."""
        end = int(self._file.columns[f"{kind}_owners"].searchsorted(self._length))
        for number in range(end):
            yield Instruction.unpack(self._file.record(number, f"{kind}_"))


def open_store(path: Path, *, first: int | None = None) -> StoredCatalogue:
    """Return the store in a file; one object for as long as the file stays the same."""
    return open_unchanged(path, "products", StoredCatalogue, first=first)
