"""Corpora of questions: a question's own passages, the union of all, or a whole encyclopedia."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from agentgym.core.options import check_choice
from agentgym.core.queries import AnswerKind, QueryBackend
from agentgym.core.types import Passage
from agentgym.data.directory import cache_directory, data_directory
from agentgym.data.recordfile import open_unchanged
from agentgym.data.sources import corpus_download
from agentgym.envs.multihop.builtin.articles import builtin_passages
from agentgym.envs.multihop.data.importer import open_questions
from agentgym.envs.multihop.data.questions import StoredQuestion, plain_title
from agentgym.errors import MissingDataError, UsageError
from agentgym.retrieval.corpus.passages import PASSAGES, PassageFile, PassageStore, documents
from agentgym.retrieval.encoders import check_device
from agentgym.retrieval.engines.bm25 import build_bm25
from agentgym.retrieval.index import Index
from agentgym.retrieval.opening import ENCODING, SearchEngine, open_or_build
from agentgym.retrieval.searcher import Searcher, SearcherBackend, write_hits

CorpusName: TypeAlias = Literal["union", "own", "fullwiki"]

BUILTIN: Final = "builtin"
"""Name of the data set that comes with the package."""

_MAX_CACHED_INDEXES = 2_048
"""Questions whose own passages stay indexed."""


class Corpus:
    """Passages and their ranking engine: shared by all episodes, and changed by none."""

    def __init__(self, name: CorpusName, searcher: Searcher | None, store: PassageStore):
        """Join a store and its searcher; None where each question has its own passages."""
        self.name = name
        self.store = store
        self.passage = lru_cache(1 << 14)(store.__getitem__)
        own = searcher is None
        self.backend: QueryBackend = OwnSearch(store) if searcher is None else SearcherBackend(searcher)
        self._manifest = {
            "corpus": name,
            "corpus_sha256": store.sha256,
            "search": OwnSearch.fingerprint if own else searcher.fingerprint,  # type: ignore[union-attr]
        }

    @property
    def manifest(self) -> Mapping[str, str]:
        """JSON of all that a search's hits depend on, but their number."""
        return self._manifest

    def ask(self, query: str, k: int, question: StoredQuestion) -> tuple[Any, ...]:
        """Return the query to `backend` for a search."""
        return (query, k, question.passages) if self.name == "own" else (query, k)

    def holds(self, number: int, question: StoredQuestion) -> bool:
        """Return whether a question's searches may find a passage."""
        return number in question.passages if self.name == "own" else 0 <= number < len(self.store)

    def missing(self, question: StoredQuestion, found: Sequence[int]) -> list[Passage | str]:
        """Return the supporting passages that were not found, or their titles where the corpus is another."""
        if self.name != "fullwiki":
            return [self.passage(number) for number in question.supporting if number not in found]
        titles = {plain_title(self.passage(number).title) for number in found}
        named = dict.fromkeys(title for title, _ in question.facts)
        return [title for title in named if plain_title(title) not in titles]

    def support(self, question: StoredQuestion, found: Sequence[int]) -> float:
        """Return the share of a question's supporting passages that were found; 1 where it names none.

        A title that facts name and none of the question's passages has counts as not found.
        """
        named, missing = len(question.gold_titles), len(self.missing(question, found))
        if self.name != "fullwiki":
            held = {plain_title(self.passage(number).title) for number in question.supporting}
            absent = len({plain_title(title) for title in question.gold_titles} - held)
            named, missing = len(question.supporting) + absent, missing + absent
        return 1 - missing / named if named else 1.0


