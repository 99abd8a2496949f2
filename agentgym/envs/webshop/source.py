"""Where worlds and their tasks come from; a process opens each world once."""

from __future__ import annotations

from functools import lru_cache

from agentgym.envs.webshop.builtin.catalogue import builtin_catalogue
from agentgym.envs.webshop.builtin.tasks import builtin_tasks
from agentgym.envs.webshop.product import Goals
from agentgym.envs.webshop.tasks import goal_tasks
from agentgym.envs.webshop.world import World
from agentgym.retrieval.bm25 import build_bm25
from agentgym.tasks import TaskSet
from agentgym.types import UsageError

BUILTIN = "builtin"
"""Name of the data set that comes with the package."""


@lru_cache(maxsize=4)
def load_world(dataset: str, *, tagger: str) -> World:
    """Return the world of a data set; the same object for the same arguments.

    Args:
        dataset: ``"builtin"``.
        tagger: as `agentgym.envs.webshop.taggers.make_tagger` takes it.

    Raises:
        UsageError: unknown tagger, or something that is not installed.
    """
    if dataset != BUILTIN:
        raise UsageError(f"unknown dataset {dataset!r}: choose {BUILTIN!r}")
    catalogue = builtin_catalogue()
    documents = ((item.asin, item.indexed_text) for item in map(catalogue.product, range(len(catalogue))))
    return World(catalogue, build_bm25(documents, corpus=BUILTIN), name=BUILTIN, tagger=tagger)


def load_tasks(world: World, split: str, *, goals: Goals | None, difficulty: str | None) -> TaskSet:
    """Return the tasks of a split.

    Args:
        world: they are played in.
        split: its name.
        goals: whose; None for human ones where there are any. Not for the built-in data set.
        difficulty: of built-in goals; None for all.

    Raises:
        UsageError: unknown split, or an option that is not for this data set.
    """
    if world.name == BUILTIN:
        if goals is not None:
            raise UsageError("the built-in data set has goals of its own: leave out the option goals")
        return builtin_tasks(split, difficulty=difficulty)
    if difficulty is not None:
        raise UsageError(f"{world.name} has no difficulties: leave out the option difficulty")
    if goals is None:
        has_human = next(iter(world.catalogue.instructions("human")), None) is not None
        goals = "human" if has_human else "synthetic"
    return goal_tasks(world, split, goals)
