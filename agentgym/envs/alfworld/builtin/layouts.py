"""Rooms with their furniture: known ones, and ones held out for valid_unseen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from agentgym.core.rng import KeyRng
from agentgym.envs.alfworld.builtin.catalogue import NEIGHBOURS, ROOMS

VERSION = 1
"""Part of every seed; a change of the games made changes it."""

SIZES = {"easy": (6, 8), "medium": (10, 13), "hard": (16, 20)}
"""Least and largest number of pieces of furniture, by difficulty."""

KNOWN, HELD_OUT = 12, 4
"""Layouts of each kind of room and difficulty, in train and valid_seen, and in valid_unseen."""

_SHARED = 3
"""Pieces that can share another's location, per piece that does."""


class Piece(NamedTuple):
    """A piece of furniture."""

    kind: str
    location: int


@dataclass(frozen=True, slots=True)
class RoomLayout:
    """A furnished room."""

    room: str
    """Key of `ROOMS`."""
    number: int
    """Number of the layout, among those of its room and difficulty."""
    pieces: tuple[Piece, ...]
    """Sorted; locations count from 1."""

    @property
    def signature(self) -> tuple[tuple[str, ...], ...]:
        """The groups of furniture: layouts that differ in the numbering alone share it."""
        places: dict[int, list[str]] = {}
        for piece in self.pieces:
            places.setdefault(piece.location, []).append(piece.kind)
        return tuple(sorted(tuple(sorted(kinds)) for kinds in places.values()))


@cache
def layouts(room: str, difficulty: str) -> tuple[RoomLayout, ...]:
    """Return the layouts of a kind of room: `KNOWN` known ones, then `HELD_OUT` others, all different."""
    draws = KeyRng(VERSION, 0, list(ROOMS).index(room), list(SIZES).index(difficulty))
    found: dict[tuple[tuple[str, ...], ...], RoomLayout] = {}
    while len(found) < KNOWN + HELD_OUT:
        layout = _furnish(room, len(found), draws.between(*SIZES[difficulty]), draws)
        found.setdefault(layout.signature, layout)
    return tuple(found.values())


def _furnish(room: str, number: int, size: int, draws: KeyRng) -> RoomLayout:
    """Draw the furniture and where it stands."""
    kinds = Counter(ROOMS[room].essentials)
    extras = ROOMS[room].extras
    while kinds.total() < size:
        kinds[draws.pick([kind for kind, limit in extras.items() for _ in range(limit - kinds[kind])])] += 1
    standing: list[tuple[str, int]] = []
    order_of = {kind: rank for rank, kind in enumerate(NEIGHBOURS, start=1)}
    ordered = sorted(kinds.elements(), key=lambda kind: (order_of.get(kind, 0), kind))
    for count, kind in enumerate(ordered, start=1):
        hosts = [place for host, place in standing if host in NEIGHBOURS.get(kind, ())]
        shares = hosts and draws.below(_SHARED) == 0
        standing.append((kind, draws.pick(hosts) if shares else count))
    order = {place: rank for rank, place in enumerate(sorted({place for _, place in standing}), start=1)}
    pieces = tuple(sorted(Piece(kind, order[place]) for kind, place in standing))
    return RoomLayout(room, number, pieces)
