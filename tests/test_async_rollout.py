"""Policies and query backends that take their time: each episode waits for its own answers alone."""

import sys
from concurrent.futures import Future
from threading import Event, Lock, Thread, Timer
from typing import ClassVar

import pytest

from agentgym.core.queries import AnswerKind, Query, UnansweredError
from agentgym.core.tasks import ListTaskSet, Task
from agentgym.core.types import Completion
from agentgym.env import AgentEnv, Outcome, Status
from agentgym.errors import UsageError
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.vector.serial import SerialVectorEnv
from tests.pace import within

TASKS = ListTaskSet(
    "test", [Task(f"{n:032x}", n, f"task{n}") for n in range(64)], dataset="talking", suite="talking"
)
IDS = TASKS.ids


class Clock:
    """Futures that are fulfilled by hand, in any order."""

    def __init__(self):
        self.waiting: dict[object, list[tuple[object, Future]]] = {}
        self.most = 0
        self._lock = Lock()

    def open(self, key, value):
        future: Future = Future()
        with self._lock:  # else a strike in between takes the list, and no other one this future
            self.waiting.setdefault(key, []).append((value, future))
            self.most = max(self.most, sum(map(len, self.waiting.values())))
        return future

    def strike(self, key):
        with self._lock:
            struck = self.waiting.pop(key)
        for value, future in struck:
            if not future.set_running_or_notify_cancel():
                continue
            if isinstance(value, BaseException):
                future.set_exception(value)
            else:
                future.set_result(value)


class Partner:
    """Says a word back, in its own time."""

    kind = AnswerKind("partner", "attested")

    def __init__(self, clock):
        self.clock = clock

    def submit(self, question):
        task, turn, word = question
        said = UnansweredError("the partner hung up") if word == "bye" else f"{word}!"
        return self.clock.open(("partner", task, turn), said)

    def answer(self, questions):
        futures = [self.submit(question) for question in questions]
        return [future.result() for future in futures]

    def agrees(self, said, computed):
        return said == computed


class TalkEnv(AgentEnv[str]):
    """Say something; a partner answers."""

    suite: ClassVar[str] = "talking"
    action_kind = "template"
    default_max_steps = 3
    clock: ClassVar[Clock] = Clock()

    def __init__(self, *, max_steps: int | None = None, render_mode: str | None = None):
        self.query_backends = {"partner": Partner(TalkEnv.clock)}
        super().__init__(TASKS, data_key="talking", max_steps=max_steps, render_mode=render_mode)

    def _load_queries(self, task):
        (word,) = yield [Query("partner", (int(task.id, 16), 0, "hello"))]
        return word

    def _action_queries(self, action):
        (word,) = yield [Query("partner", (int(self.task.id, 16), self._turn + 1, action))]
        return word

    def _load(self, task):
        self._said = (self.answers,)

    def _apply(self, action):
        self._said = (*self._said, action, self.answers)
        return Outcome(1.0)

    def _observe(self):
        return " ".join(map(str, self._said))

    def _admissible(self):
        return ("<word>",)

    def _accepts(self, action):
        return True

    def _status(self):
        return Status(False, float(len(self._said)), 0.0)

    def _state(self):
        return self._said

    def _set_state(self, state):
        self._said = state


class SlowPolicy:
    """Answers each request when its clock strikes."""

    def __init__(self, clock, word="hi"):
        self.clock, self.word, self.heard = clock, word, []

    def submit(self, request):
        return self.clock.open(
            ("policy", int(request.task_id, 16), request.turn), Completion(self.word, seconds=2.0)
        )

    def ended(self, trajectory):
        self.heard.append(trajectory)


@pytest.fixture
def clock():
    TalkEnv.clock = Clock()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads meet in more places
    yield TalkEnv.clock
    sys.setswitchinterval(before)


def worker_of(policy, n):
    envs = SerialVectorEnv(n, env_class=TalkEnv, autoreset_mode="Disabled")
    return RolloutWorker(envs, policy, env_id="talking")


class Conductor(Thread):
    """Strikes, in a thread of its own, whatever waits and is not held back."""

    def __init__(self, clock, held=lambda key: False):
        super().__init__(daemon=True)
        self.clock, self.held, self.over = clock, held, Event()

    def run(self):
        while not self.over.is_set():
            for key in list(self.clock.waiting):
                if not self.held(key):
                    self.clock.strike(key)
            self.over.wait(0.0002)


