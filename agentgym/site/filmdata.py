"""Films as data: episodes' states, with every text, node and list of actions of a script file stored once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

from agentgym.core.markup import SPOKEN, Element, picture
from agentgym.core.types import Observation
from agentgym.evaluation.log.frames import EpisodeFrame
from agentgym.evaluation.log.transcripts import TranscriptRecord
from agentgym.rollout.stored_episode import KeptEpisode

LONG: Final = 120
"""Characters above which a text of several lines is stored line by line, since lines recur."""

Redact = Callable[[str], str]


class ViewerTables:
    """Tables of the episodes of one script file, which store equal values once.

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
        self._same: dict[int, tuple[Element, int]] = {}
        self.numbers: dict[Hashable, int] = {}
        """Whatever else is known to be stored, by a name that those who store it choose."""
        self.size = 0
        """Characters of the tables, roughly."""

    def begin(self) -> None:
        """Forget which objects have been added: an episode's drawings share parts, others' are long gone."""
        self._same.clear()

    @property
    def as_json(self) -> dict[str, Any]:
        """The tables."""
        return {"texts": self._texts, "nodes": self._nodes, "lists": self._lists}

    def text(self, text: str) -> int:
        """Return the number of a text."""
        number = self._known.get(("text", text))
        if number is None:
            clean = self._redact(text)
            lines = clean.split("\n") if len(clean) > LONG else [clean]
            entry = clean if len(lines) == 1 else [self.mark(line) for line in lines]
            number = self._known["text", text] = self._added(self._texts, entry, 6 * len(lines))
            self.size += len(clean) if len(lines) == 1 else 0
        return number

    def mark(self, text: str) -> int:
        """Return the number of a text that holds no secret: a hash, or a line of what was redacted whole."""
        number = self._known.get(("mark", text))
        if number is None:
            number = self._known["mark", text] = self._added(self._texts, text, len(text) + 4)
        return number

    def node(self, drawn: Element) -> int:
        """Return the number of a drawing."""
        same = self._same.get(id(drawn))
        if same is not None:
            return same[1]
        children = tuple(
            [
                -1 - self.text(child) if isinstance(child, str) else self.node(child)
                for child in drawn.children
            ]
        )
        attributes = tuple(drawn.attributes.items())
        # other attributes hold no words, and a picture in base64 may look like a secret
        if not SPOKEN.isdisjoint(drawn.attributes):
            attributes = tuple(
                [(name, self._redact(value) if name in SPOKEN else value) for name, value in attributes]
            )
        key = ("node", drawn.tag, attributes, children)
        number = self._known.get(key)
        if number is None:
            size = 16 + 6 * len(children) + sum(len(name) + len(value) + 6 for name, value in attributes)
            entry = [drawn.tag, dict(attributes), *children]
            number = self._known[key] = self._added(self._nodes, entry, size)
        self._same[id(drawn)] = drawn, number
        return number

    def _added(self, table: list[Any], entry: Any, size: int) -> int:
        table.append(entry)
        self.size += size
        return len(table) - 1

    def list(self, texts: Sequence[str]) -> int:
        """Return the number of a list of texts."""
        numbers = tuple(map(self.text, texts))
        key = ("list", numbers)
        if key not in self._known:
            self._known[key] = self._added(self._lists, list(numbers), 6 * len(numbers))
        return self._known[key]


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return rows as columns: one value where all are equal; null where a row has no value.

    Example:
        >>> columns([{"reward": 0, "action": 4}, {"reward": 0}])
        {'count': 2, 'reward': [0], 'action': [4, None]}
    """
    names = dict.fromkeys(name for row in rows for name in row)
    found: dict[str, Any] = {"count": len(rows)}
    for name in names:
        values = [row.get(name) for row in rows]
        found[name] = values[:1] if all(value == values[0] for value in values) else values
    return found


def state_table(
    tables: ViewerTables, frame: EpisodeFrame, covered: int, drawn: int | None, beside: Sequence[str]
) -> dict[str, Any]:
    """Return a state as JSON; its texts go into the tables.

    ``covered``: number of the text that the state hash covers; ``drawn``: of the suite's drawing of it;
    ``beside``: pieces of the observation that the state hash does not cover.
    """
    text, image = _seen(frame.observation)
    table: dict[str, Any] = {
        "observation": tables.text(text),
        "actions": tables.list(frame.admissible_actions),
        "hash": tables.mark(frame.state_hash),
        "state": covered,
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


def step_table(tables: ViewerTables, action: str, reward: float, *, valid: bool) -> dict[str, Any]:
    """Return an action and its result as JSON."""
    return {"action": tables.text(action), "reward": reward, "valid": valid}


def text_table(tables: ViewerTables, transcript: TranscriptRecord, number: int) -> dict[str, Any]:
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


def credit_tables(tables: ViewerTables, episode: KeptEpisode) -> list[dict[str, Any]]:
    """Return the training run's values for each step, as JSON."""
    rows = []
    for step, credit, to_go in zip(
        episode.trajectory.steps, episode.credit, episode.returns_to_go, strict=True
    ):
        answer = step.completion
        rows.append(
            {
                "response": tables.text(answer.text),
                "tokens": [None, len(answer.response_ids)],
                "advantage": credit.advantage,
                "return_to_go": to_go,
                "version": answer.version,
                "value": credit.value,
                "process_reward": credit.process_reward,
            }
        )
    return rows
