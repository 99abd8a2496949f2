"""The built-in world: passages tell what questions ask, and splits share nothing."""

from collections import Counter
from itertools import pairwise

import pytest

from agentgym import UsageError
from agentgym.core.tasks import split_of
from agentgym.envs.multihop.builtin.articles import builtin_articles, builtin_passages
from agentgym.envs.multihop.builtin.drafts import follow, patterns
from agentgym.envs.multihop.builtin.tasks import SIZES, UNSEEN, builtin_questions
from agentgym.envs.multihop.builtin.world import SIZES as ENTITIES
from agentgym.envs.multihop.builtin.world import builtin_world
from agentgym.envs.multihop.scoring import normalize_answer

FAMILIES = tuple(patterns())


def some(family, split, count=200):
    return [task.content for task in builtin_questions(family, split)[:count]]


def test_there_are_some_thousand_passages_with_titles_of_their_own():
    passages = list(builtin_passages())
    assert len(passages) == sum(ENTITIES.values()) == 4_834
    assert len({passage.title for passage in passages}) == len(passages)
    assert len({passage.id for passage in passages}) == len(passages)
    assert all(len(article.sentences) >= 2 for article in builtin_articles())


def test_passages_have_near_duplicates():
    """Works of one title, and members of a family that differ in an initial."""
    world = builtin_world()
    shared = Counter(one.name for one in world.entities if one.kind in ("film", "novel", "album"))
    assert sum(count > 1 for count in shared.values()) > 200
    plain = Counter(
        " ".join(word for word in person.name.split() if not word.endswith("."))
        for person in world.of_kind("person")
    )
    assert sum(count > 1 for count in plain.values()) > 100


def test_names_of_a_kind_are_told_apart_when_answers_are_compared():
    for kind in ENTITIES:
        names = [normalize_answer(one.name) for one in builtin_world().of_kind(kind)]
        assert len(set(names)) == len(names), kind


def test_every_relation_is_told_by_its_sentence():
    world = builtin_world()
    for entity, article in zip(world.entities, builtin_articles(), strict=True):
        for relation, number in entity.links.items():
            assert world.entities[number].name in article.sentences[article.sentence_of[relation]]
        for relation, value in entity.values.items():
            if relation in article.sentence_of:
                assert value in article.sentences[article.sentence_of[relation]]
        for alias in entity.aliases:
            assert alias in article.text


@pytest.mark.parametrize("family", FAMILIES)
def test_splits_share_no_question_and_unseen_ones_no_start(family):
    world = builtin_world()
    ids, starts = {}, {"seen": set(), "unseen": set()}
    for split, size in SIZES.items():
        questions = builtin_questions(family, split)
        assert len(questions) == size
        for dealt in questions._drafts:
            assert ids.setdefault(dealt.id, split) == split
            assert split == UNSEEN or split_of(dealt.id) == split
            path = [
                number for start in dealt.draft.starts for number in follow(world, dealt.draft.chain, start)
            ]
            starts["unseen" if split == UNSEEN else "seen"].update(
                dealt.draft.starts if split == UNSEEN else [one for one in path if isinstance(one, int)]
            )
    assert len(ids) == sum(SIZES.values())
    assert not starts["seen"] & starts["unseen"]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_two_splits_have_a_text_in_common(family):
    texts = {}
    for split in SIZES:
        for question in some(family, split, 1_000):
            assert texts.setdefault(question.question, split) == split


@pytest.mark.parametrize("family", FAMILIES)
def test_the_supporting_passages_hold_the_answer(family):
    """Names and years stand in one of them; yes and no follow from them."""
    passages = builtin_passages()
    for question in [*some(family, "valid"), *some(family, UNSEEN)]:
        assert set(question.supporting) <= set(question.passages)
        assert len(question.passages) == len(set(question.passages)) == (20 if family == "musique" else 10)
        titles = {passages[number].title for number in question.supporting}
        assert question.gold_titles <= titles
        if question.answer not in ("yes", "no"):
            texts = " ".join(passages[number].contents for number in question.supporting)
            assert question.answer in texts
            assert question.answer not in question.question or question.type.endswith("comparison")


def test_questions_are_of_all_types():
    types = {family: {question.type for question in some(family, "train")} for family in FAMILIES}
    assert types == {
        "hotpotqa": {"bridge", "comparison"},
        "twowiki": {"compositional", "comparison", "bridge_comparison", "inference"},
        "musique": {"2hop", "3hop1", "4hop1"},
        "searchqa": {"single", "multi"},
    }
    hops = Counter(len(question.supporting) for question in some("musique", "train"))
    assert set(hops) == {2, 3, 4}
    assert {len(question.decomposition) for question in some("musique", "train")} == {2, 3, 4}
    assert all(question.evidences and question.facts for question in some("twowiki", "train"))
    answers = Counter(question.answer for question in some("hotpotqa", "train", 2_000))
    assert 0.4 < answers["yes"] / (answers["yes"] + answers["no"]) < 0.6


def test_evidence_leads_from_the_question_to_the_answer():
    for question in some("twowiki", "train"):
        assert all({*evidence.subjects} & question.gold_titles for evidence in question.evidences)
        if question.type in ("compositional", "inference"):
            for evidence, following in pairwise(question.evidences):
                assert evidence.objects == following.subjects
            assert question.answer in question.evidences[-1].objects


def test_several_golden_answers():
    assert any(question.aliases for question in some("searchqa", "train"))
    assert not any(question.aliases for question in some("hotpotqa", "train"))


@pytest.mark.parametrize("family", FAMILIES)
def test_tasks_are_found_by_id_and_source_and_verified(family):
    questions = builtin_questions(family, "test")
    questions.verify()
    task = questions[7]
    assert questions.find(task.id) is task
    assert questions.find(task.source_id) is task
    for key in (
        "builtin/seen/-1",
        "builtin/seen/0".join(task.source_id.split("builtin/seen/")),
        f"{task.source_id}0000000",
        "builtin/unseen/1",
        "x" * 100_000,
    ):
        with pytest.raises(UsageError, match="no task"):
            questions.find(key)


def test_a_chain_that_turns_back_is_no_question():
    """Nobody is asked for who they are: no path holds an entity twice."""
    for question in some("musique", "train", 1_000):
        answers = [hop.answer for hop in question.decomposition]
        assert len(set(answers)) == len(answers)
