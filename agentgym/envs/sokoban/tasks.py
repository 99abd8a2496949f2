"""The tasks of Sokoban: generated levels from a bank, streams beyond it, and level files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from agentgym.core.hashing import content_id
from agentgym.core.tasks import DEFAULT_SIZES, ListTaskSet, Task, TaskSet, check_split, is_task_id, split_of
from agentgym.envs.sokoban.builtin.bank import Bank, load
from agentgym.envs.sokoban.builtin.generator import VERSION, Config, generate
from agentgym.envs.sokoban.data.files import locate, read
from agentgym.envs.sokoban.level import Level
from agentgym.envs.sokoban.suite import SUITE
from agentgym.errors import UsageError

REMEMBERED = 100_000
"""Streamed tasks that can still be named by id; older ones by source id only."""

MAX_DIGITS = 19
"""Largest number of digits of a candidate number; those drawn are below 2**62."""


class Extent(NamedTuple):
    """The largest height and width among a set's levels."""

    height: int
    width: int


class BankTaskSet(TaskSet):
    """The first levels of a split of one configuration; a task's content is its `Level`."""

    def __init__(self, split: str, bank: Bank, max_optimal: int | None = None):
        """Describe the levels of ``bank``; those alone that are solved in ``max_optimal`` moves, if given."""
        config = bank.config
        if max_optimal is not None:
            bank = _easy(bank, max_optimal)
        manifest = {
            "suite": SUITE.name,
            "dataset": "builtin",
            "generator": "reverse-play",
            "version": VERSION,
            "dim_room": [config.height, config.width],
            "num_boxes": config.boxes,
            "split": split,
            "n": len(bank.boards),
            **({} if max_optimal is None else {"max_optimal": int(max_optimal)}),
        }
        super().__init__(split, manifest)
        self.config = config
        self._bank = bank
        self._size = bank.boards.shape[1]
        self._text = bank.boards.tobytes()
        self._players: list[int] = bank.players.tolist()
        self._optimal: list[int] = bank.optimal.tolist()
        self._candidates: list[int] = bank.candidates.tolist()
        self._made: dict[int, Task] = {}  # tasks by index: drawing one again costs less
        self._ids: list[str] = []
        self._by_id: dict[str, int] = {}

    def __len__(self) -> int:
        """Number of tasks."""
        return len(self._candidates)

    @property
    def extent(self) -> Extent:
        """The size of the boards."""
        return Extent(self.config.height, self.config.width)

    @property
    def ids(self) -> Sequence[str]:
        """The task ids in order."""
        if not self._ids:
            self._ids = [content_id(self._board(i).decode("ascii")) for i in range(len(self))]
        return self._ids

    def verify(self) -> None:
        """Generate every level anew and compare."""
        for i, candidate in enumerate(self._candidates):
            level = generate(self.config, candidate)
            if level is None or level.board != self._board(i) or split_of(self.ids[i]) != self.split:
                raise UsageError(
                    f"task {i} of split {self.split!r} is not candidate {candidate} of generator version "
                    f"{VERSION}: make the level bank anew"
                )

    def _board(self, index: int) -> bytes:
        return self._text[index * self._size : (index + 1) * self._size]

    def _make(self, index: int) -> Task:
        task = self._made.get(index)
        if task is None:
            board, moves = self._board(index), self._optimal[index]
            name = self.config.name
            task = self._made[index] = Task(
                content_id(board.decode("ascii")),
                Level(board, self.config.width, self._players[index], self.config.boxes, 0, False),
                f"{name}#{self._candidates[index]}",
                name,
                {"optimal_moves": moves} if moves else {},
            )
        return task

    def _index(self, key: str) -> int | None:
        if "#" in key:
            candidate = _candidate_of(key, self.config)
            at = -1 if candidate is None else int(np.searchsorted(self._bank.candidates, candidate))
            return at if 0 <= at < len(self) and self._candidates[at] == candidate else None
        if not self._by_id:
            if not is_task_id(key):
                return None
            self._by_id = {name: i for i, name in enumerate(self.ids)}
        return self._by_id.get(key)


