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

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

from agentgym.data.products import NO_ATTRIBUTES, NO_PRICE, Instruction, ListCatalogue, Product
from agentgym.types import UsageError

LONGEST_ASIN = 10
"""Products of longer names are left out, as are those named ``nan``."""

CHUNK = 1 << 20
"""Characters read at a time."""

LONGEST_RECORD = 16 * CHUNK
"""Characters after which a record that does not end counts as broken."""

_NOT_A_NUMBER = re.compile(r"[^\d.]")
_BLANK = re.compile(r"[\s,]*")


class Fields:
    """A JSON object, and where it stands; its accessors raise errors that name file, line and field."""

    def __init__(self, value: object, where: str):
        """Take the value; UsageError unless it is an object."""
        if not isinstance(value, dict):
            raise UsageError(f"{where}: expected a JSON object, got {_shown(value)}")
        self._fields: dict[str, Any] = value
        self._where = where

    def fail(self, name: str, problem: str) -> NoReturn:
        """Raise a UsageError about a field."""
        raise UsageError(f"{self._where}: field {name!r}: {problem}")

    def get(self, name: str) -> Any:
        """Return a field that must be there."""
        if name not in self._fields:
            self.fail(name, "is missing")
        return self._fields[name]

    def optional(self, name: str) -> Any:
        """Return a field; None where it is missing."""
        return self._fields.get(name)

    def text(self, name: str) -> str:
        """Return a field that must be a string."""
        value = self.get(name)
        if not isinstance(value, str):
            self.fail(name, f"expected a string, got {_shown(value)}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a field that must be a list of strings."""
        value = self.get(name)
        if not isinstance(value, list):
            self.fail(name, f"expected a list of strings, got {_shown(value)}")
        for each in value:
            if not isinstance(each, str):
                self.fail(name, f"expected a list of strings, it has {_shown(each)}")
        return tuple(value)


def parse_product(record: object, attributes: Sequence[str], where: str) -> Product:
    """Read one product.

    Args:
        record: the JSON value.
        attributes: of the product, which stand in another file.
        where: names the file and the line in error messages.

    Raises:
        UsageError: a field is missing or of another type; the message names it.
    """
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


def read_products(
    path: Path, attributes: Mapping[str, Sequence[str]], *, first: int | None = None
) -> Iterator[Product]:
    """Read products in order, holding one at a time.

    Products named ``nan``, or by more than ten characters, or as one before, are left out.

    Args:
        path: the file.
        attributes: by asin, as `read_attributes` returns.
        first: how many records are looked at, before any is left out; None for all.

    Raises:
        UsageError: a record cannot be read.
    """
    seen = set()
    for number, (where, record) in enumerate(read_records(path)):
        if number == first:
            return
        asin = asin_of(record, where)
        if asin != "nan" and len(asin) <= LONGEST_ASIN and asin not in seen:
            seen.add(asin)
            yield parse_product(record, attributes.get(asin, NO_ATTRIBUTES), where)


def asin_of(record: object, where: str) -> str:
    """Return the name of the product of a record; UsageError where it has none."""
    fields = Fields(record, where)
    if isinstance(inner := fields.optional("product"), dict):
        fields = Fields(inner, where)
    return fields.text("asin")


def read_records(path: Path) -> Iterator[tuple[str, Any]]:
    """Read the values of a JSON array or of JSON lines, one at a time.

    Yields:
        Where the value begins, as ``FILE:LINE``, and the value.

    Raises:
        UsageError: the file cannot be read, or a value is not JSON.
    """
    try:
        with path.open(encoding="utf-8") as file:
            first = file.read(1)
            while first.isspace():
                first = file.read(1)
            file.seek(0)
            yield from _array(file, path) if first == "[" else _lines(file, path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start} of a chunk)") from error


def read_attributes(path: Path) -> dict[str, Mapping[str, Any]]:
    """Read what stands beside products in ``items_ins_v2.json``: an object for each asin.

    Raises:
        UsageError: the file cannot be read or is something else.
    """
    return {asin: _fields_of(path, asin, entry) for asin, entry in _object(path).items()}


def attributes_of(entries: Mapping[str, Mapping[str, Any]], path: Path) -> dict[str, tuple[str, ...]]:
    """Return the attributes of every product that has a list of them.

    Raises:
        UsageError: one is not a list of strings.
    """
    return {
        asin: Fields(entry, _place(path, asin)).texts("attributes")
        for asin, entry in entries.items()
        if "attributes" in entry
    }


def synthetic_instruction(entry: Mapping[str, Any], asin: str, path: Path) -> Instruction | None:
    """Return the instruction that a program wrote for a product; None where there is none.

    Raises:
        UsageError: it has no attributes, or a field is of another type.
    """
    if entry.get("instruction") is None:
        return None
    fields = Fields(entry, _place(path, asin))
    attributes = fields.texts("instruction_attributes")
    if not attributes:
        fields.fail("instruction_attributes", "is empty: an instruction asks for one attribute at least")
    return Instruction(asin, fields.text("instruction"), attributes)


