"""The built-in scenarios by split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count
from pathlib import Path

import numpy as np

from agentgym.core.hashing import content_id
from agentgym.core.rng import KeyRng
from agentgym.core.tasks import check_split, split_of
from agentgym.envs.sotopia.builtin.arrangements import accommodation, collaboration
from agentgym.envs.sotopia.builtin.bargains import competition, exchange, negotiation
from agentgym.envs.sotopia.builtin.drafts import ScenarioDraft, goal_text, scenario_text
from agentgym.envs.sotopia.builtin.minds import persuasion, secret_keeping
from agentgym.envs.sotopia.builtin.people import draw_people
from agentgym.envs.sotopia.scenarios import FAMILY, Scenario

VERSION = 1
"""Version of the scenarios: it rises when any of them changes, and the file of ids is of one version."""

KINDS: Mapping[str, Callable[[KeyRng, tuple[str, str]], ScenarioDraft]] = {
    "negotiation": negotiation,
    "exchange": exchange,
    "collaboration": collaboration,
    "competition": competition,
    "accommodation": accommodation,
    "persuasion": persuasion,
    "secret_keeping": secret_keeping,
}
"""Functions that draft each kind of interaction."""

HARD = "hard"
"""The split of scenarios with a small zone of agreement, of which no other split has any."""

SIZES = {"train": 5_000, "valid": 500, "test": 500, HARD: 500}
"""Scenarios of each split; each is two tasks, one for either side."""

ID_FILE = Path(__file__).with_name("ids.npz")
"""File of ids that `agentgym.envs.sotopia.builtin.idfile` writes."""


class BuiltinScenarios:
    """Scenarios of one split, made on demand; any of them is made without the others.

    Scenario n is of the kind n modulo their number, and the first candidate (n, 0), (n, 1), ... that belongs
    to the split. Hard ones make `HARD`; of the others, the content id decides.
    """

    dataset = "builtin"

    def __init__(self, split: str):
        """Describe the scenarios of a split; see `scenarios`."""
        self.split = split
        with np.load(ID_FILE) as archive:
            assert archive["version"].item() == VERSION, f"run {__package__}.idfile"
            digests, attempts = archive[f"{split}/ids"], archive[f"{split}/attempts"]
        self._attempts: list[int] = attempts.tolist()
        self._ids = [digest.tobytes().hex() for digest in digests]
        self._places = {name: place for place, name in enumerate(self._ids)}
        self._made: dict[int, Scenario] = {}

    @property
    def ids(self) -> Sequence[str]:
        """Content ids in order, all different."""
        return self._ids

    def __len__(self) -> int:
        """Number of scenarios."""
        return len(self._ids)

    def __getitem__(self, index: int) -> Scenario:
        """Return a scenario by its place."""
        place = range(len(self))[index]
        made = self._made.get(place)
        if made is None:
            made = candidate(self.split == HARD, place, self._attempts[place])
            assert made is not None, f"{ID_FILE.name} is of this version"
            self._made[place] = made
        return made

    def position(self, name: str) -> int | None:
        """Return the place of a scenario by its id; None where there is none."""
        return self._places.get(name)


@lru_cache(maxsize=4)
def scenarios(split: str) -> BuiltinScenarios:
    """Return the scenarios of a split; the same object for the same split.

    Args:
        split: train, valid, test or hard.

    Raises:
        UsageError: unknown split.

    Example:
        >>> scenarios("test")[0].kind
        'negotiation'
    """
    check_split(split, SIZES)
    return BuiltinScenarios(split)


def first_candidate(split: str, number: int) -> tuple[Scenario, int]:
    """Return the scenario of a number that belongs to a split, and which attempt it was."""
    drawn = ((candidate(split == HARD, number, attempt), attempt) for attempt in count())
    return next(
        (made, attempt)
        for made, attempt in drawn
        if made is not None and (split == HARD or split_of(made.id) == split)
    )


def candidate(hard: bool, number: int, attempt: int) -> Scenario | None:
    """Return the scenario of a number and an attempt; None where its zone of agreement does not fit.

    ``number`` decides the kind; ``hard`` is for `HARD`; there are endless attempts.
    """
    kind = tuple(KINDS)[number % len(KINDS)]
    rng = KeyRng(VERSION, int(hard), number, attempt)
    (first, second), secrets = draw_people(rng)
    draft = KINDS[kind](rng, (first.first_name, second.first_name))
    draft = draft._replace(terms=replace(draft.terms, secrets=secrets))
    if draft.terms.difficulty != (HARD if hard else "usual"):
        return None
    relationship = rng.below(FAMILY + 1)
    text, goals = scenario_text(draft), (goal_text(draft, 0), goal_text(draft, 1))
    name = content_id((kind, text, goals, relationship, first.id, second.id))
    source = f"builtin/{'hard' if hard else 'usual'}/{number}.{attempt}"
    return Scenario(name, text, goals, relationship, (first, second), kind, source, draft.terms)
