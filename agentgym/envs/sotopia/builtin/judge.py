"""Rule-based judge: exact ratings of both sides, from their actions.

It reads binding moves, and of words only whether some listed ones are among them. Nothing else that a text
says has any effect: there is nobody who could be talked to.

A deal's *gain* is its points, with all evidence that speaks to the side's concern, less the points of no
deal. *Most* is the greatest gain of the side among deals that bring both something. An *insult* is an offer
that seems no better than none to the other, by the evidence it has seen, or a piece of evidence that does not
speak to its concern. *Uttered* is what stands in any action but a binding move, as whole words, whatever
their letter case and blanks.

- **goal** (0..10): ``10 * gain / most`` of the deal that was made, rounded up; 0 where that is negative, or
  without a deal. Where one side is after the other's secret and a word that gives it away was uttered by its
  keeper: 0 for the keeper, 10 for the other.
- **secret** (-10..0): -5 for each word that gives away one's secret and was uttered by oneself, -2 if one's
  private limit was.
- **financial_and_material_benefits** (-5..5): ``5 * gain / most`` of the deal that was made, rounded away
  from 0, where money or goods change hands; else 0.
- **social_rules** (-10..0): -4 for each turn in which a promise is broken (the other's offer is what one
  promised to accept, and one does something else); -3 for each exclusion of a deal that seemed better than
  none; -3 for each utterance with a threat (`THREATS`); -2 for each offer, acceptance or rejection after the
  deal was made.
- **relationship** (-5..5): 3 for a deal that brings the other something, -2 for another deal; 1 for a
  courtesy (`COURTESIES`); -1 for each insult, at most -3; -3 for threats; -3 for broken promises.
- **knowledge** (0..10): 2 for each deal that the other offered, promised or excluded, once; 2 for each piece
  of evidence that it showed; 2 for each word of its secret that it uttered; 1 for each speech of it that
  follows one's own speech with a question mark.
- **believability** (0..10): 10, or 0 for who never did anything; -1 for each action that is one's last once
  more; -1 for each move out of place (accepting or rejecting nothing, naming what is not there); -2 for each
  speech without a letter.

All ratings end at their bounds.
"""

from __future__ import annotations

import re
from functools import lru_cache

from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.builtin.deal_table import NONE, DealTable
from agentgym.envs.sotopia.builtin.moves import BindingMove, read_move, starts_move
from agentgym.envs.sotopia.builtin.terms import Terms, terms_of
from agentgym.envs.sotopia.game import GameState, SocialTurn
from agentgym.envs.sotopia.ratings import DIMENSIONS, Ratings
from agentgym.envs.sotopia.scenarios import Scenario, Side

JUDGE_VERSION = 1
"""Version of the judge, part of the key of stored results: it rises when any rating changes."""

THREATS = (
    "or else", "i will hurt you", "i'll hurt you", "you will regret", "you'll regret", "i will ruin you",
    "i'll ruin you", "watch your back", "i will make you pay", "i'll make you pay", "i will tell everyone",
    "i'll tell everyone",
)  # fmt: skip
"""Phrases that make an utterance a threat, as whole words."""

COURTESIES = ("please", "thank you", "thanks", "glad", "sorry", "welcome", "appreciate")
"""Words that make an utterance courteous, as whole words."""

SECRET_WORD = 5
"""Penalty of a word that gives one's secret away."""

_SIDES: tuple[Side, Side] = (0, 1)


def rate(scenario: Scenario, state: GameState) -> tuple[Ratings, Ratings]:
    """Return the ratings of both sides; see the module.

    Args:
        scenario: a built-in one.
        state: any conversation, finished or not.

    Raises:
        UsageError: the scenario is of other data.
    """
    terms = terms_of(scenario)
    table = DealTable(terms)
    records = (_Record(terms, 0), _Record(terms, 1))
    for turn in state.turns:
        for side in turn.acting:
            records[side].note(table, turn)
        table.play(turn)
    leaked = terms.keeper is not None and records[terms.keeper].secret_words() > 0
    first, second = (_ratings(table, records[side], records[1 - side], leaked) for side in _SIDES)
    return first, second


def secret_is_out(scenario: Scenario, state: GameState) -> bool:
    """Return whether a side uttered the secret that the other is after: then nothing changes the goals."""
    keeper = terms_of(scenario).keeper
    return keeper is not None and rate(scenario, state)[keeper].secret <= -SECRET_WORD


