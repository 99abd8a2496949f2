"""Corpora: sources of passages, and the rules that make passages of them.

A corpus is described by a TOML file, such as those of the checkout's ``indexes/``; `build_corpus` reads its
files within limits and writes the passages, with a record of what was found beside what was expected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, TypeAlias, get_args

from agentgym.core.options import check_choice
from agentgym.core.types import Passage
from agentgym.data.archives import Progress
from agentgym.data.jsonstream import read_records
from agentgym.data.sources import corpus_download
from agentgym.errors import MissingDataError, UsageError
from agentgym.io.files import make_folder, replace_file, sha256_of
from agentgym.io.optional import load_reference, only_trusted
from agentgym.io.paths import DATA_VARIABLE
from agentgym.io.records import parse, read_toml
from agentgym.io.untrusted import read_json
from agentgym.retrieval.corpus.passages import PASSAGES, PassageFile, write_passages
from agentgym.retrieval.corpus.wire_formats import read_document

BUILT: Final = "corpus.json"
"""Name of the record of what a corpus was built from, beside its passages."""

SCHEMA: Final = 1
"""Version of that record."""

MAX_TEXT_LENGTH: Final = 1 << 20
"""Characters of a passage at most."""

MAX_PASSAGES: Final = (1 << 31) - 1
"""Largest number of passages in a corpus: their numbers are 32 bits long."""

FileReader: TypeAlias = Literal["documents", "distinct", "hotpotqa", "musique", "sentences", "papers"]
"""Reader of a corpus's files: ``documents`` are objects with ``title`` and ``text``, or ``contents``, named
by their id or else their number; ``distinct`` takes equal ones once, whatever their ids, and so do
``hotpotqa`` and ``musique`` with the passages beside questions; ``sentences`` are articles whose text is a
list; ``papers`` have an abstract."""


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """A file that a corpus is read from."""

    path: str
    """Path below the data directory, with ``/``, or a full path."""
    records: int | None = None
    """Objects in it."""
    sha256: str | None = None
    archive: str = ""
    """Name of the archive that it is published in, which may lie in its place."""


@dataclass(frozen=True, slots=True)
class CorpusIndexing:
    """Default indexing of a corpus."""

    engine: str = "bm25"
    analyser: str = ""
    """Analyser of an engine of words; it is noted here for readers of the file, since each engine has one."""
    encoder: str | None = None
    """Encoder of an engine of vectors."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the engine."""


@dataclass(frozen=True, slots=True)
class CorpusSpec:
    """A corpus, as its TOML file describes it."""

    name: str
    about: str
    source: str
    """Place from which its files can be had."""
    licence: str
    reader: str
    """A `FileReader`, or ``module:function`` of this package, which is called with the paths of the files, if
    there are any, and returns passages."""
    rule: str
    """Rule, in words, by which files become passages."""
    passages: int
    """Number of passages."""
    files: tuple[CorpusFile, ...] = ()
    also: tuple[str, ...] = ()
    """Other names of the corpus."""
    folder: str | None = None
    """Folder that it is built in, below the data directory; the cache if None."""
    index: CorpusIndexing = CorpusIndexing()

    def __post_init__(self) -> None:
        """Raise a UsageError for values that no corpus has."""
        if ":" not in self.reader:
            check_choice("reader", self.reader, FileReader, ", or module:function")
        if self.reader in get_args(FileReader) and not self.files:
            raise UsageError("a corpus of files needs [[files]]")
        if self.folder is not None and (".." in (parts := PurePosixPath(self.folder).parts) or not parts):
            raise UsageError(f"the folder {self.folder!r} leads out of the data directory")
        if not self.name or PurePosixPath(self.name).name != self.name:
            raise UsageError(f"the name {self.name!r} is not the name of a folder")


