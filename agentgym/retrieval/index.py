"""Index interface: search over numbered documents, and the manifest of its inputs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from agentgym.core.hashing import canonical
from agentgym.core.queries import Reproducibility
from agentgym.errors import UsageError
from agentgym.io.files import draft_of, make_folder, trouble, writing
from agentgym.io.records import parse
from agentgym.io.untrusted import read_json

MANIFEST = "manifest.json"

SCHEMA = 2
"""Version of the manifest's format."""

MAX_MANIFEST_SIZE = 1 << 20
"""Bytes of a manifest at most."""

PUBLISHED: Final = "published"
"""A structure of vectors that somebody else built, see `agentgym.retrieval.adopt`."""

NOT_RANKED: Final = ("encoder", "revision", "vectors_sha256", "longest")
"""Parameters that are no part of a fingerprint: names of what digests pin, and what differs in the last bits
between machines that encode the same corpus."""

_FINGERPRINTED: Final = {"lucene-english-porter/2": "lucene-english-porter/1"}
"""Analysers that a fingerprint has by the name of an earlier version, whose defect is mended: what was ranked
right keeps its fingerprint, and an answer that was not is found where it is recomputed."""

_STANDINGS: Final[tuple[Reproducibility, ...]] = ("exact", "recomputable", "attested")
_STANDING_OF: Final[Mapping[str, Reproducibility]] = {
    "bm25": "exact",
    "hybrid": "exact",
    "remote": "attested",
}


class Hits(NamedTuple):
    """Result of a search, best first; documents of one score stand in the order of their ids."""

    documents: npt.NDArray[np.int32]
    """Numbers of the documents: their places in the corpus."""
    scores: npt.NDArray[np.float32]


class Index(Protocol):
    """Ranks numbered documents for a query. Deterministic, and safe to ask from many threads."""

    @property
    def manifest(self) -> Manifest:
        """The record of the index's inputs."""

    def __len__(self) -> int:
        """Number of documents."""

    def ids(self, documents: npt.NDArray[np.int32]) -> list[str]:
        """Return the ids of documents, given their numbers."""

    def search(self, query: str, k: int) -> Hits:
        """Return the best ``k`` documents that share a term with the query, or as many as there are."""

    def search_all(self, queries: Sequence[str], k: int) -> list[Hits]:
        """Return `search` of each query."""


class BatchedIndex(ABC):
    """Base of engines, which search many queries at once; one without a column of ids overrides `ids`."""

    manifest: Manifest
    _ids: npt.NDArray[np.bytes_]

    def __len__(self) -> int:
        """Number of documents."""
        return self.manifest.count

    def ids(self, documents: npt.NDArray[np.int32]) -> list[str]:
        """Return the ids of documents, given their numbers."""
        return [raw.decode() for raw in self._ids[documents].tolist()]

    def search(self, query: str, k: int) -> Hits:
        """Return the best ``k`` documents for a query, or as many as there are."""
        return self.search_all([query], k)[0]

    def search_all(self, queries: Sequence[str], k: int) -> list[Hits]:
        """Return `search` of each query."""
        if k < 1:
            raise UsageError(f"a search returns one document at least: ask for k >= 1, not {k}")
        return self._search_all(queries, k)

    @abstractmethod
    def _search_all(self, queries: Sequence[str], k: int) -> list[Hits]:
        """Return the hits of each query; ``k`` is at least 1."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Inputs and parameters of an index."""

    engine: str
    """Name of the engine with the version of its format, as ``bm25/1``."""
    analyser: str
    """Analyser that makes terms of texts; empty for an engine of vectors."""
    parameters: Mapping[str, float]
    corpus: str
    """Source of the documents, as the caller names it."""
    corpus_sha256: str
    """Digest of all ids and texts, in order, as `agentgym.retrieval.corpus.passages.PassageStore` has it;
    empty where it is not known, as of a server's corpus."""
    count: int
    """Documents."""
    libraries: Mapping[str, str]
    """Versions of the packages that made it."""
    text_parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters that are no numbers: an encoder's id, revision, sha256 of its weights, prefixes, pooling and
    so on; the engines of a hybrid."""

    @property
    def fingerprint(self) -> str:
        """16 hex digits over all that ranks depend on: engine, analyser, parameters and corpus."""
        numbers = {name: float(value) for name, value in self.parameters.items() if name not in NOT_RANKED}
        texts = {name: text for name, text in self.text_parameters.items() if name not in NOT_RANKED}
        analyser = _FINGERPRINTED.get(self.analyser, self.analyser)
        value = canonical([self.engine, analyser, numbers, texts, self.corpus_sha256])
        return hashlib.blake2b(value, digest_size=8).hexdigest()

    @property
    def standing(self) -> Reproducibility:
        """Reproducibility of ranks elsewhere: the engine's, of a hybrid the weaker of its two."""
        engines = [self.engine, *self.text_parameters.get("engines", "").split()]
        return max((_standing(engine) for engine in engines), key=_STANDINGS.index)

    def to_json(self) -> str:
        """Return the file's content."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest of an index."""
        path = folder / MANIFEST
        if not path.is_file():
            raise UsageError(f"no index in {folder} (it has no {MANIFEST}): build it first")
        try:
            table = read_json(path, largest=MAX_MANIFEST_SIZE)
            schema = table.pop("schema") if isinstance(table, dict) and "schema" in table else None
            if schema == SCHEMA:
                manifest = parse(cls, table, MANIFEST)
        except UsageError as error:
            raise UsageError(f"{path} is damaged ({error}): delete {folder} and build it again") from error
        if schema != SCHEMA:
            raise UsageError(
                f"{path} has schema {schema!r:.20}, not {SCHEMA}: delete {folder} and build it again"
            )
        return manifest

    def require(self, folder: Path, **expected: object) -> None:
        """Refuse an index that was made of anything else; the message names the field."""
        for name, value in expected.items():
            if (found := getattr(self, name)) != value:
                raise UsageError(
                    f"the index {folder} has {name} {found!r}, not {value!r}: delete it and build it again, "
                    + self._rebuilding(folder)
                )

    def _rebuilding(self, folder: Path) -> str:
        """Return the command that builds the index anew, or removes it where its passages are elsewhere."""
        remove = f"rm -r {shlex.quote(str(folder))}"
        if not any(folder.parent.glob("passages.*")):
            return f"`{remove}`: what opens it builds it"
        if self.text_parameters.get("structure") == PUBLISHED:
            return f"`{remove}`, by adopting it: `agentgym index adopt --help`"
        engine = self.engine.partition("/")[0].replace("lucene", "pyserini")
        return f"`{remove} && {building_command(folder, engine, self.text_parameters.get('encoder'))}`"


