"""The built-in scenarios: splits that share nothing, texts that tell one side its own part alone."""

import pickle
import subprocess
import sys
from collections import Counter

import pytest

from agentgym import UsageError
from agentgym.core.hashing import content_id
from agentgym.core.tasks import split_of
from agentgym.envs.sotopia.builtin.idfile import columns
from agentgym.envs.sotopia.builtin.moves import BindingMove, read_move
from agentgym.envs.sotopia.builtin.partners import ScriptedPartner
from agentgym.envs.sotopia.builtin.people import HIDDEN_PLACES, HIDDEN_THINGS
from agentgym.envs.sotopia.builtin.scenarios import HARD, KINDS, SIZES, first_candidate, scenarios
from agentgym.envs.sotopia.builtin.terms import normal_name
from agentgym.envs.sotopia.rules import OwnTerms, choose
from agentgym.envs.sotopia.scenarios import Scenario
from agentgym.envs.sotopia.views import judge_view, view
from tests.sotopia.bargaining import SALE, act, play, some

EVERY = [scenario for split in SIZES for scenario in some(split)]


def test_splits_share_nothing():
    ids = {split: scenarios(split).ids for split in SIZES}
    assert {split: len(names) for split, names in ids.items()} == SIZES
    assert len({name for names in ids.values() for name in names}) == sum(SIZES.values())
    for split, names in ids.items():
        if split != HARD:
            assert {split_of(name) for name in names} == {split}


@pytest.mark.parametrize("split", SIZES)
def test_the_file_of_ids_is_what_the_generator_makes(split):
    held, attempts = scenarios(split), columns(split, 28)[1]
    for number, scenario in enumerate(some(split)):
        made, attempt = first_candidate(split, number)
        assert (made, made.id, attempt) == (scenario, held.ids[number], attempts[number])
        assert held.position(scenario.id) == number
    assert held.position("0" * 32) is None
    assert held[-1] == held[len(held) - 1]
    with pytest.raises(IndexError):
        held[len(held)]


@pytest.mark.parametrize("split", SIZES)
def test_every_id_is_that_of_its_content(split):
    held = scenarios(split)
    assert [held[i].id for i in range(len(held))] == list(held.ids)
    assert all(
        (scenario.terms.difficulty == "hard") == (split == HARD)
        for scenario in map(held.__getitem__, range(len(held)))
    )


def test_an_id_is_of_all_that_is_told():
    for scenario in EVERY:
        first, second = scenario.characters
        told = (scenario.kind, scenario.text, scenario.goals, scenario.relationship, first.id, second.id)
        assert scenario.id == content_id(told)
        assert pickle.loads(pickle.dumps(scenario)) == scenario


def test_hard_scenarios_leave_less_to_agree_upon():
    for split in SIZES:
        for scenario in some(split):
            share = len(scenario.terms.zone) / len(scenario.terms.deals)
            assert scenario.terms.difficulty == ("hard" if split == HARD else "usual")
            assert share <= 1 / 3 if split == HARD else 1 / 3 < share <= 0.6


def test_all_kinds_and_relationships_are_there():
    kinds = Counter(scenario.kind for scenario in EVERY)
    assert kinds == {kind: 4 * len(SIZES) for kind in KINDS}
    assert len(KINDS) == 7
    assert {scenario.relationship for scenario in EVERY} == set(range(6))


def test_every_deal_and_piece_of_evidence_can_be_named():
    for scenario in EVERY:
        terms = scenario.terms
        assert len(set(terms.deals)) == len(terms.deals)
        for number, name in enumerate(terms.deals):
            assert normal_name(name) == name
            assert name in scenario.text
            for side in (0, 1):
                assert read_move(terms, side, act(f"offer {name}")) == BindingMove("offer", number)
                assert read_move(terms, side, act(f" Exclude  {name.upper()}. ")) == BindingMove(
                    "exclude", number
                )
        for side in (0, 1):
            for number, one in enumerate(terms.evidence[side]):
                assert normal_name(one.name) == one.name
                assert read_move(terms, side, act(f"show {one.name}")) == BindingMove("show", number)
                assert read_move(terms, 1 - side, act(f"show {one.name}")) is None