@dataclass(frozen=True, slots=True)
class BuiltCorpus:
    """Inputs and digest of a corpus: the record beside its passages."""

    schema: int
    name: str
    reader: str
    expected: int
    """Passages, as the description says."""
    count: int
    """Passages that there were."""
    sha256: str
    """Digest of all ids and contents, as the passages' file has it."""
    files: tuple[CorpusFile, ...]
    """Files as they were found."""
    deviations: tuple[str, ...]
    """Differences from the description, a line each."""

    @classmethod
    def read(cls, folder: Path) -> BuiltCorpus:
        """Read the record of a corpus."""
        built = parse(cls, read_json(folder / BUILT), str(folder / BUILT))
        if built.schema != SCHEMA:
            raise UsageError(
                f"{folder / BUILT} has schema {built.schema}, not {SCHEMA}: delete it and build it again"
            )
        return built


def read_spec(path: Path) -> CorpusSpec:
    """Read the description of a corpus."""
    return read_toml(CorpusSpec, path)


def file_spec(path: Path) -> CorpusSpec:
    """Return the description of a corpus that is one file of documents, of which nothing is known."""
    name = path.name.partition(".")[0] or "corpus"
    return CorpusSpec(
        name=name,
        about=f"the documents of {path.name}",
        source=str(path),
        licence="unknown",
        reader="documents",
        rule="one passage for each document",
        passages=0,
        files=(CorpusFile(str(path.absolute())),),
    )


def build_corpus(
    spec: CorpusSpec,
    folder: Path,
    data: Path,
    *,
    progress: Progress = lambda done, total: None,
) -> BuiltCorpus:
    """Write the passages of a corpus and the record of them; existing files stay.

    ``data`` is the data directory with its files; ``progress`` is called with the number of passages done.
    """
    if (folder / BUILT).exists() and (folder / PASSAGES).exists():
        built, store = BuiltCorpus.read(folder), PassageFile(folder / PASSAGES)
        if (built.name, built.reader, built.sha256) != (spec.name, spec.reader, store.sha256):
            raise UsageError(f"{folder} holds another corpus, {built.name!r}: delete it and build it again")
        return built
    paths = find_files(spec, data)
    make_folder(folder)
    found: list[CorpusFile] = []
    passages = _numbered(_read(spec, paths, found))
    store = write_passages(
        folder / PASSAGES,
        passages,
        corpus=spec.name,
        progress=lambda done: progress(done, max(done, spec.passages)),
    )
    if not len(store):
        (folder / PASSAGES).unlink()
        raise UsageError(f"the corpus {spec.name!r} has no passages: name other files")
    built = BuiltCorpus(
        schema=SCHEMA,
        name=spec.name,
        reader=spec.reader,
        expected=spec.passages,
        count=len(store),
        sha256=store.sha256,
        files=tuple(found),
        deviations=tuple(_deviations(spec, len(store), found)),
    )
    replace_file(folder / BUILT, json.dumps(asdict(built), indent=1) + "\n")
    return built


def find_files(spec: CorpusSpec, data: Path) -> list[Path]:
    """Return the paths of a corpus's files."""
    paths = []
    for file in spec.files:
        path = data.joinpath(*PurePosixPath(file.path).parts)
        packed = [path.with_name(path.name + suffix) for suffix in (".gz", ".xz", ".bz2")]
        published = [path.with_name(file.archive)] if file.archive else []
        path = next((one for one in (path, *packed, *published) if one.is_file()), path)
        if not path.is_file():
            raise MissingDataError(
                f"the corpus {spec.name!r} needs {' or '.join(map(str, (path, *published)))}: "
                f"{corpus_download(spec.name)}get it from {spec.source}, or set {DATA_VARIABLE} to the "
                "folder that has it"
            )
        paths.append(path)
    return paths


def _read(spec: CorpusSpec, paths: Sequence[Path], found: list[CorpusFile]) -> Iterator[Passage]:
    """Yield the passages of a corpus; ``found`` gets its files, as each has been read."""
    if spec.reader not in get_args(FileReader):
        with only_trusted():
            function = load_reference(spec.reader)
        yield from function(paths) if paths else function()
        found += (
            CorpusFile(file.path, None, sha256_of(path)) for file, path in zip(spec.files, paths, strict=True)
        )
        return
    seen: set[bytes] = set()
    for file, path in zip(spec.files, paths, strict=True):
        records = 0
        for where, record in read_records(path, name=PurePosixPath(file.path).name):
            records += 1
            try:
                for passage in _READERS[spec.reader](record):
                    _check_passage(passage)
                    if spec.reader not in _UNIONS or _is_new(passage, seen):
                        yield passage
            except (UsageError, TypeError, KeyError, ValueError, AttributeError) as error:
                raise UsageError(f"{where}: no record of {spec.reader!r}: {_reason(error)}") from error
        found.append(CorpusFile(file.path, records, sha256_of(path)))


