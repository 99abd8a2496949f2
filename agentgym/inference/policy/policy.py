"""A language model as a policy: prompts built, responses sampled and read, tokens kept exactly."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from time import perf_counter
from typing import Any, Literal

from agentgym.core.futures import mapped
from agentgym.core.rng import TurnRng
from agentgym.core.types import Completion, Message, Request
from agentgym.errors import UsageError
from agentgym.inference.engines.choices import ActionSpeller, ActionTrie, Tokenizer
from agentgym.inference.engines.types import Engine, Generation, GenerationRequest, Sampling
from agentgym.prompts.budget import FittedPrompt, PromptTooLongError
from agentgym.prompts.parsers import Answer

_SLOT = re.compile(r"<[^<>]+>")
_NO_TEMPLATES = (
    "choosing among admissible actions needs an environment that enumerates them, and this one gives "
    "templates; generate freely instead"
)


@dataclass(frozen=True, slots=True)
class Question:
    """A request with its prompt for the engine."""

    request: Request
    generation: GenerationRequest
    messages: tuple[Message, ...]
    """Messages of the prompt; empty where they are not stored."""


class LanguageModelPolicy:
    """Policy that sends all requests to an engine in one batch.

    With a speller the response is one of the admissible actions; without, it is free text that
    ``read`` finds the action in. The completion holds the very tokens that were sampled, their
    log-probabilities and the version of the weights.

    Its seed is the request's with the turn mixed in, so an episode is the same in any batch.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        prompt: Callable[[Request], Sequence[int] | FittedPrompt],
        *,
        sampling: Sampling,
        speller: ActionSpeller | None = None,
        read: Callable[[str, Request], Answer] | None = None,
        action_kind: Literal["enumerated", "template"] | None = None,
        keep_messages: bool = True,
    ):
        """Bind engine, prompts and parser: either ``speller``, for constrained choice, or ``read``.

        ``prompt`` gives the token ids to be continued; or with them the prompt, whose messages completions
        keep if ``keep_messages``. ``read`` finds the action in a response's text, without its stop token; a
        text without one has the action "", which environments reject. Without ``action_kind``, angle
        brackets in admissible actions are slots.
        """
        if (speller is None) == (read is None):
            raise UsageError("give either a speller, for constrained choice, or read, for free generation")
        if speller is not None and action_kind == "template":
            raise UsageError(_NO_TEMPLATES)
        self.engine = engine
        self.sampling = sampling
        self._tokenizer = tokenizer
        self._prompt = prompt
        self._speller = speller
        self._read = read
        self._slots = action_kind is None
        self._keep_messages = keep_messages

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer requests.

        An episode whose prompt has outgrown the context ends as ``context_limit``; a first prompt that is
        too long is an error. Where nothing is admissible, a constrained policy says nothing, which costs a
        step.
        """
        began = perf_counter()
        answers = [self.question(request) for request in requests]
        questions = [answer for answer in answers if isinstance(answer, Question)]
        generations = self.engine.generate([question.generation for question in questions])
        share = (perf_counter() - began) / max(len(questions), 1)
        sampled = iter(
            [
                self.completion(question, generation, share)
                for question, generation in zip(questions, generations, strict=True)
            ]
        )
        return [next(sampled) if isinstance(answer, Question) else answer for answer in answers]

    def question(self, request: Request) -> Question | Completion:
        """Return the engine's question about a request, or the answer where none is needed."""
        if self._speller is not None and not request.admissible_actions:
            return Completion("", version=self.engine.version)  # the present one: the step is not stale
        try:
            built = self._prompt(request)
        except PromptTooLongError:
            if request.turn == 0:
                raise
            return Completion("", error="context_limit")
        shown = None
        if isinstance(built, FittedPrompt):
            ids, shown = built.ids, built.shown
            messages = built.messages if self._keep_messages else ()
        else:
            ids, messages = tuple(built), ()
        allowed = None if self._speller is None else self._trie(self._speller, request.admissible_actions)
        needed = 1 if allowed is None else allowed.longest
        if len(ids) + needed > self.engine.context_length and request.turn > 0:
            return Completion("", error="context_limit")
        seed = TurnRng(request.seed, request.turn).below(1 << 64)
        generation = GenerationRequest(ids, allowed, self.sampling, seed, shown, request.episode)
        return Question(request, generation, messages)

    def _trie(self, speller: ActionSpeller, actions: tuple[str, ...]) -> ActionTrie:
        if self._slots:
            for action in actions:
                if "<" in action and _SLOT.search(action):
                    raise UsageError(f"{_NO_TEMPLATES}: {action!r} has a slot")
        return speller.trie(actions)

    def completion(self, question: Question, generation: Generation, seconds: float) -> Completion:
        """Return the answer that a generation is, with the model's time spent on it."""
        ids = list(generation.ids)
        text = self._tokenizer.decode(ids[:-1] if generation.finish == "stop" else ids)
        allowed = question.generation.allowed
        if allowed is not None:
            answer = Answer("", (allowed.action(ids),), "")
        else:
            assert self._read is not None  # the constructor checks it
            answer = self._read(text, question.request)
        return Completion(
            action=answer.action,
            text=text,
            prompt_ids=question.generation.prompt_ids,
            response_ids=generation.ids,
            logprobs=generation.logprobs,
            version=generation.version,
            versions=generation.versions,
            prompt_tokens=len(question.generation.prompt_ids),
            completion_tokens=len(ids),
            seconds=seconds,
            messages=question.messages,
            format_error="" if answer.actions else answer.problem,
            note=answer.problem if answer.actions else "",
        )


class AsyncLanguageModelPolicy(LanguageModelPolicy):
    """Policy that sends each request alone, so that an episode continues once its own answer has arrived.

    The completions equal those of `LanguageModelPolicy`, except for the rounding of log-probabilities.
    """

    def __init__(self, *args: Any, **settings: Any):
        """Bind the same as `LanguageModelPolicy`."""
        super().__init__(*args, **settings)
        self._words = Lock()
        """Lock of tokenizer and parser, since prompts and answers are handled in different threads."""

    def submit(self, request: Request) -> Future[Completion]:
        """Return the completion to come; raises as `act`."""
        began = perf_counter()
        with self._words:
            answer = self.question(request)
        if isinstance(answer, Completion):
            done: Future[Completion] = Future()
            done.set_result(answer)
            return done
        question = answer

        def completion(generation: Generation) -> Completion:
            with self._words:
                return self.completion(question, generation, perf_counter() - began)

        return mapped(self.engine.submit(question.generation), completion)
