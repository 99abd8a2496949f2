"""Prompt builder: requests into prompts that fit, and responses into actions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentgym.core.options import check_fields
from agentgym.core.types import Request
from agentgym.errors import UsageError
from agentgym.prompts.contexts import CHATS, CONTEXTS, Context, ConversationTokenizer, PromptSettings
from agentgym.prompts.fitting import FittedPrompt, PromptTokenizer, PromptTooLongError, fit
from agentgym.prompts.parsers import Answer, settle_answer

__all__ = ["FittedPrompt", "PromptBuilder", "PromptTokenizer", "PromptTooLongError", "fit"]


@dataclass(frozen=True, slots=True)
class PromptBuilder(PromptSettings):
    """Turns requests into prompts and responses into actions, alike in training, benchmarks and agents."""

    context: Context = "rebuilt"
    """Context: the part of the past that a prompt shows, and its form; see `agentgym.prompts.contexts`."""

    def __post_init__(self) -> None:
        """Check the settings."""
        check_fields(self)
        if self.context in CHATS and not isinstance(self.tokenizer, ConversationTokenizer):
            raise UsageError(
                f"the context {self.context!r} is a chat of several turns, which "
                f"{type(self.tokenizer).__name__} does not write: use the context 'rebuilt' or 'summarised'"
            )

    def build(self, request: Request) -> FittedPrompt:
        """Return the prompt of a request.

        Raises:
            PromptTooLongError: it does not `fit`.
        """
        return replace(CONTEXTS[self.context](self, request), before=self.before)

    def read(self, response: str, request: Request) -> str:
        """Return the action that a response states, in the spelling of the admissible one.

        Empty where it states none, which environments reject.
        """
        return self.parse(response, request).action

    def parse(self, response: str, request: Request) -> Answer:
        """Return what a response says, or why it cannot be read; its action is spelled as in `read`."""
        return settle_answer(self.template.answer.parse(response), request.admissible_actions)
