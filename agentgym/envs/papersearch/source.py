"""Loading of corpora, their tasks and selectors; a process opens each corpus once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from os.path import expanduser
from pathlib import Path
from typing import Any, NamedTuple, get_args

from agentgym.core.hashing import sha256_json
from agentgym.core.options import check_choice
from agentgym.core.tasks import TaskSet, pinned
from agentgym.envs.papersearch.builtin.graph import BUILTIN, builtin_graph
from agentgym.envs.papersearch.builtin.queries import builtin_topics
from agentgym.envs.papersearch.data.corpus import PaperCorpus, corpus_in_memory
from agentgym.envs.papersearch.data.fields import LATEST, last_day, read_date
from agentgym.envs.papersearch.data.importer import QuerySet, open_set
from agentgym.envs.papersearch.engine.decision import PROMPT, DecisionSelector, LocalJudge, read_prompt
from agentgym.envs.papersearch.engine.search import ENCODER, VectorEngine, open_search
from agentgym.envs.papersearch.engine.selectors import GoldSelector, LexicalSelector, Selector
from agentgym.envs.papersearch.engine.vectors import EncoderSelector
from agentgym.envs.papersearch.engine.world import PaperWorld
from agentgym.envs.papersearch.tasks import file_topics, reference_topics
from agentgym.envs.papersearch.topics import Topic
from agentgym.errors import UsageError
from agentgym.io.hub import model_directory
from agentgym.io.optional import load_reference
from agentgym.retrieval.encoders import check_device, open_encoder
from agentgym.retrieval.searcher import SearcherBackend

__all__ = ["BUILTIN", "PaperSetup", "load_world", "make_selector", "set_up"]

SELECTORS = ("gold", "lexical", "encoder", "model:PATH", "module:attribute")

MODEL = "model:"
"""Prefix of a selector that is a language model, before its folder or ``OWNER/NAME`` of the hub."""

MAX_FOUND = 1_000
"""Papers that a search may be asked for."""


class PaperSetup(NamedTuple):
    """Parts of an environment."""

    world: PaperWorld
    tasks: TaskSet
    search: SearcherBackend
    selector: Selector
    latest: Callable[[Topic], int]
    """Function that returns the last date of papers that a topic may find."""
    key: str
    """Names all of it."""


def set_up(
    dataset: str | PaperWorld,
    split: str,
    search: str,
    encoder: str | None,
    device: str,
    selector: str | Selector,
    selector_prompt: str | None,
    *,
    k: int,
    before: str,
) -> PaperSetup:
    """Open an environment's parts.

    Arguments as `load_world`, `make_selector` and `cut_off` take them; ``dataset`` may be a world.
    """
    check_device(device)
    latest = cut_off(before)
    if isinstance(dataset, PaperWorld):
        world = dataset
    else:
        if not isinstance(dataset, str):
            raise UsageError(f"dataset must be a string, got {dataset!r:.60}")
        world = load_world(dataset, search, encoder if search in get_args(VectorEngine) else None, device)
    tasks = world.topics(split)
    judge = make_selector(selector, world, encoder, device, prompt=selector_prompt)
    parts = {
        "corpus_sha256": world.corpus.sha256,
        "search": world.searcher.fingerprint,
        "k": int(k),
        "selector": judge.kind.name,
        "before": before,
    }
    return PaperSetup(
        world,
        pinned(tasks, tuple(parts.items())),
        SearcherBackend(world.searcher),
        judge,
        latest,
        f"{world.name}:{sha256_json(parts)[:16]}",
    )


def load_world(
    dataset: str, search: str = "bm25", encoder: str | None = None, device: str = "auto"
) -> PaperWorld:
    """Return the world of a data set; the same object for the same arguments, while the data stays.

    ``dataset``: ``"builtin"``, or as `open_set` takes it; other arguments as `open_search`.
    """
    data = _builtin_set() if dataset == BUILTIN else open_set(dataset)
    return _world_of(data.corpus, tuple(data.files.items()), dataset, search, encoder, device)


@lru_cache(maxsize=1)
def _builtin_set() -> QuerySet:
    return QuerySet(corpus_in_memory(builtin_graph().papers), {})


@lru_cache(maxsize=8)
def _world_of(
    corpus: PaperCorpus,
    files: tuple[tuple[str, Path], ...],
    dataset: str,
    search: str,
    encoder: str | None,
    device: str,
) -> PaperWorld:
    topics = _topics_of(corpus, files, dataset)
    return PaperWorld(dataset, corpus, open_search(corpus, search, encoder, device), topics)


@lru_cache(maxsize=8)
def _topics_of(
    corpus: PaperCorpus, files: tuple[tuple[str, Path], ...], dataset: str
) -> Callable[[str], TaskSet]:
    """Return the tasks, which all searches over a corpus share."""
    if dataset == BUILTIN:
        return builtin_topics
    return file_topics(dict(files), dataset) if files else reference_topics(corpus, dataset)


def make_selector(
    selector: str | Selector,
    world: PaperWorld,
    encoder: str | None,
    device: str = "auto",
    *,
    prompt: str | None = None,
) -> Selector:
    """Return a selector by name.

    ``gold``, ``lexical``, ``encoder``, ``model:PATH``, or ``module:attribute``, a function from a
    `PaperCorpus` to a `Selector`; or a selector made beforehand. ``encoder`` and ``device`` are of the
    selector ``encoder``; ``prompt``, the path of a file, is of the selector ``model:PATH``.
    """
    if prompt is not None and not (isinstance(selector, str) and selector.startswith(MODEL)):
        raise UsageError(
            f"selector_prompt is what a model is asked with, but the selector is {selector!r:.60}: set "
            f"selector={MODEL}PATH, or leave selector_prompt out"
        )
    if not isinstance(selector, str):
        if not all(hasattr(selector, name) for name in ("kind", "question", "answer", "agrees")):
            raise UsageError(f"selector must be a name or a Selector, got {selector!r:.60}")
        return selector
    if selector == "gold":
        return _gold(world.corpus)
    if selector == "lexical":
        return _lexical(world.corpus)
    if selector == "encoder":
        return _encoder(world, ENCODER if encoder is None else encoder, device)
    if selector.startswith(MODEL):
        words = PROMPT if prompt is None else read_prompt(Path(expanduser(prompt)))
        return DecisionSelector(world.corpus, _judge(model_directory(selector.removeprefix(MODEL))), words)
    if ":" not in selector:
        check_choice("selector", selector, SELECTORS)
    made: Any = load_reference(selector, option=True)(world.corpus)
    return make_selector(made, world, encoder, device)


_gold = lru_cache(maxsize=8)(GoldSelector)
_lexical = lru_cache(maxsize=8)(LexicalSelector)
_judge = lru_cache(maxsize=2)(LocalJudge)


@lru_cache(maxsize=8)
def _encoder(world: PaperWorld, encoder: str, device: str) -> EncoderSelector:
    return EncoderSelector(world.corpus, open_encoder(encoder, device=device))


def cut_off(before: str) -> Callable[[Topic], int]:
    """Return the function that gives the last date that a topic may find.

    ``before``: ``query`` for the topic's own date, ``none`` for no limit, or a date such as ``2024-10``.

    Example:
        >>> asked = Topic("river ice", ("a",), 20150300)
        >>> cut_off("query")(asked), cut_off("none")(asked), cut_off("2010")(asked)
        (20150399, 99999999, 20109999)
    """
    if before == "query":
        return lambda topic: last_day(topic.date)
    if before == "none":
        return lambda topic: LATEST
    date = read_date(before)
    if not date:
        raise UsageError(f"before must be query, none or a date such as 2024-10, got {before!r:.60}")
    return lambda topic: last_day(date)
