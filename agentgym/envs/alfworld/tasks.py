"""The tasks of ALFWorld: the published games, games of one's own, and generated ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from agentgym.core.options import check_choice
from agentgym.core.tasks import ListTaskSet, Task, check_split
from agentgym.data.progress import progress_bar
from agentgym.envs.alfworld.data.gamestore import GameStore, game_id, open_store
from agentgym.envs.alfworld.data.importer import SOURCES, official_or_path, open_games
from agentgym.envs.alfworld.data.trials import GAME, SPLITS, TYPES, Failure
from agentgym.envs.alfworld.engine.dialects import Dialect
from agentgym.envs.alfworld.engine.gametext import GameText
from agentgym.envs.alfworld.source import GameSource, load_game
from agentgym.envs.alfworld.suite import SUITE
from agentgym.errors import UsageError

TASK_TYPES = tuple(TYPES.values())
"""The six families: put one thing somewhere, look at one by a lamp, put a cleaned, heated or cooled one
somewhere, put two of a kind somewhere."""

OnError: TypeAlias = Literal["raise", "skip"]

SHOWN = 5
"""Unreadable games that a warning names; the rest it counts."""


@dataclass(frozen=True, slots=True)
class StoredGame:
    """A game in a store of this machine."""

    store: str
    """Path of the store's file."""
    number: int
    """Number of the store's entry."""
    name: str

    def read(self) -> GameText:
        """Return the game's text; UsageError where the store is gone or damaged."""
        return open_store(Path(self.store)).read(self.number)


class GameTaskSet(ListTaskSet):
    """Games of a store; a task's content is its `StoredGame`."""

    def __init__(
        self,
        split: str,
        tasks: Iterable[Task],
        *,
        dataset: str,
        store: GameStore,
        failures: Sequence[Failure],
    ):
        """Hold ``tasks`` of a store; see `stored_tasks`."""
        super().__init__(split, tasks, dataset=dataset, suite=SUITE.name)
        self.store = store
        self.failures = tuple(failures)
        """Games that are left out because they cannot be read or compiled."""

    def verify(self) -> None:
        """Recompute every id from the game's text."""
        for task in self:
            if game_id(task.content.read()) != task.id.partition("-")[0]:
                raise UsageError(
                    f"{self.store.path}: {task.source_id} is not the game its id says; import again"
                )
        super().verify()


def stored_tasks(
    split: str, dataset: str, *, types: Sequence[str] | None, dialect: Dialect, on_error: OnError
) -> GameTaskSet:
    """Return the games of a data set, as `open_games` takes it.

    ``types`` None means all families. ``on_error`` ``"raise"`` names the first game that cannot be read;
    ``"skip"`` leaves it out with a warning, as those that do not compile in the dialect.
    """
    dataset = official_or_path(dataset)
    if dataset in SOURCES:
        check_split(split, SPLITS)
    store = open_games(dataset, split)
    failures = list(store.failures)
    if failures and on_error == "raise":
        more = f" ({len(failures) - 1} more cannot be read)" if len(failures) > 1 else ""
        raise UsageError(f"{failures[0].reason}{more}; on_error='skip' plays the others")
    tasks = [_task(store, number) for number in range(len(store.entries))]
    if types is not None:
        tasks = [task for task in tasks if task.type in types]
    if on_error == "skip":
        failures += _uncompilable(tasks, dialect)
        bad = {failure.source for failure in failures}
        tasks = [task for task in tasks if task.content.name not in bad]
        if failures:
            _warn(dataset, failures)
    label = dataset if dataset in SOURCES else Path(dataset).name
    return GameTaskSet(split, tasks, dataset=label, store=store, failures=failures)


def check_types(types: Iterable[str] | None) -> tuple[str, ...] | None:
    """Return the families, validated."""
    if types is None:
        return None
    if not isinstance(types, Iterable):
        raise UsageError(f"task_types must be a list of task types, got {types!r:.60}")
    chosen = (types,) if isinstance(types, str) else tuple(types)
    for kind in chosen:
        check_choice("task type", kind, TASK_TYPES)
    if not chosen:
        raise UsageError("task_types names none: give some of " + ", ".join(TASK_TYPES) + ", or None for all")
    return chosen


def _task(store: GameStore, number: int) -> Task:
    entry = store.entries[number]
    metadata: dict[str, object] = dict(entry.facts)
    if entry.walkthrough is not None:
        metadata["walkthrough_steps"] = len(entry.walkthrough)
    game = StoredGame(str(store.path), number, f"{entry.name}/{GAME}")
    return Task(entry.id, game, entry.name, entry.type, metadata)


def _uncompilable(tasks: Sequence[Task], dialect: Dialect) -> list[Failure]:
    """Compile every game once; return those that are no good."""
    failures = []
    with progress_bar("compiling games") as progress:
        for done, task in enumerate(tasks, start=1):
            source: GameSource = task.content
            try:
                load_game(source, dialect)
            except UsageError as error:
                failures.append(Failure(source.name, str(error)))
            progress(done, len(tasks))
    return failures


def _warn(dataset: str, failures: Sequence[Failure]) -> None:
    shown = "; ".join(failure.reason for failure in failures[:SHOWN])
    more = f"; and {len(failures) - SHOWN} more" if len(failures) > SHOWN else ""
    message = f"{Path(dataset).name}: left out {len(failures)} that cannot be played: {shown}{more}"
    warnings.warn(message, UserWarning, stacklevel=4)
