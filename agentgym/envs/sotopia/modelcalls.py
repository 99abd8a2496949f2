"""Model calls of the environment: the common part of partner and judge behind an endpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import fields
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from agentgym.core.queries import UNREADABLE, UnansweredError
from agentgym.endpoint.chat import ChatMessage, ChatReply, ChatRequest
from agentgym.endpoint.errors import (
    ContentFilteredError,
    ContextOverflowError,
    UnansweredRequestError,
)
from agentgym.endpoint.spec import EndpointSpec
from agentgym.errors import UsageError
from agentgym.io.records import parse
from agentgym.io.untrusted import whole_text

Submit: TypeAlias = Callable[[ChatRequest], "Future[ChatReply]"]
"""Function that sends a request to a model."""

OptionsT = TypeVar("OptionsT")

MAX_QUOTED: Final = 8_000
"""Characters of an unreadable reply that its model is shown again."""

_MAX_RECORDED = 1_000
"""Characters of an unreadable reply that are recorded."""


class ModelPart(NamedTuple):
    """A model behind an endpoint."""

    spec: EndpointSpec
    submit: Submit | None = None
    """Function that sends a request; None for this process's endpoint, which the first request opens."""

    @property
    def identity(self) -> str:
        """Model and server, without any key."""
        return self.spec.identity

    def ask(self, request: ChatRequest) -> Future[ChatReply]:
        """Ask the model."""
        if self.submit is not None:
            return self.submit(request)
        from agentgym.endpoint.client import open_endpoint

        return open_endpoint(self.spec).submit(request)


def read_model(table: Mapping[str, Any], own: type[OptionsT], where: str) -> tuple[EndpointSpec, OptionsT]:
    """Read an option that names a model behind an endpoint.

    ``table``: ``endpoint`` (the URL), ``model`` and more of an `EndpointSpec`, and the fields of the
    dataclass ``own``; ``where`` names the option in messages.
    """
    names = {field.name for field in fields(own)}  # type: ignore[arg-type]
    rest = {key: value for key, value in table.items() if key not in names}
    if "endpoint" not in rest:
        raise UsageError(f"{where} names no endpoint: give its URL, as {where}.endpoint")
    rest["url"] = rest.pop("endpoint")
    mine = {key: value for key, value in table.items() if key in names}
    return EndpointSpec.of(rest), parse(own, mine, where)


def begun() -> Future[Any]:
    """Return an answer to come that cannot be cancelled, since several episodes may wait for it."""
    answer: Future[Any] = Future()
    answer.set_running_or_notify_cancel()
    return answer


def unanswered(error: BaseException, who: str) -> BaseException:
    """Return the error that ends one episode, where it is about one request; else the error itself."""
    if isinstance(error, UnansweredRequestError | ContextOverflowError | ContentFilteredError):
        return UnansweredError(f"{who} does not answer: {error}")
    return error


def retry_messages(first: ChatMessage, reply: str, problem: str) -> tuple[ChatMessage, ...]:
    """Return the messages that quote an unreadable reply back, and say what is wrong with it."""
    return first, ChatMessage("assistant", reply[:MAX_QUOTED]), ChatMessage("user", problem)


def unreadable(replies: Sequence[str]) -> dict[str, Any]:
    """Return what an answer records of the replies that could not be read."""
    return {UNREADABLE: [whole_text(reply[:_MAX_RECORDED]) for reply in replies]} if replies else {}


def finished(future: Future[Any]) -> Any:
    """Wait for an answer; an UnansweredError is returned in its place."""
    try:
        return future.result()
    except UnansweredError as error:
        return error
