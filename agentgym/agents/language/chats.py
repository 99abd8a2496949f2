"""Chats of language agents: the messages of each turn, and the parsing of answers."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from agentgym.agents.language.settings import Scaffold
from agentgym.agents.language.words import scaffold_words
from agentgym.core.markup import PNG_SIGNATURE, png_chunk
from agentgym.core.tools import call_of, listed_schemas, tool_schemas
from agentgym.core.types import Completion, Message, Observation, Request
from agentgym.endpoint.chat import ChatMessage, ChatReply, ChatToolCall, ImagePart
from agentgym.prompts import Template
from agentgym.prompts.defusing import defused
from agentgym.prompts.fields import PromptFields
from agentgym.prompts.parsers import Answer, settle_answer
from agentgym.prompts.rendering import render, render_beginning, render_present
from agentgym.reading import read_text

_TAG = re.compile("</?(?:think|tool_call|answer)>")
_CUT_OFF = "a response that was cut off"


@dataclass(frozen=True, slots=True)
class TurnCompletion(Completion):
    """A completion with the message of its turn, for later turns."""

    message: ChatMessage | None = None
    """Observation of the turn, without the beginning of a chat; None where a turn has a prompt of its own."""
    first: int = 0
    """The oldest turn that the prompt held."""
    density: float = 0.0
    """Tokens per character of the prompt, as the server counted; 0 where it did not."""


class Demonstration(NamedTuple):
    """A solved task, as the chat of an agent."""

    task_id: str
    messages: tuple[ChatMessage, ...]


@dataclass(frozen=True, slots=True)
class ChatPrompts:
    """Turns requests into chats and replies into actions. It keeps nothing between turns."""

    template: Template
    scaffold: Scaffold
    history: int | None
    """Past turns told; None for all."""
    system: str = ""
    images: bool = True
    image_text: bool = True
    native_tools: bool = False
    shots: int = 0
    """Demonstrations in a chat."""
    demonstrations: tuple[Demonstration, ...] = ()
    """Demonstrations, one more than `shots`: the one of the task that is played is left out."""

    @property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """Schemas of the tools that the server is handed."""
        return tuple(tool_schemas(self.template.answer.tools)) if self.native_tools else ()

    @property
    def one_call(self) -> bool:
        """Whether the server is asked for one call at most: no tool may be called beside another."""
        return bool(self.tools) and not any(tool.parallel for tool in self.template.answer.tools)

    # ---- what is sent -------------------------------------------------------------------------

    def turn(self, request: Request) -> ChatMessage | None:
        """Return a turn's message in a conversation; None where a turn has a prompt of its own."""
        if not self.scaffold.conversation:
            return None
        fields = PromptFields.of(request, history=0)
        return self._seen(fields, request.observation)

    def oldest(self, request: Request) -> int:
        """Return the oldest turn that a prompt holds where nothing is known to be too long."""
        length = request.own_steps if self.history is None else min(self.history, request.own_steps)
        before = request.history[-1].completion if request.history else None
        first = request.own_steps - length
        return max(first, before.first) if isinstance(before, TurnCompletion) else first

    def chat(
        self, request: Request, turn: ChatMessage | None, first: int, note: str = ""
    ) -> tuple[ChatMessage, ...]:
        """Return the messages of a turn, from the turn ``first`` on.

        ``turn``: the request's `turn`; ``note``: stands before the first observation.
        """
        messages = [ChatMessage("system", self.system)] if self.system else []
        shown = [each for each in self.demonstrations if each.task_id != request.task_id]
        messages += [message for each in shown[: self.shots] for message in each.messages]
        if turn is None:
            return (*messages, self._prompt(request, first, note))
        turns = [*(self._past(request, number) for number in range(first, request.own_steps)), turn]
        task = defused(PromptFields.of(request, history=0).task)
        beginning = _joined(render_beginning(self.template, task, dropped=first), note, turns[0].text)
        messages.append(replace(turns[0], text=beginning))
        for step, seen in zip(request.history[first:], turns[1:], strict=True):
            answer = self.answered(step.completion, len(messages))
            messages += [answer, *self._results(answer.tool_calls, seen)]
        return tuple(messages)

    def answered(self, completion: Completion, position: int = 0) -> ChatMessage:
        """Return an answer as the model sees it in later turns.

        The action of another policy's completion is written in the answer's format. ``position`` in the chat
        names the message's calls.
        """
        text = completion.text or self.written(completion.action)
        actions = self.template.answer.parse(text).actions if self.native_tools else ()
        if not actions:
            return ChatMessage("assistant", text)
        calls = []
        for number, action in enumerate(actions):
            call = call_of(self.template.answer.tools, action)
            assert call is not None  # the reader made the action of a call
            arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
            calls.append(ChatToolCall(f"m{position:04d}c{number:03d}", call.name, arguments))
        names = [tool.name for tool in self.template.answer.tools]
        return ChatMessage("assistant", read_text(text, names).outside, tool_calls=tuple(calls))

    def written(self, action: str) -> str:
        """Return an action in the answer's format; the action itself where the format cannot state it."""
        return self.template.answer.written(action, scaffold_words("words")["shown_thought"])

    def _prompt(self, request: Request, first: int, note: str) -> ChatMessage:
        """Return a turn's own prompt."""
        length = request.own_steps if self.history is None else self.history
        fields = self.template.fields(request, history=length)
        dropped = max(first - (request.own_steps - len(fields.recent)), 0)  # a wording may tell no past turns
        text, images = self._shown(fields, request.observation)
        prompt = render(self.template, text, dropped=dropped).text
        return ChatMessage("user", _joined(note, prompt), images)

    def _past(self, request: Request, number: int) -> ChatMessage:
        """Return an earlier turn's message."""
        step = request.history[number]
        completion = step.completion
        if isinstance(completion, TurnCompletion) and completion.message is not None:
            return completion.message
        return self._seen(PromptFields.of_step(step, number), step.observation)

    def _seen(self, fields: PromptFields, observation: Any) -> ChatMessage:
        fields, images = self._shown(fields, observation)
        return ChatMessage("user", render_present(self.template, fields), images)

    def _shown(self, fields: PromptFields, observation: Any) -> tuple[PromptFields, tuple[Any, ...]]:
        """Return an observation's words, and its pictures.

        What partners, passages and pages say is no part of a chat template, which servers put it into.
        """
        fields = replace(
            fields,
            task=defused(fields.task),
            observation=defused(fields.observation),
            recent=tuple(past._replace(observation=defused(past.observation)) for past in fields.recent),
            summary=defused(fields.summary),
        )
        picture = picture_of(observation) if self.images else None
        if picture is None:
            return fields, ()
        if not self.image_text:
            fields = replace(fields, observation=scaffold_words("words")["pictured"])
        return fields, (picture,)

    def _results(self, calls: Sequence[ChatToolCall], seen: ChatMessage) -> Iterator[ChatMessage]:
        """Yield the messages after an answer: the results of its calls, if it made some."""
        if not calls:
            yield seen
            return
        words = scaffold_words("words")
        for call in calls[:-1]:
            yield ChatMessage("tool", words["further"], tool_call_id=call.id)
        yield ChatMessage("tool", seen.text, tool_call_id=calls[-1].id)
        if seen.images:  # a tool's result cannot hold a picture
            yield ChatMessage("user", words["picture_of_call"], seen.images)

    # ---- what is read -------------------------------------------------------------------------

    def text_of(self, reply: ChatReply) -> str:
        """Return a reply as text, its calls between tags."""
        return "\n".join((*([reply.text] if reply.text else []), *map(_tagged, reply.tool_calls)))

    def read(self, reply: ChatReply, request: Request) -> Answer:
        """Return a reply's completion, or why it cannot be parsed.

        Of a format without an end of its own, a response that was cut off is none.
        """
        answer = self.template.answer
        if reply.finish_reason == "length" and answer.name == "plain":
            return Answer("", (), _CUT_OFF)
        return settle_answer(answer.parse(self.text_of(reply)), request.admissible_actions)

    def sent(self, chat: Sequence[ChatMessage], before: Sequence[Message] = ()) -> tuple[Message, ...]:
        """Return a chat as transcripts hold it.

        Equal messages of the turn ``before`` are used again.
        """
        texts = [Message(each.role, _text_of(each)) for each in chat]
        if self.native_tools:
            texts.insert(0, Message("tools", listed_schemas(self.template.answer.tools)))
        again = before[: len(texts)]
        return (*(old if old == new else new for old, new in zip(again, texts)), *texts[len(again) :])  # noqa: B905


