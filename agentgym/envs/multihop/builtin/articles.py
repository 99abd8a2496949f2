"""Passages of the built-in world: a title and sentences each, with the fact of each sentence."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from agentgym.core.rng import KeyRng
from agentgym.core.types import Passage
from agentgym.envs.multihop.builtin.phrases import ALSO, PHRASES
from agentgym.envs.multihop.builtin.world import VERSION, Entity, FictionalWorld, builtin_world
from agentgym.retrieval.corpus.passages import PassageList


class Article(NamedTuple):
    """An entity's passage."""

    title: str
    sentences: tuple[str, ...]
    sentence_of: dict[str, int]
    """The sentence that tells each relation, by number from 0."""

    @property
    def text(self) -> str:
        """All sentences."""
        return " ".join(self.sentences)


@lru_cache(maxsize=1)
def builtin_articles() -> list[Article]:
    """Return the passages of `builtin_world`, by the number of their entity; the same object each time."""
    world, draws = builtin_world(), KeyRng(VERSION, 5)
    return [_article(world, entity, draws) for entity in world.entities]


@lru_cache(maxsize=1)
def builtin_passages() -> PassageList:
    """Return `builtin_articles` as passages; the same object each time."""
    articles = builtin_articles()
    return PassageList(
        Passage(f"{number:04}", article.title, article.text) for number, article in enumerate(articles)
    )


def _article(world: FictionalWorld, entity: Entity, draws: KeyRng) -> Article:
    fields = _fields(world, entity, draws)
    sentences: list[str] = []
    sentence_of: dict[str, int] = {}
    for phrase in PHRASES[entity.kind]:
        if all(relation in entity.links or relation in entity.values for relation in phrase.tells):
            sentence_of.update(dict.fromkeys(phrase.tells, len(sentences)))
            sentences.append(draws.pick(phrase.wordings).format_map(fields))
    return Article(entity.title, tuple(sentences), sentence_of)


def _fields(world: FictionalWorld, entity: Entity, draws: KeyRng) -> dict[str, str]:
    """Return the values for the gaps of an entity's phrases."""
    also = draws.pick(ALSO).format(entity.aliases[0]) if entity.aliases else ""
    fields = {"name": _called(entity), "also": also, "date": str(entity.date), **entity.values}
    fields.update((relation, _called(world.entities[number])) for relation, number in entity.links.items())
    if entity.kind == "person":
        job = entity.values["occupation"]
        fields["occupation"] = f"{'an' if job[0] in 'aeiou' else 'a'} {job}"
        pronouns = ("She", "Her", "daughter") if entity.she else ("He", "His", "son")
        fields.update(zip(("he", "his", "child"), pronouns, strict=True))
    return fields


def _called(entity: Entity) -> str:
    return f"the {entity.name}" if entity.name.startswith("University") else entity.name
