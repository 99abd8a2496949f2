"""The optimum: the best goal that a side can reach with a scripted partner, and the way there.

A partner accepts, sooner or later, exactly the deals that it likes best, as many as its temperament says
(`Bargaining.most`), of those that seem better to it than none once it has seen all evidence that speaks to
its concern. So no more than the best of these can be reached, and showing that evidence, then offering the
deal until it is accepted, reaches it where there are turns enough. With fewer, every deal is tried out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agentgym.envs.sotopia.actions import NOTHING, SocialAction
from agentgym.envs.sotopia.builtin.deal_table import NONE, DealTable
from agentgym.envs.sotopia.builtin.judge import secret_is_out
from agentgym.envs.sotopia.builtin.moves import ACCEPT, offer, show
from agentgym.envs.sotopia.builtin.partners import LEAVE, ScriptedPartner
from agentgym.envs.sotopia.builtin.temperaments import Temperament
from agentgym.envs.sotopia.builtin.terms import other_side, terms_of
from agentgym.envs.sotopia.game import GameState, SocialTurn
from agentgym.envs.sotopia.scenarios import Scenario, Side


class DealPlan(NamedTuple):
    """Moves of one side, and the goal that they reach."""

    goal: int
    """0 to 10, as the judge rates it."""
    moves: tuple[SocialAction, ...]
    """Moves of this side's turns, until the deal is made; then all is done."""


def best(
    scenario: Scenario,
    side: Side,
    temperament: Temperament,
    state: GameState = GameState(),  # noqa: B008 (immutable)
    max_turns: int = 20,
) -> DealPlan:
    """Return the best that a side can still do with a scripted partner, in round-robin order.

    Args:
        scenario: a built-in one.
        side: the side that the goal belongs to.
        temperament: temperament of the partner, which has the other side.
        state: the conversation so far.
        max_turns: turns of a conversation.

    Raises:
        UsageError: the scenario is of other data, or there is no such temperament.
    """
    return _Search(scenario, side, ScriptedPartner(temperament), state, max_turns).best()


def oracle_action(
    scenario: Scenario, side: Side, temperament: Temperament, state: GameState, max_turns: int = 20
) -> SocialAction:
    """Return the next move of the best plan; once there is a deal, or none to be had, leave."""
    moves = best(scenario, side, temperament, state, max_turns).moves
    return moves[0] if moves else LEAVE


def _worth(plan: DealPlan) -> tuple[int, int]:
    """Rank plans by their result, then by their length."""
    return plan.goal, -len(plan.moves)


class _Search:
    """Plans of one side from one conversation."""

    def __init__(
        self, scenario: Scenario, side: Side, partner: ScriptedPartner, state: GameState, max_turns: int
    ):
        self._scenario, self._side, self._partner = scenario, side, partner
        self._state, self._turns = state, max_turns
        self._terms = terms_of(scenario)

    def best(self) -> DealPlan:
        terms, side = self._terms, self._side
        table = DealTable.of(terms, self._state)
        if secret_is_out(self._scenario, self._state):
            return DealPlan(0 if terms.keeper == side else 10, ())
        if table.deal != NONE or self._state.left:
            return DealPlan(0 if table.deal == NONE else terms.goal(side, table.deal), ())
        found = DealPlan(0, ())
        gains = terms.gains[side]
        for target in sorted(range(len(terms.deals)), key=lambda deal: -gains[deal]):
            if terms.goal(side, target) < max(found.goal, 1):
                break
            found = max((found, *self._plans(table, target)), key=_worth)
        return found

    def _plans(self, table: DealTable, target: int) -> Iterator[DealPlan]:
        """Yield the results of offering a deal after more and more of the evidence, the weightiest first."""
        terms, side = self._terms, self._side
        mine = terms.evidence[side]
        left = [number for number in terms.relevant[side] if not table.shown[side] >> number & 1]
        useful = sorted(left, key=lambda number: -mine[number].weight)
        for count in range(len(useful) + 1):
            yield self._tried(target, [show(terms, side, number) for number in useful[:count]])

    def _tried(self, target: int, shown: list[SocialAction]) -> DealPlan:
        """Return the result of showing evidence, then offering a deal."""
        side, other, terms = self._side, other_side(self._side), self._terms
        table = DealTable.of(terms, self._state)
        moves: list[SocialAction] = []
        insist = offer(terms, target)
        for number in range(len(self._state.turns), self._turns):
            actor: Side = 1 if number % 2 else 0
            if actor == side:
                action = shown[len(moves)] if len(moves) < len(shown) else insist
                standing = table.offers[other]
                if standing == target:
                    action = ACCEPT
                moves.append(action)
            else:
                action = self._partner.reply_at(self._scenario, other, table)
            if action == LEAVE:
                break
            table.play(SocialTurn((action, NOTHING) if actor == 0 else (NOTHING, action), (actor,)))
            if table.deal != NONE:
                return DealPlan(terms.goal(side, table.deal), tuple(moves))
        return DealPlan(0, ())