class StreamTaskSet(BankTaskSet):
    """An endless supply: listing gives the bank, drawing gives any candidate of the split.

    Drawn tasks are found by source id for ever, and by id while they are among the last
    `REMEMBERED` drawn.
    """

    def __init__(self, split: str, bank: Bank):
        """Describe the levels of ``bank`` and all after them."""
        super().__init__(split, bank)
        self.manifest = {**self.manifest, "stream": True}
        self._drawn: OrderedDict[str, int] = OrderedDict()

    def draw(self, rng: np.random.Generator) -> Task:
        """Draw a candidate number until its level is one of this split."""
        while True:
            task = self._candidate(int(rng.integers(1 << 62)))
            if task is not None:
                self._drawn[task.id] = int(task.source_id.rpartition("#")[2])
                if len(self._drawn) > REMEMBERED:
                    self._drawn.popitem(last=False)
                return task

    def find(self, key: str) -> Task:
        """Return a task by source id or by id."""
        candidate = None
        if isinstance(key, str):  # options of reset arrive unchecked
            candidate = _candidate_of(key, self.config) if "#" in key else self._drawn.get(key)
        task = None if candidate is None else self._candidate(candidate)
        return super().find(key) if task is None else task

    def _candidate(self, number: int) -> Task | None:
        level = generate(self.config, number)
        if level is None:
            return None
        task_id = content_id(level.text)
        if split_of(task_id) != self.split:
            return None
        return Task(task_id, level, f"{self.config.name}#{number}", self.config.name)


def _easy(bank: Bank, max_optimal: int) -> Bank:
    """Return the levels of a bank whose shortest solutions are known and have so many moves at most."""
    chosen = (bank.optimal > 0) & (bank.optimal <= max_optimal)
    if not chosen.any():
        raise UsageError(
            f"no level of {bank.config.name} is solved in {max_optimal} moves: raise max_optimal"
        )
    return replace(
        bank,
        boards=bank.boards[chosen],
        players=bank.players[chosen],
        optimal=bank.optimal[chosen],
        candidates=bank.candidates[chosen],
    )


def builtin_or_file_tasks(
    split: str, dataset: str, config: Config, *, stream: bool, max_optimal: int | None = None
) -> TaskSet:
    """Return the tasks of ``dataset``: those of ``config`` if it is ``"builtin"``, else of level files."""
    if not dataset:
        raise UsageError("dataset is 'builtin', a path or a name, not empty")
    if dataset == "builtin":
        if stream and max_optimal is not None:
            raise UsageError("stream=True draws levels that nobody has solved yet: leave max_optimal out")
        return builtin_tasks(split, config, stream=stream, max_optimal=max_optimal)
    if stream:
        raise UsageError("stream=True goes with dataset='builtin': files have no end to go past")
    if max_optimal is not None:
        raise UsageError("max_optimal goes with dataset='builtin': files do not say how levels are solved")
    return file_tasks(split, dataset)


def builtin_tasks(split: str, config: Config, *, stream: bool, max_optimal: int | None = None) -> BankTaskSet:
    """Return the generated tasks of a split; the same object for the same arguments."""
    check_split(split, DEFAULT_SIZES)
    return _builtin_tasks(split, config, stream, max_optimal)


def file_tasks(split: str, dataset: str) -> ListTaskSet:
    """Return the tasks of level files, as `locate` finds them.

    ``split`` is a sub-folder, where there are any. A file or a folder of files is one set, named after it:
    ``train``, the default, stands for it as well.
    """
    path, split_folder = locate(dataset, split)
    name = path.parent.name if split_folder else path.name
    if not split_folder and split not in ("train", path.stem):
        raise UsageError(f"{dataset} is one set of levels and has no split {split!r}: leave split out")
    tasks = (
        Task(content_id(level.text), level, source, f"{level.height}x{level.width}-{level.boxes}")
        for source, level in read(path)
    )
    return ListTaskSet(split if split_folder else path.stem, tasks, dataset=name, suite=SUITE.name)


def extent_of(tasks: TaskSet) -> Extent:
    """Return the largest height and width among the levels."""
    if isinstance(tasks, BankTaskSet):
        return tasks.extent
    levels = [task.content for task in tasks]
    return Extent(max(level.height for level in levels), max(level.width for level in levels))


@lru_cache(maxsize=16)
def _builtin_tasks(split: str, config: Config, stream: bool, max_optimal: int | None) -> BankTaskSet:
    bank = load(config, split)
    return StreamTaskSet(split, bank) if stream else BankTaskSet(split, bank, max_optimal)


def _candidate_of(source_id: str, config: Config) -> int | None:
    name, _, number = source_id.rpartition("#")
    known = name == config.name and len(number) <= MAX_DIGITS and number.isascii() and number.isdigit()
    return int(number) if known else None