class OwnSearch:
    """Answers ``(query, k, passages)`` with ``[[number, score], ...]`` of these passages, by BM25."""

    fingerprint: Final = "own bm25/1"

    def __init__(self, store: PassageStore):
        """Search among passages of a store."""
        self.kind = AnswerKind(name=f"search {self.fingerprint}")
        self._store = store
        self._index = lru_cache(_MAX_CACHED_INDEXES)(self._build)

    def answer(self, questions: Sequence[Any]) -> list[Any]:
        """Return the hits of each question."""
        return [self._hits(query, k, tuple(numbers)) for query, k, numbers in questions]

    def agrees(self, recorded: Any, computed: Any) -> bool:
        """Return whether two answers are equal."""
        return repr(recorded) == repr(computed)

    def _hits(self, query: str, k: int, numbers: tuple[int, ...]) -> list[list[float]]:
        if not numbers:
            return []
        hits = write_hits(self._index(numbers).search(query, k))
        return [[numbers[int(place)], score] for place, score in hits]

    def _build(self, numbers: tuple[int, ...]) -> Any:
        passages = (self._store[number] for number in numbers)
        return build_bm25(documents(passages), corpus="own passages")


def open_corpus(
    dataset: str, family: str, corpus: CorpusName, search: str, encoder: str | None, device: str = "auto"
) -> Corpus:
    """Return a corpus; the same object for the same arguments, while the data stays.

    ``dataset``: ``builtin``, or as `open_questions` takes it; ``corpus``: ``union``, ``own`` or ``fullwiki``,
    which is in the family's folder of the data directory; ``device`` as `find_device` takes it.
    """
    check_search(search, encoder)
    check_device(device)
    if corpus == "own" and search != "bm25":
        raise UsageError(f"a question's own passages are searched by bm25: leave out search={search!r:.60}")
    store: Any = _store(dataset, family) if corpus == "fullwiki" else _union(dataset)
    return _over(store, dataset, corpus, search, encoder, device)


@lru_cache(maxsize=8)
def _over(
    store: PassageStore, dataset: str, corpus: CorpusName, search: str, encoder: str | None, device: str
) -> Corpus:
    if corpus == "own":
        return Corpus(corpus, None, store)
    if dataset == BUILTIN and search == "bm25":
        return Corpus(corpus, Searcher(build_bm25(documents(store), corpus="multihop builtin"), store), store)
    index = open_search_index(search, encoder, device, store, corpus)
    return Corpus(corpus, Searcher(index, store), store)


def _union(dataset: str) -> PassageStore:
    """Return the passages that questions come with."""
    store: PassageStore = builtin_passages() if dataset == BUILTIN else open_questions(dataset).passages
    if not len(store):
        raise UsageError(f"{dataset} comes with no passages: pass corpus='fullwiki'")
    return store


def _store(dataset: str, family: str) -> PassageStore:
    """Return the passages of an encyclopedia."""
    if dataset == BUILTIN:
        raise UsageError("the built-in world has one corpus: leave out corpus='fullwiki'")
    path = data_directory() / family / "fullwiki" / PASSAGES
    if not path.exists():
        fetched = corpus_download(folder=f"{family}/fullwiki")
        raise MissingDataError(f"no passages at {path}: {fetched}make them by `agentgym index build`")
    return open_unchanged(path, "passages", PassageFile)


REMOTE: Final = "remote:"
"""Prefix of an engine that is a server: ``remote:http://HOST:PORT``."""

DENSE: Final = (*ENCODING, "hybrid")
"""Engines that need an encoder."""

ENCODER: Final = "minilm"
"""Default encoder of these engines."""


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
    search: str, encoder: str | None, device: str, store: PassageStore, corpus: CorpusName
) -> Index:
    """Return an index over passages from the cache, where it is built at first use.

    That of an encyclopedia is beside it, where `agentgym index` puts it. ``search`` as `check_search` takes
    it; ``encoder`` (None for `ENCODER`) and ``device`` as `open_encoder` takes them.
    """
    if search.startswith(REMOTE):
        from agentgym.retrieval.engines.remote import RemoteIndex, RetrievalClient

        return RemoteIndex(RetrievalClient(search.removeprefix(REMOTE)), store)
    folder, name = cache_directory() / "multihop" / store.sha256[:16], f"multihop {store.sha256}"
    if beside := corpus == "fullwiki" and isinstance(store, PassageFile):
        folder, name = store.path.parent, store.corpus
    return open_or_build(
        cast(SearchEngine, search),
        folder / search,
        lambda: documents(store),
        corpus=name,
        count=len(store),
        encoder=(encoder or ENCODER) if search in DENSE else None,
        device=device,
        renew=not beside,
    )
