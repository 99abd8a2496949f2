"""The splits of the generated games, and a game in words: its task's sentence and its whole text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from agentgym.core.hashing import content_id, sha256_json
from agentgym.core.options import check_choice
from agentgym.core.tasks import IdTable, Task, TaskSet, check_split, is_task_id, split_of
from agentgym.envs.alfworld.builtin.catalogue import OPENABLE, ROOMS
from agentgym.envs.alfworld.builtin.generator import (
    DIFFICULTIES,
    FAMILIES,
    Household,
    difficulty_of,
    family_of,
    generate,
)
from agentgym.envs.alfworld.builtin.layouts import VERSION
from agentgym.envs.alfworld.builtin.problem import problem
from agentgym.envs.alfworld.builtin.walkthrough import walkthrough
from agentgym.envs.alfworld.engine.gametext import GameText

SIZES = {"train": 10_000, "valid_seen": 1_000, "valid_unseen": 1_000}
"""Tasks of each split."""

ID_FILE = Path(__file__).with_name("ids.npz")
"""File of ids that `agentgym.envs.alfworld.builtin.idfile` writes."""

_SOURCE = re.compile(r"builtin/(?:un)?seen/([0-9]{1,9})\.[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class BuiltinGame:
    """A generated game, by what it is generated from."""

    number: int
    attempt: int
    held_out: bool

    @property
    def name(self) -> str:
        """``builtin/seen/NUMBER.ATTEMPT``, or ``unseen`` where the layout is held out."""
        return f"builtin/{'unseen' if self.held_out else 'seen'}/{self.number}.{self.attempt}"

    def read(self) -> GameText:
        """Generate the game's text."""
        return self.script().text()

    def script(self) -> Script:
        """Generate the game."""
        return Script.of(generate(self.number, self.attempt, held_out=self.held_out))


class BuiltinGames(TaskSet):
    """Generated games of one split; any of them is made without the others.

    Task n has the first candidate (n, 0), (n, 1), ... that belongs to the split. Layouts that are held
    out make valid_unseen; of the others, the content id decides between train and valid_seen.
    """

    def __init__(self, split: str, difficulty: str | None, types: Sequence[str] | None):
        """Describe the tasks of a split that are of a difficulty and of some families."""
        manifest = {
            "suite": "alfworld",
            "dataset": "builtin",
            "generator": "housework",
            "version": VERSION,
            "language_sha256": sha256_json(language()),
            "split": split,
            "difficulty": difficulty,
            "types": None if types is None else sorted(types),
        }
        self._numbers = [
            number
            for number in range(SIZES[split])
            if difficulty in (None, difficulty_of(number)) and (types is None or family_of(number) in types)
        ]
        super().__init__(split, {**manifest, "n": len(self._numbers)})
        self._made: dict[int, Task] = {}
        self._by_key: dict[str, int] = {}
        """Positions of the ids and source ids found so far."""

    def __len__(self) -> int:
        """Number of tasks."""
        return len(self._numbers)

    def _make(self, index: int) -> Task:
        task = self._made.get(index)
        if task is None:
            task = self._made[index] = _task(self.split, self._numbers[index])
        return task

    def _index(self, key: str) -> int | None:
        index = self._by_key.get(key)
        if index is None:
            index = next((i for i in self._suspects(key) if key in (self[i].id, self[i].source_id)), None)
            if index is not None:
                self._by_key[key] = index
        return index

    def _suspects(self, key: str) -> Iterator[int]:
        """Yield the positions of the tasks that may be meant: all, where no table says the ids."""
        source, table = _SOURCE.fullmatch(key), id_table(self.split)
        if source is not None:
            numbers = [int(source[1])]
        elif not is_task_id(key):
            return
        elif table is None:
            numbers = self._numbers
        else:
            numbers = table.positions(key)
        for number in numbers:
            index = bisect_left(self._numbers, number)
            if index < len(self) and self._numbers[index] == number:
                yield index


