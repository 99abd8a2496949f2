"""Trees of model calls: which call a request continues, and which calls are trained on.

A request continues the call whose messages and answer are the longest part that its own messages begin with.
Messages are compared in a normal form, since clients write them anew: without ids of tool calls, with
arguments as the values that they spell, and of an answer without its thoughts and the blanks around it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

from agentgym.core.arrays import sum_in_order
from agentgym.core.hashing import canonical_json, content_id
from agentgym.endpoint.chat import ChatMessage
from agentgym.inference.engines.types import Generation
from agentgym.io.untrusted import whole_text

THOUGHT_END = "</think>"
"""Text between an answer's thoughts and the rest."""


@dataclass(frozen=True, slots=True)
class EnvRow:
    """Observation of a session's environment after a reset or a step."""

    state_hash: str
    observation: str = ""
    admissible_actions: tuple[str, ...] = ()
    turn: int = 0
    progress: float = 0.0
    action: str = ""
    """Action before this observation; after a reset, this field and those below are empty."""
    reward: float = 0.0
    valid: bool = True
    terminated: bool = False
    truncated: bool = False
    cost: float = 0.0
    seconds: float = 0.0


@dataclass(slots=True)
class ModelCall:
    """A request to the model with its answer."""

    number: int
    """Index among the session's answers, from 0."""
    asked: int
    """Index among the session's requests, which seeds the sampling."""
    parent: int | None
    """Number of the call that this one continues; None for a root."""
    key: str
    """Hash of tools and messages in normal form."""
    messages: tuple[ChatMessage, ...]
    """Messages after the parent's answer; for a root, all of them."""
    tools: tuple[Mapping[str, Any], ...]
    prompt_ids: tuple[int, ...]
    """Token ids of all messages: they begin with the parent's prompt and response."""
    generation: Generation
    answer: ChatMessage
    """Answer as the client received it."""
    temperature: float
    seconds: float
    view: EnvRow
    """Observation at the time of the request; without an environment, a hash of the messages."""
    time: float
    """Time of the answer, in seconds since the epoch."""
    moves: tuple[EnvRow, ...] = ()
    """Environment steps between this answer and the session's next one."""

    @property
    def finish(self) -> str:
        """Why the answer ended: ``stop``, ``length`` or ``tool_calls``."""
        return "tool_calls" if self.answer.tool_calls else self.generation.finish

    @property
    def reward(self) -> float:
        """Sum of its steps' rewards."""
        return sum_in_order(move.reward for move in self.moves)

    @property
    def valid(self) -> bool:
        """Whether all of its steps were accepted."""
        return all(move.valid for move in self.moves)


class Place(NamedTuple):
    """Position of a request in a tree."""

    parent: int | None
    messages: tuple[ChatMessage, ...]
    """Messages after the parent's answer."""
    key: str
    """Hash of tools and messages, `ModelCall.key`."""


class CallTree:
    """The calls of a session, in the order of their answers.

    Example:
        >>> tree = CallTree()
        >>> tree.find((), (ChatMessage("user", "Which way?"),)).parent is None
        True
    """

    def __init__(self) -> None:
        """Begin without a call."""
        self.calls: list[ModelCall] = []
        self._answered: dict[str, int] = {}
        """Newest call by the hash of its messages with its answer."""

    def find(self, tools: Sequence[Mapping[str, Any]], messages: Sequence[ChatMessage]) -> Place:
        """Return where a request belongs."""
        found, before = None, 0
        key = content_id(canonical_json(list(tools)))
        for count, message in enumerate(messages, start=1):
            key = _extended(key, message)
            if message.role == "assistant" and count < len(messages) and key in self._answered:
                found, before = self._answered[key], count
        return Place(found, tuple(messages[before:]), key)

    def add(self, call: ModelCall) -> None:
        """Append a call that was answered."""
        self.calls.append(call)
        self._answered[_extended(call.key, call.answer)] = call.number

    def messages(self, call: ModelCall) -> tuple[ChatMessage, ...]:
        """Return all messages of a request."""
        parts = [call.messages]
        for each in islice(self.path(call), 1, None):
            parts += [(each.answer,), each.messages]
        return tuple(chain.from_iterable(reversed(parts)))

    def sampled(self, parent: int | None) -> tuple[int, ...]:
        """Return the tokens of a call and its response, with which prompts that continue it begin."""
        return () if parent is None else self.calls[parent].prompt_ids + self.calls[parent].generation.ids

    def path(self, call: ModelCall) -> Iterator[ModelCall]:
        """Yield a call and its ancestors, up to the root."""
        yield call
        while call.parent is not None:
            call = self.calls[call.parent]
            yield call

    def trained(self) -> list[ModelCall]:
        """Return the calls that are trained, in order.

        They are those whose answers the environment's steps followed, and the calls that these continue. To
        them come calls after the last step that continue one of them, unless another call took their place
        later: one that continues the same call, or of roots one of the same messages. Where no step was
        played, all calls are trained but those that others took the place of.
        """
        acting = [call for call in self.calls if call.moves]
        on_paths = {each.number for call in acting for each in self.path(call)}
        replaced = self._replaced()
        for call in self.calls[acting[-1].number + 1 if acting else 0 :]:
            begins = call.parent is None and not acting
            if call.number not in replaced and (begins or call.parent in on_paths):
                on_paths.add(call.number)
        return [call for call in self.calls if call.number in on_paths]

    def _replaced(self) -> set[int]:
        """Return the calls in whose place another one was continued, or made, later."""
        newest = list(range(len(self.calls)))  # newest descendant of each call
        for call in reversed(self.calls):
            if call.parent is not None:
                newest[call.parent] = max(newest[call.parent], newest[call.number])
        last: dict[object, int] = {}
        for call in self.calls:
            origin = call.key if call.parent is None else call.parent
            if newest[call.number] >= newest[last.get(origin, call.number)]:
                last[origin] = call.number
        return {call.number for call in self.calls} - set(last.values())


def _extended(key: str, message: ChatMessage) -> str:
    """Return the hash of messages with one more."""
    text = message.text
    if message.role == "assistant":
        text = text.rpartition(THOUGHT_END)[2].strip()
    calls = [(call.name, canonical_arguments(call.arguments)) for call in message.tool_calls]
    return content_id((key, message.role, text, calls))


def canonical_arguments(arguments: str) -> str:
    """Return the arguments of a tool call in the one form of their value; what is no JSON as it is.

    Example:
        >>> canonical_arguments('{ "b": 2.0, "a": "red" }')
        '{"a":"red","b":2}'
    """
    try:
        return whole_text(canonical_json(_plain(json.loads(arguments))))
    except (ValueError, RecursionError):
        return arguments.strip()


def _plain(value: Any) -> Any:
    """Return a value of JSON with whole numbers as integers, since JavaScript writes them so."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(member) for member in value]
    return {key: _plain(member) for key, member in value.items()} if isinstance(value, dict) else value
