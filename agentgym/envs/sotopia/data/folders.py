"""A folder of SOTOPIA's files: scenarios made of environments and the characters that play them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from agentgym.core.hashing import content_id
from agentgym.core.options import is_whole
from agentgym.data.jsonfields import shown
from agentgym.data.recordfile import stamp_of
from agentgym.envs.sotopia.data.profiles import (
    Combination,
    EnvironmentProfile,
    RelationshipProfile,
    parse_agent,
    parse_combination,
    parse_environment,
    parse_relationship,
)
from agentgym.envs.sotopia.markup import strip_tags
from agentgym.envs.sotopia.scenarios import Character, Scenario
from agentgym.errors import MissingDataError, UsageError
from agentgym.io.untrusted import loads_json, read_json_records, read_text

T = TypeVar("T")

ENVIRONMENTS = "environment_profiles"
AGENTS = "agent_profiles"
RELATIONSHIPS = "relationship_profiles"
COMBINATIONS = "env_agent_combo_storages"
NUMBERED = "ampo_env_agent_combos"
"""The same combinations, in the order that `HARD` counts in."""
HARD = "ampo_sotopia_hard_indices"
"""Numbers, from 0, of the combinations of the hard split."""

STEMS = (ENVIRONMENTS, AGENTS, RELATIONSHIPS, COMBINATIONS, NUMBERED, HARD)
PUBLISHED = {"env_agent_combos": NUMBERED, "sotopia_hard": HARD}
"""Kinds of the two files that AMPO publishes under other names."""
PROFILES = "profiles"
"""Folder of sotopia-space in which SOTOPIA's four files are."""
SUFFIXES = (".jsonl", ".json")
SPLITS = ("all", "hard", "train")


def find_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a copy that a folder and its `PROFILES` hold, sorted; one of each kind."""
    found = sorted(
        path
        for place in (folder, folder / PROFILES)
        for path in (place.iterdir() if place.is_dir() else ())
        if kind_of(path) in STEMS and path.suffix in SUFFIXES
    )
    kinds = {kind_of(path): path for path in found}
    for path in found:
        if kinds[kind_of(path)] != path:
            raise UsageError(f"{path} and {kinds[kind_of(path)]} are one file twice: move one of them away")
    yield from found


def kind_of(path: Path) -> str:
    """Return the kind of a file, one of `STEMS`, by its name; the stem of any other."""
    return PUBLISHED.get(path.stem, path.stem)


def read_file(path: Path) -> Sequence[Any]:
    """Return the records of a file, parsed by its name; errors name file, line and field."""
    if kind_of(path) == HARD:
        return _read_numbers(path)
    return [_PARSERS[kind_of(path)](record, where) for where, record in read_json_records(path)]


@dataclass(frozen=True, eq=False)
class ProfileFolder:
    """Content of a folder of SOTOPIA's files."""

    path: Path
    environments: Mapping[str, EnvironmentProfile]
    characters: Mapping[str, Character]
    combinations: tuple[Combination, ...]
    """Combinations in the order of their file; without one, every environment with all pairs of characters
    that have its relationship and that it admits."""
    hard: tuple[int, ...] | None
    """Places of the hard split's among the combinations; None where no file says them."""

    def scenarios(self, split: str) -> tuple[Scenario, ...]:
        """Return the scenarios of a split.

        ``all``; ``hard``, those that a file of numbers names; or ``train``, all again, none of which may be
        one that models are evaluated on.
        """
        if split == "train":
            for environment in self.environments.values():
                check_unseen(environment)
        elif split == "hard":
            if self.hard is None:
                raise MissingDataError(
                    f"no {' and '.join(f'{name}.json' for name in PUBLISHED)} in {self.path}, in which AMPO "
                    "says what is hard: add them, or take split 'all'"
                )
            return tuple(self._all[place] for place in self.hard)
        return self._all

    @cached_property
    def _all(self) -> tuple[Scenario, ...]:
        return tuple(self._scenario(combination) for combination in self.combinations)

    def _scenario(self, combination: Combination) -> Scenario:
        environment = self.environments[combination.environment]
        first, second = combination.agents
        return Scenario(
            id=combination.id,
            text=environment.text,
            goals=environment.goals,
            relationship=environment.relationship,
            characters=(self.characters[first], self.characters[second]),
            kind=environment.codename,
            source=environment.source,
        )


def open_folder(path: Path) -> ProfileFolder:
    """Return a folder's content; the same object while its files stay as they are."""
    files = {kind_of(file): file for file in find_files(path)}
    for stem in (ENVIRONMENTS, AGENTS):
        if stem not in files:
            raise MissingDataError(f"no {stem}.jsonl in {path}: name a folder with a copy of SOTOPIA's files")
    if not files.keys() & {COMBINATIONS, NUMBERED, RELATIONSHIPS}:
        raise MissingDataError(
            f"no {COMBINATIONS}.jsonl in {path}, nor {RELATIONSHIPS}.jsonl to combine by: add one of them"
        )
    return _open(path.absolute(), tuple((file, stamp_of(file, "scenarios")) for file in files.values()))


