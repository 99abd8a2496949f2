"""Episode state, and its hash."""

from __future__ import annotations

from typing import Any, NamedTuple

from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.builtin.deal_table import DealTable
from agentgym.envs.sotopia.builtin.temperaments import BARGAINING
from agentgym.envs.sotopia.builtin.terms import Terms
from agentgym.envs.sotopia.game import GameState, SocialGame
from agentgym.envs.sotopia.pages import read_move
from agentgym.envs.sotopia.ratings import Ratings
from agentgym.envs.sotopia.scenarios import Scenario, Side


class SotopiaState(NamedTuple):
    """Snapshot state of an episode."""

    talk: GameState = GameState()
    ratings: tuple[Ratings, Ratings] | None = None
    """The judge's latest, of both sides; None where it has not been asked."""


def transcript(state: GameState) -> tuple[str, str]:
    r"""Return the actions, a line a turn, and those that wait for the other side; unique to the state.

    Actions as they are read hold no separators, which are blanks (`agentgym.envs.sotopia.pages.read_move`).

    Example:
        >>> from agentgym.envs.sotopia.actions import NOTHING
        >>> from agentgym.envs.sotopia.game import SocialTurn
        >>> transcript(GameState((SocialTurn((SocialAction("speak", "Good morning!"), NOTHING), (0,)),)))
        ('speak\x1fGood morning!\x1fnone\x1f\x1f0', '')
    """
    lines = [
        f"{first.type}\x1f{first.argument}\x1f{second.type}\x1f{second.argument}\x1f{_ACTING[acting]}"
        for (first, second), acting in state.turns
    ]
    waiting = state.pending
    return "\n".join(lines), "" if waiting is None else f"{waiting.type}\x1f{waiting.argument}"


_ACTING = {(0,): "0", (1,): "1", (0, 1): "01"}


def context(scenario: Scenario, side: Side, state: GameState) -> tuple[Any, ...]:
    """Return a conversation's result so far, without its free words: coarser than `transcript`.

    Of a built-in scenario: what binds (offers, the deal, evidence, promises, exclusions); of others, how
    often each side has acted. And of both, the side to act and the types of the last moves.
    """
    last = state.turns[-1] if state.turns else None
    types = () if last is None else (last.acting, tuple(action.type for action in last.actions))
    return scenario.relationship, side, *types, _bound(scenario, state), state.pending is not None


def _bound(scenario: Scenario, state: GameState) -> Any:
    if not isinstance(scenario.terms, Terms):
        return tuple(sum(side in turn.acting for turn in state.turns) for side in (0, 1))
    table = DealTable.of(scenario.terms, state)
    return (
        table.deal,
        *table.offers,
        *table.promised,
        *table.excluded,
        *table.shown,
        *(min(count, MAX_COUNTED) for count in (*table.serious, *table.insults)),
    )


MAX_COUNTED = max(max(len(way.shares), way.bears) for way in BARGAINING.values())
"""Serious offers and insults beyond so many make no difference to any scripted partner."""


def check_talk(game: SocialGame, state: GameState) -> None:
    """Raise a ValueError unless the rules, and actions as they are read, lead to a state."""
    replayed = game.initial()
    for turn in state.turns:
        for side in game.to_act(replayed):
            replayed = game.apply(replayed, side, _read(turn.actions[side]))
    if state.pending is not None:
        replayed = game.apply(replayed, 0, _read(state.pending))
    if replayed != state:
        raise ValueError("its conversation is none that the rules lead to")


def _read(action: SocialAction) -> SocialAction:
    if read_move(action.written) != action:
        raise ValueError("it has an action that none is read as")
    return action
