"""Corpora and indexes as commands name them: by description, by file, or by folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.cli.parser import Parser
from agentgym.data.progress import progress_bar
from agentgym.errors import UsageError, nearest
from agentgym.io.files import sha256_of
from agentgym.io.paths import cache_directory, data_directory
from agentgym.retrieval.corpus.corpora import (
    BUILT,
    BuiltCorpus,
    CorpusIndexing,
    CorpusSpec,
    build_corpus,
    file_spec,
    read_spec,
)
from agentgym.retrieval.corpus.passages import PASSAGES, PassageFile
from agentgym.retrieval.index import MANIFEST, Manifest
from agentgym.retrieval.opening import check_engine, open_searcher

if TYPE_CHECKING:
    from agentgym.retrieval.searcher import Searcher

CORPORA = Path("indexes")
"""Where descriptions are looked for: the checkout's."""

_FILES = (".jsonl", ".json")
_PACKED = (".gz", ".xz", ".bz2")


@dataclass(frozen=True, slots=True)
class NamedCorpus:
    """A corpus, and the folder of its passages and indexes."""

    spec: CorpusSpec | None
    """None where only the folder is known."""
    folder: Path

    @property
    def is_built(self) -> bool:
        """Whether its passages are there."""
        return (self.folder / PASSAGES).exists()

    @property
    def indexes(self) -> list[str]:
        """Names of the indexes that are here: of an engine, with its encoder and options if it has any."""
        return sorted(path.parent.name for path in self.folder.glob(f"*/{MANIFEST}"))

    @property
    def built(self) -> BuiltCorpus | None:
        """The record of the passages' build, if there is one."""
        return BuiltCorpus.read(self.folder) if (self.folder / BUILT).exists() else None

    def store(self) -> PassageFile:
        """Open the passages."""
        if not self.is_built:
            raise UsageError(f"no passages in {self.folder}: run `agentgym index build` first")
        return PassageFile(self.folder / PASSAGES)

    def check(self, store: PassageFile) -> None:
        """Raise a UsageError unless passages are those of the record beside them, where there is one."""
        built = self.built
        if built is not None and (built.count, built.sha256) != (len(store), store.sha256):
            raise UsageError(
                f"{self.folder / PASSAGES} holds {len(store):,} passages, not those that were built, "
                f"{built.count:,} by {BUILT}: delete both and build them again"
            )

    def engine(self, asked: str | None) -> str:
        """Return the engine: the one given, else the description's or the only one here."""
        if asked is None and self.spec is not None:
            asked = self.spec.index.engine
        if asked is None:
            here = sorted({name.partition("-")[0] for name in self.indexes})
            if len(here) > 1:
                raise UsageError(f"{self.folder} has indexes of {', '.join(here)}: pass --engine")
            asked = here[0] if here else "bm25"
        check_engine(asked)
        return asked


def add_corpus(parser: Parser) -> None:
    """Declare the corpus that a command works on."""
    parser.add_argument(
        "corpus",
        metavar="CORPUS",
        help="name of a description in --corpora, a .toml description, a .jsonl file of documents, or the "
        "folder of a built corpus",
    )
    parser.add_argument(
        "--corpora",
        type=Path,
        default=CORPORA,
        metavar="FOLDER",
        help="where descriptions are looked for (default: indexes)",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="FOLDER",
        help="where passages and indexes are (default: as the description says, else in the cache)",
    )


def add_engine(parser: Parser) -> None:
    """Declare what ranks."""
    parser.add_argument(
        "--engine",
        help="what ranks: bm25, lucene, pyserini, exact, faiss, hybrid or remote (default: as the "
        "description says, else bm25)",
    )
    parser.add_argument(
        "--encoder",
        help="what makes texts vectors, for exact, faiss and hybrid: a preset such as minilm or e5-base-v2, "
        "PRESET@FOLDER, or the folder of a sentence-transformers model",
    )
    parser.add_argument(
        "--device",
        default="auto",
        help="where the encoder computes: auto, cpu, cuda or cuda:NUMBER (default: auto, a GPU if there is "
        "one)",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="option of the engine, such as k1=1.2, or url=http://HOST:PORT of remote; repeat for several",
    )


def descriptions(folder: Path) -> Iterator[CorpusSpec]:
    """Yield the descriptions in a folder, by name."""
    for path in sorted(folder.glob("*.toml")):
        yield read_spec(path)


def find_corpus(name: str, corpora: Path, folder: Path | None = None) -> NamedCorpus:
    """Return the corpus of a name, as commands take it.

    ``corpora``: folder of descriptions; ``folder``: of passages and indexes, None for the default.
    """
    path = Path(name)
    if (path / PASSAGES).exists():
        return NamedCorpus(None, path)
    if path.suffix == ".toml" and path.is_file():
        return _placed(read_spec(path), folder)
    plain = path.with_suffix("") if path.suffix in _PACKED else path
    if plain.suffix in _FILES:
        spec = file_spec(path)
        place = cache_directory() / "indexes" / f"{spec.name}-{_sha256(path)[:16]}"
        return NamedCorpus(spec, folder or place)
    known = {}
    for spec in descriptions(corpora):
        known.update(dict.fromkeys((spec.name, *spec.also), spec))
    if name not in known:
        listed = f"; known: {', '.join(known)}" if known else f"; there are no descriptions in {corpora}"
        raise UsageError(f"there is no corpus {name!r:.100}{nearest(name, known)}{listed}")
    return _placed(known[name], folder)


def build_passages(corpus: NamedCorpus) -> BuiltCorpus | None:
    """Write a corpus's passages where they are missing; return their record, if there is one."""
    if corpus.spec is None:
        return corpus.built
    with progress_bar(f"reading the passages of {corpus.spec.name}") as progress:
        return build_corpus(corpus.spec, corpus.folder, data_directory(), progress=progress)


def searcher_of(
    corpus: NamedCorpus, engine: str, encoder: str | None, device: str, options: Mapping[str, Any]
) -> Searcher:
    """Return search over a corpus whose passages are there; its index is built where it is missing."""
    store = corpus.store()
    corpus.check(store)
    check_engine(engine)
    described = corpus.spec.index if corpus.spec is not None else None
    if encoder is None and described is not None and engine == described.engine:
        encoder = described.encoder
    searcher = open_searcher(
        engine,  # type: ignore[arg-type]  # it has been checked
        corpus.folder,
        lambda: store,
        corpus=store.corpus,
        count=len(store),
        encoder=encoder,
        device=device,
        **options,
    )
    if corpus.spec is not None and engine == corpus.spec.index.engine and not options:
        _check_described(corpus.spec.index, searcher.index.manifest, corpus.folder / engine)
    return searcher


def _check_described(described: CorpusIndexing, manifest: Manifest, folder: Path) -> None:
    """Refuse an index that was built with anything else than the description says."""
    said = {"analyser": described.analyser} if described.analyser else {}
    for name, value in {**said, **described.parameters}.items():
        found = manifest.analyser if name == "analyser" else manifest.parameters.get(name)
        if found != value:
            raise UsageError(
                f"the index {folder} has {name} {found!r}, not {value!r} as its description says: change "
                "one or the other"
            )


def _placed(spec: CorpusSpec, folder: Path | None) -> NamedCorpus:
    if folder is None and spec.folder is not None:
        folder = data_directory() / spec.folder
    return NamedCorpus(spec, folder or cache_directory() / "indexes" / spec.name)


def _sha256(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; name a file of documents") from error
