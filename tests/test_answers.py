"""Games that ask: one call per kind and round, failures that stop one episode, all forms alike."""

import pickle
from typing import Any, ClassVar

import numpy as np
import pytest

from agentgym.core.queries import AnswerKind, LiveAnswers, Query, QueryBackend, QueryContext, UnansweredError
from agentgym.core.tasks import ListTaskSet, Task
from agentgym.core.types import Completion
from agentgym.env import AgentEnv, Outcome, Status
from agentgym.errors import UsageError
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.vector.serial import SerialVectorEnv

TASKS = ListTaskSet(
    "test", [Task(f"{n:032x}", n, f"task{n}") for n in range(8)], dataset="asking", suite="asking"
)
IDS = TASKS.ids


class Doubler:
    """Answers twice the number; counts its calls; a question of ``bad`` has no answer."""

    kind = AnswerKind("double", "recomputable")

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []

    def answer(self, questions):
        self.calls.append(list(questions))
        return [UnansweredError("the line is dead") if q == -1 else 2 * q for q in questions]

    def agrees(self, said, computed):
        return said == computed


class AskingEnv(AgentEnv[str]):
    """Type a number: it is doubled, and that again, by somebody else."""

    suite: ClassVar[str] = "asking"
    action_kind = "template"
    default_max_steps = 4

    def __init__(self, *, first: bool = False, max_steps: int | None = None, render_mode: str | None = None):
        self.doubler = Doubler()
        self.query_backends: dict[str, QueryBackend] = {"double": self.doubler}
        self._first = first
        super().__init__(TASKS, data_key="asking", max_steps=max_steps, render_mode=render_mode)

    def _load_queries(self, task):
        if not self._first:
            return 0
        (answer,) = yield [Query("double", 1)]
        return answer

    def _load(self, task):
        self._total = self.answers or 0

    def _action_queries(self, action):
        if not action.lstrip("-").isdigit():
            return None
        (once,) = yield [Query("double", int(action))]
        (twice, other) = yield [Query("double", once), Query("double", 100)]
        return twice + other

    def _apply(self, action):
        if self.answers is None:
            return Outcome(0.0, valid=False)
        self._total += self.answers
        return Outcome(float(self.answers))

    def _observe(self):
        return str(self._total)

    def _admissible(self):
        return ("<number>",)

    def _accepts(self, action):
        return action.isdigit()

    def _status(self):
        return Status(False, 0.0, 0.0)

    def _state(self):
        return self._total

    def _set_state(self, state):
        self._total = state


def vector(n: int, **options: Any) -> SerialVectorEnv:
    return SerialVectorEnv(n, env_class=AskingEnv, autoreset_mode="Disabled", **options)


def test_one_call_per_round_whatever_the_number_of_slots():
    envs = vector(5)
    envs.reset(seed=0)
    observations, rewards, *_ = envs.step(["1", "2", "x", "3", "4" * 9000])
    assert observations == ("204", "208", "0", "212", "0")
    assert rewards.tolist() == [204, 208, 0, 212, 0]
    assert envs.prototype.doubler.calls == [[1, 2, 3], [2, 100, 4, 6]], "equal ones once"


def test_forms_agree():
    single, envs = AskingEnv(first=True), vector(3, first=True)
    first, _ = single.reset(seed=3)
    batch, _ = envs.reset(seed=[3, 3, 4])
    assert batch[:2] == (first, first) == ("2", "2")
    alone = single.step("7")
    together = envs.step(["7", "5", "9"])
    assert alone[0] == together[0][0]
    assert alone[4]["state_hash"] == together[4]["state_hash"][0]
    held = single.snapshot()
    other = AskingEnv(first=True)
    assert other.restore(held)[0] == alone[0], "a restore asks nothing"
    assert other.doubler.calls == []
    assert pickle.loads(pickle.dumps(single)).step("1")[0] == single.step("1")[0]


def test_a_question_without_answer_leaves_the_episode_where_it_stands():
    env = AskingEnv()
    env.reset(seed=0)
    before = env.state_hash()
    with pytest.raises(UnansweredError, match="line is dead"):
        env.step("-1")
    assert env.state_hash() == before
    assert env.step("1")[0] == "204"


def test_no_slot_moves_where_one_is_without_answer_and_nothing_is_asked_twice():
    envs = vector(3)
    envs.reset(seed=0)
    with pytest.raises(UnansweredError) as caught:
        envs.step(["1", "-1", "2"])
    assert caught.value.slots == (1,)
    assert isinstance(caught.value, UsageError)
    assert [envs.snapshot(i).turn for i in range(3)] == [0, 0, 0]
    asked = len(envs.prototype.doubler.calls)
    observations, *_ = envs.step_at([0, 2], ["1", "2"])
    assert observations == ("204", "208")
    assert len(envs.prototype.doubler.calls) == asked
    envs.reset(seed=0)
    assert envs.step(["1", "1", "1"])[0] == ("204",) * 3


def test_kept_answers_are_those_of_the_episode():
    envs = vector(2)
    envs.reset(seed=0)
    with pytest.raises(UnansweredError):
        envs.step(["1", "-1"])
    envs.reset_at([0])
    before = len(envs.prototype.doubler.calls)
    envs.step_at([0], ["1"])
    assert len(envs.prototype.doubler.calls) == before + 2


class Scripted:
    """Plays the given actions by task."""

    def __init__(self, actions):
        self.actions = actions

    def act(self, requests):
        return [Completion(action=self.actions[int(r.task_id, 16)][r.turn]) for r in requests]


def test_an_unanswered_episode_ends_as_env_error_and_the_others_go_on():
    envs = vector(3)
    policy = Scripted({0: ["1"] * 4, 1: ["1", "-1"], 2: ["2"] * 4})
    worker = RolloutWorker(envs, policy, env_id="asking")
    played = {t.task_id[-1]: t for t in worker.run(EpisodeSpec(IDS[n], 0, 0) for n in range(3))}
    assert {key: (t.end_reason, len(t.steps)) for key, t in played.items()} == {
        "0": ("step_limit", 4),
        "1": ("env_error", 1),
        "2": ("step_limit", 4),
    }
    assert played["1"].unplayed is not None
    assert played["1"].score == 0.0


class Notebook(LiveAnswers):
    """An answer source that writes down what is asked."""

    def __init__(self) -> None:
        self.asked: list[QueryContext] = []

    def find(self, backend, asked):
        self.asked += asked
        return super().find(backend, asked)


def test_a_source_is_told_which_question_of_which_episode_it_is():
    envs, book = vector(2), Notebook()
    envs.answer_from(book)
    envs.reset(options={"tasks": [IDS[0], IDS[0]], "rollouts": [0, 3]})
    envs.step(["5", "5"])
    assert {(a.question, a.rollout, a.turn, a.number) for a in book.asked} == {
        (question, rollout, 1, number) for rollout in (0, 3) for number, question in enumerate((5, 10, 100))
    }
    single, alone = AskingEnv(), Notebook()
    single.answer_source = alone
    single.reset(options={"task": IDS[0], "rollout": 3})
    single.step("5")
    assert alone.asked == [asked for asked in book.asked if asked.rollout == 3]


def test_rollouts_are_whole_numbers():
    with pytest.raises(UsageError, match="rollout"):
        AskingEnv().reset(options={"rollout": -1})
    with pytest.raises(UsageError, match="rollouts must have one entry"):
        vector(2).reset(options={"rollouts": [1]})
    env = AskingEnv()
    env.reset(options={"rollout": np.int64(2)})
    assert env.rollout == 2
    assert pickle.loads(pickle.dumps(env)).rollout == 2
