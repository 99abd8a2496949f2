"""Opening indexes by the name of their engine; those that are not there yet are built."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from agentgym.core.options import Option, check_choice, check_options
from agentgym.core.types import Passage
from agentgym.data.progress import progress_bar
from agentgym.errors import MissingDataError, UsageError
from agentgym.retrieval.corpus.passages import PASSAGES, PassageFile, documents, write_passages
from agentgym.retrieval.index import MANIFEST, PUBLISHED, Index, Manifest, building_command
from agentgym.retrieval.searcher import CACHE_BYTES, Searcher

SearchEngine: TypeAlias = Literal["bm25", "pyserini", "exact", "faiss", "hybrid", "remote"]
"""Engine that ranks: ``bm25`` as Lucene does; ``pyserini`` Lucene itself, in a Java machine; ``exact`` all
vectors of an encoder; ``faiss`` millions of vectors; ``hybrid`` two of these, fused by ranks; ``remote`` a
server."""

ENCODING: Final = ("exact", "faiss")
"""Engines of vectors, which need an encoder."""

OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "bm25": ("k1", "b"),
    "pyserini": ("k1", "b"),
    "exact": (),
    "faiss": ("kind", "links", "lists", "probes", "width"),
    "hybrid": ("of", "k0", "first", "depth"),
    "remote": ("url", "dialect"),
}
"""Options of the engines, beside documents and encoder."""

LUCENE: Final = "lucene"
"""Name of pyserini's indexes in folders and manifests, since their files are Lucene's."""

FUSED: Final = ("bm25", "exact")
"""Engines of a hybrid where no others are named."""

ON_DEMAND: Final = 200_000
"""Largest number of passages that an index is built over where it is missed, without being asked for."""

_REPORTED = 256
"""Documents between two reports of progress."""


def check_engine(engine: str) -> None:
    """Refuse an unknown engine; UsageError with the nearest one."""
    check_choice("engine", engine, SearchEngine)


def open_searcher(
    engine: SearchEngine,
    folder: Path,
    passages: Callable[[], Iterable[Passage]],
    *,
    corpus: str,
    count: int,
    encoder: str | None = None,
    device: str = "auto",
    cache: int = CACHE_BYTES,
    build: bool = False,
    **options: Any,
) -> Searcher:
    """Return search over the passages in a folder, built there first where they are not there.

    The folder holds the passages and, in a folder of its own, each engine's index over them.

    Args:
        engine: the engine that ranks.
        folder: folder of the corpus.
        passages: yields them.
        corpus: names what they are; another name is another corpus.
        count: number of passages.
        encoder: encoder of an engine of vectors, as `agentgym.retrieval.encoders.open_encoder` takes it.
        device: the encoder's, as `agentgym.retrieval.encoders.find_device` takes it; the index is the same.
        cache: bytes of queries and their hits to keep.
        build: as `open_or_build` takes it.
        options: the engine's, as in `OPTIONS`; for ``remote`` the ``url`` of a server over the same passages.

    Raises:
        UsageError: an error of `open_or_build`, or the folder holds other passages.
        MissingDataError: the index, pyserini's jar or the encoder is not on this machine.
        UnansweredError: the server cannot be reached.
    """
    check_engine(engine)
    _check(engine, encoder, options)
    path = folder / PASSAGES
    if not path.exists():
        with progress_bar(f"writing {count:,} passages") as progress:
            write_passages(path, passages(), corpus=corpus, progress=_every(progress, count))
    store = PassageFile(path)
    if (store.corpus, len(store)) != (corpus, count):
        raise UsageError(
            f"{path} holds {len(store)} passages of {store.corpus!r}, not {count} of {corpus!r}: "
            f"delete {folder} and build it again"
        )
    index: Index
    if engine == "remote":
        remote = import_module("agentgym.retrieval.engines.remote")
        index = remote.RemoteIndex(remote.RetrievalClient(**options), store)
    else:
        options |= {"encoder": encoder, "device": device, "build": build}
        index = open_or_build(
            engine, folder / engine, lambda: documents(store), corpus=corpus, count=count, **options
        )
    return Searcher(index, store, cache=cache)


def open_or_build(
    engine: SearchEngine,
    folder: Path,
    documents: Callable[[], Iterable[tuple[str, str]]],
    *,
    corpus: str,
    count: int,
    encoder: str | None = None,
    device: str = "auto",
    renew: bool = False,
    build: bool = False,
    **options: Any,
) -> Index:
    """Return the index in a folder, built there first if it is not there.

    ``folder``: `find_index` of it, for each encoder and other options than the default. ``corpus`` names
    the documents' source: another name is another corpus. ``renew`` builds an index of an older analyser
    anew, as in a cache, instead of refusing it. ``device`` does not change the index. ``options``: the
    engine's, as in `OPTIONS`; a hybrid's ``of`` are its two engines.

    Without ``build``, `MissingDataError` where passages stand beside the index that is not there, and there
    are more than `ON_DEMAND`, or another has their vectors, or they were adopted.
    """
    check_engine(engine)
    _check(engine, encoder, options)
    if engine == "remote":
        raise UsageError("a server's index is not opened from a folder: choose another engine")
    if engine == "hybrid":
        return _hybrid(folder, documents, corpus, count, encoder, device, renew, build, options)
    if engine == "pyserini":
        folder = folder.with_name(folder.name.replace("pyserini", LUCENE, 1))
    folder = find_index(folder, engine, encoder, options)
    module = import_module(f"agentgym.retrieval.engines.{engine}")
    coding = {"encoder": encoder, "device": device} if engine in ENCODING else {}
    if renew and engine == "bm25":
        _remove_outdated(folder)
    if not folder.exists():
        if not build:
            _check_unasked(folder, engine, encoder, count)
        with progress_bar(f"indexing {count:,} documents") as progress:
            report = _every(progress, count)
            builder = getattr(module, f"build_{engine}")
            builder(documents(), corpus=corpus, folder=folder, progress=report, **coding, **options)
    index: Index = getattr(module, f"open_{engine}")(folder, **coding)
    index.manifest.require(folder, corpus=corpus, count=count)
    return index


def open_index(folder: Path, *, encoder: str | None = None) -> Index:
    """Return the index in a folder, of any engine.

    ``encoder`` None is that of the manifest, which must be a preset's or the hub's.
    """
    engine = engine_of(Manifest.read(folder).engine.partition("/")[0])
    check_engine(engine)
    if engine in ("hybrid", "remote"):
        raise UsageError(f"an index of {engine!r} has no folder: name those of its parts")
    coding = {"encoder": encoder} if engine in ENCODING else {}
    index: Index = getattr(import_module(f"agentgym.retrieval.engines.{engine}"), f"open_{engine}")(
        folder, **coding
    )
    return index


def engine_of(name: str) -> str:
    """Return the engine that opens an index, by the name in its folder or its manifest."""
    return "pyserini" if name == LUCENE else name


def index_folder(folder: Path, encoder: str | None, options: Mapping[str, Any]) -> Path:
    """Return the folder of an index with an encoder and options: ``exact`` becomes ``exact-minilm``.

    Example:
        >>> index_folder(Path("corpus/bm25"), None, {"k1": 1.2}).name
        'bm25-k1=1.2'
    """
    parts = [] if encoder is None else [_plain(encoder)]
    parts += [f"{name}={_plain(str(value))}" for name, value in sorted(options.items())]
    return folder.with_name("-".join([folder.name, *parts]))


def find_index(folder: Path, engine: str, encoder: str | None, options: Mapping[str, Any]) -> Path:
    """Return the folder of an index: `index_folder`, or the one of vectors that is there by another name.

    That is an adopted one of this encoder, whatever folder the encoder is in; where none is named, the only
    one of the engine.
    """
    named = index_folder(folder, encoder, options)
    if engine not in ENCODING or (encoder is not None and (named.exists() or options)):
        return named
    name = Path((encoder or "").partition("@")[0]).name
    here = []
    for path in sorted(folder.parent.glob(f"{folder.name}*/{MANIFEST}")):
        facts = Manifest.read(path.parent).text_parameters
        adopted = facts.get("structure") == PUBLISHED and Path(facts.get("encoder", "")).name == name
        here += [path.parent] if encoder is None or adopted else []
    if encoder is None and len(here) != 1:
        of = f", of {', '.join(path.name for path in here)}" if here else ""
        raise UsageError(f"the engine {engine!r} needs an encoder: pass encoder='minilm', for example{of}")
    return here[0] if here else named


def _check_unasked(folder: Path, engine: str, encoder: str | None, count: int) -> None:
    """Refuse to build an index that takes hours, or in place of the one that is meant."""
    path = folder.parent / PASSAGES
    if not path.exists():  # nothing but the caller can build it
        return
    here = sorted(each.parent.name for each in folder.parent.glob(f"*/{MANIFEST}"))
    encoded = engine in ENCODING and any(name.partition("-")[0] in ENCODING for name in here)
    if count > ON_DEMAND or encoded or PassageFile(path).is_adopted:
        raise MissingDataError(
            f"{folder.parent} has no index {folder.name}, but {', '.join(here) or 'none at all'}: "
            f"`{building_command(folder, engine, encoder)}` builds it over {count:,} passages"
        )


def _remove_outdated(folder: Path) -> None:
    """Remove an index whose words another analyser made; another process may do so at the same time."""
    from agentgym.retrieval.analysis import ANALYSER

    if folder.exists() and Manifest.read(folder).analyser != ANALYSER:
        old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
        with suppress(FileNotFoundError):
            folder.rename(old)
            shutil.rmtree(old)


def _plain(text: str) -> str:
    """Return a text as part of a file's name."""
    if re.fullmatch(r"[A-Za-z0-9._]+(-[A-Za-z0-9._]+)*", text):
        return text
    return f"{Path(text).name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _hybrid(
    folder: Path,
    documents: Callable[[], Iterable[tuple[str, str]]],
    corpus: str,
    count: int,
    encoder: str | None,
    device: str,
    renew: bool,
    build: bool,
    options: Mapping[str, Any],
) -> Index:
    """Return the fusion of two indexes, which stand where they would stand alone."""
    of = options.get("of", FUSED)
    if not (isinstance(of, tuple | list) and len(of) == 2 and not {"hybrid", "remote"} & set(of)):
        raise UsageError(f"a hybrid is of two engines that have folders, such as {FUSED}, not of {of!r:.60}")
    if encoder is not None and not set(of) & set(ENCODING):
        raise UsageError(f"no engine of {of} takes an encoder: leave out encoder={encoder!r:.60}")
    parts = [
        open_or_build(
            part,
            folder.with_name(folder.name.replace("hybrid", part, 1))
            if "hybrid" in folder.name
            else folder / part,
            documents,
            corpus=corpus,
            count=count,
            encoder=encoder if part in ENCODING else None,
            device=device,
            renew=renew,
            build=build,
        )
        for part in of
    ]
    fuse = import_module("agentgym.retrieval.engines.hybrid").HybridIndex
    index: Index = fuse(*parts, **{name: value for name, value in options.items() if name != "of"})
    return index


def _check(engine: str, encoder: str | None, options: Mapping[str, Any]) -> None:
    """Refuse options that an engine does not take, and missing ones."""
    check_options(options, {name: Option(name) for name in OPTIONS[engine]}, f"the engine {engine!r}: ")
    if encoder is not None and engine not in (*ENCODING, "hybrid"):
        raise UsageError(f"the engine {engine!r} takes no encoder: leave out encoder={encoder!r:.60}")
    if engine == "remote" and "url" not in options:
        raise UsageError("the engine 'remote' needs the url of a server: pass url='http://HOST:PORT'")


def _every(progress: Callable[[int, int], None], count: int) -> Callable[[int], None]:
    """Return the callback that moves a bar now and then."""

    def report(done: int) -> None:
        if done % _REPORTED == 0:
            progress(done, count)

    return report
