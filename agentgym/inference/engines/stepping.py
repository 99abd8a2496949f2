"""Engines that draw token by token: requests come and go between two decoding steps (continuous batching)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Condition, Thread

import torch
from torch import Tensor

from agentgym.inference.engines.responses import SampledResponse
from agentgym.inference.engines.types import Generation, GenerationRequest

IDLE_SECONDS = 10.0
"""Seconds without requests after which an engine's thread ends."""


class SteppingEngine(ABC):
    """Base of stepping engines: a thread that steps, admits waiting responses and returns finished ones.

    Without `submit` or `start` there is no thread: `generate` draws one batch to its end, bit for bit the
    same each time. With a thread `generate` is all its requests submitted at once. Weights change between two
    steps: once what is in flight is over, while nothing else is admitted; or, with updates in flight, at
    once, and each response goes on under the new weights, which read it anew.

    The thread ends after some idle seconds, and begins again when it is needed. An exception of a step ends
    all that waits and is in flight with that exception; later requests are tried.
    """

    def __init__(self, version: int):
        """Begin without a thread; ``version`` is of the weights."""
        self._version = version
        self._changed = Condition()
        """Condition that guards the attributes below."""
        self._open: dict[SampledResponse, Future[Generation]] = {}
        """Futures of the responses in flight or waiting."""
        self._waiting: deque[SampledResponse] = deque()
        self._threaded = False
        self._thread: Thread | None = None
        self._device: int | None = None
        self._stepping = False
        self._pauses = 0
        """Callers that want to come between two steps."""
        self._updates_in_flight = False

    @property
    def version(self) -> int:
        """Version of the weights."""
        return self._version

    @property
    @abstractmethod
    def context_length(self) -> int:
        """Most tokens that a prompt and its response may have together."""

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Continue every prompt; one generation per request, in order. Raises what `submit` does."""
        if not self._threaded:
            return self._generate([self._begin(request) for request in requests])
        return [future.result() for future in self._submit(requests)]

    def submit(self, request: GenerationRequest) -> Future[Generation]:
        """Return the generation to come; a first call starts the thread.

        `UsageError` for an empty prompt, or one that leaves no room in the context for a response.
        """
        return self._submit([request])[0]

    def start(self, *, updates_in_flight: bool = False) -> None:
        """Draw in a thread from now on, on this thread's device."""
        with self._changed:
            self._updates_in_flight = updates_in_flight
            self._run_thread()

    def sync(self, state: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take over weights, between two steps: all are checked before the first is copied.

        ``state``: every tensor of the model's ``state_dict`` by name, in any order; one of several tied names
        suffices. `UsageError` where a tensor is unknown, missing or of another shape; then all weights are as
        before.
        """
        with self._paused():
            self._sync(state, version)
            self._version = version

    # ---- of each engine ---------------------------------------------------------------------

    @abstractmethod
    def _begin(self, request: GenerationRequest) -> SampledResponse:
        """Return the beginning of a response, or raise why there can be none."""

    @abstractmethod
    def _generate(self, responses: list[SampledResponse]) -> list[Generation]:
        """Draw one batch to its end."""

    @abstractmethod
    def _step(self, waiting: deque[SampledResponse]) -> list[SampledResponse]:
        """Admit waiting responses, first come first served, sample, and return the finished ones."""

    @abstractmethod
    def _drop(self) -> list[SampledResponse]:
        """Remove and return the responses in flight."""

    @abstractmethod
    def _sync(self, state: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take over weights; nothing is in flight."""

    # ---- inside -----------------------------------------------------------------------------

    @property
    def _flying(self) -> bool:
        """Whether a response is in flight."""
        return len(self._open) > len(self._waiting)

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """Come between two steps, with nothing in flight."""
        with self._changed:
            self._pauses += 1
            try:
                self._changed.wait_for(
                    lambda: not (self._stepping or (self._flying and not self._updates_in_flight))
                )
                self._interrupt()
                yield
            finally:
                self._pauses -= 1
                self._changed.notify_all()

    def _interrupt(self) -> None:
        """Restart the responses in flight from their tokens so far."""
        for response in reversed(self._drop()):
            response.mark(self._version)
            self._waiting.appendleft(response)

    def _submit(self, requests: Sequence[GenerationRequest]) -> list[Future[Generation]]:
        with self._changed:  # never during a sync
            futures: dict[SampledResponse, Future[Generation]] = {
                self._begin(request): Future() for request in requests
            }
            self._run_thread()
            version = self._version
            for response, future in futures.items():
                if response.finish is None:
                    self._open[response] = future
                    self._waiting.append(response)
            self._changed.notify_all()
        for response, future in futures.items():
            if response.finish is not None:  # finished without any token that had an alternative
                future.set_result(response.generation(version))
        return list(futures.values())

    def _run_thread(self) -> None:
        if not self._threaded:
            self._threaded = True
            self._device = torch.cuda.current_device() if torch.cuda.is_available() else None
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=self._step_on, name="engine", daemon=True)
            self._thread.start()

    def _may_step(self) -> bool:
        if self._pauses:
            return self._flying and not self._updates_in_flight
        return bool(self._open)

    def _step_on(self) -> None:
        if self._device is not None:
            torch.cuda.set_device(self._device)
        while True:
            with self._changed:
                if not self._changed.wait_for(self._may_step, IDLE_SECONDS) and not self._open:
                    self._thread = None
                    return
                if not self._may_step():
                    continue
                self._stepping = True
                waiting = deque() if self._pauses else self._waiting
            try:
                over = self._step(waiting)
            except BaseException as error:
                self._fail(error)
                if not isinstance(error, Exception):
                    raise
            else:
                self._finish(over)

    def _finish(self, over: list[SampledResponse]) -> None:
        with self._changed:
            version = self._version
            done = [(self._open.pop(response), response) for response in over]
            self._stepping = False
            self._changed.notify_all()
        for future, response in done:
            if future.set_running_or_notify_cancel():
                future.set_result(response.generation(version))

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._drop()
            self._waiting.clear()
            futures = list(self._open.values())
            self._open.clear()
            self._stepping = False
            self._changed.notify_all()
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
