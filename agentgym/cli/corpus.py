"""Corpora and indexes as commands name them: by description, by name in the cache, by file, or by folder."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.cli.parser import Parser, parse_options
from agentgym.data.progress import progress_bar
from agentgym.data.sources import corpus_download
from agentgym.errors import MissingDataError, UsageError, nearest
from agentgym.io.files import sha256_of
from agentgym.io.paths import cache_directory, data_directory, shipped_folder
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
from agentgym.retrieval.opening import ON_DEMAND, check_engine, engine_of, open_searcher

if TYPE_CHECKING:
    from agentgym.retrieval.searcher import Searcher

_FILES = (".jsonl", ".json")
_PACKED = (".gz", ".xz", ".bz2", ".tar", ".tgz", ".zip")


@dataclass(frozen=True, slots=True)
class NamedCorpus:
    """A corpus, and the folder of its passages and indexes."""

    spec: CorpusSpec | None
    """Description of the corpus; None where only its folder is known."""
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
            fetched = corpus_download(self.spec.name) if self.spec is not None else ""
            raise UsageError(f"no passages in {self.folder}: {fetched}run `agentgym index build` first")
        return PassageFile(self.folder / PASSAGES)

    def check(self, store: PassageFile) -> None:
        """Raise a UsageError unless passages are those of the record beside them, where there is one."""
        built = self.built
        if built is not None and (built.count, built.sha256) != (len(store), store.sha256):
            raise UsageError(
                f"{self.folder / PASSAGES} holds {len(store):,} passages, not those that were built, "
                f"{built.count:,} by {BUILT}: delete both and build them again"
            )

    def engine(self, engine: str | None, *, build: bool = False) -> str:
        """Return the engine: the one given, else the description's, or the only one here unless to build."""
        here = sorted({engine_of(name.partition("-")[0]) for name in self.indexes})
        if engine is None and self.spec is not None and (build or not here or self.spec.index.engine in here):
            engine = self.spec.index.engine
        if engine is None:
            if len(here) > 1:
                raise UsageError(f"{self.folder} has indexes of {', '.join(here)}: pass --engine")
            engine = here[0] if here else "bm25"
        check_engine(engine)
        return engine


def add_corpus(parser: Parser) -> None:
    """Declare the corpus that a command works on."""
    parser.add_argument(
        "corpus",
        metavar="CORPUS",
        help="name of a description in --corpora or of a corpus in the cache, a .toml description, a .jsonl "
        "file of documents, or the folder of a built corpus",
    )
    add_corpora(parser)
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="FOLDER",
        help="folder of passages and indexes (default: as the description says, else in the cache)",
    )


def add_corpora(parser: Parser) -> None:
    """Declare where descriptions are looked for."""
    parser.add_argument(
        "--corpora",
        type=Path,
        metavar="FOLDER",
        help="folder of descriptions (default: those that come with agentgym)",
    )


