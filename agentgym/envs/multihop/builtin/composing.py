"""Drafts of questions put into words, with their answers, supporting facts and own passages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache

from agentgym.core.rng import KeyRng
from agentgym.envs.multihop.builtin.articles import builtin_articles
from agentgym.envs.multihop.builtin.drafts import Draft, follow
from agentgym.envs.multihop.builtin.relations import RelationChain
from agentgym.envs.multihop.builtin.world import Entity, builtin_world
from agentgym.envs.multihop.data.questions import StoredQuestion, SubQuestion
from agentgym.envs.multihop.scoring import Evidence

OWN = {"hotpotqa": 10, "twowiki": 10, "musique": 20, "searchqa": 10}
"""Own passages of a question, by family."""

ALIASES = frozenset({"twowiki", "musique", "searchqa"})
"""Families whose questions have further gold answers."""

FACTS = frozenset({"hotpotqa", "twowiki"})
"""Families whose questions name their supporting sentences."""

_BEGAN = {
    "film": ("released", "film", "came out {}"),
    "novel": ("released", "novel", "came out {}"),
    "album": ("released", "album", "was recorded {}"),
    "band": ("formed", "band", "formed {}"),
    "company": ("founded", "company", "was founded {}"),
    "person": ("birth year", "person", "was born {}"),
}
"""Relation, noun and verb of a beginning, by kind."""

_SAME = {
    "birthplace": "Were {} and {} born in the same city?",
    "university": "Did {} and {} study at the same university?",
    "released": "Did {} and {} come out in the same year?",
    "formed in": "Did {} and {} form in the same city?",
    "headquarters": "Are the head offices of {} and {} in the same city?",
    "publisher": "Did {} and {} have the same publisher?",
    "director birthplace": "Were the directors of {} and {} born in the same city?",
    "author birthplace": "Were the authors of {} and {} born in the same city?",
    "birthplace country": "Were {} and {} born in the same country?",
    "headquarters country": "Are the head offices of {} and {} in the same country?",
    "formed in country": "Did {} and {} form in the same country?",
}
"""Questions by the names of the chain's relations."""

_MAKERS = {
    "director": "Which film is by the director born {}, {} or {}?",
    "author": "Which novel is by the author born {}, {} or {}?",
    "founder": "Which company is the work of the founder born {}, {} or {}?",
    "singer": "Which band is led by the singer born {}, {} or {}?",
    "performer": "Which album is by the band formed {}, {} or {}?",
}

_INFERRED = {
    "father father": "Who was the paternal grandfather of {}?",
    "spouse father": "Who was the father-in-law of {}?",
    "birthplace country": "In which country was {} born?",
    "headquarters country": "In which country is the head office of {}?",
    "formed in country": "In which country did {} form?",
}
"""Questions that leave the hop between to be inferred."""

_NAMED = {
    "film": "the film {}",
    "novel": "the novel {}",
    "album": "the album {}",
    "company": "the company {}",
}


def compose(family: str, draft: Draft, id: str, source_id: str) -> StoredQuestion:
    """Return the question of a draft."""
    numbers, facts = _support(draft)
    answer, aliases = _answer(draft)
    return StoredQuestion(
        id=id,
        source_id=source_id,
        question=_text(draft),
        answer=answer,
        aliases=aliases if family in ALIASES else (),
        type=draft.type,
        passages=_own(numbers, OWN[family], KeyRng(int(id, 16))),
        supporting=numbers,
        facts=facts if family in FACTS else (),
        evidences=tuple(_evidences(draft)) if family == "twowiki" else (),
        decomposition=tuple(_decomposition(draft)) if family == "musique" else (),
    )


# ---- what is asked -------------------------------------------------------------------------------


def _text(draft: Draft) -> str:
    called = [_mention(_entity(start)) for start in draft.starts]
    names = " ".join(relation.name for relation in draft.chain)
    if draft.form == "chain":
        inferred = draft.type == "inference"
        return _INFERRED[names].format(*called) if inferred else _nested(draft.chain, called[0])
    if draft.form == "same":
        return _SAME[names].format(*called)
    when = "last" if draft.last else "first"
    one, other = (_entity(start) for start in draft.starts)
    if draft.chain:
        return _MAKERS[names].format(when, one.name, other.name)
    _, noun, verb = _BEGAN[one.kind]
    who = "Who" if one.kind == "person" else f"Which {noun}"
    return f"{who} {verb.format(when)}, {one.name} or {other.name}?"


