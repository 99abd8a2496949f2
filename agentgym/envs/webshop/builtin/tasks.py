"""The splits of the built-in goals."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from agentgym.core.options import check_choice
from agentgym.core.tasks import IdTable, Task, TaskSet, check_split, is_task_id
from agentgym.envs.webshop.builtin.catalogue import SIZE, builtin_catalogue, check_shop
from agentgym.envs.webshop.builtin.goals import DIFFICULTIES, GeneratedGoal, Shop, builtin_shop
from agentgym.envs.webshop.splits import GoalDivision, split_of_goal
from agentgym.errors import UsageError

UNSEEN = "test_unseen"
"""The split of goals for kinds of product that no other split has goals for."""

SIZES = {"train": 10_000, "valid": 1_000, "test": 1_000, UNSEEN: 1_000}
"""Tasks of each split, unless told otherwise."""

GENERATORS = (1, 2)
"""Versions of the generator. In 1, the text of a goal may also be that of a goal of another split, for a
different product: 3 of the 1,000 test goals of the usual shop share theirs with a training goal."""

GENERATOR = GENERATORS[-1]
"""The version, unless told otherwise."""

YIELDS_TO: Mapping[str, frozenset[str]] = {
    "train": frozenset({"valid", "test"}),
    "valid": frozenset({"test"}),
}
"""Splits whose goals' texts another split avoids, since generator 2. ``test`` and `UNSEEN` are the same in
all versions, so that results on them stay what they are."""

ID_FILE = Path(__file__).with_name("ids.npz")
"""File of ids that `agentgym.envs.webshop.builtin.idfile` writes."""

_CANDIDATE = re.compile(r"([a-z]+)/([0-9]{1,12})")

EXHAUSTED = 20_000
"""Candidates in a row that bring nothing new, after which a shop has no more goals."""


class _GoalStream:
    """The endless goals of one difficulty, each once, dealt out to the splits they belong to."""

    def __init__(self, shop: Shop, difficulty: str, *, held_out: bool, split_by: GoalDivision):
        self._shop, self._difficulty, self._held_out = shop, difficulty, held_out
        self._split_by = split_by
        self._candidate = 0
        self._last_new = 0
        self._seen: set[str] = set()
        self._dealt: dict[str, list[Task]] = {split: [] for split in SIZES}

    def task(self, split: str, index: int) -> Task:
        while len(self._dealt[split]) <= index:
            self._grow()
        return self._dealt[split][index]

    def candidate(self, number: int) -> Task:
        """Return the task of a candidate that is known to be one."""
        made = self._shop.make_goal(self._difficulty, number, held_out=self._held_out)
        assert made is not None, "the file of ids is of this generator"
        return self._task(made, number)

    def has_words_of(self, task: Task, splits: frozenset[str]) -> bool:
        """Return whether a goal of one of these splits could have the text of a task."""
        twins = self._shop.same_words(task.content)
        return any(split_of_goal(name, twin.asin, self._split_by) in splits for twin, name in twins)

    def _grow(self) -> None:
        number = self._candidate
        if number - self._last_new > EXHAUSTED:
            raise UsageError(
                f"a built-in shop of {len(self._shop.catalogue)} products has no more than "
                f"{len(self._seen)} {self._difficulty} goals: take a larger one, or fewer tasks"
            )
        self._candidate += 1
        made = self._shop.make_goal(self._difficulty, number, held_out=self._held_out)
        if made is not None and made.id not in self._seen:
            self._last_new = number
            self._seen.add(made.id)
            split = UNSEEN if self._held_out else split_of_goal(made.id, made.goal.asin, self._split_by)
            self._dealt[split].append(self._task(made, number))

    def _task(self, made: GeneratedGoal, number: int) -> Task:
        goal = made.goal
        product = self._shop.product(goal.asin)
        facts = {
            "difficulty": self._difficulty,
            "department": product.category,
            "kind": product.query,
            "attributes": len(goal.attributes),
            "options": len(goal.options),
            "alternatives": made.alternatives,
            "near_misses": made.near_misses,
        }
        known = "unseen" if self._held_out else "seen"
        source = f"builtin/{self._shop.seed}/{known}/{self._difficulty}/{number}"
        return Task(made.id, goal, source, self._difficulty, facts)


@dataclass(frozen=True, slots=True)
class _Making:
    """Parameters of generated goals."""

    size: int
    seed: int
    split_by: GoalDivision
    generator: int


class BuiltinGoals(TaskSet):
    """Goals of one split, made on demand; a task's content is its `Goal`.

    Easy, medium and hard ones take turns. Kinds of product that are held out make `UNSEEN`; of the goals
    for others, the content id or the product decides the split.
    """

    def __init__(self, split: str, difficulty: str | None, count: int, how: _Making):
        """Describe the first ``count`` tasks of a split, or those among them that are of a difficulty."""
        size, seed = how.size, how.seed
        self._yields_to = YIELDS_TO.get(split, frozenset()) if how.generator > 1 else frozenset()
        manifest = {
            "suite": "webshop",
            "dataset": "builtin",
            "generator": "wishes",
            "version": how.generator if self._yields_to else 1,  # the other splits are those of version 1
            "catalogue_sha256": builtin_catalogue(size, seed).sha256,
            "seed": seed,
            "split": split,
            "difficulty": difficulty,
        }
        if how.split_by != "goal":
            manifest["split_by"] = how.split_by
        self._ranks = [i for i in range(count) if difficulty in (None, DIFFICULTIES[i % len(DIFFICULTIES)])]
        super().__init__(split, {**manifest, "n": len(self._ranks)})
        self._streams = [
            _goal_stream(name, size, seed, held_out=split == UNSEEN, split_by=how.split_by)
            for name in DIFFICULTIES
        ]
        self._stride = -(-count // len(DIFFICULTIES))
        self._places: dict[int, int] = {}
        usual = how == _Making(SIZE, 0, "goal", how.generator) and count == SIZES[split]
        newest = how.generator == GENERATOR or split not in YIELDS_TO
        self._tables = id_tables(split) if usual and newest else None
        self._prefix = f"builtin/{seed}/{'unseen' if split == UNSEEN else 'seen'}/"
        self._made: dict[int, Task] = {}
        self._by_key: dict[str, int] = {}
        """Positions of the ids and source ids found so far, or of all."""

    def __len__(self) -> int:
        """Number of tasks."""
        return len(self._ranks)

    def _make(self, index: int) -> Task:
        task = self._made.get(index)
        if task is None:
            rank, turn = divmod(self._ranks[index], len(DIFFICULTIES))
            if self._tables is None:
                return self._generated(index, rank, self._streams[turn])
            number = int(self._tables[turn].candidates[rank])
            task = self._made[index] = self._streams[turn].candidate(number)
        return task

    def _generated(self, index: int, rank: int, stream: _GoalStream) -> Task:
        if not self._yields_to:
            return stream.task(self.split, rank)
        if index not in self._places:
            self._places[index] = self._place(stream, rank)
        return stream.task(self.split, self._places[index])

    def without_tables(self) -> Iterator[Task]:
        """Yield the tasks as the generator gives them, whatever the file of ids says."""
        for index, place in enumerate(self._ranks):
            rank, turn = divmod(place, len(DIFFICULTIES))
            yield self._generated(index, rank, self._streams[turn])

    def _place(self, stream: _GoalStream, place: int) -> int:
        """Return a place in the stream, or that of the goal that stands in for one with another's words.

        What stands in comes from beyond the split's usual places, so that all other tasks keep theirs.
        """
        while stream.has_words_of(stream.task(self.split, place), self._yields_to):
            place += self._stride
        return place

    def _index(self, key: str) -> int | None:
        index = self._by_key.get(key)
        if index is not None or not self._may_be(key):
            return index
        if self._tables is None:  # one look through another shop's goals finds every key
            if not self._by_key:
                for i, task in enumerate(self):
                    self._by_key[task.id] = self._by_key[task.source_id] = i
            return self._by_key.get(key)
        index = next((i for i in self._suspects(key) if key in (self[i].id, self[i].source_id)), None)
        if index is not None:
            self._by_key[key] = index
        return index

    def _may_be(self, key: str) -> bool:
        """Return whether a key has the form of an id or of a source id of this shop."""
        if key.startswith(self._prefix):
            return _CANDIDATE.fullmatch(key, len(self._prefix)) is not None
        return is_task_id(key)

    def _suspects(self, key: str) -> Iterator[int]:
        """Yield the positions of the tasks that may be meant."""
        assert self._tables is not None
        source = _CANDIDATE.fullmatch(key, len(self._prefix))
        for turn, (difficulty, table) in enumerate(zip(DIFFICULTIES, self._tables, strict=True)):
            if source is None:
                places = table.positions(key)
            elif source[1] == difficulty:
                places = np.flatnonzero(table.candidates == int(source[2])).tolist()
            else:
                continue
            for place in places:
                rank = place * len(DIFFICULTIES) + turn
                index = bisect_left(self._ranks, rank)
                if index < len(self) and self._ranks[index] == rank:
                    yield index

    def verify(self) -> None:
        """Recompute every id from the goal."""
        for task in self:
            if task.content.id != task.id:
                raise UsageError(f"goal {task.source_id} is not the one its id {task.id} says")
        super().verify()


def builtin_tasks(
    split: str,
    *,
    difficulty: str | None = None,
    size: int = SIZE,
    seed: int = 0,
    count: int | None = None,
    split_by: GoalDivision = "goal",
    generator: int | None = None,
) -> BuiltinGoals:
    """Return the goals of a split; the same object for the same arguments.

    ``difficulty`` None means all, in equal parts; ``size`` is the catalogue's, in products; ``seed`` of
    catalogue and goals; ``count`` of the whole split, None for the usual; ``generator`` None for the newest.
    """
    check_split(split, SIZES)
    check_shop(size, seed)
    check_choice("split_by", split_by, GoalDivision)
    if difficulty is not None:
        check_choice("difficulty", difficulty, DIFFICULTIES)
    if count is not None and count < 1:
        raise UsageError(f"a split has at least 1 task, got count={count!r}")
    check_choice("generator", generator, (*GENERATORS, None))
    how = _Making(size, seed, split_by, GENERATOR if generator is None else generator)
    return _builtin_tasks(split, difficulty, SIZES[split] if count is None else count, how)


@lru_cache(maxsize=8)
def id_tables(split: str) -> list[IdTable] | None:
    """Return the ids and candidates of the usual shop by difficulty; None where the file is outdated."""
    tables = [IdTable.load(ID_FILE, f"{split}/{difficulty}", stamp()) for difficulty in DIFFICULTIES]
    known = [table for table in tables if table is not None]
    return known if len(known) == len(tables) else None


def stamp() -> str:
    """Return the version stamp of the usual shop's goals."""
    return f"{GENERATOR} {builtin_catalogue(SIZE, 0).sha256}"


_builtin_tasks = lru_cache(maxsize=16)(BuiltinGoals)


@lru_cache(maxsize=32)
def _goal_stream(
    difficulty: str, size: int, seed: int, *, held_out: bool, split_by: GoalDivision
) -> _GoalStream:
    return _GoalStream(builtin_shop(size, seed), difficulty, held_out=held_out, split_by=split_by)
