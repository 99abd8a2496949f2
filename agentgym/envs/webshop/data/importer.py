"""Importer of WebShop's data: its files, the stores made of them, and the lookup of both."""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from os.path import expanduser
from pathlib import Path

from agentgym.core.hashing import content_id
from agentgym.data.archives import Progress
from agentgym.data.directory import cache_directory, data_directory, find
from agentgym.data.importing import Importer
from agentgym.data.jsonstream import Watch, read_entries, read_records
from agentgym.data.progress import part_of, progress_bar
from agentgym.data.sources import how_to_get
from agentgym.envs.webshop.data.productfiles import (
    AttributesEntry,
    listed_asin,
    parse_entry,
    parse_product,
    parse_wishes,
)
from agentgym.envs.webshop.data.products import Instruction
from agentgym.envs.webshop.data.productstore import SUFFIX, ProductStoreWriter, StoredCatalogue, open_store
from agentgym.envs.webshop.suite import WEBSHOP
from agentgym.errors import MissingDataError, UsageError
from agentgym.io.files import make_folder, writing

SMALL, FULL = "small", "full"
"""The published sets: of 1,000 products, and of all 1,181,436."""

UPSTREAM_FOLDERS = ("", "data")
"""Folders in which a copy of upstream's repository keeps its data."""

_PRODUCTS = re.compile(r"(?:items_shuffle|products)(?:_(?P<set>\w+))?\.jsonl?")
_ATTRIBUTES = re.compile(r"items_ins_v2(?:_(?P<set>\w+))?\.json")
_HUMAN = re.compile(r"items_human_ins(?:_(?P<set>\w+))?\.json")
_FIRST = re.compile(r"(?P<count>[1-9]\d*)(?P<thousands>k?)")


@dataclass(frozen=True, slots=True)
class Source:
    """The files of one set."""

    products: Path
    attributes: Path
    human: Path | None

    @property
    def files(self) -> tuple[Path, ...]:
        """All files, in the order they are read."""
        return (self.attributes, *([self.human] if self.human else []), self.products)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.files)

    @property
    def name(self) -> str:
        """Name of the set, from the name of its products' file."""
        return _set_of(self.products)


# ---- what `agentgym.data.importing` asks of a source -------------------------------------------------


def find_files(origin: Path) -> Iterator[Path]:
    """Yield the files and stores of a copy, sorted; ``origin`` may be a file of products."""
    if origin.is_file() and (origin.suffix == SUFFIX or _PRODUCTS.fullmatch(origin.name)):
        yield from (_source(origin).files if origin.suffix != SUFFIX else [origin])
    for folder in (origin / part for part in UPSTREAM_FOLDERS):
        if folder.is_dir():
            yield from sorted(
                path for path in folder.iterdir() if path.suffix == SUFFIX or _kind_of(path) is not None
            )


def check_file(path: Path) -> int:
    """Return the number of records in a file; errors name file, line and field."""
    if path.suffix == SUFFIX:
        return len(open_store(path))
    count = 0
    if _kind_of(path) is _PRODUCTS:
        for where, record in read_records(path):
            if listed_asin(record, where) is not None:
                parse_product(record, (), where)
            count += 1
    else:
        for where, asin, value in read_entries(path):
            if _kind_of(path) is _ATTRIBUTES:
                parse_entry(asin, value, where)
            else:
                list(parse_wishes(asin, value, where))
            count += 1
    return count


