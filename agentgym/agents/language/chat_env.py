"""Environments for chat models: an observation is the messages of a turn, an action the model's answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import gymnasium
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from agentgym.agents.language.chats import ChatPrompts, TurnCompletion
from agentgym.agents.language.making import chat_prompts
from agentgym.agents.language.settings import PROMPTING, REACT, ChatPromptSettings, Scaffold
from agentgym.core.episodes import own_steps, suite_keys, taken_step
from agentgym.core.options import check_choice, is_whole
from agentgym.core.spaces import UnicodeText
from agentgym.core.types import Request, Snapshot, Step
from agentgym.endpoint.chat import ChatReply
from agentgym.endpoint.replies import MalformedAnswerError, read_choice
from agentgym.endpoint.wire import message_table
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.io.records import parse
from agentgym.prompts.fitting import PromptTooLongError
from agentgym.registration import open_env
from agentgym.vector.arguments import autoreset_mode_of, checked_count

Messages: TypeAlias = list[dict[str, Any]]
"""Chat in OpenAI's form, as every client and chat template takes it."""

SCAFFOLDS: Mapping[str, Scaffold] = {scaffold.name: scaffold for scaffold in (PROMPTING, REACT)}

_OF_MESSAGE = frozenset(["role", "content", "tool_calls", "function_call"])
"""Keys of an assistant's message, of which each has at least one."""

_OF_REQUEST = ("task_id", "task_type", "admissible_actions", "state_hash")


class ChatSpace(gymnasium.Space[Messages]):
    """All chats: lists of messages with a role."""

    def sample(self, mask: Any = None, probability: Any = None) -> Messages:
        """Return a chat of one short message; masks have no meaning here."""
        return [{"role": "user", "content": UnicodeText(seed=self.np_random).sample()}]

    def contains(self, x: Any) -> bool:
        """Return whether a value is a chat."""
        return isinstance(x, list) and all(isinstance(each, dict) and "role" in each for each in x)

    def __eq__(self, other: object) -> bool:
        """Return whether the other space is one of chats."""
        return isinstance(other, ChatSpace)

    def __repr__(self) -> str:
        """``ChatSpace()``."""
        return "ChatSpace()"

    __hash__ = None  # type: ignore[assignment]


class ChatSnapshot(NamedTuple):
    """Snapshot of a `ChatEnv`: the state of the environment, and the turns so far."""

    state: Snapshot
    steps: tuple[Step, ...]