class CorpusDigest:
    """The sha256 of a corpus, taken document by document."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._sha256 = hashlib.sha256()
        self.ids: list[str] = []
        """Of the documents so far."""

    def add(self, id: str, text: str) -> None:
        """Take the next document."""
        self._sha256.update(canonical((id, text)))
        self.ids.append(id)

    def hexdigest(self) -> str:
        """Return 64 hex digits."""
        return self._sha256.hexdigest()

    def id_column(self) -> npt.NDArray[np.bytes_]:
        """Return the ids in UTF-8, as an array; two equal ids are a `UsageError`."""
        column = np.array([id.encode() for id in self.ids] or [b""], np.bytes_)[: len(self.ids)]
        ordered = np.sort(column)
        twice = np.flatnonzero(ordered[1:] == ordered[:-1])
        if len(twice):
            raise UsageError(f"two documents have the id {ordered[twice[0]].decode()!r}: give each its own")
        return column


def building_command(folder: Path, engine: str, encoder: str | None) -> str:
    """Return the command that builds the index in a folder, which is named after its options."""
    options = [f"--encoder {shlex.quote(encoder)}"] if encoder else []
    options += [f"--option {option}" for option in re.findall(r"-(\w+=[\w.]+)", folder.name)]
    return " ".join(["agentgym index build", shlex.quote(str(folder.parent)), f"--engine {engine}", *options])


def _standing(engine: str) -> Reproducibility:
    return _STANDING_OF.get(engine.partition("/")[0], "recomputable")


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of installed packages."""
    return {package: version(package) for package in packages}


@contextmanager
def spool_beside(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``folder``, for its building; it vanishes afterwards."""
    make_folder(folder.parent)
    with writing(folder):
        spool = tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True)
    with spool as name:
        yield Path(name)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder that takes the name ``folder`` when all went well, and vanishes otherwise."""
    draft = draft_of(folder)
    try:
        draft.mkdir(parents=True)
        yield draft
        put_in_place(draft, folder)
    except OSError as error:
        raise UsageError(f"cannot write the index {folder}: {trouble(error)}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def put_in_place(draft: Path, folder: Path) -> None:
    """Rename a finished folder; an older one goes only when the new one is there."""
    for file in draft.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
    old = draft.with_suffix(".old")
    with suppress(FileNotFoundError):
        folder.rename(old)
    draft.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
