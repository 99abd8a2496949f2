"""Rows of what is printed, and whose tables there are."""

from __future__ import annotations

from typing import Any, NamedTuple

GIGPO, GRAPHGPO, SPO3, HGPO, STEPPO, ISTAR = "gigpo", "graphgpo", "3spo", "hgpo", "steppo", "istar"
G2PO, SAMPO = "g2po", "sampo"
"""Whose tables, by their folders."""

BOARDS = ("Sokoban", "VisualSokoban")


class Row(NamedTuple):
    """Settings that one place prints; None stands for all."""

    tables: tuple[str, ...] | None
    algorithms: tuple[str, ...] | None
    envs: tuple[str, ...] | None
    settings: dict[str, Any]
    where: str
