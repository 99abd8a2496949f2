"""Requests to a model that is shown pictures: the words that stand in place of a pictured observation."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

from agentgym.core.types import Observation, Request

PictureUse: TypeAlias = Literal["none", "beside", "alone"]
"""Whether the picture of an observation is shown to the model: not, beside its text, or in its place."""

SHOWN = "The picture shows it."
"""Text in place of an observation that only the picture beside it shows."""

GONE = "The picture of that turn is not shown again."
"""Text in place of a past observation that had a picture."""


def without_text(request: Request) -> Request:
    """Return a request in which no text tells what a picture shows.

    Example:
        >>> request = Request(episode=0, task_id="t", task_type="", turn=0, state_hash="0", seed=7,
        ...                   observation={"text": "a box", "image": None}, admissible_actions=("up",))
        >>> without_text(request).observation
        'The picture shows it.'
    """
    if not _pictured(request.observation):
        return request
    history = tuple(
        replace(step, observation=GONE) if _pictured(step.observation) else step for step in request.history
    )
    return replace(request, observation=SHOWN, history=history)


def _pictured(observation: Observation) -> bool:
    return not isinstance(observation, str) and "image" in observation