def test_the_bargainer_asks_for_less_with_every_turn():
    """The least share of its greatest gain that it accepts in its first, second, ... turn; what brings it
    nothing it never does."""
    own = OwnTerms({str(gain): gain for gain in range(101)})
    accepts = act("accept")
    least = [
        next(
            gain
            for gain in range(101)
            if choose(own, [act(":Hm.")] * turn, [act(f"offer {gain}")]) == accepts
        )
        for turn in range(10)
    ]
    assert least == [100, 100, 85, 70, 55, 40, 25, 10, 10, 10]
    assert choose(OwnTerms({"a": 0, "b": -2}), [act(":Hm.")] * 9, [act("offer a")]) == act("leave")


def test_a_bare_move_names_nothing():
    for kind in ("accept", "reject"):
        assert read_move(SALE, 0, act(f" {kind.title()}! ")) == (kind, -1)


@pytest.mark.parametrize(
    "text",
    ["offer", "offer 44", "offer 45 50", "accept 45", "rejects", "show ledger", "dance", "", ":offer 45"],
)
def test_what_is_no_binding_move(text):
    assert read_move(SALE, 0, act(text)) is None


def test_a_goal_tells_a_side_its_own_part():
    for scenario in EVERY:
        terms = scenario.terms
        for side in (0, 1):
            own = OwnTerms.read(scenario.goals[side])
            gains = [points - terms.without[side] for points in terms.points[side]]
            assert own.gains == dict(zip(terms.deals, gains, strict=True))
            assert own.exhibits == terms.evidence[side]
            assert terms.concerns[side] in scenario.goals[side]
            assert terms.limits[side] in scenario.goals[side]


def test_nothing_tells_a_side_the_others_part():
    for scenario in EVERY:
        terms = scenario.terms
        for side in (0, 1):
            other, told = 1 - side, view(scenario, side).lower()
            private = [
                *terms.secrets[other],
                scenario.goals[other].lower(),
                scenario.characters[other].secret.lower(),
            ]
            private += [one.name for one in terms.evidence[other]]
            assert not [text for text in private if text in told]
            limit = terms.limits[other]
            assert not limit or limit not in told.replace(".", " ").replace(";", " ").split()
            assert all(text in judge_view(scenario).lower() for text in private)


def test_secret_words_stand_in_secrets_alone():
    words = [word.lower() for word in (*HIDDEN_THINGS, *HIDDEN_PLACES)]
    assert len(set(words)) == len(words)
    for scenario in EVERY:
        for text in (scenario.text, *scenario.goals, *(one.public_info for one in scenario.characters)):
            assert not [word for word in words if word in text.lower()]
        for side in (0, 1):
            assert all(
                word in scenario.characters[side].secret.lower() for word in scenario.terms.secrets[side]
            )
        assert not set(scenario.terms.secrets[0]) & set(scenario.terms.secrets[1])


def test_the_two_are_not_confused():
    for scenario in EVERY:
        first, second = scenario.characters
        assert first.first_name != second.first_name
        assert first.last_name != second.last_name


def test_an_unknown_split_and_scenarios_of_others_are_refused():
    with pytest.raises(UsageError, match="did you mean 'train'"):
        scenarios("trian")
    first = some("train")[0]
    real = Scenario("tea", "A kitchen.", ("Tea.", "Coffee."), 3, first.characters)
    with pytest.raises(UsageError, match="has no terms"):
        ScriptedPartner("fair").reply(real, 0, play(first, 0, "fair", lambda *_: act("leave")))


PROGRAM = """
from tests.sotopia.test_builtin import fingerprint
print(fingerprint())
"""


def fingerprint():
    """Return a digest of scenarios and of conversations with every partner."""
    from agentgym.envs.sotopia.builtin.optimum import oracle_action
    from agentgym.envs.sotopia.builtin.temperaments import NAMES

    told = []
    for scenario in some("valid", 1):
        for name in NAMES:
            state = play(
                scenario, 1, name, lambda *where, name=name: oracle_action(*where[:2], name, where[2])
            )
            told += [scenario.id, *(action.written for turn in state.turns for action in turn.actions)]
    return content_id(told)


def test_all_is_the_same_in_another_process():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONHASHSEED": "77", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == fingerprint()
