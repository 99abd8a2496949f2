"""The records of a shop: products, the instructions written for them, and the catalogue that holds both.

The fields and the rules by which they are read follow WebShop (Yao et al. 2022,
https://github.com/princeton-nlp/WebShop, ``web_agent_site/engine/engine.py``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from agentgym.errors import UsageError

Goals: TypeAlias = Literal["human", "synthetic"]
"""Writers of the instructions: people, or a program from a product's attributes."""

NO_PRICE = 100.0
"""Price, in dollars, of a product that the data gives none."""

NO_ATTRIBUTES = ("DUMMY_ATTR",)
"""Attributes of a product that the data says nothing about."""


class ListedProduct(NamedTuple):
    """A product on a page of results."""

    asin: str
    title: str
    price_tag: str
    """The price as pages print it."""


@dataclass(frozen=True, slots=True)
class Product:
    """One product, as its pages show it.

    Example:
        >>> lamp = Product(asin="B000000001", title="Desk Lamp", pricing=(12.5, 20.0))
        >>> lamp.price_tag, lamp.options
        ('$12.5 to $20.0', ())
    """

    asin: str
    """Names the product: at most ten characters."""
    title: str
    description: str = ""
    bullets: tuple[str, ...] = ()
    """The list of features."""
    category: str = ""
    """The department, such as ``garden``."""
    query: str = ""
    """The search that the product was collected with, in lower case."""
    product_category: str = ""
    """The path of categories, joined by ``›`` (U+203A)."""  # noqa: RUF001
    pricing: tuple[float, ...] = (NO_PRICE,)
    """Price, or the two ends of a range, in dollars; the second may be the smaller."""
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Name and values of what can be chosen, in order; values may repeat."""
    attributes: tuple[str, ...] = NO_ATTRIBUTES

    def pack(self) -> bytes:
        """Return the fields as the bytes of one JSON list: what is stored and hashed."""
        return _json([getattr(self, name) for name in _FIELDS])

    @classmethod
    def unpack(cls, data: bytes) -> Product:
        """Inverse of `pack`."""
        asin, title, description, bullets, category, query, path, pricing, options, attributes = _value(data)
        return cls(
            asin,
            title,
            description,
            tuple(bullets),
            category,
            query,
            path,
            tuple(pricing),
            tuple([(name, tuple(values)) for name, values in options]),
            tuple(attributes),
        )

    @property
    def price_tag(self) -> str:
        """The price as pages print it."""
        return _price_tag(self.pricing)

    @property
    def listing(self) -> ListedProduct:
        """Its entry on a page of results."""
        return ListedProduct(self.asin, self.title, self.price_tag)

    @property
    def indexed_text(self) -> str:
        """Indexed text, in lower case."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options)
        first = self.bullets[0] if self.bullets else ""
        return f"{self.title} {self.description} {first} {options}".lower()


_FIELDS = tuple(Product.__dataclass_fields__)


class ListingPlace(NamedTuple):
    """Position of a packed product's listing within its bytes."""

    head: int
    """Bytes before the end of the title."""
    price: int
    """Bytes before the pricing."""
    price_size: int
    """Bytes of the pricing."""

    @classmethod
    def of(cls, product: Product, packed: bytes) -> ListingPlace:
        """Return the place in ``product.pack()``."""
        pricing, rest = len(_json(product.pricing)), len(_json((product.options, product.attributes)))
        return cls(len(_json((product.asin, product.title))) - 1, len(packed) - rest - pricing, pricing)


def unpack_listing(head: bytes, pricing: bytes) -> ListedProduct:
    """Return a listing, given the two parts of a packed product that hold it.

    Example:
        >>> lamp = Product("B000000001", "Desk Lamp", "Bright.", pricing=(12.5,))
        >>> packed = lamp.pack()
        >>> head, price, size = ListingPlace.of(lamp, packed)
        >>> unpack_listing(packed[:head], packed[price : price + size])
        ListedProduct(asin='B000000001', title='Desk Lamp', price_tag='$12.5')
    """
    asin, title, prices = _value(b"%b,%b]" % (head, pricing))
    return ListedProduct(asin, title, _price_tag(prices))


