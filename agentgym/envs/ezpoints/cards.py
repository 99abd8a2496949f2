"""The cards, every deal there is, and the splits.

Gym Cards deals so: the first card has one of the ranks 2 to 13, each equally likely; J, Q and K
(11 to 13) count as 10. If its value is 2, 3, 4 or 6, the second card is with probability 1/2 the one
whose value multiplies to 12; otherwise it is the one that adds to 12. The second card is never a face
card. Suits are independent (both cards may be the same), and a fair coin decides the order.

That is a finite world: 7 pairs of values, 304 ordered pairs of cards. All of them are enumerated here,
each once, with its exact probability under the rule above.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np

from agentgym.core.hashing import content_id
from agentgym.core.tasks import ListTaskSet, Task, check_split, split_of
from agentgym.errors import UsageError

TARGET = 12
"""Value that the formula must have."""

SUITS = ("clubs", "diamonds", "hearts", "spades")
RANKS = range(2, 14)
"""11, 12 and 13 are J, Q and K."""

SPLITS = ("train", "valid", "test", "unseen_pairs")
UNSEEN_PAIRS = ((3, 4), (3, 9))
"""Pairs of values that only ``unseen_pairs`` deals, lower value first: 3 * 4 and 3 + 9."""

_FACES = {11: "J", 12: "Q", 13: "K"}


class PlayingCard(NamedTuple):
    """One playing card."""

    rank: int
    """2 to 13."""
    suit: int
    """Index into `SUITS`."""

    @property
    def value(self) -> int:
        """Points of the card: 2 to 10."""
        return min(self.rank, 10)

    @property
    def face(self) -> str:
        """Text in the card's corner: ``2`` to ``10``, ``J``, ``Q`` or ``K``."""
        return _FACES.get(self.rank, str(self.rank))

    @property
    def code(self) -> str:
        """Face and first letter of the suit: ``10H``, ``KS``."""
        return self.face + SUITS[self.suit][0].upper()

    def __str__(self) -> str:
        """As in ``K of spades``."""
        return f"{self.face} of {SUITS[self.suit]}"


Deal: TypeAlias = tuple[PlayingCard, PlayingCard]
"""The two cards in the order shown: all that a task is."""


def pair_of(deal: Deal) -> tuple[int, int]:
    """Return the two values of a deal, lower first."""
    low, high = sorted(card.value for card in deal)
    return low, high


def operation_of(deal: Deal) -> str:
    """Return ``sum`` or ``product``: how the values make 12; no pair does both."""
    left, right = (card.value for card in deal)
    return "sum" if left + right == TARGET else "product"


def drawn(first: int, second: int) -> Fraction:
    """Return the probability that ranks are drawn as ``first``, then ``second`` (before the coin)."""
    value = min(first, 10)
    if TARGET % value == 0:
        hits = (TARGET // value == second) + (TARGET - value == second)
        return Fraction(hits, 2 * len(RANKS))
    return Fraction(TARGET - value == second, len(RANKS))


def probability(deal: Deal) -> Fraction:
    """Return the probability that Gym Cards deals exactly these cards in this order."""
    left, right = (card.rank for card in deal)
    return (drawn(left, right) + drawn(right, left)) / (2 * len(SUITS) ** 2)


def every_deal() -> Iterator[Deal]:
    """Go through all deals by rank and suit of the left, then of the right card."""
    cards = [PlayingCard(rank, suit) for rank in RANKS for suit in range(len(SUITS))]
    return (deal for deal in itertools.product(cards, cards) if probability(deal))


class Deals(ListTaskSet):
    """The deals of one split; `draw` follows Gym Cards' probabilities within the split.

    Going through the set, as evaluation does, meets every deal once: there a pair with a 10 weighs 42%
    (128 of 304 deals) where Gym Cards deals it 37.5% of the time.
    """

    def __init__(self, split: str, tasks: list[Task]):
        """Hold ``tasks``, whose metadata give their probabilities."""
        super().__init__(split, tasks, dataset="builtin", suite="ezpoints")
        weights = np.array([task.metadata["probability"] for task in tasks])
        self._cumulative = np.cumsum(weights / weights.sum())

    def draw(self, rng: np.random.Generator) -> Task:
        """Draw one task with Gym Cards' probabilities, restricted to this split."""
        index = int(np.searchsorted(self._cumulative, rng.random(), side="right"))
        return self._make(min(index, len(self) - 1))

    def verify(self) -> None:
        """Deal the split anew and compare ids."""
        super().verify()
        dealt = [content_id(deal) for deal in every_deal() if _split(_task(deal)) == self.split]
        if dealt != list(self.ids):
            raise UsageError(f"split {self.split!r} of EZPoints does not hold the deals it should")


@cache
def deals(split: str) -> Deals:
    """Return the tasks of a split.

    ``unseen_pairs`` holds every deal of 3 * 4 and 3 + 9, and no other split has any of them. The other
    240 deals go to ``train``, ``valid`` and ``test`` by their content id. With five pairs of values
    left, those three share all their pairs: a test score there is in-distribution, about new pictures
    of known sums. ``unseen_pairs`` asks for sums never trained on.

    The split's name must be one of these.
    """
    check_split(split, SPLITS)
    return Deals(split, [task for deal in every_deal() if _split(task := _task(deal)) == split])


def _task(deal: Deal) -> Task:
    return Task(
        id=content_id(deal),
        content=deal,
        source_id=" ".join(card.code for card in deal),
        type=operation_of(deal),
        metadata={"pair": pair_of(deal), "probability": float(probability(deal))},
    )


def _split(task: Task) -> str:
    return "unseen_pairs" if pair_of(task.content) in UNSEEN_PAIRS else split_of(task.id)
