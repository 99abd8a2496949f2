"""Reflexion: an agent that reads its reflections on failed attempts in later ones.

After Shinn, Cassano, Gopinath, Narasimhan and Yao, "Reflexion: Language Agents with Verbal Reinforcement
Learning" (NeurIPS 2023), with ReAct as the actor, the environment's success as the evaluator, and a bounded
list of reflections as the memory.

The attempts at a task are its rollouts, played one after the other. Once one has succeeded, the later ones
play its actions again without asking the model: the success of attempt k is success within k attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from agentgym.agents.language.chats import ChatPrompts
from agentgym.agents.language.model import ChatExchange, ChatModel
from agentgym.agents.language.policy import ChatPolicy, failure
from agentgym.agents.language.settings import ReflexionSettings
from agentgym.agents.language.words import scaffold_words
from agentgym.core.episodes import observed_text
from agentgym.core.types import Completion, Message, Request, Trajectory
from agentgym.endpoint.chat import ChatMessage, ChatReply, ChatRole
from agentgym.endpoint.errors import ContextOverflowError, RequestFailedError
from agentgym.errors import UsageError
from agentgym.prompts.defusing import defused

_NO_ATTEMPTS = ("agent_error", "env_error")
"""Ends of episodes that are played again."""

_REFLECTS = 1
"""Number of the reflection among the questions of a turn; the action's is 0."""


class _Attempt(NamedTuple):
    """An attempt at a task that is over."""

    won: bool
    plan: tuple[tuple[str, str], ...]
    """The hash of each state acted in, with the action; of an attempt that succeeded."""
    chat: tuple[Message, ...]
    """Messages of a failed attempt: its last turn as it was sent and answered, and the question what went
    wrong."""


@dataclass(slots=True)
class _Reflection:
    """Result of a reflection: its words, or why the episode cannot go on."""

    sent: tuple[Message, ...] = ()
    reply: ChatReply | None = None
    failed: bool = False


