"""Reward schemes: a paper's reward in place of the game's own."""

from __future__ import annotations

from typing import Literal, TypeAlias

RewardScheme: TypeAlias = Literal["native", "sparse10", "score+success"]
"""What the steps of an episode pay.

``native``: what the game says. ``sparse10``: 10 at the end of an episode that is won, else 0, as GiGPO, HGPO,
GraphGPO, 3SPO and iStar train; the 0.1 that they take off for a rejected action is the trainer's
(``algorithm_options.penalty``), never the environment's. ``score+success``: as StepPO trains; each suite says
what that is where it is not 1 at the end of an episode that is won.
"""

WIN: dict[RewardScheme, float] = {"sparse10": 10.0, "score+success": 1.0}
"""What winning pays."""