def add_engine(parser: Parser) -> None:
    """Declare what ranks."""
    parser.add_argument(
        "--engine",
        help="search engine: bm25, pyserini, exact, faiss, hybrid or remote (default: as the "
        "description says, else bm25)",
    )
    parser.add_argument(
        "--encoder",
        help="encoder of texts, for exact, faiss and hybrid: a preset such as minilm or e5-base-v2, "
        "PRESET@FOLDER, or a sentence-transformers model as FOLDER or OWNER/NAME",
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


def descriptions(folder: Path | None) -> Iterator[CorpusSpec]:
    """Yield the descriptions in a folder, by name; None for those that come with the package."""
    for path in sorted((folder or shipped_folder("indexes")).glob("*.toml")):
        yield read_spec(path)


def corpora_in_cache() -> list[NamedCorpus]:
    """Return the corpora that have passages in the cache, by name of their folders."""
    found = (NamedCorpus(None, folder) for folder in sorted((cache_directory() / "indexes").glob("*")))
    return [corpus for corpus in found if corpus.is_built]


def find_place(name: str, corpora: Path | None) -> NamedCorpus:
    """Return the corpus that is described by a name, or else the place in the cache for one of that name."""
    spec = next((spec for spec in descriptions(corpora) if name in (spec.name, *spec.also)), None)
    return NamedCorpus(None, cache_directory() / "indexes" / name) if spec is None else placed(spec)


def find_corpus(name: str, corpora: Path | None, folder: Path | None = None) -> NamedCorpus:
    """Return the corpus of a name, as commands take it.

    ``corpora``: as `descriptions` takes it; ``folder``: of passages and indexes, None for the default.
    """
    path = Path(name)
    if (path / PASSAGES).exists():
        return NamedCorpus(None, path)
    if path.suffix == ".toml" and path.is_file():
        return placed(read_spec(path), folder)
    if path.suffix in _FILES or (path.suffix in _PACKED and path.is_file()):
        spec = file_spec(path)
        place = cache_directory() / "indexes" / f"{spec.name}-{_sha256(path)[:16]}"
        return NamedCorpus(spec, folder or place)
    corpus = find_place(name, corpora)
    if corpus.spec is not None:
        return placed(corpus.spec, folder)
    if not corpus.is_built or folder is not None:
        known = [each for spec in descriptions(corpora) for each in (spec.name, *spec.also)]
        known += [each.folder.name for each in corpora_in_cache()]
        listed = f"; known: {', '.join(known)}" if known else f"; there are no descriptions in {corpora}"
        raise UsageError(f"there is no corpus {name!r:.100}{nearest(name, known)}{listed}")
    return corpus


def build_passages(corpus: NamedCorpus) -> BuiltCorpus | None:
    """Write a corpus's passages where they are missing; return their record, if there is one."""
    if corpus.spec is None or (corpus.is_built and corpus.store().is_adopted):
        return corpus.built
    with progress_bar(f"reading the passages of {corpus.spec.name}") as progress:
        return build_corpus(corpus.spec, corpus.folder, data_directory(), progress=progress)


def open_named(arguments: argparse.Namespace, *, build: bool = False) -> tuple[NamedCorpus, Searcher]:
    """Return the corpus that a command names, and search over it.

    What is missing is built where that takes no hours, or where the command is to ``build``.
    """
    corpus = find_corpus(arguments.corpus, arguments.corpora, arguments.folder)
    engine = corpus.engine(arguments.engine, build=build)
    if not (build or corpus.is_built) and corpus.spec is not None and corpus.spec.passages > ON_DEMAND:
        raise MissingDataError(
            f"the corpus {corpus.spec.name!r} has {corpus.spec.passages:,} passages and is not built: "
            f"{corpus_download(corpus.spec.name)}run `agentgym index build {arguments.corpus}`"
        )
    build_passages(corpus)
    store, options, encoder = corpus.store(), parse_options(arguments.option), arguments.encoder
    corpus.check(store)
    described = corpus.spec.index if corpus.spec is not None else None
    if described is not None and engine == described.engine:
        encoder = encoder or described.encoder
    searcher = open_searcher(
        engine,  # type: ignore[arg-type]  # it has been checked
        corpus.folder,
        lambda: store,
        corpus=store.corpus,
        count=len(store),
        encoder=encoder,
        device=arguments.device,
        build=build,
        **options,
    )
    if described is not None and engine == described.engine and not options:
        _check_described(described, searcher.index.manifest, corpus.folder / engine)
    return corpus, searcher


def _check_described(described: CorpusIndexing, manifest: Manifest, folder: Path) -> None:
    """Refuse an index that was built with anything else than the description says."""
    analyser = {"analyser": described.analyser} if described.analyser else {}
    for name, value in {**analyser, **described.parameters}.items():
        found = manifest.analyser if name == "analyser" else manifest.parameters.get(name)
        if found != value:
            raise UsageError(
                f"the index {folder} has {name} {found!r}, not {value!r} as its description says: change "
                "one or the other"
            )


def placed(spec: CorpusSpec, folder: Path | None = None) -> NamedCorpus:
    """Return a described corpus in a folder; None for the one that its description means."""
    if folder is None and spec.folder is not None:
        folder = data_directory() / spec.folder
    return NamedCorpus(spec, folder or cache_directory() / "indexes" / spec.name)


def _sha256(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; name a file of documents") from error
