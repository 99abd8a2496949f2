"""Data sets of environments: splits, numbers of tasks, and missing ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentgym.data.importing import is_present
from agentgym.registration import class_of, open_env


@dataclass(frozen=True, slots=True)
class EnvDataSet:
    """One data set that an environment can be played on."""

    name: str
    splits: tuple[tuple[str, int | None], ...]
    """Name and number of tasks of each, which is None of data that may be elsewhere."""
    missing: str
    """Name of the source that ``agentgym data import`` would have to read; empty where nothing is missing."""
    licence: str = ""

    @property
    def line(self) -> str:
        """The splits in words."""
        words = [name if size is None else f"{name} ({size:,})" for name, size in self.splits]
        return ", ".join(words) or "no splits"


def data_sets(env_id: str) -> Iterator[EnvDataSet]:
    """Yield the data sets of an environment, the built-in one first; what has no size yet is opened."""
    game = class_of(env_id)
    sizes = game.split_sizes or {split: len(open_env(env_id, split=split).tasks) for split in game.splits}
    yield EnvDataSet("builtin", tuple(sizes.items()), "")
    for source in game.suite_spec.sources:
        for name, splits in source.sets.items():
            missing = "" if is_present(source, name) else source.name
            named = tuple((split, None) for split in splits)
            yield EnvDataSet(f"{source.name}/{name}", named, missing, source.licence)