class ChatEnv(gymnasium.Wrapper[Messages, Any, Any, str], RecordConstructorArgs):
    """Environment that a chat model plays: observations are messages, actions are the model's answers.

    Observation: the messages to send, with the suite's prompt, past turns and answer format as the agents
    ``prompting`` and ``react`` have them in benches. Action: the model's text, or its message in OpenAI's
    form where it has calls of tools. Reward and end are those of the environment. The info is its info with
    ``action``, the action that was read, and ``format_error``, empty or why there is none: an answer without
    an action is played as the empty action, which environments reject.

    Example:
        >>> import agentgym
        >>> env = agentgym.chat("agentgym/Sokoban-v0", split="test")
        >>> messages, info = env.reset(seed=7)
        >>> [message["role"] for message in messages]
        ['user']
        >>> messages, reward, terminated, truncated, info = env.step("left")
        >>> info["action"], info["turn"]
        ('left', 1)
    """

    env: AgentEnv[Any]

    def __init__(
        self,
        env: AgentEnv[Any],
        prompts: ChatPrompts,
        *,
        budget: int | None = None,
        count_tokens: Callable[[Messages], int] | None = None,
    ):
        """Wrap an environment.

        Args:
            env: an environment that nothing else plays. Wrappers around it are left out: they hold state that
                snapshots lack.
            prompts: writes messages and reads answers; see `chat`.
            budget: largest number of tokens of the messages; the oldest turns are left out.
            count_tokens: counts the tokens of messages.

        Raises:
            UsageError: one of the last two is given without the other, or is of a wrong type.
        """
        RecordConstructorArgs.__init__(
            self, prompts=prompts, budget=budget, count_tokens=count_tokens, _disable_deepcopy=True
        )
        gymnasium.Wrapper.__init__(self, env.unwrapped)
        if (budget is None) != (count_tokens is None):
            raise UsageError("budget and count_tokens go together: give both, or neither")
        if budget is not None and not (is_whole(budget) and budget > 0 and callable(count_tokens)):
            raise UsageError(
                f"budget is a whole number of at least 1 and count_tokens a function, got {budget!r:.60} and "
                f"{count_tokens!r:.60}"
            )
        self.prompts, self.budget, self.count_tokens = prompts, budget, count_tokens
        self.observation_space = ChatSpace()
        self._steps: tuple[Step, ...] = ()
        self._first = 0
        self._seen: Any = None
        self._info: dict[str, Any] = {}

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Schemas of the tools to send beside the messages; empty where answers are text."""
        return [dict(tool) for tool in self.prompts.tools]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Messages, dict[str, Any]]:
        """Start an episode; arguments as the environment's ``reset``."""
        self._seen, self._info = self.env.reset(seed=seed, options=options)
        self._steps, self._first = (), 0
        return self._messages(), dict(self._info)

    def step(
        self, action: str | Mapping[str, Any] | Any
    ) -> tuple[Messages, float, bool, bool, dict[str, Any]]:
        """Play the action that an answer states.

        Args:
            action: the model's text; or its message, as a mapping or as an OpenAI client returns it.

        Raises:
            UsageError: it is neither.
            ResetNeeded: no episode is running.
            PromptTooLongError: the action was played, but the next turn alone is longer than the budget.
        """
        if not self._info:
            raise ResetNeeded("no episode is running: call reset() before step()")
        request, reply = self._request(), _reply_of(action)
        answer = self.prompts.read(reply, request)
        outcome = self.env.step(answer.action)
        completion = TurnCompletion(
            answer.action,
            text=self.prompts.text_of(reply),
            format_error="" if answer.actions else answer.problem,
            message=self.prompts.turn(request),
            first=self._first,
        )
        taken = taken_step(self._seen, self._info, completion, outcome, sided=self.env.sides > 1)
        self._steps = (*self._steps, taken)
        self._seen, reward, terminated, truncated, self._info = outcome
        read = {"action": answer.action, "format_error": completion.format_error}
        return self._messages(), float(reward), terminated, truncated, self._info | read

    def admissible_actions(self) -> tuple[str, ...]:
        """Return the possible actions of the current state."""
        return self.env.admissible_actions()

    def state_hash(self) -> str:
        """Return the hash of the current state."""
        return self.env.state_hash()

    def snapshot(self) -> ChatSnapshot:
        """Return the state and the turns so far."""
        return ChatSnapshot(self.env.snapshot(), self._steps)

    def restore(self, snapshot: ChatSnapshot) -> tuple[Messages, dict[str, Any]]:
        """Go back to a snapshot; return the messages and info that were current then.

        Raises:
            UsageError: it is no snapshot of a `ChatEnv`, or one of another environment.
        """
        if not isinstance(snapshot, ChatSnapshot):
            raise UsageError(
                f"restore takes a ChatSnapshot, as snapshot() returns it, got {type(snapshot).__name__}"
            )
        self._seen, self._info = self.env.restore(snapshot.state)
        self._steps = snapshot.steps
        return self._messages(), dict(self._info)

    def _request(self) -> Request:
        known = {name: self._info[name] for name in _OF_REQUEST}
        history = own_steps(self._steps, self._info) if self.env.sides > 1 else self._steps
        return Request(
            episode=0,
            turn=len(self._steps),
            observation=self._seen,
            seed=0,
            history=history,
            others=len(self._steps) - len(history),
            extra=suite_keys(self._info),
            **known,
        )

    def _messages(self) -> Messages:
        request = self._request()
        turn, first = self.prompts.turn(request), self.prompts.oldest(request)
        while True:
            messages = [message_table(each) for each in self.prompts.chat(request, turn, first)]
            if self.count_tokens is None or self.budget is None or self.count_tokens(messages) <= self.budget:
                self._first = first
                return messages
            if first >= request.own_steps:
                if not request.admissible_actions:  # the episode is over: no model is sent these
                    return messages
                raise PromptTooLongError(
                    f"turn {first} alone has more than {self.budget} tokens: raise budget"
                )
            first += 1


