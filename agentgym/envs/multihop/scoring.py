"""Scores of answers, supporting facts and evidence, as the official scripts of each question set have them.

Every function is pure. The scripts, their arithmetic included, are the judge:
``python -m benchmarks.parity.qa`` runs them beside this module.

- HotpotQA: ``hotpot_evaluate_v1.py`` of github.com/hotpotqa/hotpot (Yang et al. 2018).
- 2WikiMultihopQA: ``2wikimultihop_evaluate_v1.1.py`` of github.com/Alab-NII/2wikimultihop (Ho et al. 2020).
- MuSiQue: ``evaluate_v1.0.py`` and ``metrics/`` of github.com/StonyBrookNLP/musique (Trivedi et al. 2022);
  its scores of answers and paragraphs count answerable questions only.
- SQuAD: the token scores that MuSiQue took over (Rajpurkar et al. 2018), best over several gold answers.
  Search-R1's exact match, the best over ``golden_answers``, is the same.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Literal, NamedTuple, TypeAlias

from agentgym.core.options import check_choice

AnswerRule: TypeAlias = Literal["hotpotqa", "twowiki", "musique", "squad"]

ANSWER_RULES: tuple[AnswerRule, ...] = ("hotpotqa", "twowiki", "musique", "squad")
"""The rules of `score_answer`."""

CLOSED_ANSWERS = frozenset({"yes", "no", "noanswer"})
"""Normalised answers that share no token with a different one (rules ``hotpotqa`` and ``twowiki``)."""

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


class AnswerScore(NamedTuple):
    """Score of an answer; every number lies in [0, 1]."""

    em: float
    """Exact match of the normalised texts: 0 or 1."""
    f1: float
    """Harmonic mean of precision and recall over tokens."""
    precision: float
    recall: float


class SetScore(NamedTuple):
    """Score of a predicted set, or of an answer and sets jointly."""

    em: float
    """1 where the sets are equal, else 0."""
    f1: float
    precision: float
    recall: float


class Evidence(NamedTuple):
    """One gold triple of 2WikiMultihopQA with all the names that count for its two entities."""

    subjects: tuple[str, ...]
    """The subject, its aliases and demonyms."""
    relation: str
    objects: tuple[str, ...]
    """The object, its aliases and demonyms."""


def normalize_answer(text: str) -> str:
    """Return an answer as it is compared: lower case, no ASCII punctuation, no article, single spaces.

    The order matters: ``"A.B."`` becomes ``"ab"``, which holds no article, and ``"a-b"`` too.

    Example:
        >>> normalize_answer("The  Beatles' (a band)")
        'beatles band'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def score_answer(prediction: str, gold: str, aliases: Iterable[str], rule: AnswerRule) -> AnswerScore:
    """Return the score of an answer under the rule of a question set.

    Args:
        prediction: the answer given.
        gold: the gold answer.
        aliases: other texts that count as the gold answer; the best of all counts, for each of the four
            numbers by itself. For 2WikiMultihopQA they are the aliases and the demonyms of the answer's
            entity. HotpotQA has none.
        rule: ``hotpotqa`` and ``twowiki``: a yes, no or noanswer on either side shares no token with
            anything else, and two answers that are empty once normalised match exactly but have F1 0.
            ``musique`` and ``squad``: no such rule, and two empty answers have F1 1; precision and recall,
            which these scripts do not report, follow their F1.

    Raises:
        ValueError: unknown rule.

    Example:
        >>> score_answer("the red house", "Red House", [], "hotpotqa")
        AnswerScore(em=1.0, f1=1.0, precision=1.0, recall=1.0)
    """
    check_choice("rule", rule, ANSWER_RULES)
    answer = normalize_answer(prediction)
    closed = rule in ("hotpotqa", "twowiki")
    scores = [_score_normalized(answer, normalize_answer(text), closed=closed) for text in (gold, *aliases)]
    return AnswerScore(*(max(column) for column in zip(*scores, strict=True)))


