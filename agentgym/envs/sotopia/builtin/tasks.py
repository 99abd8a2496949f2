"""The built-in scenarios by split."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count
from typing import Any, overload

from agentgym.envs.sotopia.builtin.bargains import negotiation
from agentgym.envs.sotopia.builtin.drafts import Draft, goal_text, scenario_text
from agentgym.envs.sotopia.builtin.people import draw_people
from agentgym.envs.sotopia.scenarios import FAMILY, Scenario
from agentgym.hashing import content_id
from agentgym.rng import KeyRng
from agentgym.tasks import check_split, split_of

VERSION = 1
"""Raised when any scenario becomes another: part of every manifest."""

KINDS: Mapping[str, Callable[[KeyRng, tuple[str, str]], Draft]] = {"negotiation": negotiation}
"""What makes each kind of interaction."""

HARD = "hard"
"""The split of scenarios with a small zone of agreement, of which no other split has any."""

SIZES = {"train": 10_000, "valid": 1_000, "test": 1_000, HARD: 1_000}
"""Scenarios of each split."""

_SOURCE = re.compile(r"builtin/(seen|hard)/([0-9]{1,9})\.([0-9]{1,9})")


class BuiltinScenarios(Sequence[Scenario]):
    """Scenarios of one split, made as they are asked for; any of them is made without the others.

    Scenario n is of kind ``n mod 7`` and the first candidate (n, 0), (n, 1), ... that belongs to the split. Hard
    ones make `HARD`; of the others, the content id decides.
    """

    def __init__(self, split: str):
        """Describe the scenarios of a split; see `builtin_scenarios`."""
        self.split = split
        self.manifest: Mapping[str, Any] = {
            "suite": "sotopia",
            "dataset": "builtin",
            "generator": "terms",
            "version": VERSION,
            "kinds": sorted(KINDS),
            "split": split,
            "n": SIZES[split],
        }
        self._made: dict[int, Scenario] = {}

    def __len__(self) -> int:
        """Number of scenarios."""
        return SIZES[self.split]

    @overload
    def __getitem__(self, index: int) -> Scenario: ...
    @overload
    def __getitem__(self, index: slice) -> list[Scenario]: ...
    def __getitem__(self, index: int | slice) -> Scenario | list[Scenario]:
        """Return one scenario by position, or a list of them."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        made = self._made.get(position)
        if made is None:
            made = self._made[position] = _first(self.split, position)
        return made


@lru_cache(maxsize=4)
def builtin_scenarios(split: str) -> BuiltinScenarios:
    """Return the scenarios of a split; the same object for the same split.

    Args:
        split: train, valid, test or hard.

    Raises:
        UsageError: unknown split.
    """
    check_split(split, SIZES)
    return BuiltinScenarios(split)


def _first(split: str, number: int) -> Scenario:
    names = tuple(KINDS)
    kind = names[number % len(names)]
    for attempt in count():
        made = _candidate(split == HARD, kind, number, attempt)
        if made is not None and (split == HARD or split_of(made.id) == split):
            return made
    raise AssertionError("count() never ends")


def _candidate(hard: bool, kind: str, number: int, attempt: int) -> Scenario | None:
    """Return a scenario of a number and an attempt; None where its zone of agreement does not fit."""
    rng = KeyRng(VERSION, int(hard), number, attempt)
    (first, second), secrets = draw_people(rng)
    draft = KINDS[kind](rng, (first.first_name, second.first_name))
    terms = replace(draft.terms, secrets=secrets)
    if len(terms.zone) < 2 or terms.is_hard != hard:
        return None
    draft = draft._replace(terms=terms)
    relationship = rng.below(FAMILY + 1)
    text, goals = scenario_text(draft), (goal_text(draft, 0), goal_text(draft, 1))
    name = content_id((kind, text, goals, relationship, first.id, second.id))
    source = f"builtin/{'hard' if hard else 'seen'}/{number}.{attempt}"
    return Scenario(name, text, goals, relationship, (first, second), kind, source, terms)
