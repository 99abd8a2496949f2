"""The optimum: what can be reached, what reaches it, and how far below it others stay."""

from dataclasses import replace
from functools import cache
from itertools import product
from statistics import mean

import pytest

from agentgym import UsageError
from agentgym.core.rng import KeyRng
from agentgym.envs.sotopia.builtin.candidates import SIZE, candidates
from agentgym.envs.sotopia.builtin.deal_table import NONE, DealTable
from agentgym.envs.sotopia.builtin.judge import rate
from agentgym.envs.sotopia.builtin.optimum import DealPlan, best, oracle_action
from agentgym.envs.sotopia.builtin.partners import ScriptedPartner
from agentgym.envs.sotopia.builtin.scenarios import KINDS
from agentgym.envs.sotopia.builtin.temperaments import NAMES
from agentgym.envs.sotopia.game import GameState, SocialGame
from agentgym.envs.sotopia.rules import BargainerPolicy, OwnTerms, choose, make_bargainer, read_page, sides
from agentgym.envs.sotopia.views import conversation, judge_view, view
from agentgym.errors import UnsupportedEnvError
from tests.policy_requests import request
from tests.sotopia.bargaining import GAME, REQUEST, SALE, act, play, scenario_of, some, talk, without_other

SPLITS = ("train", "hard")
EACH = 8
"""Scenarios of each kind and split that agents play."""


def oracle(temperament, max_turns=20):
    return lambda scenario, side, state: oracle_action(scenario, side, temperament, state, max_turns)


def by_rule(scenario, side, state):
    return choose(OwnTerms.read(scenario.goals[side]), *sides(state, side))


def chooser(*key):
    rng = KeyRng(*key)
    return lambda *where: rng.pick(candidates(*where))


def babbler(*key):
    """Return an agent that says and does what comes to its mind."""
    rng = KeyRng(*key)
    letters = "abcdefghij klmnopqrst uvwxyz 0123456789 ?"
    return lambda *_: act(rng.pick((":", "")) + "".join(rng.pick(letters) for _ in range(12)))


def mover(agent, temperament, key):
    """Return what an agent does against a partner; chance is drawn by a key."""
    if agent == "oracle":
        return oracle(temperament)
    return by_rule if agent == "rules" else {"random": chooser, "babbler": babbler}[agent](*key)


@cache
def goals(agent):
    """Return the goals that an agent reaches, by split, kind and temperament, over both sides."""
    reached = {}
    for split, name in product(SPLITS, NAMES):
        for number, (scenario, side) in enumerate(product(some(split, EACH), (0, 1))):
            for attempt in range(3 if agent == "random" else 1):
                move = mover(agent, name, (number, NAMES.index(name), attempt))
                goal = rate(scenario, play(scenario, side, name, move))[side].goal
                reached.setdefault((split, scenario.kind, name), []).append(goal)
    return reached


