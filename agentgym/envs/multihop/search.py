"""Search over a suite's passages: the engines by name, and their indexes in the cache."""

from __future__ import annotations

from typing import Final, cast, get_args

from agentgym.core.options import check_choice
from agentgym.data.directory import cache_directory
from agentgym.errors import UsageError
from agentgym.retrieval.corpus.passages import PassageStore, documents
from agentgym.retrieval.index import Index
from agentgym.retrieval.opening import ENCODING, SearchEngine, open_or_build

REMOTE: Final = "remote:"
"""Begins the name of an engine that is a server: ``remote:http://HOST:PORT``."""

DENSE: Final = (*ENCODING, "hybrid")
"""Engines that need an encoder."""

ENCODER: Final = "minilm"
"""Of these, unless told otherwise."""


def check_search(search: str, encoder: str | None) -> None:
    """Refuse an unknown engine, or one with an encoder that it does not take; UsageError."""
    known = [name for name in get_args(SearchEngine) if name != "remote"]
    if not search.startswith(REMOTE):
        check_choice("engine", search, known, f", or {REMOTE}http://HOST:PORT")
    if encoder is not None and search not in DENSE:
        raise UsageError(f"the engine {search!r:.60} takes no encoder: leave out encoder={encoder!r:.60}")
    if encoder == "":
        raise UsageError(f"an encoder is a preset or a folder, got {encoder!r:.60}")


def open_search_index(
    search: str, encoder: str | None, device: str, store: PassageStore, corpus: str
) -> Index:
    """Return an index over passages from the cache, where it is built at first use.

    ``search`` as `check_search` takes it; ``encoder`` (None for `ENCODER`) and ``device`` as `open_encoder`
    takes them.
    """
    if search.startswith(REMOTE):
        from agentgym.retrieval.engines.remote import RemoteIndex, RetrievalClient

        return RemoteIndex(RetrievalClient(search.removeprefix(REMOTE)), store)
    return open_or_build(
        cast(SearchEngine, search),
        cache_directory() / "multihop" / store.sha256[:16] / search,
        lambda: documents(store),
        corpus=corpus,
        count=len(store),
        encoder=(encoder or ENCODER) if search in DENSE else None,
        device=device,
        renew=True,
    )
