"""EZPoints drawn for people: the two cards and the formula, as a vision model would see them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.core.markup import Element, element, picture
from agentgym.core.suite_spec import SuiteDrawing
from agentgym.core.types import Step
from agentgym.envs.ezpoints.cards import Deal
from agentgym.envs.ezpoints.env import NOT_ACCEPTED, EZPointsEnv, tiles
from agentgym.envs.ezpoints.formula import Tokens
from agentgym.envs.ezpoints.picture import card_index, paint


def draw_table(env: EZPointsEnv, steps: Sequence[Step]) -> Element:
    """Draw the cards, and below them the formula as it stands."""
    deal: Deal = env.task.content
    tokens: Tokens = env.snapshot().state
    left, right = (np.array([card_index(card)]) for card in deal)
    frame = paint(left, right, np.array([tiles(tokens)]))[0]
    formula = " ".join(tokens) or "nothing yet"
    return element("figure", picture(frame, alt=f"Cards {deal[0]} and {deal[1]}; formula: {formula}"))


def notices(env: EZPointsEnv) -> tuple[str, ...]:
    """Return the notice of an action that was not accepted."""
    return (NOT_ACCEPTED,)


DRAWING = SuiteDrawing(draw_table, notices, of_state=True)