def average(agent, **where):
    """Return the mean of `goals` where split, kind or name are as given."""
    wanted = (where.get("split"), where.get("kind"), where.get("name"))
    return mean(
        goal
        for key, found in goals(agent).items()
        if all(want in (None, have) for want, have in zip(wanted, key, strict=True))
        for goal in found
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_oracle_reaches_the_optimum_exactly(name):
    promised = {
        (split, kind): [
            best(scenario, side, name).goal
            for scenario in some(split, EACH)
            if scenario.kind == kind
            for side in (0, 1)
        ]
        for split in SPLITS
        for kind in KINDS
    }
    assert {key[:2]: found for key, found in goals("oracle").items() if key[2] == name} == promised
    least = min(goal for found in promised.values() for goal in found)
    assert least >= 1 if name == "stubborn" else least == 10


@pytest.mark.parametrize("name", NAMES)
def test_the_planned_moves_lead_there(name):
    for scenario in some("hard", 2):
        for side in (0, 1):
            plan = best(scenario, side, name)
            left = iter((*plan.moves, *[act("leave")] * 20))
            state = play(scenario, side, name, lambda *_, left=left: next(left))
            assert rate(scenario, state)[side].goal == plan.goal
            assert set(plan.moves) <= set(candidates(scenario, side, state))


def exhaustive(scenario, side, temperament, max_turns):
    """Return the best goal over all sequences of candidates."""
    partner, game = ScriptedPartner(temperament), SocialGame("round-robin", "acting-agents", max_turns)
    moves = [move for move in candidates(scenario, side, GameState()) if move.type != "leave"]
    known = {}

    def value(state):
        table = DealTable.of(scenario.terms, state)
        if table.deal != NONE:
            return scenario.terms.goal(side, table.deal)
        if game.over(state):
            return 0
        if game.to_act(state) != (side,):
            return value(game.apply(state, 1 - side, partner.reply(scenario, 1 - side, state)))
        facts = (table.offers, table.shown, table.serious, table.insults, table.excluded)
        key = (len(state.turns), *(tuple(fact) for fact in facts), *table.last)
        if key not in known:
            known[key] = max(value(game.apply(state, side, move)) for move in moves)
        return known[key]

    return value(game.initial())


@pytest.mark.parametrize("turns", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", NAMES)
def test_no_other_moves_reach_more(name, turns):
    for scenario in (*some("train", 1), *some("hard", 1)):
        for side in (0, 1):
            assert best(scenario, side, name, max_turns=turns).goal == exhaustive(scenario, side, name, turns)


def test_plans_of_a_small_sale():
    scenario = scenario_of(SALE)
    assert best(scenario, 0, "fair") == DealPlan(10, (act("offer 55"),) * 2)
    assert best(scenario, 0, "stubborn") == DealPlan(6, (act("offer 50"),) * 2)
    assert best(scenario, 1, "generous") == DealPlan(10, (act("accept"),))
    assert best(scenario, 1, "fair") == DealPlan(10, (act("offer 45"),) * 2)
    assert best(scenario, 0, "fair", talk("offer 50", "accept")) == DealPlan(6, ())
    assert best(scenario, 0, "fair", max_turns=2) == DealPlan(6, (act("offer 50"),))
    assert best(scenario, 0, "fair", max_turns=1) == DealPlan(0, ())
    assert best(scenario, 0, "fair", talk(":Hm", "offer 45"), max_turns=3) == DealPlan(2, (act("accept"),))


def test_what_is_over_cannot_be_bettered():
    assert best(scenario_of(SALE), 0, "fair", talk(":Hm", "leave")) == DealPlan(0, ())
    scenario = scenario_of(replace(SALE, keeper=1))
    assert best(scenario, 0, "fair", talk(":Hm", ":The zither")) == DealPlan(10, ())
    assert best(scenario, 1, "fair", talk(":Hm", ":The zither")) == DealPlan(0, ())
    assert best(scenario, 1, "fair", talk(":The quilt")).goal == 10


def test_plans_show_evidence_that_convinces_and_no_other():
    scenario = scenario_of(REQUEST)
    assert best(scenario, 0, "fair") == DealPlan(10, (act("show ledger"), act("offer 2")))
    assert best(scenario, 1, "fair").goal == 10


def test_the_oracle_goes_on_from_anywhere():
    """After nonsense, insults and promises it still reaches what is then the best."""
    for scenario in some("train", 1):
        state = talk("dance", ":Hm?", f"offer {scenario.terms.deals[0]}", ":So?")
        promised = best(scenario, 0, "silent", state).goal
        for _ in range(10):
            for actor, move in ((0, oracle("silent")), (1, None)):
                if not GAME.over(state):
                    action = (
                        move(scenario, 0, state)
                        if move
                        else ScriptedPartner("silent").reply(scenario, 1, state)
                    )
                    state = GAME.apply(state, actor, action)
        assert rate(scenario, state)[0].goal == promised


def test_oracle_and_floor_are_far_apart():
    for split in SPLITS:
        assert average("oracle", split=split) - average("random", split=split) >= 6
        assert average("babbler", split=split) == 0
        for kind in KINDS:
            assert average("oracle", split=split, kind=kind) - average("random", split=split, kind=kind) > 5
        for name in NAMES:
            assert average("oracle", split=split, name=name) - average("random", split=split, name=name) > 5


def test_the_rules_are_between_floor_and_oracle():
    for split in SPLITS:
        assert (
            average("random", split=split) + 2
            < average("rules", split=split)
            < average("oracle", split=split) - 1
        )


@pytest.mark.parametrize("agent", ["random", "rules"])
def test_hard_scenarios_are_harder(agent):
    assert average(agent, split="hard") < average(agent, split="train") - 0.3
    for name in NAMES:
        assert average(agent, split="hard", name=name) < average(agent, split="train", name=name)


def test_candidates_hold_nothing_private_of_the_other():
    for scenario in (*some("train", 1), *some("hard", 1)):
        for side in (0, 1):
            listed = candidates(scenario, side, GameState())
            assert listed == candidates(without_other(scenario, side), side, talk("accept", ":Hm"))
            assert len(listed) == len(set(listed)) == SIZE
            offers = {move.argument for move in listed if move.argument.startswith("offer ")}
            assert offers == {f"offer {name}" for name in scenario.terms.deals}


def page(scenario, side, state):
    told = conversation(scenario, state, side) or "(nothing)"
    return f"{view(scenario, side)}\n\nConversation so far:\n{told}"


def asking(observation, *listed):
    listed = listed or ("none", "speak[<words>]", "action[<deed>]", "leave")
    return request(observation=observation, admissible_actions=listed)


def test_the_rules_read_the_page_and_nothing_else():
    for scenario in (*some("train", 1), *some("hard", 1)):
        for side in (0, 1):
            state = play(scenario, side, "fair", by_rule)
            for length in range(len(state.turns)):
                past = GameState(state.turns[:length])
                own, mine, theirs = read_page(page(scenario, side, past))
                assert own == OwnTerms.read(scenario.goals[side])
                assert (mine, theirs) == sides(past, side)
                if GAME.to_act(past) == (side,):
                    shown = page(without_other(scenario, side), side, past)
                    action = BargainerPolicy().act([asking(shown)])[0].action
                    assert action == state.turns[length].actions[side].written


def test_the_rules_choose_among_what_is_listed():
    shown = page(some("train")[0], 0, talk())
    asked = "speak[What matters most to you in this?]"
    assert BargainerPolicy().act([asking(shown), asking(shown, asked), asking(shown, "leave", "none")]) == [
        *BargainerPolicy().act([asking(shown, asked)] * 2),
        *BargainerPolicy().act([asking(shown, "none")]),
    ]
    assert BargainerPolicy().act([asking(shown, "none")])[0].action == "none"


def test_the_rules_are_told_their_side_where_all_goals_are_shown():
    scenario = some("train")[0]
    for side in (0, 1):
        assert read_page(judge_view(scenario), side)[0] == OwnTerms.read(scenario.goals[side])


@pytest.mark.parametrize("text", ["", "Participants: Ann Lee and Bo Lee\nAnn Lee's goal: Win."])
def test_the_rules_refuse_pages_of_other_games(text):
    with pytest.raises(UsageError, match="the agent 'rules'"):
        read_page(text)


def test_the_rules_play_no_other_environment():
    class Other:
        class prototype:  # noqa: N801 (an attribute)
            suite = "corridor"

    with pytest.raises(UnsupportedEnvError, match="plays SOTOPIA"):
        make_bargainer(Other())


def test_nobody_plans_for_an_unknown_temperament():
    with pytest.raises(UsageError, match="unknown temperament 'angry'"):
        best(some("train")[0], 0, "angry")
