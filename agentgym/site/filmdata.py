"""Films as data: an episode's states with every text, node and list of actions stored once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from agentgym.core.elements import SPOKEN, Element, picture
from agentgym.core.types import Observation
from agentgym.evaluation.log.frames import EpisodeFrame
from agentgym.evaluation.log.transcripts import TranscriptRecord
from agentgym.history.rollouts import KeptStep

LONG: Final = 120
"""Characters; longer texts of several lines are stored line by line, since lines come again."""

Redact = Callable[[str], str]


class FilmTables:
    """Tables of one episode; what is added twice is stored once.

    ``texts`` holds texts, and lists of texts that are the lines of a longer one. ``nodes`` holds drawings:
    ``[tag, attributes, child, ...]``, a child being the number of a node or, below 0, ``-1 - n`` for text n.
    ``lists`` holds lists of texts.
    """

    def __init__(self, redact: Redact):
        """Begin with empty tables; ``redact`` is applied to every text before it is stored."""
        self._redact = redact
        self._texts: list[str | list[int]] = []
        self._nodes: list[list[Any]] = []
        self._lists: list[list[int]] = []
        self._known: dict[Hashable, int] = {}

    @property
    def as_json(self) -> dict[str, Any]:
        """The tables."""
        return {"texts": self._texts, "nodes": self._nodes, "lists": self._lists}

    def text(self, text: str) -> int:
        """Return the number of a text."""
        key = ("text", text)
        if key not in self._known:
            clean = self._redact(text)
            lines = clean.split("\n") if len(clean) > LONG else [clean]
            entry = clean if len(lines) == 1 else [self.text(line) for line in lines]
            self._known[key] = _added(self._texts, entry)
        return self._known[key]

    def node(self, drawn: Element) -> int:
        """Return the number of a drawing."""
        children = tuple(
            [
                -1 - self.text(child) if isinstance(child, str) else self.node(child)
                for child in drawn.children
            ]
        )
        # other attributes hold no words, and a written-out picture may look like a secret
        attributes = tuple(
            [
                (name, self._redact(value) if name in SPOKEN else value)
                for name, value in drawn.attributes.items()
            ]
        )
        key = ("node", drawn.tag, attributes, children)
        if key not in self._known:
            self._known[key] = _added(self._nodes, [drawn.tag, dict(attributes), *children])
        return self._known[key]

    def list(self, texts: Sequence[str]) -> int:
        """Return the number of a list of texts."""
        numbers = tuple(map(self.text, texts))
        key = ("list", numbers)
        if key not in self._known:
            self._known[key] = _added(self._lists, list(numbers))
        return self._known[key]


def _added(table: list[Any], entry: Any) -> int:
    table.append(entry)
    return len(table) - 1


def state_table(
    tables: FilmTables, frame: EpisodeFrame, covered: int, drawn: int | None, beside: Sequence[str]
) -> dict[str, Any]:
    """Return a state as JSON; its texts go into the tables.

    ``covered``: number of the text that the state hash covers; ``drawn``: of the suite's drawing of it;
    ``beside``: pieces of the observation that the state hash does not cover.
    """
    text, image = _seen(frame.observation)
    table: dict[str, Any] = {
        "observation": tables.text(text),
        "actions": tables.list(frame.admissible_actions),
        "hash": frame.state_hash,
        "state": covered,
        "progress": frame.progress,
    }
    if drawn is not None:
        table["drawing"] = drawn
    if image is not None:
        table["image"] = tables.node(image)
    if shown := [piece for piece in beside if piece and piece in text]:
        table["beside"] = tables.list(shown)
    return table


def _seen(observation: Observation) -> tuple[str, Element | None]:
    if isinstance(observation, str):
        return observation, None
    return observation["text"], picture(observation["image"], alt="What the agent saw")


def step_table(tables: FilmTables, action: str, reward: float, *, valid: bool) -> dict[str, Any]:
    """Return an action and its result as JSON."""
    return {"action": tables.text(action), "reward": reward, "valid": valid}


def said_table(tables: FilmTables, transcript: TranscriptRecord, number: int) -> dict[str, Any]:
    """Return a step's messages to and from the model, and the parsed action, as JSON."""
    step = transcript.steps[number]
    table: dict[str, Any] = {
        "response": tables.text(step.response),
        "prompt": [[message.role, tables.text(message.text)] for message in transcript.messages(number)],
        "tokens": [step.prompt_tokens, step.completion_tokens],
        "seconds": step.seconds,
        "cost": step.cost,
    }
    if step.format_error:
        table["format_error"] = tables.text(step.format_error)
    if step.error:
        table["error"] = step.error.replace("_", " ")
    return table


def credit_table(tables: FilmTables, step: KeptStep) -> dict[str, Any]:
    """Return the training run's values for a step, as JSON."""
    table: dict[str, Any] = {
        "response": tables.text(step.response),
        "tokens": [None, len(step.response_ids)],
        "advantage": step.advantage,
        "return_to_go": step.return_to_go,
        "version": step.version,
    }
    if step.value is not None:
        table["value"] = step.value
    if step.process_reward is not None:
        table["process_reward"] = step.process_reward
    return table