def _text_of(message: ChatMessage) -> str:
    if not (message.tool_calls or message.images):  # most messages are words alone
        return message.text
    calls = "\n".join(map(_tagged, message.tool_calls))
    return _joined("\n".join(part for part in (message.text, calls) if part), *map(describe, message.images))


def _tagged(call: ChatToolCall) -> str:
    """Return a call as text that the readers of `agentgym.prompts.formats.calls` take, whatever is in it."""
    try:
        json.loads(call.arguments)
        arguments = call.arguments
    except (ValueError, RecursionError):
        arguments = json.dumps(call.arguments, ensure_ascii=False)
    if _TAG.search(arguments):  # the tag within a string would end the thought or the call
        arguments = arguments.replace("<", "\\u003c")
    return f'<tool_call>{{"name": {json.dumps(call.name)}, "arguments": {arguments}}}</tool_call>'


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


MIN_SIDE = 224
"""Pixels of the shorter side at least, once enlarged: the input size of many vision models."""

_EIGHT_BIT_RGB = bytes([8, 2, 0, 0, 0])


def picture_of(observation: Observation) -> ImagePart | None:
    """Return the picture of an observation, enlarged by a whole factor; None where it has none."""
    if isinstance(observation, str) or "image" not in observation:
        return None
    pixels = np.asarray(observation["image"])
    factor = -(-MIN_SIDE // min(pixels.shape[:2]))
    return ImagePart(encode_png(np.repeat(np.repeat(pixels, factor, axis=0), factor, axis=1)))


def encode_png(pixels: Any) -> bytes:
    r"""Return a picture, uint8[H, W, 3], as PNG: the same bytes for the same pixels and the same zlib.

    Example:
        >>> png = encode_png(np.zeros((2, 3, 3), np.uint8))
        >>> png[:8], describe(ImagePart(png))[:11]
        (b'\x89PNG\r\n\x1a\n', '[image 3x2 ')
    """
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row begins with its filter, 0 for none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">II", width, height) + _EIGHT_BIT_RGB
    body = zlib.compress(rows.tobytes(), 9)
    return PNG_SIGNATURE + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", body) + png_chunk(b"IEND", b"")


def describe(image: ImagePart) -> str:
    """Return the line that stands for a picture in transcripts: its size and the sha256 of its file."""
    width, height = struct.unpack(">II", image.png[16:24])
    return f"[image {width}x{height} sha256 {hashlib.sha256(image.png).hexdigest()}]"
