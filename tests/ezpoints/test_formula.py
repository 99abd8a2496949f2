"""The rules: what is accepted when, and agreement with Python on what every formula comes to."""

import warnings

import pytest

from agentgym.envs.ezpoints.cards import every_deal, pair_of
from agentgym.envs.ezpoints.formula import MAX_TOKENS, TOKENS, accepted, best_action, over, positions, wins

PAIRS = sorted({pair_of(deal) for deal in every_deal()})


def value_in_python(tokens):
    """Return what the original evaluates: the tokens joined without spaces; None for no formula."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return eval("".join(tokens))
    except SyntaxError:
        return None


@pytest.mark.parametrize("pair", PAIRS)
def test_a_game_is_won_as_python_evaluates(pair):
    """Over every formula that can be written; joining digits, as the original does, never makes 12."""
    for tokens in positions(pair):
        if over(tokens):
            formula = tokens[:-1]
            both = sum(token.isdigit() for token in formula) == 2
            assert wins(pair, tokens) == (both and value_in_python(formula) == 12), formula


def test_all_positions_are_known():
    counts = {pair: sum(1 for _ in positions(pair)) for pair in PAIRS}
    # tokens of length L: 2^L without a number, L * k * 2^(L-1) with one, C(L, 2) * k * 2^(L-2) with both
    one_two = {2: (2, 2), 1: (1, 1)}
    for pair in PAIRS:
        one, two = one_two[len(set(pair))]
        formulas = sum(
            2**n + n * one * 2 ** max(n - 1, 0) + n * (n - 1) // 2 * two * 2 ** max(n - 2, 0)
            for n in range(MAX_TOKENS + 1)
        )
        assert counts[pair] == 2 * formulas
    assert sum(counts.values()) == 7122


def test_numbers_are_those_of_unused_cards():
    assert accepted((2, 10), ()) == ("2", "10", "+", "*", "=")
    assert accepted((2, 10), ("10",)) == ("2", "+", "*", "=")
    assert accepted((2, 10), ("10", "+", "2")) == ("+", "*", "=")
    assert accepted((6, 6), ("6",)) == ("6", "+", "*", "=")
    assert accepted((6, 6), ("6", "+", "6")) == ("+", "*", "=")


def test_a_sixth_token_is_not_accepted():
    assert accepted((2, 10), ("+",) * 4) == ("2", "10", "+", "*", "=")
    assert accepted((2, 10), ("+",) * 5) == ("=",)
    assert accepted((2, 10), ("+",) * 5 + ("=",)) == ()


@pytest.mark.parametrize(
    ("tokens", "won"),
    [
        ("3 * 4 =", True),
        ("4 * 3 =", True),
        ("+ 3 * + 4 =", True),
        ("3 * 4", False),
        ("3 4 =", False),
        ("3 + 4 =", False),
        ("3 * * 4 =", False),
        ("* 3 * 4 =", False),
        ("3 * 4 + =", False),
        ("3 =", False),
        ("=", False),
    ],
)
def test_wins(tokens, won):
    assert wins((3, 4), tuple(tokens.split())) is won


@pytest.mark.parametrize("pair", PAIRS)
def test_the_best_action_wins_wherever_that_is_possible(pair):
    winnable = {tokens[:n] for tokens in positions(pair) if wins(pair, tokens) for n in range(len(tokens))}
    for tokens in positions(pair):
        action = best_action(pair, tokens)
        assert (action is not None) == (tokens in winnable)
        assert action is None or action in accepted(pair, tokens)
    tokens = ()
    while not over(tokens):
        tokens += (best_action(pair, tokens),)
    assert wins(pair, tokens)
    assert len(tokens) == 4


def test_tokens_are_the_thirteen_actions():
    assert TOKENS == ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "+", "*", "=")