class ReflexionPolicy(ChatPolicy):
    """ReAct with reflections on earlier attempts, which it receives by `ended`, in any order.

    What the reflection on an attempt took counts in the first completion of the next one, whose messages
    begin with it: the chat that asked for it, and the reflection as the assistant's. `ended` finds it there
    again, so that a run can be resumed from its transcripts.
    """

    def __init__(self, model: ChatModel, prompts: ChatPrompts, settings: ReflexionSettings, *, suite: str):
        """Bind a model; arguments as `ChatPolicy`'s."""
        super().__init__(model, prompts, settings, suite=suite)
        self._memory = settings.memory
        self._reflection_tokens = settings.reflection_tokens
        self._words = scaffold_words("reflexion")
        self._attempts: dict[str, dict[int, _Attempt]] = {}
        """By task and rollout."""
        self._reflections: dict[str, dict[int, str]] = {}
        """By task and the rollout that each is about."""

    def ended(self, trajectory: Trajectory) -> None:
        """Record an attempt. One that ended in an error does not count: it is played again."""
        task, rollout = trajectory.task_id, trajectory.rollout
        completions = trajectory.completions
        earlier = self._reflection_in(completions[0].messages) if completions else None
        if earlier is not None and rollout > 0:
            self._reflections.setdefault(task, {})[rollout - 1] = earlier
        if trajectory.end_reason in _NO_ATTEMPTS:
            return
        if trajectory.won:
            plan = tuple((step.state_hash, step.action) for step in trajectory.steps)
            attempt = _Attempt(True, plan, ())
        else:
            attempt = _Attempt(False, (), self._report(trajectory))
        self._attempts.setdefault(task, {})[rollout] = attempt

    def exchange(self, request: Request) -> ChatExchange[Completion]:
        """Replay a successful attempt; otherwise reflect on the last one where due, and act."""
        attempts = self._attempts.get(request.task_id, {})
        known = [attempts[rollout] for rollout in sorted(attempts) if rollout < request.rollout]
        for attempt in known:
            if attempt.won and attempt.plan[request.turn : request.turn + 1]:
                state_hash, action = attempt.plan[request.turn]
                if state_hash == request.state_hash:  # otherwise chance led elsewhere
                    return Completion(action)
        reflected = _Reflection()
        last = request.rollout - 1
        notes = self._reflections.setdefault(request.task_id, {})
        if request.turn == 0 and last in attempts and attempts[last].chat and last not in notes:
            reflected = yield from self._reflect(request, attempts[last].chat)
            if reflected.failed:
                return failure("agent_error", reflected.sent)
            if reflected.reply is not None:
                notes[last] = _reflection_text(reflected.reply.text)
        completion = yield from self.ask(request, self._note(notes, request.rollout))
        return _with_cost(completion, reflected)

    def _reflect(self, request: Request, attempt: Sequence[Message]) -> ChatExchange[_Reflection]:
        """Request a reflection; none where even a part of the attempt fills the context."""
        first = 0
        while True:
            chat = _as_chat(attempt, first)
            sent = tuple(Message(each.role, each.text) for each in chat)
            try:
                reply = yield self.question(request, chat, max_tokens=self._reflection_tokens, draw=_REFLECTS)
            except ContextOverflowError:
                turns = sum(message.role == "assistant" for message in attempt) - first
                if turns <= 0:
                    return _Reflection()
                first += -(-turns // 2)
            except RequestFailedError:
                return _Reflection(sent, failed=True)
            else:
                return _Reflection(sent, reply)

    def _note(self, notes: dict[int, str], rollout: int) -> str:
        """Return the reflections on earlier attempts, as a note; empty for none."""
        known = [notes[each] for each in sorted(notes) if each < rollout and notes[each]][-self._memory :]
        if not known:
            return ""
        listed = "\n".join(self._words["note"].format(reflection=" ".join(each.split())) for each in known)
        return self._words["memory"].format(notes=listed)

    def _report(self, trajectory: Trajectory) -> tuple[Message, ...]:
        """Return a failed attempt as a chat that ends with the question for a reflection."""
        last = trajectory.completions[-1]
        if not last.messages and not last.prompt_tokens:
            return ()  # the turn was replayed: there was no model call
        if not last.messages:
            raise UsageError(
                f"Reflexion needs what was sent in rollout {trajectory.rollout} of {trajectory.task_id}, "
                "which is in no transcript: keep transcripts, or start the run anew"
            )
        index = self._request_index(last.messages)
        messages = last.messages if index is None else last.messages[index + 2 :]
        if last.error is None:
            messages = (*messages, Message("assistant", last.text))
        text = defused(observed_text(trajectory.final_observation))
        final = self._words["final"].format(observation=text)
        return (*messages, Message("user", f"{final}\n\n{self._words['ask']}"))

    def _request_index(self, messages: Sequence[Message]) -> int | None:
        """Return the position of the question for a reflection."""
        for position, message in enumerate(messages):
            if message.role == "user" and message.text.endswith(self._words["ask"]):
                return position
        return None

    def _reflection_in(self, messages: Sequence[Message]) -> str | None:
        """Return the reflection that a first completion holds; None without one."""
        index = self._request_index(messages)
        return (
            None
            if index is None or index + 1 >= len(messages)
            else _reflection_text(messages[index + 1].text)
        )


def _reflection_text(text: str) -> str:
    """Return a reflection without the thoughts before it."""
    return text.rpartition("</think>")[2].strip()


def _with_cost(completion: Completion, reflected: _Reflection) -> Completion:
    """Return a completion that counts what the reflection before it took."""
    reply = reflected.reply
    if reply is None:
        return completion
    return replace(
        completion,
        response_ids=(),  # their ids are those of the action alone, while the counts include the reflection's
        logprobs=(),
        prompt_tokens=completion.prompt_tokens + reply.prompt_tokens,
        completion_tokens=completion.completion_tokens + reply.completion_tokens,
        seconds=completion.seconds + reply.seconds,
        cost=completion.cost + (reply.cost or 0.0),
        messages=(*reflected.sent, Message("assistant", reply.text), *completion.messages),
    )


def _as_chat(messages: Sequence[Message], first: int) -> tuple[ChatMessage, ...]:
    """Return recorded messages as a chat whose speakers take turns, without the oldest turns.

    Tools are left out, results of calls are the user's, and what one speaker says in a row is one message.
    """
    chat: list[ChatMessage] = []
    beginning = [message for message in messages if message.role == "system"]
    rest = [message for message in messages if message.role not in ("system", "tools")]
    answers = [position for position, message in enumerate(rest) if message.role == "assistant"]
    if first:
        rest = [rest[0], *rest[answers[first - 1] + 1 :]]
    for message in (*beginning, *rest):
        role = cast(ChatRole, "user" if message.role == "tool" else message.role)
        if chat and chat[-1].role == role:
            chat[-1] = replace(chat[-1], text=f"{chat[-1].text}\n\n{message.text}")
        else:
            chat.append(ChatMessage(role, message.text))
    return tuple(chat)
