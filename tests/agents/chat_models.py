"""Chat models for tests, in the place of an endpoint."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from agentgym.agents.language.making import language_agent
from agentgym.agents.language.settings import (
    PROMPTING,
    REACT,
    REFLEXION,
    ChatAgentSettings,
    ReflexionSettings,
)
from agentgym.endpoint.chat import ChatReply, ChatRequest

SCAFFOLDS = {each.name: each for each in (PROMPTING, REACT, REFLEXION)}


def agent(envs, model, scaffold="react", **options):
    record = ReflexionSettings if scaffold == "reflexion" else ChatAgentSettings
    settings = record(**{"endpoint": "http://127.0.0.1:9/v1", "model": "fake", **options})
    return language_agent(envs, model, SCAFFOLDS[scaffold], settings)


def reply(said, **fields):
    if isinstance(said, ChatReply | Exception):
        return said
    spent = {"prompt_tokens": 100, "completion_tokens": 7, "seconds": 0.5, "cost": 0.25}
    return ChatReply(said, **{**spent, **fields})


def fulfil(future, said):
    said = reply(said)
    if isinstance(said, Exception):
        future.set_exception(said)
    else:
        future.set_result(said)


@dataclass
class FakeChatModel:
    """Answers at once with what a function says: a text, a reply or an exception."""

    answer: Callable
    requests: list[ChatRequest] = field(default_factory=list)

    def submit(self, request):
        self.requests.append(request)
        future = Future()
        fulfil(future, self.answer(request))
        return future


@dataclass
class HeldChatModel:
    """Answers when it is told to; counts what is in flight."""

    answer: Callable
    held: list = field(default_factory=list)
    most: int = 0

    def submit(self, request):
        future = Future()
        self.held.append((request, future))
        self.most = max(self.most, len(self.held))
        return future

    def release(self, position=0):
        request, future = self.held.pop(position)
        fulfil(future, self.answer(request))


def think(action, thought="So be it."):
    return f"<think>\n{thought}\n</think>\n<action>{action}</action>"


def last(request):
    """Return the text of the last message."""
    return request.messages[-1].text
