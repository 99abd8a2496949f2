"""Prompt fields: what templates are filled with, one record for every suite and every prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from agentgym.core.types import Observation, Request, Step


class Exchange(NamedTuple):
    """A past turn: what was seen, and what was done about it."""

    observation: str
    action: str


@dataclass(frozen=True, slots=True)
class PromptFields:
    """The parts that a prompt is built from.

    Example:
        >>> request = Request(episode=0, task_id="t", task_type="look", turn=0, observation="A room.",
        ...                   admissible_actions=("look",), state_hash="0", seed=7,
        ...                   extra={"goal": "look at a mug.", "held": "nothing"})
        >>> slots = PromptFields.of(request, history=2)
        >>> slots.task, slots.held, slots.location, slots.recent
        ('look at a mug.', 'nothing', '', ())
    """

    task: str
    """What is to be done, as a sentence; empty where a suite tells it in its observations alone."""
    observation: str
    """The text seen now."""
    turn: int
    """Steps taken so far, by the side that the prompt is for."""
    recent: tuple[Exchange, ...]
    """The last k turns, oldest first."""
    admissible_actions: tuple[str, ...]
    """Every action accepted now, or templates with slots in angle brackets."""
    location: str
    """Where the agent is; empty in suites without places, as are the fields below without their things."""
    held: str
    """What the agent holds."""
    moved: tuple[str, ...]
    """What the agent has put where, oldest first."""
    summary: str = ""
    """What the turns before `recent` come to; empty where a context has none."""

    @classmethod
    def of(cls, request: Request, *, history: int) -> PromptFields:
        """Build the record of a request.

        Args:
            request: one question to a policy.
            history: how many past turns are kept, k.
        """
        past = request.history[-history:] if history > 0 else ()
        extra = request.extra
        return cls(
            task=extra.get("goal", ""),
            observation=text_of(request.observation),
            turn=request.told,
            recent=tuple(Exchange(text_of(step.observation), step.action) for step in past),
            admissible_actions=request.admissible_actions,
            location=extra.get("location", ""),
            held=extra.get("held", ""),
            moved=extra.get("moved", ()),
        )

    @classmethod
    def of_step(cls, step: Step, turn: int) -> PromptFields:
        """Build the record of a turn that is over, without what the suite alone knew.

        Args:
            step: what was seen and done.
            turn: its number, from 0.
        """
        seen = text_of(step.observation)
        return cls("", seen, turn, (), step.admissible_actions, "", "", ())


class FieldsOf(Protocol):
    """What builds a prompt's fields: `PromptFields.of`, or what a suite's wording names instead."""

    def __call__(self, request: Request, *, history: int) -> PromptFields:
        """Build the record of a request, with at most ``history`` past turns."""


def text_of(observation: Observation) -> str:
    """Return the text of an observation; a picture goes to the model beside the prompt."""
    return observation if isinstance(observation, str) else str(observation["text"])
