"""Rules of the game: turns, admissible moves, and the end.

No input or output, and no chance: who acts in random order is drawn beforehand and handed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias

from agentgym.core.options import Bounds, check_options, options_of
from agentgym.envs.sotopia.actions import ACTION_TYPES, NOTHING, ActionType, SocialAction
from agentgym.envs.sotopia.scenarios import Side
from agentgym.errors import UsageError

Order: TypeAlias = Literal["round-robin", "simultaneous", "random"]
StaleRule: TypeAlias = Literal["0.1.4", "acting-agents"]
Ending: TypeAlias = Literal["", "left", "stale", "turns"]

DEFAULT_TURNS = 20
"""Turns of a conversation unless said otherwise."""

MAX_TURNS = 1_000
"""Turns of a conversation at most."""

MAX_IDLE_TURNS = 2
"""Largest number of idle turns in a row; one more ends the conversation."""

_EITHER: tuple[tuple[Side, ...], tuple[Side, ...]] = ((0,), (1,))
_BOTH: tuple[Side, ...] = (0, 1)
_NONE_ONLY = ACTION_TYPES[:1]


class SocialTurn(NamedTuple):
    """Actions of both sides in a turn; a side that could not act did nothing."""

    actions: tuple[SocialAction, SocialAction]
    acting: tuple[Side, ...]
    """Sides that could act."""


class GameState(NamedTuple):
    """A conversation as it stands."""

    turns: tuple[SocialTurn, ...] = ()
    pending: SocialAction | None = None
    """Action of side 0 in a turn of simultaneous order in which side 1 has still to act."""
    left: bool = False
    """Whether somebody left."""
    stale: bool = False
    """Whether nothing happened for too long."""


class SocialGame:
    """The rules of a conversation: a pure function from states and actions to states.

    A turn is over when everybody who was to act has acted; the other side does nothing. The conversation
    is over when somebody has left, when nothing has been done more than `MAX_IDLE_TURNS` times in a row, or
    after ``max_turns`` turns.

    Example:
        >>> game = SocialGame("round-robin", "acting-agents")
        >>> state = game.apply(game.initial(), 0, SocialAction("speak", "Good morning!"))
        >>> game.to_act(state), game.legal(state, 0), game.over(state)
        ((1,), ('none',), '')
        >>> game.over(game.apply(state, 1, SocialAction("leave")))
        'left'
    """

    def __init__(
        self,
        order: Order,
        stale_rule: StaleRule,
        max_turns: Annotated[int, Bounds(1, MAX_TURNS)] = DEFAULT_TURNS,
        draws: Sequence[Side] = (),
    ):
        """Fix the rules.

        Args:
            order: ``round-robin`` (side 0 first), ``simultaneous``, or ``random``: one side a turn, as drawn.
            stale_rule: sides whose idle turns count. ``acting-agents``: those that could act; ``0.1.4``, as
                in that release of SOTOPIA: both, also a side that could not act.
            max_turns: turns after which the conversation is over.
            draws: sides that act in each turn, in random order.

        Raises:
            UsageError: an argument is none of those that there are, or the draws do not fit.
        """
        rules = {"order": order, "stale_rule": stale_rule, "max_turns": max_turns}
        check_options(rules, options_of(SocialGame))
        if order == "random" and (len(draws) < max_turns or any(side not in (0, 1) for side in draws)):
            raise UsageError(f"order 'random' needs draws: side 0 or 1 for each of {max_turns} turns")
        if order != "random" and draws:
            raise UsageError(f"draws are for order 'random', not for {order!r}: leave them out")
        self.order: Order = order
        self.stale_rule: StaleRule = stale_rule
        self.max_turns = max_turns
        self._acting: tuple[tuple[Side, ...], ...]
        if order == "random":
            self._acting = tuple(_EITHER[side] for side in draws)
        else:
            self._acting = (_BOTH,) if order == "simultaneous" else _EITHER

    def initial(self) -> GameState:
        """Return the initial state."""
        return GameState()

    def acting(self, number: int) -> tuple[Side, ...]:
        """Return the sides of a turn, the first being number 0, whether or not it is reached."""
        return self._acting[number % len(self._acting)]

    def to_act(self, state: GameState) -> tuple[Side, ...]:
        """Return the sides still to act in this turn, in the order of `apply`; none when it is over."""
        turns, pending, left, stale = state
        number = len(turns)
        if left or stale or number >= self.max_turns:
            return ()
        return self._acting[number % len(self._acting)] if pending is None else _EITHER[1]

    def legal(self, state: GameState, side: Side) -> tuple[ActionType, ...]:
        """Return the types of action that a side may take, in fixed order; none when it is over.

        A side that is not to act may only do nothing, which needs no call of `apply`.
        """
        waiting = self.to_act(state)
        if side in waiting:
            return ACTION_TYPES
        return _NONE_ONLY if waiting else ()

    def apply(self, state: GameState, side: Side, action: SocialAction) -> GameState:
        """Return the state after a side has acted.

        Args:
            state: the conversation so far.
            side: first of `to_act`; another side may do nothing, which changes nothing.
            action: any that is `legal`.

        Raises:
            UsageError: the conversation is over, or it is not the side's turn.
        """
        waiting = self.to_act(state)
        if not waiting:
            raise UsageError("the conversation is over: begin another")
        if side != waiting[0]:
            if side not in waiting and action.type == "none":
                return state
            raise UsageError(f"side {side} cannot act before side {waiting[0]} has")
        if len(waiting) == 2:
            return state._replace(pending=action)
        if state.pending is not None:
            turn = SocialTurn((state.pending, action), _BOTH)
        else:
            turn = SocialTurn((action, NOTHING) if side == 0 else (NOTHING, action), waiting)
        turns = (*state.turns, turn)
        stale = action.type == "none" and self._is_stale(turns)
        first, second = turn.actions
        return GameState(turns, None, first.type == "leave" or second.type == "leave", stale)

    def over(self, state: GameState) -> Ending:
        """Return why the conversation is over; nothing while it goes on.

        ``turns`` only where it would otherwise go on: somebody who leaves in the last turn has left.
        """
        if state.left:
            return "left"
        if state.stale:
            return "stale"
        return "turns" if len(state.turns) >= self.max_turns else ""

    def _is_stale(self, turns: tuple[SocialTurn, ...]) -> bool:
        """Return whether the last actions that count are more than `MAX_IDLE_TURNS` times nothing."""
        everybody = self.stale_rule == "0.1.4"
        count = 0
        for turn in reversed(turns):
            for side in (1, 0):
                if everybody or side in turn.acting:
                    if turn.actions[side].type != "none":
                        return False
                    count += 1
                    if count > MAX_IDLE_TURNS:
                        return True
        return False