@dataclass(frozen=True, slots=True)
class Instruction:
    """A wish for a product, as data sets store it."""

    asin: str
    """The product it was written for."""
    text: str
    attributes: tuple[str, ...]
    """Attributes of the product that the text asks for; none makes no goal."""
    options: tuple[str, ...] | None = None
    """The values asked for; None asks for every combination of the product's options in turn."""

    def pack(self) -> bytes:
        """Return the fields as the bytes of one JSON list: what is stored and hashed."""
        return _json((self.asin, self.text, self.attributes, self.options))

    @classmethod
    def unpack(cls, data: bytes) -> Instruction:
        """Inverse of `pack`."""
        asin, text, attributes, options = _value(data)
        return cls(asin, text, tuple(attributes), None if options is None else tuple(options))


class CatalogueDigest:
    """The sha256 of a catalogue, taken product by product and instruction by instruction.

    People's instructions have no part in it: they come in a file beside the products, which a copy may lack,
    and the ids of tasks pin the goals made of them.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._products, self._synthetic = hashlib.sha256(), hashlib.sha256()

    def add_product(self, packed: bytes) -> None:
        """Take the next product, as `Product.pack` gives it."""
        self._products.update(packed + b"\n")

    def add_instruction(self, kind: Goals, packed: bytes) -> None:
        """Take the next instruction of a kind, as `Instruction.pack` gives it."""
        if kind == "synthetic":
            self._synthetic.update(packed + b"\n")

    def hexdigest(self) -> str:
        """Return 64 hex digits."""
        nothing = hashlib.sha256().digest()  # in the place of people's instructions, as of a copy without
        parts = (self._products.digest(), nothing, self._synthetic.digest())
        return hashlib.sha256(b"".join(parts)).hexdigest()


class Catalogue(Protocol):
    """Products by position and by name, with their instructions; read only, shared by all episodes."""

    @property
    def sha256(self) -> str:
        """64 hex digits over all products and synthetic instructions, in order."""

    def __len__(self) -> int:
        """Number of products."""

    def product(self, index: int) -> Product:
        """Return product ``index``, 0 <= index < len(self)."""

    def listing(self, index: int) -> ListedProduct:
        """Return the entry of product ``index`` on a page of results."""

    def index_of(self, asin: str) -> int | None:
        """Return the position of a product; None where there is no such product."""

    def instructions(self, kind: Goals) -> Iterable[Instruction]:
        """Return the instructions of one kind, in the order of the products."""


class ListCatalogue:
    """A catalogue in memory, for some ten thousand products.

    Example:
        >>> shop = ListCatalogue([Product("B000000001", "Desk Lamp")])
        >>> len(shop), shop.index_of("B000000001"), shop.index_of("B000000002")
        (1, 0, None)
    """

    def __init__(
        self,
        products: Iterable[Product],
        *,
        human: Iterable[Instruction] = (),
        synthetic: Iterable[Instruction] = (),
    ):
        """Hold products of different names, and instructions for them."""
        self._products = tuple(products)
        self._index = {product.asin: i for i, product in enumerate(self._products)}
        if len(self._index) < len(self._products):
            raise UsageError("a catalogue names a product twice: give each product its own asin")
        self._instructions: dict[Goals, tuple[Instruction, ...]] = {
            "human": tuple(human),
            "synthetic": tuple(synthetic),
        }
        for instruction in (*self._instructions["human"], *self._instructions["synthetic"]):
            if instruction.asin not in self._index:
                raise UsageError(f"an instruction is for {instruction.asin!r}, which the catalogue lacks")

    @cached_property
    def sha256(self) -> str:
        """64 hex digits over all products and synthetic instructions, in order."""
        digest = CatalogueDigest()
        for product in self._products:
            digest.add_product(product.pack())
        for kind, instructions in self._instructions.items():
            for instruction in instructions:
                digest.add_instruction(kind, instruction.pack())
        return digest.hexdigest()

    def __len__(self) -> int:
        """Number of products."""
        return len(self._products)

    def product(self, index: int) -> Product:
        """Return product ``index``."""
        return self._products[index]

    def listing(self, index: int) -> ListedProduct:
        """Return the entry of product ``index`` on a page of results."""
        return self._products[index].listing

    def index_of(self, asin: str) -> int | None:
        """Return the position of a product; None where there is no such product."""
        return self._index.get(asin)

    def instructions(self, kind: Goals) -> Sequence[Instruction]:
        """Return the instructions of one kind, in the order of the products."""
        return self._instructions[kind]


def _price_tag(pricing: Iterable[float]) -> str:
    return " to ".join([f"${price}" for price in pricing])


_decode = json.JSONDecoder().raw_decode
"""Decoder of `json.loads`, which does not look for blanks before and after."""


def _json(value: object) -> bytes:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def _value(data: bytes) -> Any:
    return _decode(data.decode("utf-8", "surrogatepass"))[0]
