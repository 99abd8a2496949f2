"""Loading of shops and their tasks; a process opens each shop once."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import lru_cache

from agentgym.core.tasks import TaskSet
from agentgym.data.directory import cache_directory
from agentgym.envs.webshop.builtin.catalogue import BUILTIN, builtin_catalogue, shop_of
from agentgym.envs.webshop.builtin.tasks import SIZES, builtin_tasks
from agentgym.envs.webshop.data.importer import open_catalogue
from agentgym.envs.webshop.data.products import Catalogue, Goals
from agentgym.envs.webshop.engine.taggers import DEFAULT
from agentgym.envs.webshop.engine.world import ShopWorld
from agentgym.envs.webshop.splits import GoalDivision
from agentgym.envs.webshop.tasks import goal_splits, goal_tasks
from agentgym.errors import UsageError
from agentgym.retrieval.engines.bm25 import FOLDER, build_bm25
from agentgym.retrieval.index import Index
from agentgym.retrieval.opening import SearchEngine, open_or_build

__all__ = ["BUILTIN", "kind_of_goals", "load_tasks", "load_world", "open_world", "splits_with_tasks"]


def open_world(dataset: str | ShopWorld, *, tagger: str, search: SearchEngine) -> ShopWorld:
    """Return a world made beforehand as it is, if it was made with these options; else `load_world`."""
    if not isinstance(dataset, ShopWorld):
        if not isinstance(dataset, str):
            raise UsageError(f"dataset must be a string, got {dataset!r:.60}")
        return load_world(dataset, tagger=tagger, search=search)
    if tagger not in (DEFAULT, dataset.tagger.id):
        raise UsageError(f"{dataset.name} was made with the tagger {dataset.tagger.id!r}: leave out tagger")
    return dataset


def load_world(dataset: str, *, tagger: str, search: SearchEngine = "bm25") -> ShopWorld:
    """Return the world of a data set; the same object for the same arguments, while the data stays.

    ``dataset``: ``"builtin"``, ``"builtin:SIZE"`` or ``"builtin:SIZE:SEED"``; or as `open_catalogue` takes
    it. ``tagger`` as `make_tagger` takes it; ``search`` is ``"bm25"`` for the built-in data set.
    """
    shop = shop_of(dataset)
    goods = open_catalogue(dataset) if shop is None else builtin_catalogue(*shop)
    return _world_of(goods, dataset, tagger, search)


@lru_cache(maxsize=4)
def _world_of(goods: Catalogue, dataset: str, tagger: str, search: SearchEngine) -> ShopWorld:
    if shop_of(dataset) is not None:
        if search != "bm25":
            raise UsageError(f"the built-in data set is searched by bm25: leave out search={search!r}")
        index = search_in_memory(goods, dataset)
    else:
        index = open_search(goods, search)
    return ShopWorld(goods, index, name=dataset, tagger=tagger, search=index.manifest.engine)


def load_tasks(
    world: ShopWorld,
    split: str,
    *,
    goals: Goals | None,
    difficulty: str | None,
    split_by: GoalDivision,
    generator: int | None,
) -> TaskSet:
    """Return the tasks of a split.

    ``goals`` None means human ones where there are any; not for the built-in data set. ``difficulty`` None
    means all, ``generator`` None the newest; both are of built-in goals.
    """
    shop = shop_of(world.name)
    if shop is not None:
        if goals is not None:
            raise UsageError("the built-in data set has goals of its own: leave out the option goals")
        size, seed = shop
        made = builtin_tasks(
            split, difficulty=difficulty, size=size, seed=seed, split_by=split_by, generator=generator
        )
        return _scored(made, world)
    for name, value in (("difficulty", difficulty), ("generator", generator)):
        if value is not None:
            raise UsageError(f"{name} is an option of built-in goals: leave it out with {world.name}")
    return goal_tasks(world, split, kind_of_goals(world, goals), split_by=split_by)


def kind_of_goals(world: ShopWorld, goals: Goals | None) -> Goals:
    """Return the kind of goals of an imported data set; None means human ones if it has any."""
    if goals is None:
        has_human = next(iter(world.catalogue.instructions("human")), None) is not None
        return "human" if has_human else "synthetic"
    return goals


def splits_with_tasks(tasks: TaskSet, world: ShopWorld) -> tuple[str, ...]:
    """Return the splits that can be opened with the options that made these tasks, and have tasks."""
    if shop_of(world.name) is not None:
        return tuple(SIZES)
    manifest = tasks.manifest
    return goal_splits(world, manifest["goals"], split_by=manifest.get("split_by", "goal"))


@lru_cache(maxsize=16)
def _scored(tasks: TaskSet, world: ShopWorld) -> TaskSet:
    """Return the same tasks with all that their scores depend on in the manifest."""
    scored = copy(tasks)
    scored.manifest = {**tasks.manifest, **world.manifest}
    return scored


def search_in_memory(catalogue: Catalogue, name: str) -> Index:
    """Return BM25 search over some ten thousand products; ``name`` is the data set's, for the manifest."""
    return build_bm25(documents(catalogue), corpus=name)


def open_search(catalogue: Catalogue, engine: SearchEngine) -> Index:
    """Return search over a catalogue from the cache, where it is built at first use."""
    kind = FOLDER if engine == "bm25" else engine
    folder = cache_directory() / "webshop" / f"{kind}-{catalogue.sha256[:16]}"
    corpus = f"webshop {catalogue.sha256}"
    return open_or_build(
        engine, folder, lambda: documents(catalogue), corpus=corpus, count=len(catalogue), renew=True
    )


def documents(catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    """Yield the name and the indexed text of every product, in order."""
    for index in range(len(catalogue)):
        product = catalogue.product(index)
        yield product.asin, product.indexed_text
