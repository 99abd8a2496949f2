"""Tasks, splits and the manifests that pin them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded

from agentgym.core.hashing import sha256_json
from agentgym.core.options import check_choice
from agentgym.errors import UsageError

DEFAULT_SIZES: Mapping[str, int] = {"train": 10_000, "valid": 1_000, "test": 1_000}
"""Number of generated tasks in a split unless a suite sets another."""

_TASK_ID = re.compile(r"[0-9a-f]{32}(-[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class Task:
    """One problem: everything that fixes the initial state of an episode."""

    id: str
    """32 hex digits of the canonical content; the n-th duplicate has the suffix ``-n``."""
    content: Any
    """Initial state that the game loads: immutable, picklable, of the game's own type."""
    source_id: str
    """The upstream name: goal index, trial, ``file#k``, generator candidate."""
    type: str = ""
    """Family for tables (ALFWorld's six); empty where there is one kind."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Facts for analysis that play does not depend on: optimal length, difficulty."""


class NoTaskError(ResetNeeded, AttributeError):
    """No episode has begun, so there is no task: an attribute that is not there yet.

    As an `AttributeError` it lets ``hasattr``, ``inspect.getmembers`` and wrappers that read all attributes
    pass over it.
    """


def split_of(task_id: str) -> str:
    """Return the split of a generated item: its content id modulo 100.

    0-9 is test, 10-19 valid, the rest train; so splits stay disjoint however many items are drawn.
    """
    bucket = int(task_id[:32], 16) % 100
    return "test" if bucket < 10 else "valid" if bucket < 20 else "train"


def is_task_id(key: str) -> bool:
    """Return whether a name has the form of a task id: 32 lowercase hex digits, ``-n`` for a duplicate."""
    return _TASK_ID.fullmatch(key) is not None


@dataclass(frozen=True, slots=True)
class IdTable:
    """The ids of generated tasks in a fixed order, as far as is needed to find one without making the others.

    A package ships one for each of its splits: an id that is unknown is then refused at once.
    """

    prefixes: npt.NDArray[np.uint32]
    """First 8 hex digits of each id, as a number."""
    candidates: npt.NDArray[np.int64]
    """Index of the generator's candidate that each task is made from."""

    @classmethod
    def load(cls, path: Path, name: str, stamp: str) -> IdTable | None:
        """Load a table from a file of `save`; None where the stamp, its version, differs."""
        with np.load(path) as archive:
            if archive["stamp"].item() != stamp:
                return None
            return cls(archive[f"{name}/prefixes"], archive[f"{name}/candidates"])

    @classmethod
    def of(cls, ids: Iterable[str], candidates: Iterable[int]) -> IdTable:
        """Return the table of tasks in order."""
        prefixes = np.array([int(task_id[:8], 16) for task_id in ids], dtype=np.uint32)
        return cls(prefixes, np.array(list(candidates), dtype=np.int64))

    def positions(self, task_id: str) -> list[int]:
        """Return the positions of the tasks whose ids begin as ``task_id`` does: hardly ever several."""
        if not is_task_id(task_id):
            return []
        found: list[int] = np.flatnonzero(self.prefixes == int(task_id[:8], 16)).tolist()
        return found


def save_id_tables(path: Path, tables: Mapping[str, IdTable], stamp: str) -> None:
    """Write what `IdTable.load` reads."""
    columns: dict[str, npt.NDArray[Any]] = {"stamp": np.array(stamp)}
    for name, table in tables.items():
        columns[f"{name}/prefixes"] = table.prefixes
        columns[f"{name}/candidates"] = table.candidates.astype(np.min_scalar_type(table.candidates.max()))
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **columns)