def builtin_tasks(
    split: str, *, difficulty: str | None = None, types: Sequence[str] | None = None
) -> BuiltinGames:
    """Return the generated tasks of a split; the same object for the same arguments.

    ``difficulty`` and ``types`` None mean all, in equal parts.
    """
    check_split(split, SIZES)
    if difficulty is not None:
        check_choice("difficulty", difficulty, DIFFICULTIES)
    for family in types or ():
        check_choice("task type", family, FAMILIES)
    return _builtin_tasks(split, difficulty, None if types is None else tuple(types))


_builtin_tasks = lru_cache(maxsize=16)(BuiltinGames)


@cache
def id_table(split: str) -> IdTable | None:
    """Return the ids of a split and the attempts that made them; None where the shipped ones are outdated."""
    return IdTable.load(ID_FILE, split, stamp())


def stamp() -> str:
    """Return the version stamp of the generated games."""
    return f"{VERSION} {sha256_json(language())}"


def _task(split: str, number: int) -> Task:
    table = id_table(split)
    attempt = 0 if table is None else int(table.candidates[number])
    while True:
        made = attempted(split, number, attempt)
        if made is not None:
            return made
        attempt += 1


def attempted(split: str, number: int, attempt: int) -> Task | None:
    """Return the task of one candidate; None if it belongs to another split."""
    held_out = split == "valid_unseen"
    game = BuiltinGame(number, attempt, held_out)
    script = game.script()
    if held_out or (split_of(script.task_id) == "train") == (split == "train"):
        return Task(script.task_id, game, game.name, family_of(number), _metadata(script))
    return None


def _metadata(script: Script) -> dict[str, Any]:
    household = script.household
    pieces = household.layout.pieces
    return {
        "difficulty": household.difficulty,
        "room": household.layout.room,
        "layout": household.layout.number,
        "receptacles": len(pieces),
        "closed": sum(piece.kind in OPENABLE for piece in pieces),
        "objects": len(household.items),
        "hidden": household.hidden,
        "optimal_steps": len(walkthrough(household)),
    }


_SENTENCES = {
    "pick": ("bring {a_thing} to {a_target}", "find {a_thing} and leave it at {a_target}"),
    "look": ("inspect {a_thing} by the light of {a_target}", "switch on {a_target} while holding {a_thing}"),
    "clean": ("bring a clean {thing} to {a_target}", "wash {a_thing}, then bring it to {a_target}"),
    "heat": ("bring a hot {thing} to {a_target}", "warm up {a_thing}, then bring it to {a_target}"),
    "cool": ("bring a cold {thing} to {a_target}", "chill {a_thing}, then bring it to {a_target}"),
    "pick2": ("gather two {thing} at one {target}", "find two {thing} and leave both at the same {target}"),
}
"""Sentences of a task, by family."""

_OWN_RULES = """
grammar :: \"""
    {{
        "room": [{{"rhs": "{room}"}}],
        "task": [{{"rhs": "Your task is to: {sentence}."}}]
    }}
\""";
"""
"""Rules of a game's grammar, besides the shared ones."""


class Language(NamedTuple):
    """Domain and grammar that all generated games share."""

    domain: str
    grammar: str


class Script(NamedTuple):
    """A household written down."""

    household: Household
    problem: str
    """PDDL."""
    task_id: str
    """32 hex digits over the problem, on which all else depends."""

    @classmethod
    def of(cls, household: Household) -> Script:
        """Write the problem."""
        text = problem(household)
        return cls(household, text, content_id(text))

    @property
    def sentence(self) -> str:
        """The task in words, in one of the forms of its family."""
        quest = self.household.quest
        forms = _SENTENCES[quest.family]
        form = forms[int(self.task_id[:8], 16) % len(forms)]
        return form.format(
            thing=quest.thing,
            target=quest.target,
            a_thing=_with_article(quest.thing),
            a_target=_with_article(quest.target),
        )

    def text(self) -> GameText:
        """Return the whole game."""
        domain, grammar = language()
        room = ROOMS[self.household.layout.room].name
        own = _OWN_RULES.format(room=room, sentence=self.sentence)
        return GameText(domain, grammar + own, self.problem, walkthrough(self.household), solvable=True)


@cache
def language() -> Language:
    """Return the domain and the grammar of all generated games."""
    folder = files("agentgym.envs.alfworld.builtin")
    return Language(*((folder / name).read_text("utf-8") for name in ("domain.pddl", "grammar.twl2")))


def _with_article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
