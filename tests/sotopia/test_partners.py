"""Scripted partners: each does what its temperament says, whatever it is told, and gives nothing away."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym import UsageError
from agentgym.core.rng import KeyRng
from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.builtin.candidates import candidates
from agentgym.envs.sotopia.builtin.deal_table import DealTable
from agentgym.envs.sotopia.builtin.judge import rate
from agentgym.envs.sotopia.builtin.moves import read_move
from agentgym.envs.sotopia.builtin.partners import ScriptedPartner
from agentgym.envs.sotopia.builtin.phrases import CONCERNS, GESTURES
from agentgym.envs.sotopia.builtin.temperaments import BARGAINING, NAMES, Bargaining
from agentgym.envs.sotopia.game import GameState, SocialGame
from agentgym.envs.sotopia.partners import TemperamentPartner
from tests.sotopia.bargaining import GAME, REQUEST, SALE, act, play, scenario_of, some, talk, without_other

SCENARIOS = [*some("train", 1), *some("hard", 1)]
SELLER, HELPER = scenario_of(SALE), scenario_of(REQUEST)


def reply(temperament, scenario, side, *actions):
    """Return what a partner does after some actions, in its written form."""
    state = talk(*actions)
    assert GAME.to_act(state) == (side,)
    return ScriptedPartner(temperament).reply(scenario, side, state)


TEXTS = st.text(max_size=40)
ANYTHING = st.one_of(
    st.integers(0, 15),
    TEXTS.map(lambda text: SocialAction("speak", text)),
    TEXTS.map(lambda text: SocialAction("action", text)),
    st.sampled_from([act("accept"), act("reject"), act(":What do you want?"), act("none")]),
    st.sampled_from(["promise", "exclude", "offer"]).flatmap(
        lambda kind: st.integers(0, 5).map(lambda number: (kind, number))
    ),
)


def meant(choice, scenario, side, state):
    """Return the action that something of `ANYTHING` is."""
    if isinstance(choice, int):
        return candidates(scenario, side, state)[choice]
    if isinstance(choice, SocialAction):
        return choice
    return act(f"{choice[0]} {scenario.terms.deals[choice[1]]}")


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(SCENARIOS),
    st.sampled_from(NAMES),
    st.sampled_from((0, 1)),
    st.lists(ANYTHING, min_size=10, max_size=10),
)
def test_a_partner_keeps_its_secret_and_the_rules_and_never_loses(scenario, temperament, side, choices):
    left = iter(choices)
    state = play(scenario, side, temperament, lambda *where: meant(next(left), *where))
    other = 1 - side
    ratings = rate(scenario, state)[other]
    assert ratings.secret == 0
    assert ratings.social_rules == 0
    table = DealTable(scenario.terms)
    for turn in state.turns:
        action = turn.actions[other]
        if other in turn.acting:
            move = read_move(scenario.terms, other, action)
            assert (action.type == "action") == (move is not None)
            if move is not None and move.kind == "exclude":
                assert table.gain(other, move.number) <= 0
            if move is not None and move.kind == "offer":
                assert table.gain(other, move.number) > 0
            if temperament == "silent":
                assert action.type != "speak"
        table.play(turn)
    if table.deal >= 0 and table.last[other] == act("accept"):
        assert scenario.terms.gains[other][table.deal] > 0


@pytest.mark.parametrize("temperament", NAMES)
def test_a_partner_is_a_function_of_the_conversation(temperament):
    for scenario in SCENARIOS:
        for side in (0, 1):
            replies = {ScriptedPartner(temperament).reply(scenario, side, GameState()) for _ in range(3)}
            assert len(replies) == 1
    assert reply(temperament, SELLER, 1, ":Hello").written == reply(temperament, SELLER, 1, ":Hullo").written


@pytest.mark.parametrize("temperament", NAMES)
def test_a_partner_knows_nothing_private_of_the_other(temperament):
    """It does the same whatever the other's points, limit, concern and secret are."""
    partner, rng = ScriptedPartner(temperament), KeyRng(5)
    for scenario in SCENARIOS:
        for side in (0, 1):
            state = play(scenario, side, temperament, lambda *where: rng.pick(candidates(*where)))
            blind = without_other(scenario, 1 - side, evidence=scenario.terms.evidence[side])
            for length, turn in enumerate(state.turns):
                if 1 - side in turn.acting:
                    told = partner.reply(blind, 1 - side, GameState(state.turns[:length]))
                    assert told == turn.actions[1 - side]


@pytest.mark.parametrize("temperament", NAMES)
def test_what_is_not_yet_said_does_not_count(temperament):
    """In simultaneous order the other's action is there, but not yet told."""
    game = SocialGame("simultaneous", "acting-agents")
    before = game.initial()
    during = game.apply(before, 0, act("offer 45"))
    partner = ScriptedPartner(temperament)
    assert partner.reply(SELLER, 1, during) == partner.reply(SELLER, 1, before)


def test_temperaments_accept_more_with_every_serious_offer():
    accepted = {name: [BARGAINING[name].accepted(10, n) for n in range(6)] for name in NAMES}
    assert accepted == {
        "fair": [5, 8, 10, 10, 10, 10],
        "stubborn": [2, 4, 6, 8, 9, 9],
        "deceptive": [3, 3, 6, 10, 10, 10],
        "silent": [4, 7, 10, 10, 10, 10],
        "generous": [8, 10, 10, 10, 10, 10],
    }
    assert [Bargaining((20, 100), bears=1, reserve=1).accepted(welcome, 9) for welcome in range(4)] == [
        0,
        1,
        1,
        2,
    ]


