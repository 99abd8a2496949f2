"""Dispatch of a rollout's pending work: completions of its policy, and answers to its games' queries.

Both may come at once, from a policy that is asked in batches and from plain query backends, or each in its
own time, as futures. A `Dispatcher` is the one place that waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TypeAlias

from agentgym.core.types import AsyncPolicy, Completion, Policy, Request
from agentgym.errors import UsageError
from agentgym.vector.core import AgentVectorEnv
from agentgym.vector.slot_answers import Answered, AnswersAhead

_Arrival: TypeAlias = tuple[int, Future[Completion]] | None
"""Slot with its completion, or None where an answer to a game's query has arrived."""


@dataclass(slots=True)
class Ready:
    """Completed work."""

    completions: dict[int, tuple[Completion, float]] = field(default_factory=dict)
    """Completions by slot, each with the policy's time in seconds."""
    answered: tuple[int, ...] = ()
    """Slots that can be reset or stepped."""
    failed: tuple[tuple[int, str], ...] = ()
    """Slots whose game has no answer, each with the reason."""

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.completions or self.answered or self.failed)


class Dispatcher:
    """Sends requests to a policy and queries to backends, and waits for the first result of either."""

    def __init__(self, envs: AgentVectorEnv, policy: Policy | AsyncPolicy):
        """Bind slots and policy; `close` when done.

        A batch of requests is sent at once, or each as a future where the policy has ``submit``.
        """
        self._policy = policy
        self._later = policy if isinstance(policy, AsyncPolicy) else None
        self._ahead = envs if envs.prototype.query_backends and isinstance(envs, AnswersAhead) else None
        self._requests: dict[int, Request] = {}
        self._futures: dict[int, Future[Completion]] = {}
        self._unasked: list[int] = []
        self._arrivals: SimpleQueue[_Arrival] = SimpleQueue()
        if self._ahead is not None:
            self._ahead.wake_with(lambda: self._arrivals.put(None))

    def begin_resets(self, slots: Sequence[int], tasks: Sequence[str], rollouts: Sequence[int]) -> None:
        """Have slots answered for a reset."""
        if self._ahead is None:
            self._unasked += slots
        else:
            self._ahead.begin_resets(slots, tasks, rollouts)

    def begin_steps(self, slots: Sequence[int], actions: Sequence[str]) -> None:
        """Have slots answered for a step."""
        if self._ahead is None:
            self._unasked += slots
        else:
            self._ahead.begin_steps(slots, actions)

    def ask(self, requests: Mapping[int, Request]) -> None:
        """Ask the policy, by slot."""
        if self._later is None:
            self._requests.update(requests)
            return
        for slot, request in requests.items():
            future = self._futures[slot] = self._later.submit(request)
            future.add_done_callback(partial(self._receive, slot))

    def wait(self) -> Ready:
        """Return the completed work, waiting for the first of it.

        Answers come before completions, so that a batch to the policy covers all slots.
        """
        while True:
            ready = self._take(None)
            if ready:
                return ready
            if self._requests:
                return self._act()
            ready = self._take(self._arrivals.get())
            if ready:
                return ready

    def close(self) -> None:
        """Cancel pending work."""
        for future in self._futures.values():
            future.cancel()
        if self._ahead is not None:
            self._ahead.wake_with(None)

    # ---- inside ----------------------------------------------------------------------------

    def _receive(self, slot: int, done: Future[Completion]) -> None:
        """Take note of a completion, in whatever thread it was made."""
        self._arrivals.put((slot, done))

    def _take(self, first: _Arrival) -> Ready:
        """Return all completed work, without waiting."""
        ready = Ready()
        arrival = first
        try:
            while True:
                if arrival is not None:
                    slot, future = arrival
                    if self._futures.get(slot) is future:
                        del self._futures[slot]
                        completion = future.result()
                        ready.completions[slot] = completion, getattr(completion, "seconds", 0.0)
                arrival = self._arrivals.get_nowait()
        except Empty:
            pass
        answered = Answered() if self._ahead is None else self._ahead.collect_answers()
        ready.answered, ready.failed = (*self._unasked, *answered.ready), answered.failed
        self._unasked = []
        return ready

    def _act(self) -> Ready:
        """Ask a policy in one batch about all slots that wait for it."""
        assert isinstance(self._policy, Policy)
        slots = sorted(self._requests)
        requests = [self._requests.pop(slot) for slot in slots]
        started = perf_counter()
        completions = self._policy.act(requests)
        share = (perf_counter() - started) / len(slots)
        if len(completions) != len(slots):
            raise UsageError(
                f"{type(self._policy).__name__}.act returned {len(completions)} completions for "
                f"{len(slots)} requests: return one for each, in order"
            )
        return Ready({slot: (completion, share) for slot, completion in zip(slots, completions, strict=True)})