def read_human(path: Path) -> dict[str, tuple[Instruction, ...]]:
    """Read the instructions that people wrote, by asin.

    Raises:
        UsageError: the file cannot be read, or a field is missing or of another type.
    """
    return {asin: tuple(_human(path, asin, entries)) for asin, entries in _object(path).items()}


def read_catalogue(
    products: Path, attributes: Path, human: Path | None = None, *, first: int | None = None
) -> ListCatalogue:
    """Read a catalogue into memory: for files of some thousand products.

    Args:
        products: the products.
        attributes: their attributes and synthetic instructions.
        human: the human instructions, if there are any.
        first: how many records are looked at; None for all.

    Raises:
        UsageError: a file cannot be read.
    """
    entries = read_attributes(attributes)
    shelf = list(read_products(products, attributes_of(entries, attributes), first=first))
    wishes = {} if human is None else read_human(human)
    written = (
        synthetic_instruction(entries[product.asin], product.asin, attributes)
        for product in shelf
        if product.asin in entries
    )
    return ListCatalogue(
        shelf,
        human=[each for product in shelf for each in wishes.get(product.asin, ())],
        synthetic=[each for each in written if each is not None],
    )


def _pricing(fields: Fields) -> tuple[float, ...]:
    given = fields.optional("pricing")
    if not given:
        return (NO_PRICE,)
    if isinstance(given, list):  # as the search index stores them, already read
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
        fields.fail(name, f"expected an object or an empty string, got {_shown(given)}")
    options = {}
    for option, contents in given.items():
        if contents is None:
            continue
        if not isinstance(contents, list):
            fields.fail(name, f"expected a list for {option!r}, got {_shown(contents)}")
        values = []
        for each in contents:
            value = each.get("value") if isinstance(each, dict) else None
            if not isinstance(value, str):
                fields.fail(name, f"each entry of {option!r} needs a string as its value")
            values.append(value.strip().replace("/", " | ").lower())
        options[option.lower()] = tuple(values)
    return tuple(options.items())


def _human(path: Path, asin: str, entries: object) -> Iterator[Instruction]:
    if not isinstance(entries, list):
        raise UsageError(f"{_place(path, asin)}: expected a list of instructions, got {_shown(entries)}")
    for entry in entries:
        fields = Fields(entry, _place(path, asin))
        attributes = fields.texts("instruction_attributes")
        yield Instruction(asin, fields.text("instruction"), attributes, fields.texts("instruction_options"))


def _lines(file: TextIO, path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(file, start=1):
        if line.strip():
            try:
                yield f"{path}:{number}", json.loads(line)
            except json.JSONDecodeError as error:
                raise UsageError(f"{path}:{number}: not JSON: {error.msg} (column {error.colno})") from error


def _array(file: TextIO, path: Path) -> Iterator[tuple[str, Any]]:
    """Read a chunk, decode the objects that are whole in it, and keep the rest for the next."""
    decoder = json.JSONDecoder()
    text, line = file.read(CHUNK), 1
    start = text.index("[") + 1
    line += text.count("\n", 0, start)
    while True:
        skipped = _BLANK.match(text, start).end()  # type: ignore[union-attr]  # it matches no character too
        line += text.count("\n", start, skipped)
        start = skipped
        if text[start : start + 1] == "]":
            return
        where = f"{path}:{line}"
        problem = "the array does not end; the file is cut off"
        if start < len(text):
            if text[start] != "{":
                raise UsageError(f"{where}: expected a JSON object, got {text[start : start + 20]!r}")
            try:
                value, end = decoder.raw_decode(text, start)
            except json.JSONDecodeError as error:
                problem = f"not JSON: {error.msg}"
            else:
                yield where, value
                line += text.count("\n", start, end)
                start = end
                continue
        more = file.read(CHUNK)
        if not more or len(text) - start > LONGEST_RECORD:
            raise UsageError(f"{where}: {problem}")
        text, start = text[start:] + more, 0


def _object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}: not JSON: {error.msg} (column {error.colno})") from error
    if not isinstance(value, dict):
        raise UsageError(f"{path}: expected one JSON object with an entry for each asin, got {_shown(value)}")
    return value


def _fields_of(path: Path, asin: str, entry: object) -> Mapping[str, Any]:
    if not isinstance(entry, dict):
        raise UsageError(f"{_place(path, asin)}: expected a JSON object, got {_shown(entry)}")
    return entry


def _place(path: Path, asin: str) -> str:
    return f"{path}: entry {asin!r}"


def _shown(value: object) -> str:
    """Return how an error message shows a JSON value."""
    return f"{json.dumps(value)[:60]}"
