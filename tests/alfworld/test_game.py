"""A compiled game plays by its own domain and speaks by its own grammar."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.alfworld.engine.game import Game, display_names
from agentgym.errors import UsageError
from tests.alfworld.cottage import DOMAIN, GRAMMAR, PROBLEM

COTTAGE = Game(DOMAIN, GRAMMAR, PROBLEM)


def play(*commands, game=COTTAGE):
    """Return the state after some commands, and the answer to the last one."""
    state, answer = game.initial, game.intro()
    for command in commands:
        operation = game.operations(state)[command]
        state = game.apply(state, operation)
        answer = game.feedback(operation, state)
    return state, answer


def test_the_start():
    state, intro = play()
    assert intro == "An evening in.\nHere: a mug 2.\n\nYour task is to: warm a mug."
    assert COTTAGE.choices(state).commands == (
        "clap",
        "go to chest 1",
        "go to shelf 1",
        "press lamp 2",
        "rub mug 2",
        "take mug 2 from shelf 2",
        "wait",
    )
    assert not COTTAGE.won(state)


@pytest.mark.parametrize(
    ("commands", "answer"),
    [
        (["go to chest 1"], "At chest 1. Here: nothing."),  # {to} is the chest, so {p} is another place
        (["go to chest 1", "wait"], "It is dim. Here: a mug 1."),  # not_open is no fact before it was open
        (["go to chest 1", "open chest 1", "close chest 1", "wait"], "It is dim. It was shut."),
        (["take mug 2 from shelf 2"], "You take mug 2 (mug_bar_1)."),
        (["take mug 2 from shelf 2", "wait"], "It is dim. Here: nothing."),
        (["take mug 2 from shelf 2", "go to shelf 1", "put mug 2 on shelf 1"], "You put mug 2 down."),
        (["rub mug 2"], "mug 2 is warm."),
        (["take mug 2 from shelf 2", "rub mug 2"], "mug 2 warms your hand."),
        (["clap", "wait"], "It is bright. Here: a mug 2."),
        (["clap"], "Lit: lamp 2, and lamp 1, dark: nothing."),
    ],
)
def test_what_is_said(commands, answer):
    assert play(*commands)[1] == answer


def test_a_toggle_reads_its_record_and_not_the_truth():
    """Both halves of a toggle are recorded, additions first, so deletions never show."""
    once, first = play("press lamp 2")
    twice, second = play("press lamp 2", "press lamp 2")
    lit = COTTAGE.planes.truth["lit", "lamp_bar_1"]
    assert (once & lit > 0, twice & lit > 0) == (True, False)
    assert first == second


def test_an_effect_for_all_applies_where_its_condition_holds():
    state, answer = play("go to shelf 1", "press lamp 1", "clap")
    truth = COTTAGE.planes.truth
    assert state & truth["lit", "lamp_bar_2"]
    assert not state & truth["lit", "lamp_bar_1"]
    assert answer.startswith("Lit: ")


def test_winning_and_progress():
    commands = [
        "press lamp 2",
        "take mug 2 from shelf 2",
        "go to shelf 1",
        "put mug 2 on shelf 1",
        "rub mug 2",
    ]
    states = [play(*commands[:k])[0] for k in range(6)]
    assert [COTTAGE.progress(state) * 3 for state in states] == [0, 1, 1, 1, 2, 3]
    assert [COTTAGE.won(state) for state in states] == [False] * 5 + [True]


def test_a_goal_out_of_reach_is_never_won():
    game = Game(DOMAIN, GRAMMAR, PROBLEM.replace("(lit lamp_bar_1)", "(open shelf_bar_1)"))
    assert game.goal == ()
    assert not game.won(game.initial)
    assert game.progress(game.initial) == 0.0


def test_names_count_down_in_sorted_order():
    assert display_names(["mug_bar_2", "mug_bar_10", "sink_bar_1_sinkbasin", "cup", "mug_bar_1"]) == {
        "mug_bar_1": "mug 3",
        "mug_bar_10": "mug 2",
        "mug_bar_2": "mug 1",
        "sink_bar_1_sinkbasin": "sinkbasin 1",
        "cup": "cup ",
    }


def test_what_is_remembered_is_forgotten_in_time(monkeypatch):
    monkeypatch.setattr("agentgym.envs.alfworld.engine.game.MEMO_LIMIT", 2)
    game = Game(DOMAIN, GRAMMAR, PROBLEM)
    tour = [
        "rub mug 2",
        "clap",
        "press lamp 2",
        "take mug 2 from shelf 2",
        "rub mug 2",
        "go to shelf 1",
        "wait",
    ]
    for k in range(len(tour)):
        assert play(*tour[:k], game=game) == play(*tour[:k])


def test_a_rule_without_a_production_that_applies():
    grammar = GRAMMAR.replace(
        '{"condition": "bright()", "rhs": "bright"}, {"rhs": "dim"}',
        '{"condition": "bright()", "rhs": "bright"}',
    )
    assert grammar != GRAMMAR
    with pytest.raises(UsageError, match="no production of the grammar's rule 'mood' applies"):
        play("wait", game=Game(DOMAIN, grammar, PROBLEM))


TEXTS = (DOMAIN, GRAMMAR, PROBLEM)
SCRAPS = (
    "(",
    ")",
    "",
    "?",
    "-",
    "{",
    "}",
    "#",
    '"',
    "[",
    "|",
    "&",
    ":",
    "\n",
    "forall",
    "not",
    "and",
    "mug_bar_1",
)


@settings(max_examples=300)
@given(
    which=st.integers(0, 2),
    start=st.floats(0, 1),
    length=st.integers(0, 12),
    scrap=st.sampled_from(SCRAPS),
    cut=st.booleans(),
)
def test_a_damaged_game_is_refused_or_plays(which, start, length, scrap, cut):
    texts = list(TEXTS)
    text = texts[which]
    at = int(start * len(text))
    texts[which] = text[:at] if cut else text[:at] + scrap + text[at + length :]
    with suppress(UsageError):
        wander(Game(*texts), at)


def wander(game, seed):
    """Take a few steps, the same for one seed."""
    state = game.initial
    game.intro()
    for _ in range(4):
        operations = list(game.operations(state).values())
        if not operations:
            break
        operation = operations[seed % len(operations)]
        state = game.apply(state, operation)
        game.feedback(operation, state)
