"""Studies of the sweep: arms of settings, on its environments.

A study whose algorithm the trainer cannot train is left out with the trainer's reason. Pages ``sweep-*.md``
of studies that are not here any more name the commit at which they ran.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.algorithms.claims import CEILING_CLAIMS, COMPARED, DECLARED
from benchmarks.algorithms.plan import (
    CEILING_ARMS,
    DECLARED_SEEDS,
    GAMES,
    HELD_BACK_SEEDS,
    MAIN,
    MAIN_SEEDS,
    Arm,
    Study,
    main_arms,
)

_THREE = (Arm("GRPO", "grpo"), Arm("GiGPO", "gigpo"), Arm("GraphGPO", "graphgpo"))
_NEWER = tuple(arm for arm in main_arms() if arm.algorithm in ("rtmc", "gagpo"))
"""Not in the committed main table."""

_EXPECTED = ("GraphGPO", "GiGPO", "GRPO")
_CHOSEN_SOKOBAN = (
    "The learning rate on Sokoban was chosen between two on 64 tasks of `valid` x 4 with seed 100: after "
    "60,000 steps GRPO, GiGPO and GraphGPO won 44.5, 39.8 and 35.9 % at 1e-3, 46.9, 60.2 and 46.9 % at 3e-4, "
    "their warm start 29.3 %. Tasks of `test` were played with no other settings."
)

_STUDIES = (
    MAIN,
    Study(
        name="orderings",
        title="Orderings of the five papers, with forty seeds",
        source="the orderings that the five papers print of their methods, GRPO, RLOO and PPO",
        arms=tuple(arm for arm in main_arms() if arm.label in COMPARED),
        environments=GAMES,
        seeds=DECLARED_SEEDS,
        held_back=HELD_BACK_SEEDS,
        declared=DECLARED,
        baseline="GRPO",
    ),
    Study(
        name="ceilings",
        title="True credit beside all algorithms",
        source="the question how much better credit could do at all",
        arms=(*CEILING_ARMS, *_NEWER),
        environments=GAMES,
        seeds=MAIN_SEEDS,
        held_back=HELD_BACK_SEEDS,
        declared=CEILING_CLAIMS,
        baseline="GRPO",
        beside=tuple(arm for arm in main_arms() if arm not in _NEWER),
        question="What was expected",
    ),
    Study(
        name="sokoban",
        title="GRPO, GiGPO and GraphGPO on Sokoban with two boxes",
        source="GraphGPO, Table 1, whose three algorithms it compares",
        arms=_THREE,
        environments=("sokoban",),
        seeds=MAIN_SEEDS,
        baseline="GRPO",
        chosen=_CHOSEN_SOKOBAN,
        expected=_EXPECTED,
        drawn=True,
    ),
)

STUDIES: Mapping[str, Study] = {study.name: study for study in _STUDIES}
"""By name."""