def played(worker, n, held=lambda key: False):
    conductor = Conductor(TalkEnv.clock, held)
    conductor.start()
    try:
        yield from worker.run(EpisodeSpec(IDS[i], i, 0) for i in range(n))
    finally:
        conductor.over.set()
        conductor.join()


def test_every_episode_has_its_own_request_in_flight(clock):
    policy = SlowPolicy(clock)
    everything_asked = lambda key: key[0] == "policy" and clock.most < 16  # noqa: E731
    trajectories = list(played(worker_of(policy, 16), 16, everything_asked))
    assert clock.most == 16
    assert {t.end_reason for t in trajectories} == {"step_limit"}
    assert {len(t.steps) for t in trajectories} == {3}
    assert trajectories[0].final_observation == "hello! hi hi! hi hi! hi hi!"
    assert trajectories[0].model_seconds == 6.0
    assert policy.heard == trajectories


@pytest.mark.parametrize("slow", [("policy", 3, 1), ("partner", 3, 0), ("partner", 3, 2)], ids=str)
def test_a_slow_answer_holds_up_its_own_episode_only(clock, slow):
    done: list[str] = []
    release = lambda key: key == slow and len(done) < 7  # noqa: E731
    for trajectory in played(worker_of(SlowPolicy(clock), 8), 8, release):
        done.append(trajectory.task_id)
    assert done[-1] == IDS[3]
    assert sorted(done) == sorted(IDS[:8])


def test_a_slot_is_taken_by_the_next_episode_while_others_wait(clock):
    done: list[str] = []
    for trajectory in played(
        worker_of(SlowPolicy(clock), 2), 12, lambda key: key == ("policy", 0, 2) and len(done) < 11
    ):
        done.append(trajectory.task_id)
    assert done[-1] == IDS[0]
    assert len(done) == 12


def test_results_do_not_depend_on_the_order_of_answers(clock):
    class Reciter:
        def act(self, requests):
            return [Completion("hi") for _ in requests]

    def last(key):
        """Every third episode waits for as long as others do."""
        return key[1] % 3 == 0 and any(other % 3 for _, other, _ in list(clock.waiting))

    def results(policy, n):
        return {
            t.task_id: (t.state_hashes, t.episode_return, t.score)
            for t in played(worker_of(policy, n), 20, last)
        }

    assert results(SlowPolicy(clock), 5) == results(Reciter(), 20) == results(SlowPolicy(clock), 20)


def test_an_unanswered_episode_ends_alone(clock):
    class Rude(SlowPolicy):
        def submit(self, request):
            self.word = "bye" if request.task_id == IDS[1] and request.turn == 1 else "hi"
            return super().submit(request)

    ended = {t.task_id: t for t in played(worker_of(Rude(clock), 4), 4)}
    assert {key: (t.end_reason, len(t.steps)) for key, t in ended.items()} == {
        IDS[0]: ("step_limit", 3),
        IDS[1]: ("env_error", 1),
        IDS[2]: ("step_limit", 3),
        IDS[3]: ("step_limit", 3),
    }


def test_an_exception_stops_the_rollout_and_what_is_in_flight_is_given_up(clock):
    class Broke(SlowPolicy):
        def submit(self, request):
            if request.task_id == IDS[0]:
                return self.clock.open(("policy", 0, request.turn), UsageError("the budget is spent"))
            return super().submit(request)

    worker = worker_of(Broke(clock), 3)
    with pytest.raises(UsageError, match="budget"):
        list(played(worker, 3, lambda key: key[0] == "policy" and key[1] != 0))
    assert all(
        f.cancelled() for key, waiting in clock.waiting.items() for _, f in waiting if key[0] == "policy"
    )


def test_single_and_batch_forms_wait_for_all(clock):
    conductor = Conductor(clock)
    conductor.start()
    try:
        single = TalkEnv()
        assert single.reset(options={"task": IDS[5]})[0] == "hello!"
        envs = SerialVectorEnv(3, env_class=TalkEnv, autoreset_mode="Disabled")
        envs.reset(options={"tasks": list(IDS[4:7])})
        observations, *_ = envs.step(["a", "b", "c"])
        assert observations == ("hello! a a!", "hello! b b!", "hello! c c!")
        assert single.step("b")[0] == observations[1]
    finally:
        conductor.over.set()
        conductor.join()


def test_waiting_costs_no_processor_time(clock):
    held = Event()
    Timer(2.0, held.set).start()
    release = lambda key: key[0] == "policy" and not held.is_set()  # noqa: E731
    waits = within(500, lambda: list(played(worker_of(SlowPolicy(clock), 64), 64, release)), attempts=1)
    assert len(waits) == 64
