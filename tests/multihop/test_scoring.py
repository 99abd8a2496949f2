"""Scores of answers, facts and evidence: a table worked out by hand."""

import pytest

from agentgym.envs.multihop.scoring import (
    AnswerScore,
    Evidence,
    SetScore,
    joint_score,
    normalize_answer,
    score_answer,
    score_evidence,
    score_supporting_facts,
    score_supporting_paragraphs,
)

BOTH = ("hotpotqa", "twowiki")
OPEN = ("musique", "squad")
ALL = (*BOTH, *OPEN)

RIGHT = (1, 1, 1, 1)
WRONG = (0, 0, 0, 0)
EMPTY_MATCH = (1, 0, 0, 0)
"""Two answers of nothing but articles: equal texts that share no token."""


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("", ""),
        ("The Cat", "cat"),
        ("a b an c the d", "b c d"),
        ("Another theatre", "another theatre"),
        ("A", ""),
        ("the", ""),
        ("A.", ""),
        ("A.B.", "ab"),
        ("a-b", "ab"),
        ("U.S.A.", "usa"),
        ("rock 'n' roll", "rock n roll"),
        ("  many\t\n spaces\u00a0here ", "many spaces here"),
        ("3,677 seated", "3677 seated"),
        ("$1.5 million", "15 million"),
        ("ÉCOLE", "école"),
        ("STRASSE Straße", "strasse straße"),
        ("“quoted” \u2013 dash", "“quoted” \u2013 dash"),
        ("北京, 中国", "北京 中国"),
        ("à la the carte", "à la carte"),
        (
            "a\u0301 b",
            "\u0301 b",
        ),  # an article before a combining accent: there is a word boundary between them
        ("the_cat", "thecat"),
        ("the cat's", "cats"),
        ("{}", ""),
    ],
)
def test_normal_form(text, normal):
    assert normalize_answer(text) == normal


CASES = [
    # articles
    (ALL, "The Red House", "red house", [], RIGHT),
    (ALL, "red house", "a red the house an", [], RIGHT),
    (ALL, "the house", "house of the rising sun", [], (0, 2 / 5, 1, 1 / 4)),
    # punctuation
    (ALL, "J. R. R. Tolkien", "JRR Tolkien", [], (0, 1 / 3, 1 / 4, 1 / 2)),
    (ALL, "J.R.R. Tolkien", "JRR Tolkien!", [], RIGHT),
    (ALL, "1,000", "1000", [], RIGHT),
    (ALL, "mother-in-law", "mother in law", [], WRONG),
    (ALL, "(New) York", "new york.", [], RIGHT),
    # overlap
    (ALL, "New York City", "New York", [], (0, 4 / 5, 2 / 3, 1)),
    (ALL, "New York", "New York City", [], (0, 4 / 5, 1, 2 / 3)),
    (ALL, "York New", "New York", [], (0, 1, 1, 1)),
    (ALL, "ha ha ha", "ha", [], (0, 1 / 2, 1 / 3, 1)),
    (ALL, "ha ha b", "ha ha ha", [], (0, 2 / 3, 2 / 3, 2 / 3)),
    (ALL, "Paris", "London", [], WRONG),
    # yes, no and no answer
    (ALL, "Yes.", "yes", [], RIGHT),
    (ALL, "yes", "no", [], WRONG),
    (BOTH, "yes it is", "yes", [], WRONG),
    (OPEN, "yes it is", "yes", [], (0, 1 / 2, 1 / 3, 1)),
    (BOTH, "no", "no man's land", [], WRONG),
    (OPEN, "no", "no man's land", [], (0, 1 / 2, 1, 1 / 3)),
    (BOTH, "The Yes", "yes", [], RIGHT),
    (BOTH, "noanswer", "noanswer", [], RIGHT),
    (BOTH, "no answer", "noanswer", [], WRONG),
    (BOTH, "No-Answer", "noanswer", [], RIGHT),
    (ALL, "noanswer", "no answer", [], WRONG),
    (ALL, "not yes at all", "yes sir", [], (0, 1 / 3, 1 / 4, 1 / 2)),
    # empty
    (BOTH, "", "", [], EMPTY_MATCH),
    (OPEN, "", "", [], RIGHT),
    (BOTH, "the", "A.", [], EMPTY_MATCH),
    (OPEN, "the", "A.", [], RIGHT),
    (ALL, "", "Paris", [], WRONG),
    (ALL, "Paris", "", [], WRONG),
    (ALL, "!?", "Paris", [], WRONG),
    (ALL, " \n", "Paris", [], WRONG),
    # Unicode
    (ALL, "São Paulo", "SÃO PAULO", [], RIGHT),
    (ALL, "Sao Paulo", "São Paulo", [], (0, 1 / 2, 1 / 2, 1 / 2)),
    (ALL, "e\u0301cole", "\u00e9cole", [], WRONG),  # no normalisation of forms
    (ALL, "İstanbul", "i\u0307stanbul", [], RIGHT),  # what lower() makes of a dotted capital I
    (ALL, "1994\u20131995", "1994-1995", [], WRONG),  # only ASCII punctuation goes
    (ALL, "東京", "東京", [], RIGHT),
    (ALL, "東京\u3000タワー", "東京 タワー", [], RIGHT),
    # aliases: the best of all for each number by itself
    (ALL, "NYC", "New York City", ["NYC", "The Big Apple"], RIGHT),
    (ALL, "big apple", "New York City", ["NYC", "The Big Apple"], RIGHT),
    (ALL, "New York City", "New York City", ["NYC"], RIGHT),
    (ALL, "Rome", "New York City", ["NYC"], WRONG),
    (ALL, "x y", "x", ["x y z w"], (0, 2 / 3, 1, 1)),
    (ALL, "b c d", "b", ["b c d e f g"], (0, 2 / 3, 1, 1)),
    (BOTH, "yes sir", "yes", ["yes sir"], RIGHT),
    (BOTH, "yes sir", "yes", ["sir yes"], (0, 1, 1, 1)),
    (BOTH, "the", "Paris", ["an"], EMPTY_MATCH),
    (OPEN, "the", "Paris", ["an"], RIGHT),
    (ALL, "Paris", "Paris", ["", ""], RIGHT),
]