class _Record:
    """The judge's record of one side."""

    def __init__(self, terms: Terms, side: Side):
        self.terms, self.side = terms, side
        self.uttered: list[str] = []
        self.active = False
        self.broken = self.false = self.late = self.answered = 0
        """Promises broken, false statements, moves after the deal; own questions that were answered."""
        self.recorded = 0
        """Deals that it offered, promised or excluded, as bits."""
        self.implausible = 0
        self._last: SocialAction | None = None

    def note(self, table: DealTable, turn: SocialTurn) -> None:
        """Take in what it does at a table."""
        side, action = self.side, turn.actions[self.side]
        if action.type == "none":
            self._last = action
            self._promises(table, None)
            return
        self.active = True
        self.implausible += action == self._last and action.type != "leave"
        self._last = action
        move = read_move(self.terms, side, action)
        self._promises(table, move)
        if move is not None:
            self._move(table, move)
            return
        if action.type == "action" and starts_move(action.argument):
            self.implausible += 1
        if action.type == "speak" and not any(map(str.isalpha, action.argument)):
            self.implausible += 2
        if action.argument:
            self.uttered.append(" ".join(action.argument.lower().split()))
        last = table.last[1 - side]
        self.answered += action.type == "speak" and last.type == "speak" and "?" in last.argument

    def _promises(self, table: DealTable, move: BindingMove | None) -> None:
        """Note a promise that comes due and is broken."""
        due = table.offers[1 - self.side]
        if table.deal == NONE and due != NONE and table.promised[self.side] >> due & 1:
            self.broken += move is None or move.kind != "accept"

    def _move(self, table: DealTable, move: BindingMove) -> None:
        kind, number = move
        if table.deal != NONE:
            self.late += kind in ("offer", "accept", "reject")
            return
        if kind in ("accept", "reject"):
            self.implausible += table.offers[1 - self.side] == NONE
        elif kind != "show":
            self.recorded |= 1 << number
            self.false += kind == "exclude" and table.gain(self.side, number) > 0

    def secret_words(self) -> int:
        """Return the number of words of its secret that it uttered."""
        return sum(self.utters(word) for word in self.terms.secrets[self.side])

    def utters(self, phrase: str) -> bool:
        """Return whether a phrase is among what it uttered."""
        return any(phrase in text and _whole(phrase).search(text) is not None for text in self.uttered)

    def threats(self) -> int:
        """Return the number of its utterances with a threat."""
        return sum(
            any(phrase in text and _whole(phrase).search(text) for phrase in THREATS) for text in self.uttered
        )


def _ratings(table: DealTable, own: _Record, other: _Record, leaked: bool) -> Ratings:
    terms, side = table.terms, own.side
    gain = 0 if table.deal == NONE else terms.gains[side][table.deal]
    most = terms.most[side]
    goal = 0 if table.deal == NONE else terms.goal(side, table.deal)
    if leaked:
        goal = 0 if terms.keeper == side else 10
    threats, limit = own.threats(), terms.limits[side]
    secret = -SECRET_WORD * own.secret_words() - 2 * bool(limit and own.utters(limit))
    benefit = 0
    if terms.material:
        size = -(-5 * abs(gain) // most)
        benefit = size if gain > 0 else -size
    social = -4 * own.broken - 3 * own.false - 3 * threats - 2 * own.late
    relationship = 0
    if table.deal != NONE:
        relationship = 3 if terms.gains[1 - side][table.deal] > 0 else -2
    relationship += any(own.utters(word) for word in COURTESIES)
    relationship -= min(3, table.insults[side]) + 3 * (threats > 0) + 3 * (own.broken > 0)
    learnt = 2 * other.recorded.bit_count() + 2 * table.shown[1 - side].bit_count()
    knowledge = learnt + 2 * other.secret_words() + other.answered
    believability = 10 - own.implausible if own.active else 0
    found = Ratings(believability, relationship, knowledge, secret, social, benefit, goal)
    return Ratings(*(
        max(least, min(greatest, rating))
        for rating, (least, greatest) in zip(found, DIMENSIONS.values(), strict=True)
    ))  # fmt: skip


@lru_cache(maxsize=1 << 12)
def _whole(phrase: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(phrase)}(?!\w)")