class TaskSet(Sequence[Task], ABC):
    """The ordered tasks of one split, and the manifest that pins them.

    Subclasses say how many there are, make the i-th, and describe themselves; ids may be enumerated
    lazily. Indexing, iteration, look-up by id or source id, and drawing come from here.
    """

    def __init__(self, split: str, manifest: Mapping[str, Any]):
        """Describe the set.

        Args:
            split: the split's name.
            manifest: JSON mapping that determines ids and order completely.
        """
        self.split = split
        self.manifest: Mapping[str, Any] = dict(manifest)

    @property
    def manifest_sha256(self) -> str:
        """64 hex digits over `manifest`."""
        return sha256_json(self.manifest)

    @abstractmethod
    def __len__(self) -> int:
        """Number of tasks in the split."""

    @abstractmethod
    def _make(self, index: int) -> Task:
        """Return task ``index``, 0 <= index < len(self)."""

    @abstractmethod
    def _index(self, key: str) -> int | None:
        """Return the index of a task id or source id; None if the split has no such task."""

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        """Return one task by position, or a list of them."""
        if isinstance(index, slice):
            return [self._make(i) for i in range(*index.indices(len(self)))]
        size = len(self)
        position = index + size if index < 0 else index
        if not 0 <= position < size:
            raise IndexError(f"split {self.split!r} has tasks 0 to {size - 1}, asked for {index}")
        return self._make(position)

    def __iter__(self) -> Iterator[Task]:
        """Go through the tasks in order."""
        return (self._make(i) for i in range(len(self)))

    def __contains__(self, key: object) -> bool:
        """True for the id or source id of a task of this split, or such a `Task`."""
        name = key.id if isinstance(key, Task) else key
        return isinstance(name, str) and self._index(name) is not None

    @property
    def ids(self) -> Sequence[str]:
        """The task ids in order."""
        return [task.id for task in self]

    def find(self, key: str) -> Task:
        """Return a task by id or source id.

        Raises:
            UsageError: the split has no such task.
        """
        given: object = key  # options of reset may hold any value
        index = self._index(key) if isinstance(given, str) else None
        if index is None:
            raise UsageError(
                f"no task {key!r:.80} in split {self.split!r} ({len(self)} tasks); "
                f"take one of env.tasks.ids, for example {self[0].id!r}"
            )
        return self._make(index)

    def draw(self, rng: np.random.Generator) -> Task:
        """Draw one task uniformly."""
        return self._make(int(rng.integers(len(self))))

    def verify(self) -> None:
        """Go through all tasks and check that each is found under its own id.

        Sets that are stored, rather than made anew from their content, also derive the ids again.

        Raises:
            UsageError: an id leads to another task, or does not follow from the content.
        """
        for i, task in enumerate(self):
            if self._index(task.id) != i:
                raise UsageError(f"task {i} of split {self.split!r} is not found under its id {task.id}")


class ListTaskSet(TaskSet):
    """Tasks held in memory; the manifest hashes their ids, so it pins the content itself."""

    def __init__(self, split: str, tasks: Iterable[Task], *, dataset: str, suite: str):
        """Hold tasks in order, numbering duplicates.

        Args:
            split: name of the split.
            tasks: its tasks, at least one.
            dataset: name of the data set, for the manifest.
            suite: name of the suite, for the manifest.

        Raises:
            UsageError: the split has no tasks.
        """
        self._tasks = tuple(_number_duplicates(tasks))
        if not self._tasks:
            raise UsageError(f"{suite}: split {split!r} of {dataset} holds no task; name another split")
        self._by_key = {task.source_id: i for i, task in enumerate(self._tasks)}
        self._by_key.update({task.id: i for i, task in enumerate(self._tasks)})
        manifest = {
            "suite": suite,
            "dataset": dataset,
            "split": split,
            "ids_sha256": sha256_json([task.id for task in self._tasks]),
            "n": len(self._tasks),
        }
        super().__init__(split, manifest)

    def __len__(self) -> int:
        """Number of tasks."""
        return len(self._tasks)

    def _make(self, index: int) -> Task:
        return self._tasks[index]

    def _index(self, key: str) -> int | None:
        return self._by_key.get(key)


@lru_cache(maxsize=64)
def pinned(tasks: TaskSet, parts: tuple[tuple[str, Any], ...]) -> TaskSet:
    """Return the same tasks with all that their scores depend on in the manifest."""
    found = copy(tasks)
    found.manifest = {**tasks.manifest, **dict(parts)}
    return found


def check_split(split: str, known: Iterable[str]) -> None:
    """Raise a UsageError that names the nearest split unless ``split`` is known."""
    check_choice("split", split, known)


def _number_duplicates(tasks: Iterable[Task]) -> Iterator[Task]:
    seen: dict[str, int] = {}
    for task in tasks:
        count = seen[task.id] = seen.get(task.id, 0) + 1
        if count == 1:
            yield task
        else:
            yield Task(f"{task.id}-{count}", task.content, task.source_id, task.type, task.metadata)
