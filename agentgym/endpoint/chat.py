"""Chat requests and replies: library-independent records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from agentgym.core.options import POSITIVE_UNIT, Bounds, PositiveInt, check_choice, check_fields
from agentgym.errors import UsageError
from agentgym.io.untrusted import whole_text

ChatRole: TypeAlias = Literal["system", "user", "assistant", "tool"]
"""Who speaks. ``tool`` gives the result of a call."""

MAX_IMAGE_SIZE = 20 << 20
"""Bytes of an image at most."""

_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image of a message."""

    png: bytes

    def __post_init__(self) -> None:
        """Check the form.

        Raises:
            UsageError: these are not the bytes of a PNG file, or too many.
        """
        if not self.png.startswith(_PNG) or len(self.png) > MAX_IMAGE_SIZE:
            raise UsageError(f"an image of a message is a PNG file of at most {MAX_IMAGE_SIZE:,} bytes")


@dataclass(frozen=True, slots=True)
class ChatToolCall:
    """A call that a model made."""

    id: str
    """What the result is given to, in the message that follows."""
    name: str
    arguments: str
    """JSON as the model wrote it, which may be none."""

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
    """They follow the text."""
    tool_calls: tuple[ChatToolCall, ...] = ()
    """Of an assistant."""
    tool_call_id: str = ""
    """Of a tool: which call this is the result of."""

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
    """Tokens of an answer at most, reasoning included where the endpoint counts it so."""
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
            raise UsageError("a text that ends an answer is not empty")


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is asked."""

    messages: tuple[ChatMessage, ...]
    sampling: ChatSampling = ChatSampling()
    tools: tuple[Mapping[str, Any], ...] = ()
    """Functions that may be called, as ``{"type": "function", "function": {"name": ..., ...}}``."""
    response_schema: Mapping[str, Any] | None = None
    """JSON Schema that the answer should fit. Endpoints may ignore it: read what they say as strictly."""
    prompt_id: str = ""
    """Names the wording, such as by its sha256; a part of the cache's key."""
    sample: int = 0
    """Tells requests apart that are otherwise equal; a part of the cache's key."""
    label: str = ""
    """Names the episode in errors and in the ledger; no part of the cache's key."""
    one_call: bool = False
    """Whether one call of a tool is asked for at most. Endpoints may ignore it."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a model answered. The finish reason ``length`` says that it was cut off."""

    text: str
    tool_calls: tuple[ChatToolCall, ...] = ()
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    """0 where the endpoint does not say; so are the three below."""
    completion_tokens: int = 0
    """Those of reasoning included."""
    cached_tokens: int = 0
    """Of the prompt: those that the endpoint had computed before."""
    reasoning_tokens: int = 0
    seconds: float = 0.0
    """From the first attempt's start to the last one's end; for an answer from a cache, when it was asked."""
    retries: int = 0
    """Attempts before the one that brought the answer."""
    cost: float | None = None
    """Dollars by the session's prices; None without. What an answer from a cache cost when it was asked."""
    from_cache: bool = False
    """Whether nothing was paid for it: the cache had it, or an equal request was under way."""
    token_ids: tuple[int, ...] = ()
    """Of the answer, where the spec asks for them and the endpoint gives them."""
    logprobs: tuple[float, ...] = ()
    """Natural logarithms of the probabilities of the answer's tokens, on the same terms."""
    reasoning: str = ""
    """What the model wrote before its answer, where the endpoint tells that apart."""
    usage_stated: bool = field(default=True, compare=False)
    """Whether the endpoint counted tokens; known of a live reply only, as are the three below."""
    choices: int = field(default=1, compare=False)
    """How many the endpoint gave; the first one is the reply."""
    served_model: str = field(default="", compare=False)
    """The model that the endpoint says it is."""
    fingerprint: str = field(default="", compare=False)
    """What the endpoint names its software and settings by."""
