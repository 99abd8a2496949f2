"""Settings of language agents: scaffolds, and the options of agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
    """How the model answers where nothing else is asked for."""
    conversation: bool
    """Whether a turn is a further message of one conversation, own answers kept; else every turn has a prompt
    of its own."""


PROMPTING = Scaffold("prompting", "plain", conversation=False)
REACT = Scaffold("react", "think-action", conversation=True)
REFLEXION = Scaffold("reflexion", "think-action", conversation=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAgentSettings:
    """The options of the agents ``prompting`` and ``react``."""

    endpoint: str
    """URL of a server with OpenAI's chat completions, such as ``http://localhost:8000/v1``."""
    model: str
    """What the server calls the model."""
    key_env: str = ""
    """Environment variable that holds the key; empty for none."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `agentgym.endpoint.spec.EndpointSpec`, such as ``timeout``."""
    temperature: float | None = 0.0
    """None for the server's own."""
    max_tokens: int | None = 512
    """Of a response; None for no limit."""
    seed: int = 0
    """Mixed into the seeds of responses; chooses demonstrations."""
    history: int | Literal["all"] | None = None
    """Past turns told; None for the last `WINDOW` of a conversation, else for the suite's default."""
    wording: str = ""
    """As `agentgym.prompts.load_template` takes it; empty for the suite's own."""
    answer: str = ""
    """As well; empty for the scaffold's."""
    system: str = ""
    """System message; empty for none."""
    shots: int = 0
    """Demonstrations before the task."""
    images: bool = True
    """Whether pictures are sent where observations have them."""
    image_text: bool = True
    """Whether an observation's text stands beside its picture."""
    native_tools: bool = False
    """Whether the server is handed the tools and hands back calls, for the answer ``tool-calls``; else both
    are text."""
    budget: int | None = None
    """Most tokens of a prompt, as estimated from what the server counted at the turn before; older turns are
    left out. None for no limit but the server's."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and options that do not go together.

        Raises:
            UsageError: names the option.
        """
        for name, least in (("history", 0), ("shots", 0), ("seed", 0), ("max_tokens", 1), ("budget", 1)):
            value = getattr(self, name)
            if isinstance(value, int) and value < least:
                raise UsageError(f"{name} must be at least {least}, got {value}")
        if self.shots > MAX_SHOTS:
            raise UsageError(f"shots must be at most {MAX_SHOTS}, got {self.shots}")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise UsageError(f"temperature must be from 0 to 2, got {self.temperature}")
        if self.native_tools and self.answer != "tool-calls":
            raise UsageError('native_tools goes with answer = "tool-calls": set both, or neither')
        if not (self.images or self.image_text):
            raise UsageError("without pictures there is only text to tell: set images or image_text")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflexionSettings(ChatAgentSettings):
    """The options of the agent ``reflexion``."""

    memory: int = 3
    """Most reflections in a prompt; older ones are left out."""
    reflection_tokens: int = 256
    """Of a reflection at most."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        ChatAgentSettings.__post_init__(self)
        if min(self.memory, self.reflection_tokens) < 1:
            raise UsageError(
                f"memory and reflection_tokens must be at least 1, got {self.memory} and "
                f"{self.reflection_tokens}: the agent 'react' does without"
            )
