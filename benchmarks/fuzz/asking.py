"""A game that asks a scale outside the package what words weigh: its runs rest on recorded answers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, ClassVar, NamedTuple

import gymnasium

from agentgym.core.queries import AnswerKind, Query, UnansweredError
from agentgym.core.tasks import ListTaskSet, Task
from agentgym.env import AgentEnv, Outcome, Status
from agentgym.vector.serial import SerialVectorEnv

ID = "fuzz/Weigh-v0"

REFERENCE = f"{__name__}:{ID}"

WORDS = ("iron", "wool", "lead", "down")

TASKS = ListTaskSet(
    "test",
    [Task(f"{n:032x}", WORDS[n:] + WORDS[:n], f"weigh#{n}") for n in range(len(WORDS))],
    dataset="builtin",
    suite="weigh",
)


class Scale:
    """Weighs words; its answers are attested, since it stands for a judge behind an endpoint."""

    kind = AnswerKind("fuzz scale", "attested", sampled=False)

    def answer(self, questions: Sequence[Any]) -> list[Any]:
        """Return the weight of each word."""
        return [{"grams": [10.0 * len(word)]} for (word,) in questions]

    def agrees(self, recorded: Any, computed: Any) -> bool:
        """Return whether two answers are the same."""
        return bool(recorded == computed)


class Pan(NamedTuple):
    """What lies on the scale."""

    words: tuple[str, ...] = ()
    grams: float = 0.0


class WeighEnv(AgentEnv[str]):
    """Weigh a word a turn, two turns; rewards are grams."""

    suite = "weigh"
    state_type = Pan
    default_max_steps = 2
    splits: ClassVar[tuple[str, ...]] = ("test",)

    def __init__(self, *, split: str = "test", max_steps: int | None = None, render_mode: str | None = None):
        """Make the game."""
        self.query_backends = {"scale": Scale()}
        super().__init__(TASKS, data_key="weigh", max_steps=max_steps, render_mode=render_mode)

    def _load(self, task: Task) -> None:
        self._pan = Pan()

    def _action_queries(self, action: str) -> Generator[list[Query], Any, float | None]:
        if action not in self.task.content:
            return None
        (answer,) = yield [Query("scale", (action,))]
        try:
            return float(answer["grams"][0])
        except (IndexError, KeyError, TypeError, ValueError, OverflowError):
            # a recorded answer is a stranger's file
            raise UnansweredError(f"the scale gave {answer!r:.40}, which is no weight") from None

    def _apply(self, action: str) -> Outcome:
        if action not in self.task.content:
            return Outcome(0.0, valid=False)
        grams: Any = self.answers
        self._pan = Pan((*self._pan.words, action), self._pan.grams + grams)
        return Outcome(float(grams))

    def _observe(self) -> str:
        return " ".join(self._pan.words) or "nothing"

    def _admissible(self) -> tuple[str, ...]:
        words: tuple[str, ...] = self.task.content
        return words

    def _status(self) -> Status:
        heavy = self._pan.grams > 0
        return Status(heavy, float(heavy), float(heavy))

    def _state(self) -> Any:
        return self._pan

    def _set_state(self, state: Any) -> None:
        self._pan = state

    def _identity(self) -> Any:
        return self._pan.words


class WeighVectorEnv(SerialVectorEnv):
    """Slots of it."""

    env_class = WeighEnv


if ID not in gymnasium.registry:
    gymnasium.register(
        ID, entry_point=f"{__name__}:WeighEnv", vector_entry_point=f"{__name__}:WeighVectorEnv"
    )
