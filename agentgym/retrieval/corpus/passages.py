"""Passages by number: the titles and texts of a corpus, beside the index that ranks them.

A file of passages is mapped into memory and read passage by passage; a list of them stays in memory, for
built-in worlds. A passage's number is its place in the corpus, in the store and in every index over it.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from agentgym.core.types import Passage
from agentgym.data.packed import unpack
from agentgym.data.recordfile import RecordFile, RecordWriter
from agentgym.errors import UsageError
from agentgym.io.untrusted import loads_json, open_regular, skip_mark
from agentgym.retrieval.corpus.wire_formats import read_document
from agentgym.retrieval.index import CorpusDigest

PASSAGES: Final = "passages.records"
"""Name of a corpus's file of passages, in the folder that its indexes are in."""

DOCUMENTS: Final = "documents.unpacked.jsonl"
"""Name of a published file of documents that came packed, beside the positions of its passages."""

FORMAT: Final = "passages/1"

PUBLISHED: Final = "published/1"
"""Format of a file that says where the passages stand in somebody else's."""

MAX_DOCUMENT_SIZE: Final = 4 << 20
"""Bytes of a published document at most."""

MAX_NAME_LENGTH: Final = 65_535
"""Bytes of an id or a title at most."""


class PassageStore(Protocol):
    """The passages of a corpus, by number. Safe to read from many threads."""

    @property
    def sha256(self) -> str:
        """Of all ids and contents, in order: an index over these passages has it as its ``corpus_sha256``."""

    def __len__(self) -> int:
        """Number of passages."""

    def __getitem__(self, number: int) -> Passage:
        """Return a passage; `IndexError` where there is none of that number."""

    def title(self, number: int) -> str:
        """Return the title alone, which is cheaper."""

    def __iter__(self) -> Iterator[Passage]:
        """Yield all passages, in order."""


class PassageList:
    """Passages in memory.

    Example:
        >>> store = PassageList([Passage("p1", "Ada Lovelace", "Ada Lovelace was a mathematician.")])
        >>> len(store), store[0].id, store.title(0)
        (1, 'p1', 'Ada Lovelace')
    """

    def __init__(self, passages: Iterable[Passage]):
        """Hold passages; ids and titles must be of bounded length, and titles of one line."""
        self._passages = tuple(passages)
        digest = CorpusDigest()
        for passage in self._passages:
            _parts(passage)
            digest.add(passage.id, passage.contents)
        self.sha256 = digest.hexdigest()

    def __len__(self) -> int:
        """Number of passages."""
        return len(self._passages)

    def __getitem__(self, number: int) -> Passage:
        """Return a passage."""
        return self._passages[_within(number, len(self._passages))]

    def title(self, number: int) -> str:
        """Return the title of a passage."""
        return self[number].title

    def __iter__(self) -> Iterator[Passage]:
        """Yield all passages, in order."""
        return iter(self._passages)


