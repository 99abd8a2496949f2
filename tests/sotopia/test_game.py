"""The rules of a conversation: turns, what may be done, and when it is over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym import UsageError
from agentgym.envs.sotopia.actions import ACTION_TYPES, NOTHING, SocialAction
from agentgym.envs.sotopia.game import DEFAULT_TURNS, GameState, SocialGame, SocialTurn
from tests.pace import within
from tests.sotopia.people import play, say

LEAVE = SocialAction("leave")


def test_round_robin_begins_with_side_0_and_the_other_does_nothing():
    game = SocialGame("round-robin", "acting-agents")
    state = game.initial()
    assert game.to_act(state) == (0,)
    assert (
        game.legal(state, 0)
        == ACTION_TYPES
        == ("none", "speak", "non-verbal communication", "action", "leave")
    )
    assert game.legal(state, 1) == ("none",)
    state = game.apply(state, 0, say())
    assert state == GameState((SocialTurn((say(), NOTHING), (0,)),))
    assert game.to_act(state) == (1,)
    assert (game.legal(state, 0), game.legal(state, 1)) == (("none",), ACTION_TYPES)
    assert game.apply(state, 1, say("Yes?")).turns[1] == SocialTurn((NOTHING, say("Yes?")), (1,))


def test_a_side_that_is_not_to_act_may_do_nothing_and_nothing_else():
    game = SocialGame("round-robin", "acting-agents")
    state = game.initial()
    assert game.apply(state, 1, NOTHING) is state
    with pytest.raises(UsageError, match="side 1 cannot act before side 0 has"):
        game.apply(state, 1, say())


def test_simultaneous_turns_are_over_when_both_have_acted():
    game = SocialGame("simultaneous", "acting-agents")
    state = game.initial()
    assert game.to_act(state) == (0, 1)
    assert game.legal(state, 0) == game.legal(state, 1) == ACTION_TYPES
    with pytest.raises(UsageError, match="side 1 cannot act before"):
        game.apply(state, 1, NOTHING)
    waiting = game.apply(state, 0, say("A"))
    assert (waiting.turns, waiting.pending, game.to_act(waiting)) == ((), say("A"), (1,))
    assert game.legal(waiting, 0) == ("none",)
    done = game.apply(waiting, 1, say("B"))
    assert done == GameState((SocialTurn((say("A"), say("B")), (0, 1)),))


def test_a_side_that_leaves_at_once_ends_a_simultaneous_turn_only_when_it_is_over():
    game = SocialGame("simultaneous", "acting-agents")
    waiting = game.apply(game.initial(), 0, LEAVE)
    assert game.over(waiting) == ""
    assert game.over(game.apply(waiting, 1, say())) == "left"


def test_random_order_follows_the_draws():
    game = SocialGame("random", "acting-agents", 4, draws=(1, 1, 0, 1))
    state = game.initial()
    order = []
    while waiting := game.to_act(state):
        order.append(*waiting)
        state = game.apply(state, waiting[0], say())
    assert order == [1, 1, 0, 1]
    assert game.over(state) == "turns"


def test_the_last_turn_ends_it():
    game = SocialGame("round-robin", "acting-agents")
    state = play(game, *[say()] * (DEFAULT_TURNS - 1))
    assert game.over(state) == ""
    state = game.apply(state, 1, say())
    assert game.over(state) == "turns"
    assert game.to_act(state) == game.legal(state, 0) == game.legal(state, 1) == ()
    with pytest.raises(UsageError, match="over"):
        game.apply(state, 0, NOTHING)


def test_whoever_leaves_in_the_last_turn_has_left():
    game = SocialGame("round-robin", "acting-agents", max_turns=1)
    assert game.over(play(game, LEAVE)) == "left"
    assert game.over(play(game, NOTHING)) == "turns"


@pytest.mark.parametrize(
    ("rule", "order", "actions", "turns"),
    [
        # one "none" of the second side: with its own masked one and that of the first, three in a row
        ("0.1.4", "round-robin", [say(), NOTHING, say(), say()], 2),
        ("0.1.4", "round-robin", [NOTHING, say(), say(), NOTHING], 4),
        ("acting-agents", "round-robin", [say(), NOTHING, NOTHING, NOTHING, say()], 4),
        ("acting-agents", "round-robin", [say(), NOTHING, NOTHING, say(), NOTHING, NOTHING, NOTHING], 7),
        ("acting-agents", "simultaneous", [say(), NOTHING, NOTHING, NOTHING, say(), say()], 2),
        ("acting-agents", "simultaneous", [NOTHING, say(), NOTHING, NOTHING, NOTHING, NOTHING], 3),
        ("0.1.4", "simultaneous", [NOTHING, say(), NOTHING, NOTHING, NOTHING, NOTHING], 3),
    ],
)
def test_too_much_nothing_ends_it(rule, order, actions, turns):
    game = SocialGame(order, rule)
    state = game.initial()
    for action in actions:
        if game.over(state):
            break
        state = game.apply(state, game.to_act(state)[0], action)
    assert (game.over(state), len(state.turns)) == ("stale", turns)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("round robin", "acting-agents"), "unknown order 'round robin' (did you mean 'round-robin'?)"),
        (("round-robin", "0.1.5"), "unknown stale_rule '0.1.5' (did you mean '0.1.4'?)"),
        (("round-robin", None), "unknown stale_rule None"),
        (("round-robin", "0.1.4", 0), "max_turns must be a whole number from 1 to 1000, got 0"),
        (("round-robin", "0.1.4", True), "max_turns must be"),
        (("round-robin", "0.1.4", 20, (0,)), "draws are for order 'random'"),
        (("random", "0.1.4", 3, (0, 1)), "needs draws: side 0 or 1 for each of 3 turns"),
        (("random", "0.1.4", 2, (0, 2)), "needs draws"),
    ],
)
def test_bad_rules_are_refused(arguments, message):
    with pytest.raises(UsageError) as caught:
        SocialGame(*arguments)
    assert message in str(caught.value)


def stale(turns, everybody):
    """Return whether the last three actions that count are nothing: the definition, in full."""
    counted = [
        turn.actions[side].type for turn in turns for side in (0, 1) if everybody or side in turn.acting
    ]
    return len(counted) > 2 and all(kind == "none" for kind in counted[-3:])


@given(
    st.sampled_from(["round-robin", "simultaneous", "random"]),
    st.sampled_from(["0.1.4", "acting-agents"]),
    st.integers(1, 12),
    st.lists(st.sampled_from(ACTION_TYPES), max_size=30),
    st.lists(st.sampled_from([0, 1]), min_size=12, max_size=12),
)
def test_the_rules_hold_in_any_conversation(order, rule, max_turns, kinds, draws):
    game = SocialGame(order, rule, max_turns, tuple(draws) if order == "random" else ())
    state = game.initial()
    for kind in kinds:
        waiting = game.to_act(state)
        if not waiting:
            break
        before = state
        state = game.apply(state, waiting[0], SocialAction(kind, "" if kind in ("none", "leave") else "x"))
        assert before.turns == state.turns[: len(before.turns)]
        assert hash(state) == hash(GameState(*state))
    ended = [turn for turn in state.turns if any(action.type == "leave" for action in turn.actions)]
    assert state.left == bool(ended)
    assert len(state.turns) <= max_turns
    assert state.stale == stale(state.turns, rule == "0.1.4")
    assert bool(game.over(state)) == (state.left or state.stale or len(state.turns) == max_turns)
    for turn in state.turns:
        assert all(turn.actions[side] == NOTHING for side in (0, 1) if side not in turn.acting)


@pytest.mark.slow
def test_an_utterance_is_a_twentieth_of_a_spin():
    game = SocialGame("round-robin", "acting-agents")
    action = say()

    def play():
        count = 0
        while count < 20_000:
            state = game.initial()
            while waiting := game.to_act(state):
                game.legal(state, waiting[0])
                state = game.apply(state, waiting[0], action)
                count += 1

    within(1_000, play)
