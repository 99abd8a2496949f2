"""A game that a model behind an endpoint judges, for tests of recorded ratings and of a judge's spread."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar

import gymnasium

from agentgym.core.queries import AnswerKind, Query, UnansweredError
from agentgym.core.suite_spec import Measure, SuiteSpec
from agentgym.core.tasks import ListTaskSet, Task
from agentgym.endpoint import (
    ChatMessage,
    ChatReply,
    ChatRequest,
    ChatSampling,
    EndpointSpec,
    RequestFailedError,
    open_endpoint,
)
from agentgym.env import AgentEnv, Outcome, Status
from agentgym.vector.serial import SerialVectorEnv

ID = "judged/Speech-v0"
REFERENCE = f"tests.evaluation.judged:{ID}"

WORDS = ("left", "right")
TASKS = ListTaskSet(
    "test", [Task(f"{n:032x}", n, f"speech{n}") for n in range(12)], dataset="s", suite="speech"
)


class Rater:
    """A judge behind an endpoint."""

    def __init__(self, judge: Mapping[str, Any]):
        table = dict(judge)
        self._sampling = ChatSampling(temperature=table.pop("temperature", 0.0), max_tokens=64)
        self._prompt = table.pop("prompt", "Rate this speech")
        self._spec = EndpointSpec.of({"url": table.pop("endpoint"), **table})
        temperature = self._sampling.temperature or 0.0
        self.kind = AnswerKind(
            f"judge {self._spec.identity} prompt {self._prompt!r} temperature {temperature:g}",
            "attested",
            sampled=temperature > 0,
        )

    def submit(self, question: Any, *, sample: int = 0) -> Future[Any]:
        said: Future[Any] = Future()
        said.set_running_or_notify_cancel()
        request = ChatRequest(
            (ChatMessage("user", f"{self._prompt}: {' '.join(question)}"),),
            self._sampling,
            response_schema={"type": "object", "properties": {"grams": {"type": "array"}}},
            prompt_id=self._prompt,
            sample=sample,
        )

        def take(reply: Future[ChatReply]) -> None:
            try:
                said.set_result(json.loads(reply.result().text))
            except RequestFailedError as error:
                said.set_exception(UnansweredError(str(error)))
            except Exception as error:  # noqa: BLE001 (it stops the run)
                said.set_exception(error)

        open_endpoint(self._spec).submit(request).add_done_callback(take)
        return said

    def answer(self, questions: Sequence[Any]) -> list[Any]:
        return [future.result() for future in [self.submit(question) for question in questions]]

    def agrees(self, said: Any, computed: Any) -> bool:
        return bool(said == computed)


class SpeechEnv(AgentEnv[str]):
    """Say three words; a judge rates them by weight from 0 to 100."""

    suite: ClassVar[str] = "speech"
    suite_spec = SuiteSpec(
        name="speech", measures=(Measure(name="weight", about="the judge's rating", bounds=(0.0, 100.0)),)
    )
    state_type = tuple
    default_max_steps = 3

    def __init__(
        self,
        *,
        split: str = "test",
        judge: Mapping[str, Any],
        max_steps: int | None = None,
        render_mode: str | None = None,
    ):
        self.query_backends = {"judge": Rater(judge)}
        super().__init__(TASKS, data_key="speech", max_steps=max_steps, render_mode=render_mode)

    def _load(self, task):
        self._said = ()
        self._grams = 0.0

    def _action_queries(self, action):
        if action not in WORDS or len(self._said) < 2:
            return None
        (answer,) = yield [Query("judge", (str(self.task.content), *self._said, action))]
        return (answer.get("grams") or [0.0])[0]

    def _apply(self, action):
        if action not in WORDS:
            return Outcome(0.0, valid=False)
        self._said = (*self._said, action)
        if len(self._said) < 3:
            return Outcome(0.0)
        self._grams = float(self.answers)
        return Outcome(self._grams / 100, terminated=True)

    def _observe(self):
        return f"You are at word {len(self._said)} of speech {self.task.content}: {' '.join(self._said)}"

    def _admissible(self):
        return WORDS

    def _status(self):
        return Status(self._grams > 43, self._grams, self._grams / 100)

    def _measures(self):
        return {"weight": self._grams}

    def _state(self):
        return (self._said, self._grams)

    def _set_state(self, state):
        self._said, self._grams = state


class SpeechVectorEnv(SerialVectorEnv):
    """Slots of it."""

    env_class = SpeechEnv


if ID not in gymnasium.registry:
    gymnasium.register(
        ID, entry_point=f"{__name__}:SpeechEnv", vector_entry_point=f"{__name__}:SpeechVectorEnv"
    )