class PassageFile:
    """Passages in a file that `write_passages` or `adopt_passages` wrote; opening it reads none of them.

    Safe to read from many threads and after a fork.
    """

    def __init__(self, path: Path):
        """Map the file."""
        self.path = path
        try:
            self._file = RecordFile(path)
            about, columns = self._file.about, self._file.columns
            if about["format"] not in (FORMAT, PUBLISHED):
                raise ValueError(f"its format is {about['format']!r:.40}, not {FORMAT!r}")
            self.corpus = str(about["corpus"])
            self.sha256 = str(about["sha256"])
            self._starts = columns["starts"]
            self._published = None if about["format"] == FORMAT else _map(Path(about["file"]), about["bytes"])
            others = ("ids", "titles") if self._published is None else ("sizes",)
            self._sizes = [columns[name] for name in others]
            ends = int(self._published is None)
            if not {len(self._starts) - ends, *map(len, self._sizes)} == {about["count"]}:
                raise ValueError("its columns are not of one length")
        except (ValueError, TypeError, KeyError, AttributeError, struct.error) as error:
            if isinstance(error, UsageError):
                raise
            raise UsageError(f"{path} is not a complete file of passages ({error}): rebuild it") from error

    @property
    def is_adopted(self) -> bool:
        """Whether the passages stand in somebody else's file."""
        return self._published is not None

    def __len__(self) -> int:
        """Number of passages."""
        return len(self._sizes[0])

    def __getitem__(self, number: int) -> Passage:
        """Return a passage; `UsageError` where the file is damaged there."""
        if self._published is not None:
            start = int(self._starts[_within(number, len(self))])
            line = self._published[start : start + int(self._sizes[0][number])]
            return _read_line(line, f"{self.path}, passage {number}")
        start, title, text, stop = self._places(number)
        raw = self._file.read(start, stop - start)
        title, text = title - start, text - start
        return Passage(*(self._text(part, number) for part in (raw[:title], raw[title:text], raw[text:])))

    def title(self, number: int) -> str:
        """Return the title alone, without reading the text."""
        if self._published is not None:
            return self[number].title
        _, title, text, _ = self._places(number)
        return self._text(self._file.read(title, text - title), number)

    def __iter__(self) -> Iterator[Passage]:
        """Yield all passages, in order."""
        for number in range(len(self)):
            yield self[number]

    def verify(self) -> None:
        """Read all of it; `UsageError` where the passages are not those that were written."""
        digest = CorpusDigest()
        for passage in self:
            digest.add(passage.id, passage.contents)
        if (found := digest.hexdigest()) != self.sha256:
            raise UsageError(
                f"{self.path} holds passages of sha256 {found}, not {self.sha256}: build it again"
            )

    def _places(self, number: int) -> tuple[int, int, int, int]:
        """Return the starts of id, title and text, and the end of the text."""
        number = _within(number, len(self))
        start = int(self._starts[number])
        title = start + int(self._sizes[0][number])
        return start, title, title + int(self._sizes[1][number]), int(self._starts[number + 1])

    def _text(self, raw: bytes, number: int) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"{self.path} is damaged at passage {number}: build it again") from error


def write_passages(
    path: Path,
    passages: Iterable[Passage],
    *,
    corpus: str,
    progress: Callable[[int], None] = lambda done: None,
) -> PassageFile:
    """Write a file of passages, atomically, in the order that numbers them.

    ``progress`` is called with the number of passages done. `UsageError` for ids or titles that are too long
    or of several lines, and for two equal ids.
    """
    starts, ids, titles = array("q"), array("H"), array("H")
    digest = CorpusDigest()
    with RecordWriter(path) as writer:
        end = writer.add(b"")
        for passage in passages:
            id, title, text = _parts(passage)
            record = id + title + text
            starts.append(writer.add(record))
            ids.append(len(id))
            titles.append(len(title))
            end = starts[-1] + len(record)
            digest.add(passage.id, passage.contents)
            progress(len(ids))
        starts.append(end)
        digest.id_column()
        columns: dict[str, npt.NDArray[Any]] = {
            "starts": np.array(starts, np.int64),
            "ids": np.array(ids, np.uint16),
            "titles": np.array(titles, np.uint16),
        }
        about = {"format": FORMAT, "corpus": corpus, "count": len(ids), "sha256": digest.hexdigest()}
        writer.finish(columns, about)
    return PassageFile(path)


