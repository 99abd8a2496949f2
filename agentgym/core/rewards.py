"""Reward schemes: a paper's reward in place of the game's own."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from agentgym.errors import UsageError, nearest

RewardScheme: TypeAlias = Literal["native", "sparse10", "score+success"]
"""What the steps of an episode pay.

``native``: what the game says. ``sparse10``: 10 at the end of an episode that is won, else 0, as GiGPO, HGPO,
GraphGPO, 3SPO and iStar train; the 0.1 that they take off for a rejected action is the trainer's
(``algorithm_options.penalty``), never the environment's. ``score+success``: as StepPO trains; each suite says
what that is where it is not 1 at the end of an episode that is won.
"""

SCHEMES: tuple[RewardScheme, ...] = get_args(RewardScheme)

WIN: dict[RewardScheme, float] = {"sparse10": 10.0, "score+success": 1.0}
"""What winning pays."""


def check_scheme(scheme: object, others: tuple[str, ...] = ()) -> RewardScheme:
    """Return a reward scheme by name.

    ``others``: names of the suite's own rules, which the message of an error lists too.

    Example:
        >>> check_scheme("sparse10")
        'sparse10'
    """
    for known in SCHEMES:
        if scheme == known:
            return known
    names = (*SCHEMES, *others)
    hint = nearest(str(scheme)[:60], names)
    raise UsageError(f"unknown reward {scheme!r:.60}{hint}; choose one of {', '.join(names)}")
