"""Reward schemes: a paper's reward in place of the game's own."""

from __future__ import annotations

from typing import Literal, TypeAlias

RewardScheme: TypeAlias = Literal["native", "sparse10", "score+success"]
"""Rewards of an episode's steps.

``native``: the game's own. ``sparse10``: 10 at the end of an episode that is won, else 0, as GiGPO, HGPO,
GraphGPO, 3SPO and iStar train; the 0.1 that they subtract for a rejected action belongs to the trainer
(``algorithm_options.penalty``), never to the environment. ``score+success``: StepPO's rewards, which each
suite documents where they are not 1 at the end of an episode that is won.
"""

WIN: dict[RewardScheme, float] = {"sparse10": 10.0, "score+success": 1.0}
"""Reward of a win."""