def convert(files: Sequence[Path], folder: Path, *, progress: Progress) -> dict[str, int]:
    """Write one store for each file of products; return the number of products by store.

    ``progress`` is called with bytes read and in all.
    """
    stores = [file for file in files if file.suffix == SUFFIX]
    if stores:
        raise UsageError(f"{stores[0]} has been imported before: name a copy of the upstream data")
    sources = [_source(file) for file in files if _kind_of(file) is _PRODUCTS]
    if not sources:
        raise UsageError(f"no products beside {files[0]}: put items_shuffle.json of the upstream data there")
    total = sum(source.size for source in sources)
    counts: dict[str, int] = {}
    done = 0
    for source in sources:
        name = f"{source.name}{SUFFIX}"
        if name in counts:
            raise UsageError(f"{source.products} and another file are one set: name one of them")
        counts[name] = import_source(source, folder / name, part_of(progress, done, total))
        done += source.size
    return counts


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the store in errors of the temporary database beside it."""
    try:
        with writing(path):
            yield
    except sqlite3.Error as error:
        raise UsageError(f"cannot write {path}: {error}; free space, or choose another folder") from error


def import_source(source: Source, path: Path, watch: Watch) -> int:
    """Write the store of one set; return its number of products.

    It holds little more than the products' names in memory; ``watch`` is called with bytes read so far.
    """
    make_folder(path.parent)
    with (
        _naming(path),
        tempfile.TemporaryDirectory(dir=path.parent, prefix=".entries.") as spool,
        ProductStoreWriter(path) as writer,
    ):
        with closing(sqlite3.connect(Path(spool, "entries"))) as table:
            done = _spool_entries(source.attributes, table, watch)
            human: dict[str, tuple[Instruction, ...]] = {}
            if source.human is not None:
                entries = read_entries(source.human, lambda read: watch(done + read))
                human = {asin: tuple(parse_wishes(asin, value, where)) for where, asin, value in entries}
                done += source.human.stat().st_size
            count = 0
            for position, where, asin, record in _listed(source.products, lambda read: watch(done + read)):
                entry = _entry(table, asin)
                product = parse_product(record, entry.attributes, where)
                synthetic = () if entry.instruction is None else (entry.instruction,)
                writer.add(product, position, human=human.get(asin, ()), synthetic=synthetic)
                count += 1
        writer.finish()
    return count


# ---- what the environment asks -----------------------------------------------------------------------


def open_catalogue(dataset: str) -> StoredCatalogue:
    """Return the products of a data set, imported into the cache at first use.

    ``dataset``: ``"webshop/small"`` or ``"webshop/full"``, in the data directory; ``"webshop/100k"``, or any
    number, for the set of that name or else the first so many records of the full set; or the path of a
    store, of a file of products, or of a folder that holds one of them.
    """
    if not dataset.startswith(f"{WEBSHOP.name}/"):
        return _open_path(Path(expanduser(dataset)).absolute())
    name = dataset.partition("/")[2]
    root = data_directory() / WEBSHOP.folder
    catalogue = _open_set(root, name)
    if catalogue is None and (match := _FIRST.fullmatch(name)):
        first = int(match["count"]) * (1000 if match["thousands"] else 1)
        catalogue = _open_set(root, FULL, first=first)
    if catalogue is None:
        known = ", ".join(sorted(sets_in(root))) if root.is_dir() else ""
        if known:
            raise MissingDataError(
                f"no set {name!r} of WebShop in {root}, which has {known}: {how_to_get(WEBSHOP, name)}"
            )
        find(f"{root.name}/{name}", WEBSHOP)  # the error says what to do
        raise AssertionError("a set that is there was not found")
    return catalogue


def sets_in(folder: Path) -> frozenset[str]:
    """Return the names of the sets that a folder holds, imported or not."""
    return frozenset(
        path.name.removesuffix(SUFFIX) if path.suffix == SUFFIX else _set_of(path)
        for path in find_files(folder)
        if path.suffix == SUFFIX or _kind_of(path) is _PRODUCTS
    )


def _open_path(path: Path) -> StoredCatalogue:
    if not path.exists():
        raise MissingDataError(
            f"no products at {str(path)!r}: name a folder, a file of products, or webshop/{SMALL}"
        )
    if path.is_file():
        if path.suffix == SUFFIX:
            return open_store(path)
        if _kind_of(path) is not _PRODUCTS:
            raise UsageError(f"{path} is not a file of products: name one like items_shuffle_1000.json")
        return _open_source(_source(path), first=None)
    names = sorted(sets_in(path))
    if len(names) != 1:
        found = f"holds the sets {', '.join(names)}" if names else "holds no products"
        raise UsageError(f"{path} {found}: name one file of products")
    catalogue = _open_set(path, names[0])
    assert catalogue is not None  # its name is of the folder
    return catalogue


def _open_set(folder: Path, name: str, *, first: int | None = None) -> StoredCatalogue | None:
    """Return a set of a folder; None where the folder does not hold it."""
    store = folder / f"{name}{SUFFIX}"
    if store.exists():
        return open_store(store, first=first)
    for path in find_files(folder):
        if _kind_of(path) is _PRODUCTS and _set_of(path) == name:
            return _open_source(_source(path), first=first)
    return None


def _open_source(source: Source, *, first: int | None) -> StoredCatalogue:
    """Return the products of files, from the cache, where they are imported unless they have been."""
    state = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in source.files]
    path = cache_directory() / "webshop" / f"{source.name}-{content_id(state)[:16]}{SUFFIX}"
    if not path.exists():
        with progress_bar(f"importing WebShop {source.name}") as progress:
            import_source(source, path, part_of(progress, 0, source.size))
    return open_store(path, first=first)


# ---- files and their parts ---------------------------------------------------------------------------


def _kind_of(path: Path) -> re.Pattern[str] | None:
    """Return the pattern that a file's name has; None where it is not of WebShop's data."""
    return next((kind for kind in (_PRODUCTS, _ATTRIBUTES, _HUMAN) if kind.fullmatch(path.name)), None)


def _set_of(products: Path) -> str:
    """Return the name of the set in a file of products."""
    match = _PRODUCTS.fullmatch(products.name)
    assert match is not None  # only such files are asked about
    return {None: FULL, "1000": SMALL}.get(match["set"], str(match["set"]))


def _source(products: Path) -> Source:
    """Return the files of a set, which lie in one folder."""
    match = _PRODUCTS.fullmatch(products.name)
    assert match is not None  # only such files are asked about
    endings = [f"_{match['set']}.json", ".json"] if match["set"] else [".json"]
    attributes = _beside(products, "items_ins_v2", endings)
    if attributes is None:
        wanted = " or ".join(f"items_ins_v2{ending}" for ending in endings)
        raise UsageError(f"no attributes beside {products}: put {wanted} of the upstream data there")
    return Source(products, attributes, _beside(products, "items_human_ins", endings))


def _beside(products: Path, stem: str, endings: Sequence[str]) -> Path | None:
    paths = [products.with_name(stem + ending) for ending in endings]
    return next((path for path in paths if path.is_file()), None)


def _listed(products: Path, watch: Watch) -> Iterator[tuple[int, str, str, object]]:
    """Yield position, place, name and record of each product that WebShop lists."""
    seen: set[str] = set()
    for position, (where, record) in enumerate(read_records(products, watch)):
        asin = listed_asin(record, where)
        if asin is not None and asin not in seen:
            seen.add(asin)
            yield position, where, asin, record


def _spool_entries(attributes: Path, table: sqlite3.Connection, watch: Watch) -> int:
    """Put the products' entries into a table on disk; return the file's size."""
    table.execute("PRAGMA synchronous = OFF")
    table.execute("PRAGMA journal_mode = OFF")
    table.execute("CREATE TABLE entries (asin TEXT, attributes TEXT, instruction BLOB)")
    table.executemany("INSERT INTO entries VALUES (?, ?, ?)", _entry_rows(attributes, watch))
    table.execute("CREATE INDEX names ON entries (asin)")
    return attributes.stat().st_size


def _entry_rows(attributes: Path, watch: Watch) -> Iterator[tuple[str, str, bytes | None]]:
    for where, asin, value in read_entries(attributes, watch):
        entry = parse_entry(asin, value, where)
        packed = None if entry.instruction is None else entry.instruction.pack()
        yield asin, json.dumps(entry.attributes), packed


def _entry(table: sqlite3.Connection, asin: str) -> AttributesEntry:
    """Return a product's entry: as in JSON, the last of several counts."""
    query = "SELECT attributes, instruction FROM entries WHERE asin = ? ORDER BY rowid DESC LIMIT 1"
    row = table.execute(query, (asin,)).fetchone()
    if row is None:
        return AttributesEntry()
    attributes, packed = row
    return AttributesEntry(
        tuple(json.loads(attributes)), None if packed is None else Instruction.unpack(packed)
    )


IMPORTER = Importer(find_files, check_file, convert, sets_in)