def adopt_passages(
    path: Path,
    published: Path,
    *,
    corpus: str,
    order: Sequence[str] | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> PassageFile:
    """Index a file of documents in place: only the position of each passage is written, to ``path``.

    ``published`` holds JSON lines as `read_document` takes them, and stays where it is; what is packed is
    unpacked beside ``path``, since a packed text cannot be read at any place. ``order`` lists the ids in the
    order that numbers the passages (default: that of the lines).
    """
    plain = unpack(published, path.with_name(DOCUMENTS))
    try:
        return _adopt(path, plain, corpus, order, progress)
    except BaseException:
        if plain != published:
            plain.unlink(missing_ok=True)
        raise


def _adopt(
    path: Path,
    published: Path,
    corpus: str,
    order: Sequence[str] | None,
    progress: Callable[[int], None],
) -> PassageFile:
    starts, sizes, ids = array("q"), array("I"), list[str]()
    try:
        with open_regular(published) as lines:
            skip_mark(lines)
            while line := lines.readline(MAX_DOCUMENT_SIZE + 1):
                if len(line) > MAX_DOCUMENT_SIZE:
                    raise UsageError(f"{published}, line {len(ids) + 1}: over {MAX_DOCUMENT_SIZE:,} bytes")
                if line.strip():
                    ids.append(_read_line(line, f"{published}, line {len(ids) + 1}").id)
                    starts.append(lines.tell() - len(line))
                    sizes.append(len(line))
                    progress(len(ids))
            size = lines.tell()
    except OSError as error:
        raise UsageError(f"cannot read {published}: {error.strerror}; name a file of documents") from error
    places = np.arange(len(ids)) if order is None else _places_of(order, ids, published)
    columns: dict[str, npt.NDArray[Any]] = {
        "starts": np.array(starts, np.int64)[places],
        "sizes": np.array(sizes, np.uint32)[places],
    }
    about: dict[str, Any] = {
        "format": PUBLISHED,
        "corpus": corpus,
        "count": len(places),
        "file": str(published.resolve()),
        "bytes": size,
        "sha256": "",
    }
    draft = path.with_name(f".{path.name}.reading")
    try:
        _write(draft, columns, about)
        digest = CorpusDigest()
        for passage in PassageFile(draft):
            digest.add(passage.id, passage.contents)
        digest.id_column()
    finally:
        draft.unlink(missing_ok=True)
    _write(path, columns, {**about, "sha256": digest.hexdigest()})
    return PassageFile(path)


def documents(passages: Iterable[Passage]) -> Iterator[tuple[str, str]]:
    """Yield ids and contents: what an index over the passages is built from."""
    for passage in passages:
        yield passage.id, passage.contents


def _parts(passage: Passage) -> tuple[bytes, bytes, bytes]:
    """Return id, title and text in UTF-8, checked."""
    id, title = passage.id, passage.title
    try:
        parts = id.encode(), title.encode(), passage.text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the passage {id!r:.60} has a lone surrogate, which is no character: remove it"
        ) from error
    if "\n" in title:
        raise UsageError(f"the passage {id!r:.60} has a title of several lines: give it one of one line")
    if not parts[0] or max(len(parts[0]), len(parts[1])) > MAX_NAME_LENGTH:
        raise UsageError(
            f"the passage {id!r:.60} has an empty id, or an id or title of more than "
            f"{MAX_NAME_LENGTH:,} bytes"
        )
    return parts


def _read_line(line: bytes, where: str) -> Passage:
    document = loads_json(line, where)
    if not isinstance(document, dict):
        raise UsageError(f"{where}: a document is an object with a text, not {document!r:.60}")
    try:
        return read_document(document)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _places_of(order: Sequence[str], ids: Sequence[str], published: Path) -> npt.NDArray[np.int64]:
    places = {id: place for place, id in enumerate(ids)}
    for id in order:
        if id not in places:
            raise UsageError(f"{published} has no document of id {id!r:.60}: name the one that was indexed")
    return np.array([places[id] for id in order], np.int64)


def _write(path: Path, columns: Mapping[str, npt.NDArray[Any]], about: Mapping[str, Any]) -> None:
    with RecordWriter(path) as writer:
        writer.finish(columns, about)


def _map(path: Path, size: int) -> mmap.mmap:
    try:
        with open_regular(path) as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ValueError(f"its documents are in {path}: {error.strerror}") from error
    if len(mapped) != size:
        raise ValueError(f"{path} has {len(mapped):,} bytes, and had {size:,} when it was taken over")
    return mapped


def _within(number: int, count: int) -> int:
    if not 0 <= number < count:
        raise IndexError(f"there are {count} passages, and none has the number {number}")
    return number
