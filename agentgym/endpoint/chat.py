"""Chat requests and replies: library-independent records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from agentgym.core.options import POSITIVE_UNIT, Bounds, PositiveInt, check_choice, check_fields
from agentgym.errors import UsageError
from agentgym.io.untrusted import whole_text

ChatRole: TypeAlias = Literal["system", "user", "assistant", "tool"]
"""Author of a message. ``tool`` carries the result of a call."""

MAX_IMAGE_SIZE = 20 << 20
"""Largest size of an image, in bytes."""

_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image of a message."""

    png: bytes

    def __post_init__(self) -> None:
        """Refuse what are not the bytes of a PNG file, or too many."""
        if not self.png.startswith(_PNG) or len(self.png) > MAX_IMAGE_SIZE:
            raise UsageError(f"an image of a message is a PNG file of at most {MAX_IMAGE_SIZE:,} bytes")


@dataclass(frozen=True, slots=True)
class ChatToolCall:
    """A call that a model made."""

    id: str
    """Identifier that the message with the call's result repeats."""
    name: str
    arguments: str
    """Arguments as the model wrote them, which may be no valid JSON."""

    def __post_init__(self) -> None:
        """Make the texts ones that can be written."""
        for name in ("id", "name", "arguments"):
            object.__setattr__(self, name, whole_text(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A turn of a chat."""

    role: ChatRole
    text: str
    images: tuple[ImagePart, ...] = ()
    """Images after the text."""
    tool_calls: tuple[ChatToolCall, ...] = ()
    """Calls of an assistant's message."""
    tool_call_id: str = ""
    """Identifier of the call that a tool's message answers."""

    def __post_init__(self) -> None:
        """Check what goes with the role; make the text one that can be written.

        Raises:
            UsageError: there is no such role, or another role has such parts.
        """
        check_choice("role of messages", self.role, ChatRole)
        if (self.tool_calls and self.role != "assistant") or bool(self.tool_call_id) != (self.role == "tool"):
            raise UsageError(
                "a message has tool_calls if an assistant wrote it, and a tool_call_id if and only if a tool "
                "did"
            )
        object.__setattr__(self, "text", whole_text(self.text))


@dataclass(frozen=True, slots=True)
class ChatSampling:
    """How an answer is drawn. None leaves a setting to the endpoint."""

    temperature: Annotated[float, Bounds(0, 2)] | None = 0.0
    max_tokens: PositiveInt | None = 512
    """Most tokens of an answer, reasoning included where the endpoint counts it so."""
    seed: int | None = None
    stop: tuple[str, ...] = ()
    """Texts that end an answer and are not part of it."""
    top_p: Annotated[float, POSITIVE_UNIT] | None = None

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            UsageError: a setting is out of range.
        """
        check_fields(self)
        if "" in self.stop:
            raise UsageError("a text that ends an answer is not empty: leave it out of stop")


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Request to a model."""

    messages: tuple[ChatMessage, ...]
    sampling: ChatSampling = ChatSampling()
    tools: tuple[Mapping[str, Any], ...] = ()
    """Functions that may be called, as ``{"type": "function", "function": {"name": ..., ...}}``."""
    response_schema: Mapping[str, Any] | None = None
    """JSON Schema that the answer should fit. Endpoints may ignore it, so check the answer."""
    prompt_id: str = ""
    """Identity of the wording, such as its sha256; a part of the cache's key."""
    sample: int = 0
    """Index among requests that are otherwise equal; a part of the cache's key."""
    label: str = ""
    """Name of the episode in errors and in the ledger; no part of the cache's key."""
    one_call: bool = False
    """Whether the answer should have at most one call of a tool. Endpoints may ignore it."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """Answer of a model. The finish reason ``length`` means that it was cut off."""

    text: str
    tool_calls: tuple[ChatToolCall, ...] = ()
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    """Tokens of the prompt; this count and the three below are 0 where the endpoint does not state them."""
    completion_tokens: int = 0
    """Tokens of the answer, reasoning included."""
    cached_tokens: int = 0
    """Tokens of the prompt that the endpoint read from its prefix cache."""
    reasoning_tokens: int = 0
    seconds: float = 0.0
    """Time from the first attempt's start to the last one's end, also where the answer is now cached."""
    retries: int = 0
    """Attempts before the successful one."""
    cost: float | None = None
    """US dollars by the session's prices; None without. A cached answer has its first request's cost."""
    from_cache: bool = False
    """Whether the answer cost nothing: the cache had it, or an equal request was under way."""
    token_ids: tuple[int, ...] = ()
    """Token ids of the answer, where the spec requests them and the endpoint returns them."""
    logprobs: tuple[float, ...] = ()
    """Natural logarithms of the probabilities of the answer's tokens, on the same condition."""
    reasoning: str = ""
    """Reasoning before the answer, where the endpoint returns it separately."""
    usage_stated: bool = field(default=True, compare=False)
    """Whether the endpoint counted tokens; set for a live reply only, as are the three below."""
    choices: int = field(default=1, compare=False)
    """Number of choices that the endpoint returned; the first one is the reply."""
    served_model: str = field(default="", compare=False)
    """Model name that the endpoint reports."""
    fingerprint: str = field(default="", compare=False)
    """Fingerprint that the endpoint reports for its software and settings."""
