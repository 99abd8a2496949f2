"""Rules of the game: accepted tokens, and winning formulas.

A position is the tuple of tokens played, ``=`` last once the game is over. The rules are those of Gym
Cards as verl-agent ships it, but for three defects of the original, mended here:

* it deals from Python's global generator, which ``reset(seed)`` does not seed;
* it joins tokens without a space, so that ``3 4`` is shown and evaluated as 34;
* it appends nothing for a rejected number, so an episode that repeats one never ends (here every
  action counts towards ``max_steps``).

Two of its properties are kept, as they decide rewards: operators are accepted anywhere, and a plus
sign may stand before a number (``+ 3 + 9`` and ``3 * + 4`` win, as they do in Python). It cuts an
episode at the step after the sixth token; here the sixth token is rejected.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from functools import cache
from typing import TypeAlias

from agentgym.envs.ezpoints.cards import TARGET

NUMBERS = tuple(str(n) for n in range(1, 11))
END = "="
TOKENS = (*NUMBERS, "+", "*", END)
"""The thirteen actions."""

MAX_TOKENS = 5
"""Longest formula, ``=`` not counted."""

Tokens: TypeAlias = tuple[str, ...]
Pair: TypeAlias = tuple[int, int]
"""The values of the two cards, lower first."""

# There are only some 6,000 positions, so results about them are cached.

# a formula of both cards, written n: plus signs, n, an operator, plus signs, n
_FORMULA = re.compile(r"\+*n([+*])\+*n")


@cache
def accepted(pair: Pair, tokens: Tokens) -> Tokens:
    """Return the actions accepted in a position, in the order of `TOKENS`; none once it is over."""
    if over(tokens):
        return ()
    if len(tokens) == MAX_TOKENS:
        return (END,)
    numbers = (str(n) for n in sorted(set(pair)) if tokens.count(str(n)) < pair.count(n))
    return (*numbers, "+", "*", END)


def over(tokens: Tokens) -> bool:
    """Return whether ``=`` has been played."""
    return tokens[-1:] == (END,)


@cache
def wins(pair: Pair, tokens: Tokens) -> bool:
    """Return whether the game is over, both cards are used and the formula comes to 12."""
    if not over(tokens):
        return False
    shape = "".join("n" if token in NUMBERS else token for token in tokens[:-1])
    formula = _FORMULA.fullmatch(shape)
    if formula is None:
        return False
    low, high = pair
    return (low + high if formula[1] == "+" else low * high) == TARGET


@cache
def shortest_way(pair: Pair, tokens: Tokens) -> Tokens | None:
    """Return the actions of a shortest way to win, none where it is won; None when the position is lost."""
    frontier: deque[Tokens] = deque([tokens])
    while frontier:
        position = frontier.popleft()
        if wins(pair, position):
            return position[len(tokens) :]
        frontier.extend((*position, action) for action in accepted(pair, position))
    return None


def best_action(pair: Pair, tokens: Tokens) -> str | None:
    """Return the first action of a shortest way to win; None when the position is lost or over."""
    return next(iter(shortest_way(pair, tokens) or ()), None)


def positions(pair: Pair) -> Iterable[Tokens]:
    """Go through every position of a pair, each once, none before the one it comes from."""
    frontier: deque[Tokens] = deque([()])
    while frontier:
        tokens = frontier.popleft()
        yield tokens
        frontier.extend((*tokens, action) for action in accepted(pair, tokens))
