"""A game whose words are weighed by somebody outside the package, for tests of recorded answers."""

from typing import Any, ClassVar, NamedTuple

import gymnasium

from agentgym.core.queries import AnswerKind, Query, Reproducibility, UnansweredError
from agentgym.core.tasks import ListTaskSet, Task
from agentgym.env import AgentEnv, Outcome, Status
from agentgym.errors import MissingDataError
from agentgym.vector.serial import SerialVectorEnv

ID = "asking/Weigh-v0"
REFERENCE = f"tests.evaluation.asking:{ID}"

WORDS = ("iron", "wool", "lead", "down", "salt", "ash")
TASKS = ListTaskSet(
    "test",
    [Task(f"{n:032x}", WORDS[n:] + WORDS[:n], f"task{n}") for n in range(5)],
    dataset="a",
    suite="weigh",
)


class Scale:
    """Weighs words; what it says drifts with ``drift``, and is another number each time where it samples."""

    calls: ClassVar[int] = 0
    weighed: ClassVar[int] = 0
    questions: ClassVar[list[Any]] = []
    drift: ClassVar[float] = 0.0
    broken: ClassVar[set[str]] = set()
    gone: ClassVar[bool] = False

    def __init__(self, standing: Reproducibility, sampled: bool):
        self.kind = AnswerKind("scale 1", standing, sampled, 0.0 if standing == "attested" else 1e-3)

    def answer(self, questions):
        Scale.calls += 1
        Scale.questions += questions
        if Scale.gone:
            raise MissingDataError("no scale on this machine: buy one")
        return [self._weight(word) for (word,) in questions]

    def _weight(self, word):
        if word in Scale.broken:
            return UnansweredError(f"the scale does not take {word!r}")
        Scale.weighed += 1
        return {"grams": [float(Scale.weighed) if self.kind.sampled else 10.0 * len(word) + Scale.drift]}

    def agrees(self, said, computed):
        return abs(said["grams"][0] - computed["grams"][0]) <= self.kind.tolerance


class Pan(NamedTuple):
    """What lies on the scale, and how heavy it was said to be."""

    words: tuple[str, ...] = ()
    grams: tuple[float, ...] = ()


class WeighEnv(AgentEnv[str]):
    """Weigh a word a turn; rewards are grams."""

    suite: ClassVar[str] = "weigh"
    state_type = Pan
    default_max_steps = 3
    splits: ClassVar[tuple[str, ...]] = ("test",)

    def __init__(
        self,
        *,
        split: str = "test",
        standing: Reproducibility = "recomputable",
        sampled: bool = False,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ):
        self.query_backends = {"scale": Scale(standing, sampled)}
        super().__init__(TASKS, data_key="weigh", max_steps=max_steps, render_mode=render_mode)

    def _load(self, task):
        self._pan = Pan()

    def _action_queries(self, action):
        if action not in self.task.content:
            return None
        (answer,) = yield [Query("scale", (action,))]
        return answer["grams"][0]

    def _apply(self, action):
        if action not in self.task.content:
            return Outcome(0.0, valid=False)
        grams = float(self.answers)
        self._pan = Pan((*self._pan.words, action), (*self._pan.grams, grams))
        return Outcome(grams)

    def _observe(self):
        return " ".join(self._pan.words) or "nothing"

    def _admissible(self):
        return self.task.content

    def _status(self):
        heavy = sum(self._pan.grams) >= 130
        return Status(heavy, float(heavy), float(heavy))

    def _state(self):
        return self._pan

    def _set_state(self, state):
        self._pan = state

    def _identity(self):
        return self._pan.words


class WeighVectorEnv(SerialVectorEnv):
    """Slots of it."""

    env_class = WeighEnv


if ID not in gymnasium.registry:
    gymnasium.register(
        ID, entry_point=f"{__name__}:WeighEnv", vector_entry_point=f"{__name__}:WeighVectorEnv"
    )