@lru_cache(maxsize=8)
def _open(path: Path, state: tuple[tuple[Path, tuple[int, ...]], ...]) -> ProfileFolder:
    files = {kind_of(file): file for file, _ in state}
    environments: dict[str, EnvironmentProfile] = _by_id(files[ENVIRONMENTS])
    characters: dict[str, Character] = _by_id(files[AGENTS])
    ordered: list[Combination] = _combinations(files.get(COMBINATIONS), environments, characters)
    numbered: list[Combination] = _combinations(files.get(NUMBERED), environments, characters)
    if ordered and numbered and {_played(each) for each in ordered} != {_played(each) for each in numbered}:
        raise UsageError(
            f"{files[NUMBERED]} has other combinations than {files[COMBINATIONS].name}: get both again"
        )
    combinations = ordered or numbered
    if not combinations and RELATIONSHIPS in files:
        related: Sequence[RelationshipProfile] = read_file(files[RELATIONSHIPS])
        for each in (agent for pair in related for agent in pair.agents):
            if each not in characters:
                _fail_unknown(str(files[RELATIONSHIPS]), each, AGENTS)
        combinations = list(_combine(environments.values(), related, characters))
    if not combinations:
        raise UsageError(f"{path} holds no combination of an environment and two agents: add some")
    hard = None
    if HARD in files and numbered:
        places = {_played(each): place for place, each in enumerate(combinations)}
        numbers = _read_numbers(files[HARD])
        if max(numbers, default=0) >= len(numbered):
            found = f"number {max(numbers)} is none of {len(numbered)} combinations"
            raise UsageError(f"{files[HARD]}: {found}: get both again")
        hard = tuple(places[_played(numbered[number])] for number in numbers)
    return ProfileFolder(path, environments, characters, tuple(combinations), hard)


def _combine(
    environments: Iterable[EnvironmentProfile],
    related: Sequence[RelationshipProfile],
    characters: Mapping[str, Character],
) -> Iterator[Combination]:
    """Yield each environment with the pairs that relate as it says and that it lets play."""
    for environment in environments:
        for pair in related:
            first, second = (characters[agent] for agent in pair.agents)
            if (
                pair.relationship == environment.relationship
                and first.name != second.name
                and _may_play(environment, 0, first)
                and _may_play(environment, 1, second)
            ):
                yield Combination(
                    "-".join((environment.id, *pair.agents)), environment.id, pair.agents, environment.where
                )


def _may_play(environment: EnvironmentProfile, side: int, character: Character) -> bool:
    if environment.ages is not None:
        least, greatest = environment.ages[side]
        if not least <= character.age <= greatest:
            return False
    occupations = environment.occupations
    return occupations is None or character.occupation.lower() in occupations[side]


def _combinations(
    file: Path | None, environments: Mapping[str, object], characters: Mapping[str, Character]
) -> list[Combination]:
    """Return the combinations of a file, each of what is known; none without a file."""
    if file is None:
        return []
    found: dict[str, Combination] = _by_id(file)
    for each in found.values():
        if each.environment not in environments:
            _fail_unknown(each.where, each.environment, ENVIRONMENTS)
        for agent in each.agents:
            if agent not in characters:
                _fail_unknown(each.where, agent, AGENTS)
        first, second = (characters[agent].name for agent in each.agents)
        if first == second:
            raise UsageError(f"{each.where}: both are called {shown(first)}: nobody could tell them apart")
    return list(found.values())


def _played(combination: Combination) -> tuple[str, tuple[str, str]]:
    return combination.environment, combination.agents


def _by_id(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for record in read_file(file):
        if record.id in found:
            raise UsageError(f"{file}: the id {shown(record.id)} occurs twice: take one of them out")
        found[record.id] = record
    return found


def _fail_unknown(where: str, id: str, stem: str) -> NoReturn:
    raise UsageError(f"{where}: {shown(id)} is in no record of {stem}: get the files again whole")


def _read_numbers(file: Path) -> list[int]:
    numbers = loads_json(read_text(file), str(file))
    if (
        not isinstance(numbers, list)
        or not all(is_whole(number) and number >= 0 for number in numbers)
        or len(set(numbers)) != len(numbers)
    ):
        raise UsageError(f"{file}: expected a list of different numbers from 0, got {shown(numbers)}")
    return numbers


_PARSERS: Mapping[str, Callable[[Any, str], Any]] = {
    ENVIRONMENTS: parse_environment,
    AGENTS: parse_agent,
    RELATIONSHIPS: parse_relationship,
    COMBINATIONS: parse_combination,
    NUMBERED: parse_combination,
}


# ``evaluation.json`` has, for each of SOTOPIA's 90 environments, its id and the two digests of `digests`. It
# holds no text, and serves where the official data is not at hand: none of them is trained on.

_WORD = re.compile(r"[^\W_]+")
_DIGITS = 16
"""Hex digits of a digest."""


def digests(environment: EnvironmentProfile) -> tuple[str, str]:
    """Return an environment's identity: a digest of its text's words, and one of its goals', in any order."""
    return _digest([environment.text]), _digest(sorted(environment.goals))


def check_unseen(environment: EnvironmentProfile) -> None:
    """Raise a UsageError if an environment to train on is one that models are evaluated on.

    It is one if it has the id of one, or the words of its text, or those of its two goals.
    """
    text, goals = digests(environment)
    ids, texts, wanted = _evaluated()
    if environment.id in ids or text in texts or goals in wanted:
        raise UsageError(
            f"{environment.where}: {environment.id!r:.60} repeats a scenario that SOTOPIA evaluates on: "
            "take it out of what is trained on"
        )


@cache
def _evaluated() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    table = json.loads(files(__package__).joinpath("evaluation.json").read_text("utf-8"))
    ids, texts, goals = (frozenset(column) for column in zip(*table, strict=True))
    return ids, texts, goals


def _digest(texts: list[str]) -> str:
    return content_id([_WORD.findall(strip_tags(text, None).lower()) for text in texts])[:_DIGITS]
