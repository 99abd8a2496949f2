"""Temperaments: the bargaining of scripted partners, as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Temperament: TypeAlias = Literal["fair", "stubborn", "deceptive", "silent", "generous"]

NAMES: tuple[Temperament, ...] = get_args(Temperament)


@dataclass(frozen=True, slots=True)
class Bargaining:
    """Bargaining parameters of a temperament.

    A partner accepts the deals that it likes best: of those that seem better to it than none, a share that
    grows with the serious offers made to it. What it offers is the one that it likes least of these.
    """

    shares: tuple[int, ...]
    """Percent of the deals better than none that it accepts after 0, 1, 2, ... serious offers; the last
    holds for all further ones."""
    bears: int
    """Insults (see `agentgym.envs.sotopia.builtin.deal_table.DealTable.insults`) at which it leaves."""
    reserve: int = 0
    """Deals that it never accepts, however long one insists: those that it likes least, as long as any
    other is left."""

    def accepted(self, welcome: int, serious: int) -> int:
        """Return the number of deals it accepts, counted from its favourite.

        ``welcome``: deals that seem better to it than none; ``serious``: offers among these that were made to
        it.
        """
        share = self.shares[serious if serious < len(self.shares) else -1]
        return min(-(-welcome * share // 100), self.most(welcome))

    def most(self, welcome: int) -> int:
        """Return the number of deals it accepts in the end."""
        return max(welcome - self.reserve, min(welcome, 1))


BARGAINING: Mapping[Temperament, Bargaining] = {
    "fair": Bargaining((50, 75, 100), bears=4),
    "stubborn": Bargaining((20, 40, 60, 80, 100), bears=3, reserve=1),
    "deceptive": Bargaining((30, 30, 60, 100), bears=3),
    "silent": Bargaining((40, 70, 100), bears=4),
    "generous": Bargaining((80, 100), bears=5),
}
