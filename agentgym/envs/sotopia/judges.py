"""Judges: who rates a conversation. Each is a backend that rates both sides in one answer.

The rule-based judge is exact: it reads the binding moves of a built-in scenario and no words. A language
model's ratings are attested, and its prompt is a part of what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Protocol

from agentgym.core.queries import AnswerKind, QueryBackend, UnansweredError
from agentgym.endpoint.chat import ChatMessage, ChatReply, ChatRequest, ChatSampling
from agentgym.envs.sotopia.builtin.judge import JUDGE_VERSION, rate
from agentgym.envs.sotopia.game import GameState
from agentgym.envs.sotopia.judgeprompt import (
    JudgePrompt,
    UnreadableRatingError,
    judge_prompt,
    read_reply,
    reply_schema,
)
from agentgym.envs.sotopia.modelcalls import (
    ModelPart,
    begun,
    finished,
    retry_messages,
    unanswered,
    unreadable,
)
from agentgym.envs.sotopia.scenarios import Scenario

TRIES: Final = 2
"""Number of tries at a rating when neither an answer nor its repair can be read: four requests."""


class SocialJudge(QueryBackend, Protocol):
    """Rates conversations: `agentgym.envs.sotopia.judgeprompt.read_rating` reads its answers."""

    def question(self, scenario: Scenario, state: GameState) -> Any:
        """Return a conversation's question: all that the answer depends on."""


class RuleJudge:
    """Rates built-in scenarios by rule: `agentgym.envs.sotopia.builtin.judge.rate`.

    Exact: its answers are never recorded, and its questions hold the scenario itself.
    """

    kind = AnswerKind(f"judge rules/{JUDGE_VERSION}")

    def question(self, scenario: Scenario, state: GameState) -> Any:
        """Return both."""
        return scenario, state

    def answer(self, questions: Sequence[Any]) -> list[dict[str, Any]]:
        """Rate."""
        return [{"ratings": [list(side) for side in rate(*question)]} for question in questions]

    def agrees(self, recorded: Any, computed: Any) -> bool:
        """Return whether both are the same ratings."""
        return bool(recorded == computed)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """Request options of a model that is the judge."""

    temperature: float = 0.0
    max_tokens: int = 2_048
    prompt: str = ""
    """Prompt, as `agentgym.envs.sotopia.judgeprompt.judge_prompt` takes it: a file, or empty for our own."""


class ModelJudge:
    """A language model that rates both sides of a conversation in one call.

    An answer that cannot be read, or has a score out of its range, is quoted back to the model once; then it
    is asked anew as another sample, up to `TRIES` times in all. If it never gives a rating the question is
    unanswered, which ends the episode with an error, to be played again when the run is resumed.
    """

    def __init__(self, model: ModelPart, options: JudgeOptions):
        """Read the prompt."""
        self._model = model
        self.prompt: JudgePrompt = judge_prompt(options.prompt)
        self._sampling = ChatSampling(temperature=options.temperature, max_tokens=options.max_tokens)
        self._schema = reply_schema()
        self.kind = AnswerKind(
            f"judge {model.identity} prompt {self.prompt.name} temperature {options.temperature:g} "
            f"max_tokens {options.max_tokens}",
            standing="attested",
            sampled=options.temperature > 0,
        )

    def question(self, scenario: Scenario, state: GameState) -> str:
        """Return the prompt about a conversation."""
        return self.prompt.filled(scenario, state)

    def submit(self, question: Any, *, sample: int = 0) -> Future[Any]:
        """Ask for a rating; ``sample`` distinguishes ratings of one conversation."""
        answer = begun()
        self._send(answer, (ChatMessage("user", str(question)),), sample * TRIES, [])
        return answer

    def _send(
        self, answer: Future[Any], messages: tuple[ChatMessage, ...], sample: int, unread: list[str]
    ) -> None:
        """Request an ``answer`` once; ``unread`` are the replies so far, which could not be read."""
        request = ChatRequest(
            messages=messages,
            sampling=self._sampling,
            response_schema=self._schema,
            prompt_id=self.prompt.name,
            sample=sample,
        )
        try:
            call = self._model.ask(request)
        except Exception as error:  # noqa: BLE001 (whoever waits for the rating gets it)
            answer.set_exception(unanswered(error, "the judge"))
            return
        call.add_done_callback(lambda done: self._take(answer, request, unread, done))

    def _take(
        self, answer: Future[Any], request: ChatRequest, unread: list[str], done: Future[ChatReply]
    ) -> None:
        try:
            reply = done.result()
        except Exception as error:  # noqa: BLE001
            answer.set_exception(unanswered(error, "the judge"))
            return
        try:
            answer.set_result(read_reply(reply.text) | unreadable(unread))
        except UnreadableRatingError as error:
            unread = [*unread, reply.text]
            first = request.messages[0]
            if len(unread) % 2:
                problem = self.prompt.repair.format(problem=error).strip()
                self._send(answer, retry_messages(first, reply.text, problem), request.sample, unread)
            elif len(unread) < 2 * TRIES:
                self._send(answer, (first,), request.sample + 1, unread)
            else:
                given_up = UnansweredError(
                    f"the judge gave no rating in {TRIES} tries, each repaired once: {error}"
                )
                given_up.recorded = unreadable(unread)
                answer.set_exception(given_up)

    def answer(self, questions: Sequence[Any]) -> list[Any]:
        """Ask all at once, and wait; an UnansweredError stands for a rating that cannot be had."""
        return [finished(future) for future in [self.submit(question) for question in questions]]

    def agrees(self, recorded: Any, computed: Any) -> bool:
        """Return whether both are the same ratings, whatever the reasons."""
        return bool(recorded["ratings"] == computed["ratings"])
