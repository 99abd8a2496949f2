"""Negotiation table: the result of a conversation's binding moves."""

from __future__ import annotations

from typing import Self

from agentgym.envs.sotopia.actions import NOTHING, SocialAction
from agentgym.envs.sotopia.builtin.moves import BindingMove, read_move
from agentgym.envs.sotopia.builtin.terms import Terms
from agentgym.envs.sotopia.game import GameState, SocialTurn
from agentgym.envs.sotopia.scenarios import Side

NONE = -1
"""Number of a deal that stands for no deal."""


class DealTable:
    """Offers, agreements and evidence as they stand; everything follows from the conversation.

    After a deal nothing binds any more. In a turn in which both act, each answers what was on the table
    before it; if both accept, it is the first side's acceptance that counts.
    """

    __slots__ = (
        "acted",
        "deal",
        "excluded",
        "insults",
        "last",
        "offers",
        "promised",
        "serious",
        "shown",
        "terms",
    )

    def __init__(self, terms: Terms):
        """Lay an empty table."""
        self.terms = terms
        self.deal = NONE
        """What was agreed upon."""
        self.offers = [NONE, NONE]
        """What each side offers."""
        self.promised = [0, 0]
        """Deals that each side promised to accept, as bits."""
        self.excluded = [0, 0]
        """Deals that each side stated to be worse than none, as bits."""
        self.shown = [0, 0]
        """Evidence that each side showed, as bits."""
        self.serious = [0, 0]
        """Offers of each side that the other would be better off with than without a deal, as far as the
        other then knew."""
        self.insults = [0, 0]
        """Other offers of each side, and its evidence that was beside the other's concern."""
        self.acted = [0, 0]
        """Times that each side was to act."""
        self.last: list[SocialAction] = [NOTHING, NOTHING]
        """What each side did last, when it was to act."""

    @classmethod
    def of(cls, terms: Terms, state: GameState) -> Self:
        """Return the table after a conversation."""
        table = cls(terms)
        for turn in state.turns:
            table.play(turn)
        return table

    def play(self, turn: SocialTurn) -> None:
        """Let a turn happen."""
        acting = turn.acting
        if len(acting) == 1:
            side = acting[0]
            action = turn.actions[side]
            self.acted[side] += 1
            self.last[side] = action
            if action.type == "action":
                self.move(side, read_move(self.terms, side, action))
            return
        moves: list[tuple[Side, BindingMove | None]] = []
        for side in acting:
            self.acted[side] += 1
            self.last[side] = turn.actions[side]
            moves.append((side, read_move(self.terms, side, turn.actions[side])))
        for side, move in sorted(moves, key=_answers_first):
            self.move(side, move)

    def move(self, side: Side, move: BindingMove | None) -> None:
        """Make a binding move, as far as it means anything now."""
        if move is None or self.deal != NONE:
            return
        kind, number = move
        if kind == "offer":
            self.offers[side] = number
            if self.gain(1 - side, number) > 0:
                self.serious[side] += 1
            else:
                self.insults[side] += 1
        elif kind == "accept":
            self.deal = self.offers[1 - side]
        elif kind == "reject":
            self.offers[1 - side] = NONE
        elif kind == "show":
            if not self.shown[side] >> number & 1 and number not in self.terms.relevant[side]:
                self.insults[side] += 1
            self.shown[side] |= 1 << number
        elif kind == "promise":
            self.promised[side] |= 1 << number
        else:
            self.excluded[side] |= 1 << number

    def gain(self, side: int, deal: int) -> int:
        """Return a deal's apparent gain for a side beyond no deal, by the evidence that it has seen."""
        terms = self.terms
        points = terms.points[side][deal] - terms.without[side]
        return points + terms.convinced(side, self.shown[1 - side])

    def welcome(self, side: Side) -> int:
        """Return the number of deals that seem better than none to a side, the first of `Terms.ranked`."""
        terms = self.terms
        least = terms.without[side] - terms.convinced(side, self.shown[1 - side])
        return sum([points > least for points in terms.points[side]])


_PRECEDENCE = {"accept": 0, "reject": 1}


def _answers_first(entry: tuple[Side, BindingMove | None]) -> int:
    """Order the moves of one turn: answers to an earlier offer before its replacement."""
    move = entry[1]
    return 2 if move is None else _PRECEDENCE.get(move.kind, 2)
