"""The shortest way to do a generated task, without searching.

Nothing but the wanted things, the tool and the target matters to the goal, and no command serves two
purposes except going where several of these stand and opening what is visited twice. So for a given
choice of thing, tool and target the order of commands is fixed, and the shortest way is the shortest
over all choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

from agentgym.envs.alfworld.builtin.catalogue import LAMP, OPENABLE, TOOLS
from agentgym.envs.alfworld.builtin.generator import Household
from agentgym.envs.alfworld.builtin.names import names


def walkthrough(household: Household) -> tuple[str, ...]:
    """Return a shortest sequence of commands that does the task."""
    shortest = min(_ways(household), key=len)
    return tuple(shortest)


def _ways(household: Household) -> Iterator[list[str]]:
    """Yield one way for every choice of things, tool and target."""
    quest, pieces, items = household.quest, household.layout.pieces, household.items
    wanted = [i for i, item in enumerate(items) if item.kind == quest.thing]
    if quest.family == "look":
        lamp = next(i for i, item in enumerate(items) if item.kind == LAMP)
        yield from (_Way(household).take(i).use(lamp).commands for i in wanted)
        return
    tool = TOOLS.get(quest.family)
    tools = [i for i, piece in enumerate(pieces) if piece.kind == tool] if tool else [None]
    ends = [i for i, piece in enumerate(pieces) if piece.kind == quest.target]
    for chosen, at, end in product(permutations(wanted, quest.needed), tools, ends):
        way = _Way(household)
        for i in chosen:
            way.take(i)
            if at is not None:
                way.treat(i, at)
            way.leave(i, end)
        yield way.commands


class _Way:
    """Commands so far, and what they have changed."""

    def __init__(self, household: Household):
        self.commands: list[str] = []
        self._family = household.quest.family
        self._pieces, self._items = household.layout.pieces, household.items
        self._furniture = names([piece.kind for piece in self._pieces])
        self._things = names([item.kind for item in self._items])
        self._location = 0
        self._open: set[int] = set()

    def take(self, item: int) -> _Way:
        """Go to where a thing is at first and take it."""
        piece = self._items[item].piece
        self._reach_into(piece)
        self.commands.append(f"take {self._things[item]} from {self._furniture[piece]}")
        return self

    def use(self, lamp: int) -> _Way:
        """Go to the lamp and switch it on."""
        self._go(self._items[lamp].piece)
        self.commands.append(f"use {self._things[lamp]}")
        return self

    def treat(self, item: int, piece: int) -> None:
        """Go to the tool and clean, heat or cool what is held."""
        self._go(piece)
        self.commands.append(f"{self._family} {self._things[item]} with {self._furniture[piece]}")

    def leave(self, item: int, piece: int) -> None:
        """Go to the target and leave what is held."""
        self._reach_into(piece)
        self.commands.append(f"move {self._things[item]} to {self._furniture[piece]}")

    def _go(self, piece: int) -> None:
        if self._pieces[piece].location != self._location:
            self._location = self._pieces[piece].location
            self.commands.append(f"go to {self._furniture[piece]}")

    def _reach_into(self, piece: int) -> None:
        self._go(piece)
        if self._pieces[piece].kind in OPENABLE and piece not in self._open:
            self._open.add(piece)
            self.commands.append(f"open {self._furniture[piece]}")
