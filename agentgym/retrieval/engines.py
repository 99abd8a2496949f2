"""Opening indexes by the name of their engine; those that are not there yet are built."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from agentgym.data.progress import progress_bar
from agentgym.errors import UsageError, nearest
from agentgym.retrieval.index import Index

SearchEngine: TypeAlias = Literal["bm25", "tantivy", "lucene"]
"""What ranks: ``bm25`` as Lucene does; ``tantivy`` many millions of documents in less memory, with ranks of
its own; ``lucene`` itself, in a Java machine."""

_REPORTED = 256
"""Documents between two reports of progress."""


def check_engine(engine: str) -> None:
    """Refuse an unknown engine; UsageError with the nearest one."""
    known = get_args(SearchEngine)
    if engine not in known:
        raise UsageError(
            f"unknown engine {engine!r}{nearest(engine, known)}; choose one of {', '.join(known)}"
        )


def open_or_build(
    engine: SearchEngine,
    folder: Path,
    documents: Callable[[], Iterable[tuple[str, str]]],
    *,
    corpus: str,
    count: int,
) -> Index:
    """Return the index in a folder, built there first if it is not there.

    Args:
        engine: what ranks.
        folder: of the index.
        documents: yields ids and texts.
        corpus: names what they are taken from; another name is another corpus.
        count: how many documents there are.

    Raises:
        UsageError: unknown engine, something that is not installed, the folder cannot be written, or it
            holds an index of something else.
        MissingDataError: Lucene's jar is not on this machine.
    """
    check_engine(engine)
    module = import_module(f"agentgym.retrieval.{engine}")
    if not folder.exists():
        with progress_bar(f"indexing {count:,} documents") as progress:

            def report(done: int) -> None:
                if done % _REPORTED == 0:
                    progress(done, count)

            getattr(module, f"build_{engine}")(documents(), corpus=corpus, folder=folder, progress=report)
    index: Index = getattr(module, f"open_{engine}")(folder)
    index.manifest.require(folder, corpus=corpus, count=count)
    return index
