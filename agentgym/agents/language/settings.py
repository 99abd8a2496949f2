"""Settings of language agents: scaffolds, and the options of agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from agentgym.core.options import Bounds, NonNegativeInt, PositiveInt, check_fields
from agentgym.errors import UsageError

WINDOW = 10
"""Past turns that a conversation tells if not otherwise said: a whole one costs the square of its turns."""

MAX_SHOTS = 32
"""Demonstrations in a prompt: whoever checks a run plays them, also of a suite that somebody else wrote."""


@dataclass(frozen=True, slots=True)
class Scaffold:
    """Scaffold of a language agent: its answer format, and one conversation or a prompt every turn."""

    name: str
    answer: str
    """Format of the model's answers where no other is named."""
    conversation: bool
    """Whether a turn is a further message of one conversation, own answers kept; else every turn has a prompt
    of its own."""


PROMPTING = Scaffold("prompting", "plain", conversation=False)
REACT = Scaffold("react", "think-action", conversation=True)
REFLEXION = Scaffold("reflexion", "think-action", conversation=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPromptSettings:
    """Settings of the messages that a chat model is sent, and of the answers that are read."""

    history: NonNegativeInt | Literal["all"] | None = None
    """Past turns in a prompt; None for the last `WINDOW` of a conversation, else for the suite's default."""
    wording: str = ""
    """Wording, as `agentgym.prompts.load_template` takes it; empty for the suite's own."""
    answer: str = ""
    """Answer format, as `agentgym.prompts.load_template` takes it; empty for the scaffold's."""
    system: str = ""
    """System message; empty for none."""
    images: bool = True
    """Whether pictures are sent where observations have them."""
    image_text: bool = True
    """Whether an observation's text stands beside its picture."""
    native_tools: bool = False
    """Whether the server is handed the tools and hands back calls, for the answer ``tool-calls``; else both
    are text."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and options that do not go together.

        Raises:
            UsageError: names the option.
        """
        check_fields(self)
        if self.native_tools and self.answer != "tool-calls":
            raise UsageError('native_tools goes with answer = "tool-calls": set both, or neither')
        if not (self.images or self.image_text):
            raise UsageError("the model would see nothing of an observation: set images or image_text")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAgentSettings(ChatPromptSettings):
    """The options of the agents ``prompting`` and ``react``."""

    endpoint: str
    """URL of a server with OpenAI's chat completions, such as ``http://localhost:8000/v1``."""
    model: str
    """Name of the model on the server."""
    key_env: str = ""
    """Environment variable that holds the key; empty for none."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `agentgym.endpoint.spec.EndpointSpec`, such as ``timeout``."""
    temperature: Annotated[float, Bounds(0, 2)] | None = 0.0
    """Sampling temperature; None for the server's own."""
    max_tokens: PositiveInt | None = 512
    """Largest number of tokens in a response; None for no limit."""
    seed: NonNegativeInt = 0
    """Mixed into the seeds of responses; chooses demonstrations."""
    shots: Annotated[int, Bounds(0, MAX_SHOTS)] = 0
    """Demonstrations before the task."""
    budget: PositiveInt | None = None
    """Largest number of tokens in a prompt, as estimated from what the server counted at the turn before;
    older turns are left out. None for no limit but the server's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflexionSettings(ChatAgentSettings):
    """The options of the agent ``reflexion``."""

    memory: PositiveInt = 3
    """Largest number of reflections in a prompt; older ones are left out."""
    reflection_tokens: PositiveInt = 256
    """Largest number of tokens in a reflection."""