def test_the_buyer_accepts_what_its_temperament_lets_it():
    """Of the four prices that the buyer likes it accepts the first, or the first two, and so on."""
    first = {
        name: [p for p in SALE.deals if reply(name, SELLER, 1, f"offer {p}") == act("accept")]
        for name in NAMES
    }
    assert first == {
        "fair": ["40", "45", "50"],
        "stubborn": ["40", "45"],
        "deceptive": ["40", "45"],
        "silent": ["40", "45", "50"],
        "generous": ["40", "45", "50", "55"],
    }


def test_insisting_wears_partners_down_as_far_as_they_go():
    """The seller insists on the best price that the buyer can give; the stubborn one keeps it in reserve."""
    offers = {}
    for name in NAMES:
        state = play(SELLER, 0, name, lambda *_: act("offer 55"))
        settled = [
            DealTable.of(SALE, GameState(state.turns[:n])).deal >= 0 for n in range(len(state.turns) + 1)
        ]
        offers[name] = (settled.index(True) if settled[-1] else len(state.turns)) // 2
    assert offers == {"fair": 2, "stubborn": 10, "deceptive": 3, "silent": 2, "generous": 1}


def test_insults_are_answered_by_temperament_and_end_it():
    """A price that the buyer loses on."""
    assert reply("fair", SELLER, 1, "offer 60") == act("exclude 60")
    assert reply("generous", SELLER, 1, "offer 60") == act("exclude 60")
    assert reply("silent", SELLER, 1, "offer 60") == act("reject")
    for name in ("stubborn", "deceptive"):
        assert "60" in reply(name, SELLER, 1, "offer 60").argument
        assert reply(name, SELLER, 1, "offer 60").type == "speak"
    insults = {}
    for name in NAMES:
        state = play(SELLER, 0, name, lambda *_: act("offer 60"))
        assert state.left
        insults[name] = sum(turn.acting == (0,) for turn in state.turns)
    assert insults == {"fair": 4, "stubborn": 3, "deceptive": 3, "silent": 4, "generous": 5}


def test_questions_are_answered_by_temperament():
    asked = ":What matters to you?"
    assert "40" in reply("fair", SELLER, 1, asked).argument
    assert "45" in reply("fair", SELLER, 1, asked).argument
    assert "55" in reply("generous", SELLER, 1, asked).argument
    assert "40" in reply("deceptive", SELLER, 1, asked).argument
    assert not any(price in reply("stubborn", SELLER, 1, asked).argument for price in SALE.deals)
    assert reply("silent", SELLER, 1, asked).argument in GESTURES


def test_two_actions_of_a_script_agree_where_they_are_the_same():
    partner = TemperamentPartner("fair")
    assert partner.agrees("speak[Well]", "speak[Well]") is True
    assert partner.agrees("speak[Well]", "leave") is False


def test_concerns_are_told_truly_falsely_or_not_at_all():
    asked = ":What matters to you?"
    named = {
        name: [concern for concern in CONCERNS if concern in reply(name, HELPER, 1, asked).argument]
        for name in NAMES
    }
    assert named["fair"] == named["generous"] == ["cost"]
    assert named["stubborn"] == named["silent"] == []
    assert len(named["deceptive"]) == 1
    assert named["deceptive"] != ["cost"]


def test_evidence_moves_a_partner_only_where_it_speaks_to_its_concern():
    assert reply("fair", HELPER, 1, "offer 1") == act("exclude 1")
    assert reply("fair", HELPER, 1, "show letter", ":Well", "offer 1") == act("exclude 1")
    assert reply("fair", HELPER, 1, "show ledger", ":Well", "offer 1") == act("accept")


def test_a_partner_shows_its_own_evidence_the_weightiest_first():
    assert ScriptedPartner("fair").reply(HELPER, 0, GameState()) == act("show letter")
    assert reply("stubborn", HELPER, 0, "show letter", ":So?", ":Well", ":And?") == act("show ledger")


def test_a_partner_offers_what_was_promised_and_not_what_was_excluded():
    """The buyer would offer 45 first, which is what it likes least of what it accepts."""
    assert reply("fair", SELLER, 1, ":Hello") == act("offer 45")
    assert reply("fair", SELLER, 1, "promise 40") == act("offer 40")
    assert reply("fair", SELLER, 1, "exclude 45") == act("offer 40")
    assert reply("fair", SELLER, 1, "promise 55") == act("offer 45")


@pytest.mark.parametrize("temperament", NAMES)
def test_a_partner_leaves_when_all_is_done(temperament):
    assert reply(temperament, SELLER, 1, "offer 40", "accept", ":Thank you") == act("leave")


def test_the_one_who_is_after_a_secret_asks_for_it():
    scenario = next(one for one in SCENARIOS if one.kind == "secret_keeping")
    keeper = scenario.terms.keeper
    said = {
        turn.actions[1 - keeper].argument
        for name in ("fair", "stubborn", "deceptive", "generous")
        for turn in play(scenario, keeper, name, lambda *_: act(":I will not say.")).turns
    }
    assert any(
        word in " ".join(said)
        for word in ("keep it to yourself", "hiding", "say it out loud", "keeping from me")
    )


def test_an_unknown_temperament_is_refused():
    with pytest.raises(UsageError, match="did you mean 'stubborn'"):
        ScriptedPartner("stuborn")
