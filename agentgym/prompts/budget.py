"""Prompts that fit: as many tokens as a model takes, without losing what must be known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from agentgym.errors import UsageError
from agentgym.prompts.fields import PromptFields
from agentgym.prompts.parsers import Answer, settle_answer
from agentgym.prompts.rendering import Prompt, render
from agentgym.prompts.template import Template
from agentgym.types import Message, Request


class PromptTokenizer(Protocol):
    """The part of a tokenizer that prompts need; one of any library fits behind it."""

    def encode_chat(self, message: str) -> Sequence[int]:
        """Return the token ids of a chat of one user message, up to where the answer begins."""
        ...


class PromptTooLongError(UsageError):
    """What a prompt has to hold needs more tokens than the budget."""


@dataclass(frozen=True, slots=True)
class FittedPrompt:
    """A prompt as a model takes it."""

    prompt: Prompt
    ids: tuple[int, ...]
    """Its token ids, chat template included; at most as many as the budget."""
    before: tuple[Message, ...] = ()
    """What the chat template was handed beside it: tools, under the role ``tools``, and a system message."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The chat that the ids are of."""
        return (*self.before, Message("user", self.prompt.text))


@dataclass(frozen=True, slots=True)
class PromptBuilder:
    """Turns requests into prompts and responses into actions, alike in training, benchmarks and agents."""

    template: Template
    tokenizer: PromptTokenizer
    budget: int
    """Most tokens of a prompt."""
    history: int = 2
    """Past turns told, k, where they fit."""
    before: tuple[Message, ...] = ()
    """What the tokenizer hands the chat template beside a prompt, for `FittedPrompt.before`."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.budget < 1 or self.history < 0:
            raise UsageError(
                f"a prompt needs a budget of at least 1 token and a history of at least 0 turns, "
                f"got {self.budget} and {self.history}"
            )

    def build(self, request: Request) -> FittedPrompt:
        """Return the prompt of a request.

        Raises:
            PromptTooLongError: it does not `fit`.
        """
        slots = self.template.fields(request, history=self.history)
        return replace(fit(self.template, slots, self.tokenizer, self.budget), before=self.before)

    def read(self, response: str, request: Request) -> str:
        """Return the action that a response states, in the spelling of the admissible one.

        Empty where it states none, which environments reject.
        """
        return self.parse(response, request).action

    def parse(self, response: str, request: Request) -> Answer:
        """Return what a response says, or why it cannot be read; its action is spelled as in `read`."""
        return settle_answer(self.template.answer.parse(response), request.admissible_actions)


def fit(template: Template, slots: PromptFields, tokenizer: PromptTokenizer, budget: int) -> FittedPrompt:
    """Render the longest prompt within a budget.

    The oldest past turns go first, whole. When none is left, the end of the observation goes, but only
    where the task is told apart from it. The prompt says how much is missing. The instructions, the
    task and the possible actions always stay whole.

    Args:
        template: the words.
        slots: what they are filled with.
        tokenizer: counts; the ids are those of the whole prompt, never of parts put together.
        budget: most tokens, chat template included.

    Raises:
        PromptTooLongError: what has to stay needs more tokens than the budget.
    """

    def attempt(dropped: int = 0, cut: int = 0) -> FittedPrompt:
        prompt = render(template, slots, dropped=dropped, cut=cut)
        return FittedPrompt(prompt, tuple(tokenizer.encode_chat(prompt.text)))

    fitted = attempt()
    if len(fitted.ids) <= budget:
        return fitted
    turns, characters = len(slots.recent), len(slots.observation)
    fitted = attempt(turns)
    if len(fitted.ids) <= budget:
        return _longest(lambda dropped: attempt(dropped), turns, fitted, budget)
    needed = len(fitted.ids)
    if slots.task:
        fitted = attempt(turns, characters)
        if len(fitted.ids) <= budget:
            return _longest(lambda cut: attempt(turns, cut), characters, fitted, budget)
        needed = min(needed, len(fitted.ids))
    kept = "its task" if slots.task else "its observation, which tells the task,"
    raise PromptTooLongError(
        f"the prompt of {template.id} needs {needed:,} tokens for its instructions, {kept} "
        f"and {len(slots.admissible_actions)} possible actions, but the budget is {budget:,}: raise it"
    )


def _longest(
    attempt: Callable[[int], FittedPrompt], least: int, shortest: FittedPrompt, budget: int
) -> FittedPrompt:
    """Return the attempt that fits and leaves out as little as possible, by bisection.

    Args:
        attempt: of how much is left out.
        least: how much ``shortest`` leaves out; leaving out nothing does not fit.
        shortest: fits.
        budget: most tokens.
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
