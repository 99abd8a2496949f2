"""The official data sets this package can read, where they come from and where they go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DataSource:
    """One official data set."""

    name: str
    """What ``agentgym data import NAME PATH`` calls it."""
    folder: str
    """Its folder inside the data directory: the name of the suite that reads it."""
    about: str
    """One line for tables."""
    upstream: str
    """Where a copy can be had."""
    licence: str
    sets: Mapping[str, tuple[str, ...]]
    """The data sets it gives an environment, ``NAME/SET``, and the splits each is divided into, if any."""
    expected: str
    """What a copy of it holds, in words."""


DATA_SOURCES: Mapping[str, DataSource] = {
    source.name: source
    for source in (
        DataSource(
            name="boxoban",
            folder="sokoban",
            about="Sokoban levels, 10x10 with 4 boxes",
            upstream="https://github.com/google-deepmind/boxoban-levels",
            licence="Apache-2.0",
            sets={"unfiltered": ("train", "valid", "test"), "medium": ("train", "valid"), "hard": ()},
            expected="unfiltered/, medium/, hard/",
        ),
        DataSource(
            name="alfworld",
            folder="alfworld",
            about="household tasks in text: the games of ALFWorld (json_2.1.1)",
            upstream="https://github.com/alfworld/alfworld (alfworld-download)",
            licence="MIT",
            sets={"official": ("train", "valid_seen", "valid_unseen", "valid_train")},
            expected="train/, valid_seen/ or other folders of games, nor archives of them",
        ),
        DataSource(
            name="webshop",
            folder="webshop",
            about="a shop in text: the products, attributes and instructions of WebShop",
            upstream="https://github.com/princeton-nlp/WebShop (setup.sh)",
            licence="MIT; the texts are their sellers'",
            sets={
                "small": ("train", "valid", "test", "papers"),
                "full": ("train", "valid", "test", "papers"),
            },
            expected="items_shuffle.json or items_shuffle_1000.json, with items_ins_v2.json",
        ),
    )
}
"""By name. A new official data set adds its line here and its reader to `agentgym.data.importing`."""


def source_of(path: str) -> DataSource | None:
    """Return the source whose folder holds ``path``, a path relative to the data directory."""
    folder = path.split("/", 1)[0]
    return next((source for source in DATA_SOURCES.values() if source.folder == folder), None)