def _nested(chain: RelationChain, called: str) -> str:
    for relation in chain[:-1]:
        called = relation.phrase.format(called)
    return chain[-1].question.format(called)


def _mention(entity: Entity) -> str:
    return _NAMED.get(entity.kind, "{}").format(entity.name)


# ---- what answers it -----------------------------------------------------------------------------


def _answer(draft: Draft) -> tuple[str, tuple[str, ...]]:
    """Return the answer and its aliases."""
    ends = [_path(draft, start)[-1] for start in draft.starts]
    if draft.form == "same":
        return ("yes" if ends[0] == ends[1] else "no"), ()
    if draft.form == "order":
        years = [_entity(end).date.year for end in ends]
        chosen = draft.starts[years.index((max if draft.last else min)(years))]
        return _names(_entity(chosen))
    end = ends[0]
    return (end, ()) if isinstance(end, str) else _names(_entity(end))


def _names(entity: Entity) -> tuple[str, tuple[str, ...]]:
    titled = (entity.title,) if entity.title != entity.name else ()
    return entity.name, (*titled, *entity.aliases)


def _support(draft: Draft) -> tuple[tuple[int, ...], tuple[tuple[str, int], ...]]:
    """Return the supporting passages and the facts in them, hop by hop."""
    articles = builtin_articles()
    numbers: list[int] = []
    facts: list[tuple[str, int]] = []
    for number, relation in _hops(draft):
        article = articles[number]
        fact = article.title, article.sentence_of[relation]
        if number not in numbers:
            numbers.append(number)
        if fact not in facts:
            facts.append(fact)
    return tuple(numbers), tuple(facts)


def _hops(draft: Draft) -> Iterator[tuple[int, str]]:
    """Yield the entities whose passages are needed, each with the relation that is."""
    for start in draft.starts:
        path = _path(draft, start)
        for at, relation in zip(path, draft.chain, strict=False):
            yield _entity(at).number, relation.name
        if draft.form == "order":
            end = _entity(path[-1])
            yield end.number, _BEGAN[end.kind][0]


def _evidences(draft: Draft) -> Iterator[Evidence]:
    for number, name in _hops(draft):
        entity = _entity(number)
        found = entity.links.get(name)
        objects = (entity.values[name],) if found is None else _all_names(_entity(found))
        yield Evidence(_all_names(entity), name, objects)


def _all_names(entity: Entity) -> tuple[str, ...]:
    name, others = _names(entity)
    return (name, *others)


def _decomposition(draft: Draft) -> Iterator[SubQuestion]:
    path = _path(draft, draft.starts[0])
    for hop, relation in enumerate(draft.chain):
        subject = f"#{hop}" if hop else _mention(_entity(path[0]))
        found = path[hop + 1]
        answer = found if isinstance(found, str) else _entity(found).name
        yield SubQuestion(relation.question.format(subject), answer, _entity(path[hop]).number)


def _path(draft: Draft, start: int) -> list[int | str]:
    path = follow(builtin_world(), draft.chain, start)
    assert path is not None, "drafts follow whole chains"
    return path


def _entity(number: int | str) -> Entity:
    assert isinstance(number, int), "only entities have passages"
    return builtin_world().entities[number]


# ---- what it comes with --------------------------------------------------------------------------


def _own(supporting: tuple[int, ...], count: int, draws: KeyRng) -> tuple[int, ...]:
    """Return supporting passages among others that look like them, shuffled."""
    chosen = list(supporting)
    entities = builtin_world().entities
    for _ in range(8 * count):
        if len(chosen) == count:
            break
        like = entities[draws.pick(supporting)]
        alike = _alike()[draws.pick(like.name.split())] if draws.below(3) else ()
        number = draws.pick(alike) if alike else draws.pick(entities).number
        if number not in chosen:
            chosen.append(number)
    for last in range(len(chosen) - 1, 0, -1):
        other = draws.below(last + 1)
        chosen[last], chosen[other] = chosen[other], chosen[last]
    return tuple(chosen)


@lru_cache(maxsize=1)
def _alike() -> Mapping[str, list[int]]:
    """Return the entities that have a word in their names, by word."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for entity in builtin_world().entities:
        for word in set(entity.name.split()):
            found[word].append(entity.number)
    return found
