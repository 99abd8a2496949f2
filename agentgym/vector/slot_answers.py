"""Answers for slots: their games' queries, sent together before any slot moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from agentgym.core.queries import UnansweredError
from agentgym.core.query_scheduler import EpisodeQueries, QueryScheduler
from agentgym.core.tasks import Task
from agentgym.env import MAX_ACTION_LENGTH, AgentEnv

Wake: TypeAlias = Callable[[], object]
"""Callback, from any thread, that answers may have arrived."""

EnvT = TypeVar("EnvT", bound=AgentEnv[Any])


class Answered(NamedTuple):
    """Slots whose answers need not be waited for any more."""

    ready: tuple[int, ...] = ()
    failed: tuple[tuple[int, str], ...] = ()
    """Slots without an answer, each with the reason."""


@runtime_checkable
class AnswersAhead(Protocol):
    """A vector environment whose slots can be answered one by one, before they are reset or stepped."""

    def begin_resets(self, slots: Sequence[int], tasks: Sequence[str], rollouts: Sequence[int]) -> None:
        """Send the queries of resetting slots to tasks."""

    def begin_steps(self, slots: Sequence[int], actions: Sequence[str]) -> None:
        """Send the queries of playing actions."""

    def collect_answers(self) -> Answered:
        """Return the slots whose answers have come since the last call; `step_at` or `reset_at` uses them."""

    def wake_with(self, wake: Wake | None) -> None:
        """Have a function called when `collect_answers` may have more."""


class SlotAnswers(Generic[EnvT]):
    """Queries of the games in slots, and the answers that wait for the call that uses them."""

    def __init__(self, envs: Sequence[EnvT], prototype: EnvT):
        """Start without questions; all slots use the prototype's query backends and source."""
        self._envs = envs
        self._stored: dict[int, tuple[Any, Any]] = {}
        self._purposes: dict[int, Any] = {}
        self._ready: list[int] = []
        self._failed: dict[int, str] = {}
        self._wake: Wake | None = None
        self._scheduler = QueryScheduler(prototype, self._woken)

    def wake_with(self, wake: Wake | None) -> None:
        """Have a function called when `collect` may have more."""
        self._wake = wake

    def begin_steps(self, slots: Sequence[int], actions: Sequence[str]) -> None:
        """Send the unanswered queries of actions."""
        wanted = {}
        for slot, action in zip(slots, actions, strict=True):
            if len(action) <= MAX_ACTION_LENGTH:
                wanted[slot] = action, self._envs[slot]._action_episode_queries(action)
            else:
                self._ready.append(slot)  # an action too long to be played issues no query
        self._begin(wanted)

    def begin_resets(self, slots: Sequence[int], tasks: Sequence[Task], rollouts: Sequence[int]) -> None:
        """Send the queries of loading tasks."""
        self._begin(
            {
                i: ((task.id, rollout), self._envs[i]._load_episode_queries(task, rollout))
                for i, task, rollout in zip(slots, tasks, rollouts, strict=True)
            }
        )

    def collect(self) -> Answered:
        """Return the slots whose answers have come since the last call."""
        self._receive(wait=False)
        answered = Answered(tuple(self._ready), tuple(self._failed.items()))
        self._ready, self._failed = [], {}
        return answered

    def settle(self, slots: Sequence[int]) -> tuple[tuple[int, str], ...]:
        """Wait for the answers of slots; return those without, each with the reason."""
        wanted = set(slots)
        while wanted & self._purposes.keys():
            self._receive(wait=True)
        self._ready = [slot for slot in self._ready if slot not in wanted]
        failed = tuple((slot, self._failed.pop(slot)) for slot in slots if slot in self._failed)
        return failed

    def take(self, slot: int, purpose: Any) -> Any:
        """Return the stored answers for an action, or for a task's id and rollout; None without any."""
        stored, answers = self._stored.pop(slot, (None, None))
        return answers if stored == purpose else None

    def forget(self, slots: Sequence[int]) -> None:
        """Drop the slots' queries and answers."""
        for slot in slots:
            self._stored.pop(slot, None)
            self._failed.pop(slot, None)
            if slot in self._ready:
                self._ready.remove(slot)
            if self._purposes.pop(slot, None) is not None:
                self._scheduler.drop([slot])

    def _begin(self, wanted: dict[int, tuple[Any, EpisodeQueries]]) -> None:
        games = {}
        for slot, (purpose, queries) in wanted.items():
            if slot in self._stored and self._stored[slot][0] == purpose:
                queries.generator.close()
                self._ready.append(slot)
                continue
            self.forget([slot])
            self._purposes[slot] = purpose
            games[slot] = queries
        self._scheduler.begin(games)

    def _receive(self, *, wait: bool) -> None:
        for slot, answer in self._scheduler.collect(wait=wait).items():
            purpose = self._purposes.pop(slot)
            if isinstance(answer, UnansweredError):
                self._failed[slot] = str(answer)
            else:
                self._stored[slot] = purpose, answer
                self._ready.append(slot)

    def _woken(self) -> None:
        if self._wake is not None:
            self._wake()