def score_supporting_facts(
    predicted: Iterable[tuple[str, int]],
    gold: Iterable[tuple[str, int]],
    rule: Literal["hotpotqa", "twowiki"] = "hotpotqa",
) -> SetScore:
    """Return the score of supporting facts, each a title and the number of a sentence.

    Under ``twowiki`` titles are compared in lower case, but facts are counted as written: two that differ
    only in case count twice. An empty prediction of an empty gold set has EM 1 and F1 0.
    """
    claimed, facts = set(predicted), set(gold)
    if rule == "hotpotqa":
        return _score_members(list(claimed), list(facts))
    return _score_members(_in_lower_case(claimed), _in_lower_case(facts))


def score_supporting_paragraphs(predicted: Iterable[int], gold: Iterable[int]) -> SetScore:
    """Return MuSiQue's score of supporting paragraphs, given by number.

    An empty prediction of an empty gold set has EM and F1 1; precision and recall stay 0, as in the script.
    """
    claimed, paragraphs = set(predicted), set(gold)
    if not claimed and not paragraphs:
        return SetScore(1.0, 1.0, 0.0, 0.0)
    return _score_members(list(claimed), list(paragraphs))


def score_evidence(predicted: Iterable[tuple[str, str, str]], gold: Sequence[Evidence]) -> SetScore:
    """Return 2WikiMultihopQA's score of evidence triples.

    Texts are compared in lower case without punctuation; articles stay. A predicted triple that matches any
    gold triple under any of its names counts once, so two that name one gold triple differently count twice
    and recall, and F1 with it, may exceed 1, as in the script.

    A question without gold triples has no evidence score: what this function returns for one, EM 1 for no
    prediction, is the script's convention.
    """
    claimed = {_plain_triple(triple) for triple in predicted}
    names = [{_plain_triple(triple) for triple in _written_out(evidence)} for evidence in gold]
    matches = sum(any(triple in alternatives for alternatives in names) for triple in claimed)
    precision = matches / len(claimed) if claimed else 0.0
    recall = matches / len(names) if names else 0.0
    return SetScore(float(matches == len(claimed) == len(names)), _f1(precision, recall), precision, recall)


def joint_score(answer: AnswerScore, *sets: SetScore) -> SetScore:
    """Return the joint score: products of the exact matches, precisions and recalls, and the F1 that follows.

    HotpotQA's is over answer and supporting facts, 2WikiMultihopQA's over answer, supporting facts and
    evidence.
    """
    em, precision, recall = answer.em, answer.precision, answer.recall
    for score in sets:
        em, precision, recall = em * score.em, precision * score.precision, recall * score.recall
    return SetScore(em, _f1(precision, recall), precision, recall)


def _score_normalized(answer: str, gold: str, *, closed: bool) -> AnswerScore:
    em = float(answer == gold)
    if closed and answer != gold and (answer in CLOSED_ANSWERS or gold in CLOSED_ANSWERS):
        return AnswerScore(em, 0.0, 0.0, 0.0)
    answer_tokens, gold_tokens = answer.split(), gold.split()
    if not closed and (not answer_tokens or not gold_tokens):
        return AnswerScore(em, em, em, em)
    shared = sum((Counter(answer_tokens) & Counter(gold_tokens)).values())
    if not shared:
        return AnswerScore(em, 0.0, 0.0, 0.0)
    precision, recall = shared / len(answer_tokens), shared / len(gold_tokens)
    return AnswerScore(em, _f1(precision, recall), precision, recall)


def _score_members(claimed: Sequence[object], gold: Sequence[object]) -> SetScore:
    """Compare members by equality; the sequences may repeat some."""
    found = sum(member in gold for member in claimed)
    missed = sum(member not in claimed for member in gold)
    precision = found / len(claimed) if claimed else 0.0
    recall = found / (found + missed) if found + missed else 0.0
    em = float(found == len(claimed) and not missed)
    return SetScore(em, _f1(precision, recall), precision, recall)


def _f1(precision: float, recall: float) -> float:
    """Return the harmonic mean in the scripts' order of operations, so that every bit agrees."""
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def _in_lower_case(facts: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    return [(title.lower(), sentence) for title, sentence in facts]


def _plain_triple(triple: tuple[str, str, str]) -> tuple[str, ...]:
    return tuple(" ".join(text.lower().translate(_WITHOUT_PUNCTUATION).split()) for text in triple)


def _written_out(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    return (
        (subject, evidence.relation, name) for subject, name in product(evidence.subjects, evidence.objects)
    )
