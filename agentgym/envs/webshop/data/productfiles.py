r"""Reading the files that WebShop publishes: products, their attributes, and instructions.

* products: a JSON array, or JSON lines, of records with ``asin, name, full_description,
  small_description, pricing, product_category, category, query, customization_options``
  (``items_shuffle.json``); lines as the search index stores them (``{"id", "contents", "product"}``)
  are read too;
* attributes: one JSON object, ``{asin: {"attributes": [...], "instruction": ...,
  "instruction_attributes": [...]}}`` (``items_ins_v2.json``);
* human instructions: one JSON object, ``{asin: [{"instruction", "instruction_attributes",
  "instruction_options"}, ...]}`` (``items_human_ins.json``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from agentgym.data.jsonfields import Fields, shown
from agentgym.data.jsonstream import read_entries, read_records
from agentgym.envs.webshop.data.products import NO_ATTRIBUTES, NO_PRICE, Instruction, ListCatalogue, Product
from agentgym.errors import UsageError

MAX_ASIN_LENGTH = 10
"""Products of longer names are left out, as are those named ``nan``."""

_NOT_A_NUMBER = re.compile(r"[^\d.]")


def parse_product(record: object, attributes: Sequence[str], where: str) -> Product:
    """Parse a product's JSON; its attributes are in another file."""
    fields = Fields(record, where)
    if isinstance(inner := fields.optional("product"), dict):
        fields = Fields(inner, where)
    listed = isinstance(fields.get("small_description"), list)
    bullets = fields.texts("small_description") if listed else (fields.text("small_description"),)
    return Product(
        asin=fields.text("asin"),
        title=fields.text("name"),
        description=fields.text("full_description"),
        bullets=bullets,
        category=fields.text("category"),
        query=fields.text("query").lower().strip(),
        product_category=fields.text("product_category"),
        pricing=_pricing(fields),
        options=_options(fields),
        attributes=tuple(attributes),
    )


def listed_asin(record: object, where: str) -> str | None:
    """Return the name of a record's product; None where WebShop leaves the product out."""
    fields = Fields(record, where)
    if isinstance(inner := fields.optional("product"), dict):
        fields = Fields(inner, where)
    asin = fields.text("asin")
    return None if asin == "nan" or len(asin) > MAX_ASIN_LENGTH else asin


class AttributesEntry(NamedTuple):
    """A product's entry in ``items_ins_v2.json``."""

    attributes: tuple[str, ...] = NO_ATTRIBUTES
    instruction: Instruction | None = None
    """Instruction that a program wrote."""


def parse_entry(asin: str, entry: object, where: str) -> AttributesEntry:
    """Parse a product's entry in the file of attributes."""
    fields = Fields(entry, where)
    has_attributes = fields.optional("attributes") is not None
    attributes = fields.texts("attributes") if has_attributes else NO_ATTRIBUTES
    if fields.optional("instruction") is None:
        return AttributesEntry(attributes)
    wanted = fields.texts("instruction_attributes")
    if not wanted:
        fields.fail("instruction_attributes", "is empty: an instruction asks for one attribute at least")
    return AttributesEntry(attributes, Instruction(asin, fields.text("instruction"), wanted))


def parse_wishes(asin: str, entries: object, where: str) -> Iterator[Instruction]:
    """Parse the instructions that people wrote for a product."""
    if not isinstance(entries, list):
        raise UsageError(f"{where}: expected a list of instructions, got {shown(entries)}")
    for entry in entries:
        fields = Fields(entry, where)
        attributes = fields.texts("instruction_attributes")
        yield Instruction(asin, fields.text("instruction"), attributes, fields.texts("instruction_options"))


def read_catalogue(products: Path, attributes: Path, human: Path | None = None) -> ListCatalogue:
    """Read a catalogue into memory, of some thousand products.

    ``attributes`` holds synthetic instructions too; ``human`` the human ones, if there are any.
    """
    entries = {asin: parse_entry(asin, value, where) for where, asin, value in read_entries(attributes)}
    instructions = {
        asin: tuple(parse_wishes(asin, value, where))
        for where, asin, value in (read_entries(human) if human is not None else ())
    }
    found: dict[str, Product] = {}
    for where, record in read_records(products):
        asin = listed_asin(record, where)
        if asin is not None and asin not in found:
            found[asin] = parse_product(record, entries.get(asin, AttributesEntry()).attributes, where)
    written = (entries.get(asin, AttributesEntry()).instruction for asin in found)
    return ListCatalogue(
        found.values(),
        human=[each for asin in found for each in instructions.get(asin, ())],
        synthetic=[each for each in written if each is not None],
    )


def _pricing(fields: Fields) -> tuple[float, ...]:
    given = fields.optional("pricing")
    if not given:
        return (NO_PRICE,)
    if isinstance(given, list):  # the search index stores prices as numbers
        return tuple(_price(fields, each) for each in given[:2])
    pieces = fields.text("pricing").split("$")[1:]
    if not pieces:
        fields.fail("pricing", f"expected prices that begin with $, got {given!r:.60}")
    return tuple(_price(fields, piece) for piece in pieces)[:2]


def _price(fields: Fields, given: object) -> float:
    digits = _NOT_A_NUMBER.sub("", given) if isinstance(given, str) else given
    try:
        price = float(digits)  # type: ignore[arg-type]  # JSON's null, list and object raise TypeError
    except (TypeError, ValueError):
        fields.fail("pricing", f"expected a price, got {given!r:.60}")
    if not math.isfinite(price):
        fields.fail("pricing", f"expected a finite price, got {given!r:.60}")
    return price


def _options(fields: Fields) -> tuple[tuple[str, tuple[str, ...]], ...]:
    name = "customization_options"
    given = fields.get(name)
    if not given:
        return ()
    if not isinstance(given, dict):
        fields.fail(name, f"expected an object or an empty string, got {shown(given)}")
    options = {}
    for option, contents in given.items():
        if contents is None:
            continue
        if not isinstance(contents, list):
            fields.fail(name, f"expected a list for {option!r}, got {shown(contents)}")
        values = []
        for each in contents:
            value = each.get("value") if isinstance(each, dict) else None
            if not isinstance(value, str):
                fields.fail(name, f"each entry of {option!r} needs a string as its value")
            values.append(value.strip().replace("/", " | ").lower())
        options[option.lower()] = tuple(values)
    return tuple(options.items())
