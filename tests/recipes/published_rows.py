"""Rows of what is printed, and whose tables there are."""

from __future__ import annotations

from typing import Any, NamedTuple

GIGPO, STEPPO, ISTAR = "GiGPO", "StepPO", "iStar"

BOARDS = ("Sokoban", "VisualSokoban")


class Row(NamedTuple):
    """Settings that one place prints; None stands for all."""

    tables: tuple[str, ...] | None
    algorithms: tuple[str, ...] | None
    envs: tuple[str, ...] | None
    settings: dict[str, Any]
    where: str
