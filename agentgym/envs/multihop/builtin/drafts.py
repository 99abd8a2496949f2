"""Drafts of questions: entity and relations, before they are put into words.

A draft follows a chain of relations. Of form ``chain`` it asks what one entity's chain leads to; of form
``order`` which of two entities' chains leads to what began first or last; of form ``same`` whether two chains
lead to the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from agentgym.core.hashing import content_id
from agentgym.core.rng import KeyRng
from agentgym.envs.multihop.builtin.relations import RelationChain, chain, chains
from agentgym.envs.multihop.builtin.world import VERSION, FictionalWorld, builtin_world

DraftForm: TypeAlias = Literal["chain", "order", "same"]


class Draft(NamedTuple):
    """A question before it is put into words."""

    form: DraftForm
    type: str
    """Type of such questions in the data set."""
    chain: RelationChain
    starts: tuple[int, ...]
    """Entities that the chain begins at: one, or two to compare."""
    last: bool = False
    """Whether the question of form ``order`` is which began last."""

    def id(self, family: str) -> str:
        """Return the 32 hex digits that name the question."""
        names = [relation.key for relation in self.chain]
        return content_id((family, VERSION, self.form, names, self.starts, self.last))


class Pattern(NamedTuple):
    """Drafts that differ in their entities alone."""

    form: DraftForm
    type: str
    kind: str
    """Kind of the entities that they begin at."""
    chain: RelationChain


ORDERED = ("film", "novel", "album", "band", "company", "person")
"""Kinds of which two are compared by their beginnings."""

_ORDERED_MAKERS = (
    chain("film", "director"),
    chain("novel", "author"),
    chain("company", "founder"),
    chain("band", "singer"),
    chain("album", "performer"),
)
_SAME = (
    chain("person", "birthplace"),
    chain("person", "university"),
    chain("film", "released"),
    chain("band", "formed in"),
    chain("company", "headquarters"),
    chain("novel", "publisher"),
)
_SAME_OF_MAKERS = (
    chain("film", "director", "birthplace"),
    chain("novel", "author", "birthplace"),
    chain("person", "birthplace", "country"),
    chain("company", "headquarters", "country"),
    chain("band", "formed in", "country"),
)
_INFERRED = (
    chain("person", "father", "father"),
    chain("person", "spouse", "father"),
    chain("person", "birthplace", "country"),
    chain("company", "headquarters", "country"),
    chain("band", "formed in", "country"),
)


def _chains(type: str, found: Sequence[RelationChain]) -> list[Pattern]:
    return [Pattern("chain", type, one[0].subject, one) for one in found]


@lru_cache(maxsize=1)
def patterns() -> Mapping[str, tuple[tuple[int, list[Pattern]], ...]]:
    """Return the patterns of each family of questions, by type, with the share of the type in a hundred."""
    composed = [one for one in chains(2) if one not in _INFERRED]
    comparisons = [Pattern("order", "comparison", kind, ()) for kind in ORDERED]
    comparisons += [Pattern("same", "comparison", one[0].subject, one) for one in _SAME]
    of_makers = [Pattern("order", "bridge_comparison", one[0].subject, one) for one in _ORDERED_MAKERS]
    of_makers += [Pattern("same", "bridge_comparison", one[0].subject, one) for one in _SAME_OF_MAKERS]
    return {
        "hotpotqa": ((75, _chains("bridge", chains(2))), (25, comparisons)),
        "twowiki": (
            (42, _chains("compositional", composed)),
            (24, comparisons),
            (22, of_makers),
            (12, _chains("inference", _INFERRED)),
        ),
        "musique": (
            (50, _chains("2hop", chains(2))),
            (30, _chains("3hop1", chains(3))),
            (20, _chains("4hop1", chains(4))),
        ),
        "searchqa": ((60, _chains("single", chains(1))), (40, _chains("multi", chains(2)))),
    }


ALIKE = 6
"""Pairs in ten that are drawn to be alike; those that were drawn before fall away, and about half remain."""


class DraftStream:
    """The endless drafts of a family, each once."""

    def __init__(self, family: str, *, unseen: bool):
        """Begin the drafts; ``unseen`` ones begin at held-out entities, others touch none of those."""
        self._world: FictionalWorld = builtin_world()
        self._unseen = unseen
        self._patterns = [(share, _by_kind(found)) for share, found in patterns()[family]]
        self._draws = KeyRng(VERSION, 6, list(patterns()).index(family), int(unseen))
        self._starts = {
            kind: [one.number for one in self._world.of_kind(kind) if one.held_out == unseen]
            for kind in ORDERED
        }
        self._alike: dict[Pattern, Mapping[object, list[int]]] = {}

    def __iter__(self) -> Iterator[Draft]:
        """Yield the drafts; it can be gone through once."""
        seen: set[tuple[object, ...]] = set()
        while True:
            draft = self._draw()
            if draft is not None and (key := _key(draft)) not in seen:
                seen.add(key)
                yield draft

    def _draw(self) -> Draft | None:
        draws, kinds = self._draws, self._kinds()
        pattern = draws.pick(draws.pick(kinds))
        first = draws.pick(self._starts[pattern.kind])
        end = self._end(pattern, first)
        if end is None:
            return None
        if pattern.form == "chain":
            return Draft(pattern.form, pattern.type, pattern.chain, (first,))
        if pattern.form == "same" and draws.below(10) < ALIKE:
            second = draws.pick(self._leading_to(pattern)[end])
        else:
            second = draws.pick(self._starts[pattern.kind])
        other = self._end(pattern, second)
        if second == first or other is None:
            return None
        if pattern.form == "same":
            return Draft(pattern.form, pattern.type, pattern.chain, (first, second))
        if self._began(end) == self._began(other):
            return None
        return Draft(pattern.form, pattern.type, pattern.chain, (first, second), last=bool(draws.below(2)))

    def _kinds(self) -> list[list[Pattern]]:
        """Return the patterns of a type that is drawn by its share, by the kind that they begin at."""
        place = self._draws.below(100)
        for share, kinds in self._patterns:
            place -= share
            if place < 0:
                return kinds
        raise AssertionError("the shares of a family add to a hundred")

    def _end(self, pattern: Pattern, start: int) -> int | str | None:
        """Return the end of a pattern's chain; None where it breaks off, or meets a forbidden entity."""
        path = follow(self._world, pattern.chain, start)
        if path is None or (not self._unseen and any(map(self._world.held_out, _entities(path)))):
            return None
        return path[-1]

    def _leading_to(self, pattern: Pattern) -> Mapping[object, list[int]]:
        """Return the starts of a pattern by what they lead to."""
        if pattern not in self._alike:
            found: defaultdict[object, list[int]] = defaultdict(list)
            for start in self._starts[pattern.kind]:
                end = self._end(pattern, start)
                if end is not None:
                    found[end].append(start)
            self._alike[pattern] = found
        return self._alike[pattern]

    def _began(self, end: int | str) -> int:
        assert isinstance(end, int), "only entities have dates"
        return self._world.entities[end].date.year


def follow(world: FictionalWorld, chain: RelationChain, start: int) -> list[int | str] | None:
    """Return the entities along a chain, the value last if it ends in one.

    None where it breaks off or turns back.
    """
    path: list[int | str] = [start]
    at = world.entities[start]
    for relation in chain:
        if not relation.object:
            path.append(at.values[relation.name])
            return path
        number = at.links.get(relation.name)
        if number is None or number in path:
            return None
        path.append(number)
        at = world.entities[number]
    return path


def _entities(path: Sequence[int | str]) -> Iterator[int]:
    return (number for number in path if isinstance(number, int))


def _key(draft: Draft) -> tuple[object, ...]:
    """Return the identity of a question, without the order of compared entities."""
    return draft.form, draft.chain, tuple(sorted(draft.starts))


def _by_kind(found: Sequence[Pattern]) -> list[list[Pattern]]:
    kinds: defaultdict[str, list[Pattern]] = defaultdict(list)
    for pattern in found:
        kinds[pattern.kind].append(pattern)
    return list(kinds.values())