def test_the_table_is_long_enough():
    assert sum(len(rules) for rules, *_ in CASES) >= 60
    assert len(CASES) >= 50


@pytest.mark.parametrize(
    ("rule", "prediction", "gold", "aliases", "expected"),
    [(rule, *case) for rules, *case in CASES for rule in rules],
)
def test_answers(rule, prediction, gold, aliases, expected):
    score = score_answer(prediction, gold, aliases, rule)
    assert score == pytest.approx(expected)
    assert score.em == expected[0]


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match=r"unknown rule 'hotpot' .*; choose one of hotpotqa"):
        score_answer("a", "b", [], "hotpot")


A0, A1, B0 = ("Alba", 0), ("Alba", 1), ("Bern", 0)


@pytest.mark.parametrize(
    ("rule", "predicted", "gold", "expected"),
    [
        *[
            (rule, *case)
            for rule in BOTH
            for case in [
                ([A0, B0], [B0, A0], RIGHT),
                ([A0, A0, B0], [A0, B0], RIGHT),  # a set
                ([A0], [A0, B0], (0, 2 / 3, 1, 1 / 2)),
                ([A0, A1, B0], [A0, B0], (0, 4 / 5, 2 / 3, 1)),
                ([A1], [A0, B0], WRONG),
                ([], [A0], WRONG),
                ([A0], [], WRONG),
                ([], [], EMPTY_MATCH),
            ]
        ],
        ("hotpotqa", [("alba", 0)], [A0], WRONG),
        ("twowiki", [("alba", 0)], [A0], RIGHT),
        ("twowiki", [("ALBA", 0), ("alba", 0)], [A0, B0], (0, 4 / 5, 1, 2 / 3)),  # two hits, one miss
        ("twowiki", [A0], [("ALBA", 0), ("alba", 0)], RIGHT),
    ],
)
def test_supporting_facts(rule, predicted, gold, expected):
    assert score_supporting_facts(predicted, gold, rule) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        ([3, 1], [1, 3], RIGHT),
        ([1, 1], [1, 3], (0, 2 / 3, 1, 1 / 2)),
        ([0, 1, 2, 3], [1, 3], (0, 2 / 3, 1 / 2, 1)),
        ([2], [1], WRONG),
        ([], [1], WRONG),
        ([1], [], WRONG),
        ([], [], (1, 1, 0, 0)),
    ],
)
def test_supporting_paragraphs(predicted, gold, expected):
    assert score_supporting_paragraphs(predicted, gold) == pytest.approx(expected)


BORN = Evidence(("Ada Moor", "A. Moor"), "place of birth", ("The Hague", "Den Haag"))
WROTE = Evidence(("Ada Moor",), "author of", ("A Tale",))


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        ([("ada moor", "place of birth", "den haag")], [BORN], RIGHT),
        ([("A MOOR", "Place of birth.", "The  Hague")], [BORN], RIGHT),
        ([("Ada Moor", "place of birth", "Hague")], [BORN], WRONG),  # articles stay
        ([("Ada Moor", "author of", "A Tale")], [BORN, WROTE], (0, 2 / 3, 1, 1 / 2)),
        ([("Ada Moor", "author of", "A Tale"), ("x", "y", "z")], [WROTE], (0, 2 / 3, 1 / 2, 1)),
        # two names of one triple: both count, as in the script
        ([("Ada Moor", "place of birth", n) for n in BORN.objects], [BORN], (0, 4 / 3, 1, 2)),
        ([("Ada Moor", "place of birth", n) for n in BORN.objects], [BORN, WROTE], RIGHT),
        ([("place of birth", "Ada Moor", "The Hague")], [BORN], WRONG),
        ([], [BORN], WRONG),
        ([("a", "b", "c")], [], WRONG),
        ([], [], EMPTY_MATCH),
    ],
)
def test_evidence(predicted, gold, expected):
    assert score_evidence(predicted, gold) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("answer", "sets", "expected"),
    [
        (RIGHT, [RIGHT], RIGHT),
        (RIGHT, [WRONG], WRONG),
        ((0, 4 / 5, 2 / 3, 1), [RIGHT], (0, 4 / 5, 2 / 3, 1)),
        ((0, 2 / 3, 1 / 2, 1), [(0, 2 / 3, 1, 1 / 2)], (0, 1 / 2, 1 / 2, 1 / 2)),
        (EMPTY_MATCH, [RIGHT], EMPTY_MATCH),
        ((0, 2 / 3, 1 / 2, 1), [RIGHT, (0, 2 / 3, 1, 1 / 2)], (0, 1 / 2, 1 / 2, 1 / 2)),
        (RIGHT, [RIGHT, (0, 4 / 3, 1, 2)], (0, 4 / 3, 1, 2)),
        (RIGHT, [], RIGHT),
    ],
)
def test_joint(answer, sets, expected):
    score = joint_score(AnswerScore(*answer), *(SetScore(*part) for part in sets))
    assert score == pytest.approx(expected)