def _documents(record: Mapping[str, Any]) -> Iterable[Passage]:
    """Read an object with ``id`` (or ``_id``), and ``title`` and ``text``, or ``contents``."""
    id = record.get("id", record.get("_id"))
    passage = read_document({**record, "id": 0 if id is None else id})
    return (passage if id is not None else replace(passage, id=""),)


def _distinct(record: Mapping[str, Any]) -> Iterable[Passage]:
    """Read a document without its id."""
    return _documents({**record, "id": None})


def _sentences(record: Mapping[str, Any]) -> Iterable[Passage]:
    """Read an article of 2WikiMultihopQA's encyclopedia; one without text is no passage."""
    text = " ".join(sentence.strip() for sentence in record["sentences"]).strip()
    if not text:
        return ()
    return _documents({"id": record["id"], "title": record["title"], "text": text})


def _hotpotqa(record: Mapping[str, Any]) -> Iterable[Passage]:
    """Read the passages of a question of HotpotQA or 2WikiMultihopQA, whose texts are lists of sentences."""
    for title, sentences in record["context"]:
        text = " ".join(" ".join(sentence.strip() for sentence in sentences).split())
        yield Passage("", _one_line(title), text)


def _musique(record: Mapping[str, Any]) -> Iterable[Passage]:
    """Read the passages of a question of MuSiQue: stripped, none empty, as upstream's union has them."""
    for paragraph in record["paragraphs"]:
        text = paragraph["paragraph_text"]
        passage = Passage("", _one_line(paragraph["title"]), text.strip() if isinstance(text, str) else text)
        if passage.text != "":
            yield passage


def _papers(record: Mapping[str, Any]) -> Iterable[Passage]:
    """Read a paper: its title and abstract."""
    id = record["id"]
    if type(id) not in (str, int):
        raise UsageError(f"the id of a paper is a text or a whole number, not {id!r:.60}")
    return (Passage(str(id), _one_line(record["title"]), record.get("abstract") or ""),)


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Iterable[Passage]]] = {
    "documents": _documents,
    "distinct": _distinct,
    "sentences": _sentences,
    "hotpotqa": _hotpotqa,
    "musique": _musique,
    "papers": _papers,
}


_UNIONS = ("distinct", "hotpotqa", "musique")


def _one_line(title: str) -> str:
    return " ".join(title.split())


def _check_passage(passage: Passage) -> None:
    title: object = passage.title
    text: object = passage.text
    if not isinstance(title, str) or not isinstance(text, str):
        raise UsageError("title and text of a passage are texts")
    if len(passage.text) > MAX_TEXT_LENGTH:
        raise UsageError(f"a passage has at most {MAX_TEXT_LENGTH:,} characters, not {len(passage.text):,}")


def _is_new(passage: Passage, seen: set[bytes]) -> bool:
    """Return whether no passage was like this one before."""
    digest = hashlib.blake2b(passage.contents.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    before = len(seen)
    seen.add(digest)
    return len(seen) > before


def _numbered(passages: Iterable[Passage]) -> Iterator[Passage]:
    """Name passages without an id after their number."""
    for number, passage in enumerate(islice(passages, MAX_PASSAGES)):
        yield passage if passage.id else replace(passage, id=str(number))


def _deviations(spec: CorpusSpec, count: int, found: Sequence[CorpusFile]) -> Iterator[str]:
    """Yield the deviations from the description."""
    if spec.passages and count != spec.passages:
        yield f"{count:,} passages, not the {spec.passages:,} expected"
    for file, now in zip(spec.files, found, strict=True):
        if file.records is not None and now.records is not None and file.records != now.records:
            yield f"{file.path} holds {now.records:,} records, not the {file.records:,} expected"
        if file.sha256 is not None and file.sha256 != now.sha256:
            yield f"{file.path} has the sha256 {now.sha256}, not {file.sha256}"


def _reason(error: Exception) -> str:
    return f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
