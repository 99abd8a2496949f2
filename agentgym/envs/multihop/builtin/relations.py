"""Relations of the built-in world in words, and the chains of them that questions follow."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeAlias


class Relation(NamedTuple):
    """A relation of one entity to another, or to a value."""

    name: str
    subject: str
    """Kind of entity."""
    object: str
    """Kind of entity; empty for a value."""
    phrase: str
    """Phrase for the relation's target: ``the director of {}``."""
    question: str

    @property
    def key(self) -> tuple[str, str]:
        """Its unique key."""
        return self.subject, self.name


RELATIONS = (
    Relation("director", "film", "person", "the director of {}", "Who directed {}?"),
    Relation(
        "star", "film", "person", "the actor who plays the lead in {}", "Who plays the leading part in {}?"
    ),
    Relation("released", "film", "", "", "In which year was {} released?"),
    Relation("author", "novel", "person", "the author of {}", "Who wrote {}?"),
    Relation("publisher", "novel", "company", "the publisher of {}", "Which company published {}?"),
    Relation("released", "novel", "", "", "In which year was {} first printed?"),
    Relation("performer", "album", "band", "the band that recorded {}", "Which band recorded {}?"),
    Relation("label", "album", "company", "the label of {}", "On which label did {} come out?"),
    Relation("released", "album", "", "", "In which year was {} recorded?"),
    Relation("singer", "band", "person", "the lead singer of {}", "Who is the lead singer of {}?"),
    Relation("formed in", "band", "city", "the city in which {} formed", "In which city did {} form?"),
    Relation("formed", "band", "", "", "In which year did {} form?"),
    Relation("founder", "company", "person", "the founder of {}", "Who founded {}?"),
    Relation(
        "headquarters",
        "company",
        "city",
        "the city of the head office of {}",
        "In which city is the head office of {}?",
    ),
    Relation("founded", "company", "", "", "In which year was {} founded?"),
    Relation("city", "university", "city", "the home city of {}", "In which city is {}?"),
    Relation("founded", "university", "", "", "In which year was {} founded?"),
    Relation("birthplace", "person", "city", "the birthplace of {}", "In which city was {} born?"),
    Relation("university", "person", "university", "the university of {}", "Where did {} study?"),
    Relation("spouse", "person", "person", "the spouse of {}", "Who was the spouse of {}?"),
    Relation("father", "person", "person", "the father of {}", "Who was the father of {}?"),
    Relation("birth year", "person", "", "", "In which year was {} born?"),
    Relation("country", "city", "country", "the country of {}", "In which country is {}?"),
    Relation("river", "city", "river", "the river of {}", "Which river flows through {}?"),
    Relation("founded", "city", "", "", "In which year was {} founded?"),
    Relation("capital", "country", "city", "the capital of {}", "What is the capital of {}?"),
    Relation("currency", "country", "", "", "What is the currency of {}?"),
    Relation("language", "country", "", "", "What is the official language of {}?"),
)

RelationChain: TypeAlias = tuple[Relation, ...]

STARTS = ("film", "novel", "album", "band", "company", "person")
"""Kinds that questions begin at."""

_NOT_AGAIN = frozenset({("father", "spouse"), ("spouse", "spouse")})
"""Pairs of relations that lead back to where they came from, or to what no passage tells."""


@lru_cache
def chains(hops: int) -> tuple[RelationChain, ...]:
    """Return all chains of so many relations that begin at one of `STARTS`."""
    found: list[RelationChain] = [(relation,) for relation in RELATIONS if relation.subject in STARTS]
    for _ in range(hops - 1):
        found = [(*chain, after) for chain in found for after in RELATIONS if _follows(chain[-1], after)]
    return tuple(found)


def relation(subject: str, name: str) -> Relation:
    """Return a relation by the kind of its subject and its name."""
    return next(one for one in RELATIONS if one.key == (subject, name))


def chain(subject: str, *names: str) -> RelationChain:
    """Return the chain that begins at a kind and follows relations by name."""
    found: list[Relation] = []
    for name in names:
        found.append(relation(subject, name))
        subject = found[-1].object
    return tuple(found)


def _follows(before: Relation, after: Relation) -> bool:
    return (
        bool(before.object) and after.subject == before.object and (before.name, after.name) not in _NOT_AGAIN
    )
