"""Prompts that fit: as many past turns as the budget has tokens for; task and observation always stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentgym.core.types import Message
from agentgym.errors import UsageError
from agentgym.prompts.fields import PromptFields
from agentgym.prompts.rendering import Prompt, PromptTemplate, render


class PromptTokenizer(Protocol):
    """The part of a tokenizer that prompts need; one of any library fits behind it."""

    def encode_chat(self, message: str) -> Sequence[int]:
        """Return the token ids of a chat of one user message, up to where the answer begins."""


class PromptTooLongError(UsageError):
    """The parts that a prompt cannot omit need more tokens than the budget."""


@dataclass(frozen=True, slots=True)
class FittedPrompt:
    """A prompt as a model takes it."""

    prompt: Prompt
    """The last user message."""
    ids: tuple[int, ...]
    """Token ids of the whole chat, chat template included; at most as many as the budget."""
    before: tuple[Message, ...] = ()
    """Messages before the chat: tools, under the role ``tools``, and a system message."""
    earlier: tuple[Message, ...] = ()
    """The user's and the assistant's messages before it; of a conversation whose messages were not kept, only
    those since."""

    shown: Any = None
    """Pictures among the ids, as the model's reader has them; None for none."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The chat that the ids are of."""
        return (*self.before, *self.earlier, Message("user", self.prompt.text))


def fit(
    template: PromptTemplate, slots: PromptFields, tokenizer: PromptTokenizer, budget: int
) -> FittedPrompt:
    """Render the longest prompt within a budget.

    The oldest past turns go first, whole. When none is left, the end of the observation goes, but only
    where the task is told apart from it. The prompt says how much is missing. The instructions, the
    task and the possible actions always stay whole.

    Args:
        template: the words.
        slots: values of its slots.
        tokenizer: counts; the ids are those of the whole prompt, never of parts put together.
        budget: most tokens, chat template included.

    Raises:
        PromptTooLongError: the parts that must stay need more tokens than the budget.
    """

    def attempt(dropped: int, cut: int) -> FittedPrompt:
        prompt = render(template, slots, dropped=dropped, cut=cut)
        return FittedPrompt(prompt, tuple(tokenizer.encode_chat(prompt.text)))

    return fit_attempts(attempt, template.id, slots, len(slots.recent), budget)


def fit_attempts(
    attempt: Callable[[int, int], FittedPrompt], name: str, slots: PromptFields, past: int, budget: int
) -> FittedPrompt:
    """Return the attempt that fits and leaves out as little as possible.

    Args:
        attempt: renders a prompt without so many past turns and characters of the observation.
        name: name of the template, for messages.
        slots: values of the template's slots.
        past: most of the past that can be left out.
        budget: most tokens.

    Raises:
        PromptTooLongError: the parts that must stay need more tokens than the budget.
    """
    fitted = attempt(0, 0)
    if len(fitted.ids) <= budget:
        return fitted
    fitted = attempt(past, 0)
    if len(fitted.ids) <= budget:
        return _longest(lambda dropped: attempt(dropped, 0), past, fitted, budget)
    needed, characters = len(fitted.ids), len(slots.observation)
    if slots.task:
        fitted = attempt(past, characters)
        if len(fitted.ids) <= budget:
            return _longest(lambda cut: attempt(past, cut), characters, fitted, budget)
        needed = min(needed, len(fitted.ids))
    essential = "its task" if slots.task else "its observation, which tells the task,"
    raise PromptTooLongError(
        f"the prompt of {name} needs {needed:,} tokens for its instructions, {essential} "
        f"and {len(slots.admissible_actions)} possible actions, but the budget is {budget:,}: raise it"
    )


def _longest(
    attempt: Callable[[int], FittedPrompt], least: int, shortest: FittedPrompt, budget: int
) -> FittedPrompt:
    """Return the attempt that fits ``budget`` tokens and leaves out as little as possible, by bisection.

    ``shortest``, which leaves out ``least``, fits; leaving out nothing does not.
    """
    fails, fits, fitted = 0, least, shortest
    while fits - fails > 1:
        middle = (fails + fits) // 2
        trial = attempt(middle)
        if len(trial.ids) <= budget:
            fits, fitted = middle, trial
        else:
            fails = middle
    return fitted
