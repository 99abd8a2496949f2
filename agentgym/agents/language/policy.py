"""The policy of language agents: every request is an exchange with a chat model, in its own time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from agentgym.agents.language.chats import ChatPrompts, TurnCompletion
from agentgym.agents.language.model import ChatExchange, ChatModel, start_exchange
from agentgym.agents.language.settings import ChatAgentSettings
from agentgym.core.rng import TurnRng
from agentgym.core.types import Completion, EndReason, Message, Request
from agentgym.endpoint.chat import ChatMessage, ChatReply, ChatRequest, ChatSampling
from agentgym.endpoint.errors import ContextOverflowError, RequestFailedError

_SEEDS = 1 << 31
"""Bound of the seeds that are sent: what every server takes."""


class ChatPolicy:
    """Asks a chat model about every episode on its own; `agentgym.core.types.AsyncPolicy` and ``Policy``.

    Its seeds are the requests' with the turn mixed in, and it keeps nothing between turns but what is in an
    episode's own completions, so an episode is the same whatever else is under way.
    """

    def __init__(self, model: ChatModel, prompts: ChatPrompts, settings: ChatAgentSettings, *, suite: str):
        """Bind model, prompts and settings."""
        self._model = model
        self._prompts = prompts
        self._settings = settings
        self._suite = suite

    def submit(self, request: Request) -> Future[Completion]:
        """Return the completion to come.

        Its error says that the context is full, or that no answer came.
        """
        return start_exchange(self._model, self.exchange(request))

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer requests, all at once."""
        return [future.result() for future in [self.submit(request) for request in requests]]

    def exchange(self, request: Request) -> ChatExchange[Completion]:
        """Run the calls of a request."""
        return self.ask(request)

    def ask(self, request: Request, note: str = "") -> ChatExchange[Completion]:
        """Ask for the action of a turn.

        Where the context is full, half of the past turns are left out, the oldest, until it is not. ``note``
        stands before the episode's first observation.
        """
        prompts = self._prompts
        message = prompts.turn(request)
        before = request.history[-1].completion if request.history else Completion("")
        first = prompts.oldest(request)
        while True:
            chat = prompts.chat(request, message, first, note)
            if self._over_budget(chat, before) and first < request.own_steps:
                first += _half(request.own_steps - first)
                continue
            sent = prompts.sent(chat, before.messages)
            try:
                reply = yield self.question(request, chat)
            except ContextOverflowError:
                if first >= request.own_steps:
                    return failure("context_limit", sent)
                first += _half(request.own_steps - first)
            except RequestFailedError:
                return failure("agent_error", sent)
            else:
                return self._completion(request, reply, sent, message, first, _characters(chat))

    def question(
        self,
        request: Request,
        chat: Sequence[ChatMessage],
        *,
        max_tokens: int | None = None,
        draw: int = 0,
    ) -> ChatRequest:
        """Return a request to the model.

        ``max_tokens`` None is the settings'; ``draw`` numbers the questions of a turn: each has a seed of its
        own.
        """
        settings, template = self._settings, self._prompts.template
        rng = TurnRng(request.seed ^ settings.seed, request.turn)
        seed = [rng.below(_SEEDS) for _ in range(draw + 1)][-1]
        drawn = settings.temperature != 0  # otherwise equal requests have equal answers
        return ChatRequest(
            messages=tuple(chat),
            sampling=ChatSampling(
                temperature=settings.temperature,
                max_tokens=max_tokens or settings.max_tokens,
                seed=seed if drawn else None,
            ),
            tools=self._prompts.tools if draw == 0 else (),
            one_call=self._prompts.one_call and draw == 0,
            prompt_id=f"{self._prompts.scaffold.name}:{template.id}:{template.version}",
            sample=seed if drawn else 0,
            label=f"{self._suite} {request.task_id} rollout {request.rollout} turn {request.turn}",
        )

    def _over_budget(self, chat: Sequence[ChatMessage], before: Completion) -> bool:
        budget = self._settings.budget
        if budget is None or not isinstance(before, TurnCompletion):
            return False
        return before.density * _characters(chat) > budget

    def _completion(
        self,
        request: Request,
        reply: ChatReply,
        sent: tuple[Message, ...],
        message: ChatMessage | None,
        first: int,
        characters: int,
    ) -> TurnCompletion:
        answer = self._prompts.read(reply, request)
        whole = len(reply.token_ids) == len(reply.logprobs) == reply.completion_tokens
        return TurnCompletion(
            action=answer.action,
            text=self._prompts.text_of(reply),
            response_ids=reply.token_ids if whole else (),
            logprobs=reply.logprobs if whole else (),
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            seconds=reply.seconds,
            cost=reply.cost or 0.0,
            messages=sent,
            format_error="" if answer.actions else answer.problem,
            note=answer.problem if answer.actions else "",
            message=message,
            first=first,
            density=reply.prompt_tokens / max(characters, 1),
        )


def failure(reason: EndReason, sent: tuple[Message, ...] = ()) -> Completion:
    """Return the completion of a turn that has no action."""
    return Completion("", error=reason, messages=sent)


def _half(turns: int) -> int:
    return -(-turns // 2)


def _characters(chat: Sequence[ChatMessage]) -> int:
    return sum(len(message.text) for message in chat)
