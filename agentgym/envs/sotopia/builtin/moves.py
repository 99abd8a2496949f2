"""Binding moves: the actions that count on the table; all else is talk.

======================= =================================================================================
``offer DEAL``          puts a deal on the table, in place of one's earlier offer
``accept``              accepts the other's offer on the table, which settles the matter
``reject``              takes the other's offer off the table
``promise DEAL``        vows to accept a deal as soon as the other offers it
``exclude DEAL``        states for the record that a deal is no better for oneself than none
``show EVIDENCE``       shows the other a piece of one's evidence
======================= =================================================================================

They are the argument of ``action[...]``; letter case, blanks and a full stop at the end do not count.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.builtin.terms import Terms, normal_name
from agentgym.envs.sotopia.scenarios import Side

MoveKind: TypeAlias = Literal["offer", "accept", "reject", "promise", "exclude", "show"]

BARE = ("accept", "reject")
"""Moves that name nothing."""

_KINDS = frozenset(get_args(MoveKind))


class BindingMove(NamedTuple):
    """A binding move."""

    kind: MoveKind
    number: int = -1
    """Number of the deal or the piece of evidence; -1 where the move names none."""


def read_move(terms: Terms, side: Side, action: SocialAction) -> BindingMove | None:
    """Return the binding move that an action of a side is; None where it is none.

    Example:
        >>> terms = Terms(("40", "45"), ((0, 5), (5, 0)), (0, 0))
        >>> read_move(terms, 0, SocialAction("action", "Offer  45."))
        BindingMove(kind='offer', number=1)
        >>> read_move(terms, 0, SocialAction("action", "offer 4500")) is None
        True
    """
    if action.type != "action":
        return None
    kind, _, name = action.argument.partition(" ")
    number = terms.numbers.get(name)
    if number is not None and kind == "offer":  # candidates and partners write offers so
        return BindingMove("offer", number)
    return _read(terms, side, action.argument)


def _read(terms: Terms, side: Side, argument: str) -> BindingMove | None:
    kind, _, name = argument.strip(" .!\t\n").lower().partition(" ")
    if kind not in _KINDS:
        return None
    if kind in BARE:
        return None if name else BindingMove(kind)  # type: ignore[arg-type]  # is one of the names
    known = terms.evidence_numbers[side] if kind == "show" else terms.numbers
    number = known.get(normal_name(name))
    return None if number is None else BindingMove(kind, number)  # type: ignore[arg-type]


def starts_move(argument: str) -> bool:
    """Return whether an action begins as binding moves do, whether or not it is one."""
    return argument.strip(" .!\t\n").lower().partition(" ")[0] in _KINDS


def offer(terms: Terms, deal: int) -> SocialAction:
    """Return the offer of a deal."""
    return SocialAction("action", f"offer {terms.deals[deal]}")


def exclude(terms: Terms, deal: int) -> SocialAction:
    """Return the statement that a deal is no better than none."""
    return SocialAction("action", f"exclude {terms.deals[deal]}")


def show(terms: Terms, side: Side, number: int) -> SocialAction:
    """Return the showing of a piece of a side's evidence."""
    return SocialAction("action", f"show {terms.evidence[side][number].name}")


ACCEPT = SocialAction("action", "accept")
REJECT = SocialAction("action", "reject")
