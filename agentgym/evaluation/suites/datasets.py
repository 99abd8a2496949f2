"""Data sets of environments: splits, numbers of tasks, and missing ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentgym.data.importing import is_present
from agentgym.data.sources import download_of
from agentgym.registration import class_of, open_env


@dataclass(frozen=True, slots=True)
class EnvDataSet:
    """One data set that an environment can be played on."""

    name: str
    splits: tuple[tuple[str, int | None], ...]
    """Name and number of tasks of each split; the number is None for data that may be elsewhere."""
    missing: str
    """Command of ``agentgym data`` that brings it, with its arguments; empty where it is here."""
    licence: str = ""

    @property
    def line(self) -> str:
        """The splits in words."""
        words = [name if size is None else f"{name} ({size:,})" for name, size in self.splits]
        return ", ".join(words) or "no splits"


def data_sets(env_id: str) -> Iterator[EnvDataSet]:
    """Yield the data sets of an environment, the built-in one first; data of unknown size is opened."""
    game = class_of(env_id)
    sizes = game.split_sizes or {split: len(open_env(env_id, split=split).tasks) for split in game.splits}
    yield EnvDataSet("builtin", tuple(sizes.items()), "")
    for source in game.suite_spec.sources:
        for name, splits in source.sets.items():
            fetched = download_of(source, name)
            command = f"download {fetched}" if fetched else f"import {source.name} PATH"
            missing = "" if is_present(source, name) else command
            named = tuple((split, None) for split in splits)
            yield EnvDataSet(f"{source.name}/{name}", named, missing, source.licence)
