"""Prompt fields: the slots of templates, one record for every suite and every prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from agentgym.core.episodes import observed_text
from agentgym.core.types import Request, Step


class Exchange(NamedTuple):
    """A past turn: its observation and its action."""

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
    """Goal of the task, as a sentence; empty where a suite states it in its observations alone."""
    observation: str
    """The text seen now."""
    turn: int
    """Steps taken so far, by the side that the prompt is for."""
    recent: tuple[Exchange, ...]
    """The last k turns, oldest first."""
    admissible_actions: tuple[str, ...]
    """Every action accepted now, or templates with slots in angle brackets."""
    location: str
    """Place of the agent; empty in suites without places, as are the fields below without their things."""
    held: str
    """Things that the agent holds."""
    moved: tuple[str, ...]
    """Things that the agent has put down, each with its place, oldest first."""
    summary: str = ""
    """Summary of the turns before `recent`; empty where a context has none."""

    @classmethod
    def of(cls, request: Request, *, history: int) -> PromptFields:
        """Build the record of a request.

        Args:
            request: one question to a policy.
            history: largest number of past turns, k.
        """
        past = request.history[-history:] if history > 0 else ()
        extra = request.extra
        return cls(
            task=extra.get("goal", ""),
            observation=observed_text(request.observation),
            turn=request.own_steps,
            recent=tuple(Exchange(observed_text(step.observation), step.action) for step in past),
            admissible_actions=request.admissible_actions,
            location=extra.get("location", ""),
            held=extra.get("held", ""),
            moved=extra.get("moved", ()),
        )

    @classmethod
    def of_step(cls, step: Step, turn: int) -> PromptFields:
        """Build the record of a turn that is over, without what the suite alone knew.

        Args:
            step: the turn's observation and action.
            turn: its number, from 0.
        """
        seen = observed_text(step.observation)
        return cls("", seen, turn, (), step.admissible_actions, "", "", ())


class FieldsOf(Protocol):
    """Builder of a prompt's fields: `PromptFields.of`, or the function that a suite's wording names."""

    def __call__(self, request: Request, *, history: int) -> PromptFields:
        """Build the record of a request, with at most ``history`` past turns."""
