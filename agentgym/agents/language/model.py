"""Chat models, of an endpoint or a local engine, and exchanges of several calls."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from agentgym.endpoint.chat import ChatReply, ChatRequest

Result = TypeVar("Result")

ChatExchange: TypeAlias = Generator[ChatRequest, ChatReply, Result]
"""Calls of a chat model, one after the other: it yields a request, is sent the reply or thrown what went
wrong, and returns what comes of it."""


@runtime_checkable
class ChatModel(Protocol):
    """A model that answers chats. `agentgym.endpoint.client.Endpoint` is one."""

    def submit(self, request: ChatRequest) -> Future[ChatReply]:
        """Return at once; the future has the reply, or what went wrong.

        It is called from any thread, the callbacks of earlier futures included.
        """


def start_exchange(model: ChatModel, exchange: ChatExchange[Result]) -> Future[Result]:
    """Start an exchange without waiting; return a future of its result.

    It goes on in the thread in which a reply arrives, so it must not block. Cancelling the future cancels the
    call that is under way.
    """
    outcome: Future[Result] = Future()
    under_way: list[Future[ChatReply]] = []

    def fail(error: BaseException) -> None:
        if outcome.set_running_or_notify_cancel():
            outcome.set_exception(error)

    def advance(step: Callable[[], ChatRequest]) -> None:
        if outcome.cancelled():
            return
        try:
            request = step()
        except StopIteration as stop:
            if outcome.set_running_or_notify_cancel():
                outcome.set_result(stop.value)
        except BaseException as error:  # noqa: BLE001 (whoever waits for the outcome gets it)
            fail(error)
        else:
            ask(request)

    def ask(request: ChatRequest) -> None:
        try:
            reply = model.submit(request)
        except BaseException as error:  # noqa: BLE001 (as above)
            fail(error)
        else:
            under_way[:] = [reply]
            reply.add_done_callback(receive)

    def receive(reply: Future[ChatReply]) -> None:
        if reply.cancelled():
            outcome.cancel()
            return
        error = reply.exception()
        advance(lambda: exchange.send(reply.result()) if error is None else exchange.throw(error))

    def give_up(done: Future[Result]) -> None:
        if done.cancelled():
            for reply in under_way:
                reply.cancel()

    outcome.add_done_callback(give_up)
    advance(lambda: next(exchange))
    return outcome