def chat(
    env_id: str,
    *,
    split: str | None = None,
    agent: str = "prompting",
    prompt: Mapping[str, Any] | None = None,
    budget: int | None = None,
    count_tokens: Callable[[Messages], int] | None = None,
    **options: Any,
) -> ChatEnv:
    """Make an environment whose observations are messages and whose actions are a chat model's answers.

    Args:
        env_id: as `agentgym.make` takes it.
        split: likewise.
        agent: form of the chat: ``prompting``, a new prompt every turn and the action as answer, or
            ``react``, one conversation with a thought and an action in each answer.
        prompt: further settings, as `agentgym.agents.language.settings.ChatPromptSettings` lists them.
        budget: largest number of tokens of the messages; the oldest turns are left out.
        count_tokens: counts the tokens of messages.
        **options: further options of the environment's constructor.

    Raises:
        UsageError: an option or setting is unknown or wrong.
        MissingDataError: the environment's data is not on this machine.

    Example:
        >>> env = chat("agentgym/EZPoints-v0", agent="react", prompt={"history": 2})
        >>> messages, info = env.reset(seed=0)
        >>> env.step("I have no idea.")[4]["format_error"]
        'no <action>...</action> after the thought'
    """
    check_choice("agent", agent, tuple(SCAFFOLDS))
    table: Any = {} if prompt is None else prompt
    settings = parse(ChatPromptSettings, dict(table) if isinstance(table, Mapping) else table, "prompt")
    env = open_env(env_id, split=split, options=options)
    prompts = chat_prompts(env, SCAFFOLDS[agent], settings)
    return ChatEnv(env, prompts, budget=budget, count_tokens=count_tokens)


def chat_vec(
    env_id: str,
    num_envs: int = 1,
    *,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    **options: Any,
) -> SyncVectorEnv:
    """Make a vector environment of `ChatEnv`, whose slots share the tasks and data of one environment.

    Args:
        env_id: as `chat`.
        num_envs: number of slots.
        autoreset_mode: as `agentgym.make_vec`.
        **options: as `chat`.

    Raises:
        UsageError: as `chat`, or an unknown mode.
        MissingDataError: as `chat`.

    Example:
        >>> envs = chat_vec("agentgym/EZPoints-v0", 3)
        >>> chats, infos = envs.reset(seed=0)
        >>> len(chats), chats[0][0]["role"]
        (3, 'user')
    """
    slots, mode = range(checked_count(num_envs)), autoreset_mode_of(autoreset_mode)
    first = chat(env_id, **options)
    make_slot = partial(ChatEnv, budget=first.budget, count_tokens=first.count_tokens)
    made = [partial(make_slot, first.env.spawn(), first.prompts) for _ in slots]
    return _ChatSlots(made, autoreset_mode=mode)


class _ChatSlots(SyncVectorEnv):
    def step(self, actions: Any) -> Any:
        if isinstance(actions, str) or len(actions) != self.num_envs:
            given = "one text" if isinstance(actions, str) else len(actions)
            raise UsageError(f"step takes a list of {self.num_envs} answers, one for each slot, got {given}")
        return super().step(actions)


def _reply_of(answer: Any) -> ChatReply:
    """Return an answer as a reply."""
    if isinstance(answer, str):
        return ChatReply(answer)
    message = answer.model_dump() if callable(getattr(answer, "model_dump", None)) else answer
    if not isinstance(message, Mapping) or not _OF_MESSAGE & message.keys():
        raise UsageError(
            f"an answer is the model's text or its message, such as choices[0].message of a completion, got "
            f"{type(answer).__name__}"
        )
    try:
        return read_choice({}, dict(message), {}, 1)
    except MalformedAnswerError as error:
        raise UsageError(f"an answer is the model's text or its message, but {error}") from None
