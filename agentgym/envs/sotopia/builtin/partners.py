"""Scripted partners: characters that bargain by rule, on either side of any built-in scenario.

A partner's move is the first of these that applies:

1. after a deal, or once it has been insulted as often as it bears: leave;
2. the other's offer is among the deals that it accepts now (`Bargaining`): accept it;
3. the other has just acted, and its offer seems no better to it than no deal: fair and generous partners
   exclude it for the record, silent ones reject it; the others, and whoever has excluded it already, say no;
4. it has evidence, and it is its first, third, fifth, ... turn: show the weightiest piece not yet shown;
5. it was asked something (a question mark): answer, by temperament: fair and generous partners name their
   concern, or the deal they like best and one that they would take; deceptive ones name a false concern or
   pretend that only their favourite would do; stubborn ones say nothing of it; silent ones shake their head;
6. what it would offer now is not what it offers: offer it;
7. else speak; silent partners gesture.

Of the other's points it uses nothing, its own secret it never says, and no statement for the record that it
makes is false. Its wording is drawn by the scenario's id and the turn.
"""

from __future__ import annotations

from zlib import crc32

from agentgym.core.options import check_choice
from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.builtin.deal_table import NONE, DealTable
from agentgym.envs.sotopia.builtin.moves import ACCEPT, REJECT, exclude, offer, show
from agentgym.envs.sotopia.builtin.phrases import CONCERNS, GESTURES, SPEECH
from agentgym.envs.sotopia.builtin.temperaments import BARGAINING, NAMES, Temperament
from agentgym.envs.sotopia.builtin.terms import Terms, other_side, terms_of
from agentgym.envs.sotopia.game import GameState
from agentgym.envs.sotopia.scenarios import Scenario, Side

LEAVE = SocialAction("leave")

PARTNERS_VERSION = 1
"""Version of the partners, part of the key of stored results: it rises when any partner acts otherwise."""


class ScriptedPartner:
    """A partner of one temperament; a pure function of scenario, side and conversation.

    Example:
        >>> from agentgym.envs.sotopia.builtin.scenarios import scenarios
        >>> scenario = scenarios("train")[0]
        >>> ScriptedPartner("silent").reply(scenario, 0, GameState()).type
        'action'
    """

    def __init__(self, temperament: Temperament):
        """Take on a temperament.

        Raises:
            UsageError: there is no such temperament.
        """
        check_choice("temperament", temperament, NAMES)
        self.temperament = temperament
        self._bargaining = BARGAINING[temperament]
        self._speech = SPEECH[temperament]
        self._frank = temperament in ("fair", "generous")

    def reply(self, scenario: Scenario, side: Side, state: GameState) -> SocialAction:
        """Return the partner's action.

        Args:
            scenario: a built-in one.
            side: the partner's.
            state: the conversation so far.

        Raises:
            UsageError: the scenario is of other data.
        """
        return self.reply_at(scenario, side, DealTable.of(terms_of(scenario), state))

    def reply_at(self, scenario: Scenario, side: Side, table: DealTable) -> SocialAction:
        """Return the partner's action at a table; see `reply`."""
        other = other_side(side)
        if table.deal != NONE or table.insults[other] >= self._bargaining.bears:
            return LEAVE
        terms, offered = table.terms, table.offers[other]
        welcome = table.welcome(side)
        accepted = terms.ranked[side][: self._bargaining.accepted(welcome, table.serious[other])]
        if offered in accepted:
            return ACCEPT
        draw = crc32(scenario.id.encode()) + 7 * table.acted[side]
        last = table.last[other]
        if offered != NONE and table.gain(side, offered) <= 0 and last.type == "action":
            return self._refuse(table, side, offered)
        evidence = self._evidence(table, side)
        if evidence is not None:
            return evidence
        if last.type == "speak" and "?" in last.argument:
            return self._answer(table, side, accepted, draw)
        mine = self._demand(table, other, accepted)
        if mine not in (NONE, table.offers[side]):
            return offer(terms, mine)
        return self._talk(terms, side, table.offers[side], draw)

    def _refuse(self, table: DealTable, side: Side, deal: int) -> SocialAction:
        """Return the reaction to an offer that is no better than none."""
        terms = table.terms
        if self._frank and not table.excluded[side] >> deal & 1:
            return exclude(terms, deal)
        if self.temperament == "silent":
            return REJECT
        return SocialAction("speak", self._speech["refusal"][0].format(deal=terms.deals[deal]))

    def _evidence(self, table: DealTable, side: Side) -> SocialAction | None:
        """Return the weightiest evidence not yet shown, every other turn from the first; None for none."""
        terms = table.terms
        if not terms.evidence[side] or table.acted[side] % 2:
            return None
        order = sorted(range(len(terms.evidence[side])), key=lambda i: -terms.evidence[side][i].weight)
        left = [number for number in order if not table.shown[side] >> number & 1]
        return show(terms, side, left[0]) if left else None

    def _demand(self, table: DealTable, other: Side, accepted: tuple[int, ...]) -> int:
        """Return the deal to offer: one promised, else the least liked that the other has not excluded."""
        promised, excluded = table.promised[other], table.excluded[other]
        for deal in accepted:
            if promised >> deal & 1:
                return deal
        for deal in reversed(accepted):
            if not excluded >> deal & 1:
                return deal
        return accepted[-1] if accepted else NONE

    def _answer(self, table: DealTable, side: Side, accepted: tuple[int, ...], draw: int) -> SocialAction:
        terms = table.terms
        if self.temperament == "silent":
            return SocialAction("non-verbal communication", GESTURES[draw % len(GESTURES)])
        if terms.concerns[side]:
            concern = terms.concerns[side]
            if self.temperament == "deceptive":
                others = [one for one in CONCERNS if one != concern]
                concern = others[draw % len(others)]
            lines = self._speech["concern"]
            return SocialAction("speak", lines[draw % len(lines)].format(concern=concern))
        if not accepted:
            return self._talk(terms, side, NONE, draw)
        lines = self._speech["answer"]
        text = lines[draw % len(lines)]
        return SocialAction(
            "speak", text.format(best=terms.deals[accepted[0]], least=terms.deals[accepted[-1]])
        )

    def _talk(self, terms: Terms, side: Side, mine: int, draw: int) -> SocialAction:
        if self.temperament == "silent":
            return SocialAction("non-verbal communication", GESTURES[draw % len(GESTURES)])
        if terms.keeper == 1 - side:
            lines = self._speech["prying"]
        elif mine == NONE:
            lines = self._speech["opening"]
        else:
            lines = self._speech["insisting"]
        deal = "" if mine == NONE else terms.deals[mine]
        return SocialAction("speak", lines[draw % len(lines)].format(deal=deal))
