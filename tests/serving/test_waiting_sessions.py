"""Sessions whose environment asks a partner that does not answer: they hold up nobody but themselves."""

import asyncio
import json
import threading
from concurrent.futures import Future
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import ClassVar

import pytest
from websockets.sync.client import connect

from agentgym.core.queries import AnswerKind, Query, UnansweredError
from agentgym.core.tasks import ListTaskSet, Task
from agentgym.env import AgentEnv, Outcome, Status
from agentgym.errors import UsageError
from agentgym.serving.env.app import EnvServer
from agentgym.serving.env.service import Client, EnvService
from agentgym.serving.env.sessions import EnvLimits
from agentgym.serving.gateway.journal import SessionJournal
from agentgym.serving.gateway.sessions import GatewayLimits
from agentgym.serving.turns import Turns
from agentgym.vector.serial import SerialVectorEnv
from tests.serving.gateway_stand_ins import SayingEngine, make_model
from tests.serving.gateway_stand_ins import serving as talking
from tests.serving.playing import Playing


class Partner:
    """Answers at once, but for words that are a name of a test's: those when they are released."""

    kind = AnswerKind("partner", "attested")

    def __init__(self):
        self.asked = threading.Semaphore(0)
        self.held = []

    def submit(self, question):
        future = Future()
        if question.startswith("wait"):
            self.held.append((question, future))
            self.asked.release()
        elif question == "bye":
            future.set_exception(UnansweredError("the partner hung up"))
        else:
            future.set_result(f"{question}!")
        return future

    def answer(self, questions):
        return [self.submit(question).result(WAIT) for question in questions]

    def agrees(self, said, computed):
        return said == computed

    def wait(self):
        """Return when one more question waits."""
        assert self.asked.acquire(timeout=WAIT)

    def release(self, answer=None):
        """Answer all that wait, or fail."""
        held, self.held = self.held, []
        for question, future in held:
            if not future.done():
                future.set_result(f"{question}." if answer is None else answer)


WAIT = 20

TASKS = ListTaskSet(
    "test", [Task(f"{n:032x}", n, f"task{n}") for n in range(8)], dataset="talking", suite="talking"
)
SLOW_TASK = TASKS.ids[7]
"""Its partner opens, and is waited for."""


class TalkEnv(AgentEnv[str]):
    """Say something; a partner answers."""

    suite: ClassVar[str] = "talking"
    action_kind = "template"
    default_max_steps = 9

    def __init__(self, partner, *, max_steps=None, render_mode=None):
        self.query_backends = {"partner": partner}
        super().__init__(TASKS, data_key="talking", max_steps=max_steps, render_mode=render_mode)

    def _load_queries(self, task):
        return (yield [Query("partner", "wait: opening" if task.id == SLOW_TASK else "hello")])

    def _action_queries(self, action):
        return (yield [Query("partner", action)])

    def _load(self, task):
        self._said = self.answers

    def _apply(self, action):
        self._said = (*self._said, action, *self.answers)
        return Outcome(1.0)

    def _observe(self):
        return " ".join(self._said)

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


def make_service(partner, **limits):
    limits = EnvLimits(**{"sessions": 8, **limits})
    envs = SerialVectorEnv(limits.sessions, env_class=TalkEnv, partner=partner, autoreset_mode="Disabled")
    return EnvService("agentgym/Talk-v0", envs, limits)


@contextmanager
def server_of(partner, **limits):
    service = make_service(partner, **limits)
    with EnvServer("127.0.0.1", 0, service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Playing(server, service)
        finally:
            partner.release()
            server.stop()
            thread.join()


class Later:
    """A call in a thread of its own."""

    def __init__(self, call, *arguments, **named):
        self.outcome = Future()
        threading.Thread(target=self._run, args=(call, arguments, named), daemon=True).start()

    def _run(self, call, arguments, named):
        try:
            self.outcome.set_result(call(*arguments, **named))
        except (AssertionError, OSError) as error:
            self.outcome.set_exception(error)

    def value(self):
        return self.outcome.result(WAIT)


def begin(server, **data):
    return server.play("reset", **data)["metadata"]["session_id"]


def test_a_session_that_waits_holds_up_no_other():
    partner = Partner()
    with server_of(partner) as server:
        slow, other = begin(server, index=0), begin(server, index=1)
        first = Later(server.play, "step", session_id=slow, action="wait")
        partner.wait()
        assert server.play("step", session_id=other, action="hi")["observation"]["text"] == "hello! hi hi!"
        assert server.play("state", session_id=other)["step_count"] == 1
        assert server.play("state", session_id=slow)["step_count"] == 0
        assert server.play("reset", index=2)["observation"]["text"] == "hello!"
        assert server.play("reset", session_id=other, index=3)["observation"]["text"] == "hello!"
        many = server.play("step_many", sessions=[other], actions=["you"], turns=[0])
        assert many["observation"]["text"] == ["hello! you you!"]
        second = Later(server.play, "step", session_id=other, action="wait too")
        partner.wait()
        assert not first.outcome.done()
        partner.release()
        assert first.value()["observation"]["text"] == "hello! wait wait."
        assert second.value()["observation"]["text"] == "hello! you you! wait too wait too."
        assert server.play("state", session_id=slow)["step_count"] == 1


def test_a_session_that_waits_takes_no_other_message_and_does_not_expire():
    partner = Partner()
    with server_of(partner) as server:
        slow, other = begin(server, index=0), begin(server, index=1)
        snapshot = server.play("snapshot", session_id=slow)["snapshot"]
        step = Later(server.play, "step", session_id=slow, action="wait")
        partner.wait()
        messages = {
            "step": {"session_id": slow, "action": "hi"},
            "reset": {"session_id": slow, "index": 2},
            "restore": {"session_id": slow, "snapshot": snapshot},
            "close_many": {"sessions": [other, slow]},
            "step_many": {"sessions": [other, slow], "actions": ["a", "b"], "turns": [0, 0]},
        }
        for kind, data in messages.items():
            status, answer = server.ask(kind, data)
            assert (status, f"session {slow} waits for an answer" in answer["error"]) == (409, True), kind
        server.service.sessions._clock = lambda: 1e12
        assert server.service.sessions.expire() == 1
        assert server.service.sessions.ids() == (slow,)
        partner.release()
        assert step.value()["observation"]["text"] == "hello! wait wait."
        assert server.service.sessions.expire() == 0  # a session is not idle while it waits


def test_a_reset_that_waits_holds_up_no_other_and_draws_as_ever():
    partner = Partner()
    alone = TalkEnv(partner)
    drawn = [alone.reset(seed=seed)[1]["task_id"] for seed in range(3)]
    assert SLOW_TASK not in drawn
    with server_of(partner) as server:
        new = Later(server.play, "reset", task=SLOW_TASK)
        many = Later(server.play, "reset_many", sessions=[None, None], tasks=[TASKS.ids[1], SLOW_TASK])
        partner.wait(), partner.wait()
        assert [server.play("reset", seed=seed)["metadata"]["task_id"] for seed in range(3)] == drawn
        assert server.ask("reset_many", {"sessions": [None] * 3})[0] == 503  # slots that wait are taken
        partner.release()
        assert new.value()["observation"]["text"] == "wait: opening."
        assert many.value()["observation"]["text"] == ["hello!", "wait: opening."]
        session = begin(server, seed=5)
        alone.reset(seed=5)
        again = server.play("reset", session_id=session)["metadata"]["task_id"]
        assert again == alone.reset()[1]["task_id"]


def test_a_step_without_an_answer_changes_nothing():
    partner = Partner()
    with server_of(partner) as server:
        one, other = begin(server, index=0), begin(server, index=1)
        step = Later(server.ask, "step_many", {"sessions": [one, other], "actions": ["wait", "bye"]})
        partner.wait()
        partner.release()
        status, answer = step.value()
        assert (status, "no episode has moved: the partner hung up" in answer["error"]) == (503, True)
        step = Later(server.ask, "step", {"session_id": other, "action": "wait"})
        partner.wait()
        partner.release(UnansweredError("it took too long"))
        assert step.value()[0] == 503
        assert server.play("step", session_id=other, action="hi")["observation"]["text"] == "hello! hi hi!"
        assert server.play("step", session_id=one, action="yo")["observation"]["text"] == "hello! yo yo!"


def test_tools_wait_as_well():
    partner = Partner()
    with server_of(partner) as server:
        session = begin(server, index=0)
        call = {"name": "act", "arguments": {"action": "wait"}, "session_id": session}
        step = Later(server.play, "mcp", jsonrpc="2.0", id=1, method="tools/call", params=call)
        partner.wait()
        other = server.play("mcp", jsonrpc="2.0", id=2, method="openenv/session/create", params={"index": 1})
        assert "session_id" in other["result"]
        partner.release()
        assert step.value()["result"]["content"][0]["text"] == "hello! wait wait."


def test_websockets_that_wait_hold_up_no_other():
    def say(socket, kind, **data):
        socket.send(json.dumps({"type": kind, "data": data}))

    def heard(socket):
        return json.loads(socket.recv(WAIT))["data"]

    partner = Partner()
    with server_of(partner) as server, connect(server.socket) as slow, connect(server.socket) as other:
        for socket in (slow, other):
            say(socket, "reset", index=0)
            heard(socket)
        say(slow, "step", action="wait")
        partner.wait()
        say(other, "step", action="hi")
        assert heard(other)["observation"]["text"] == "hello! hi hi!"
        partner.release()
        assert heard(slow)["observation"]["text"] == "hello! wait wait."


def test_a_message_that_is_cancelled_has_not_happened():
    partner = Partner()
    service = make_service(partner)

    async def main():
        client, other = Client(), Client()
        for each in (client, other):
            await service.handle(each, "reset", {"index": 0})
        step = asyncio.create_task(service.handle(client, "step", {"action": "wait"}))
        await asyncio.to_thread(partner.wait)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        assert (await service.handle(client, "state", {})).data["step_count"] == 0
        assert partner.held[0][1].cancelled()
        reply = await service.handle(client, "step", {"action": "hi"})
        assert reply.data["observation"]["text"] == "hello! hi hi!"
        begun = asyncio.create_task(service.handle(Client(), "reset", {"task": SLOW_TASK}))
        await asyncio.to_thread(partner.wait)
        begun.cancel()
        with pytest.raises(asyncio.CancelledError):
            await begun
        await service.call(int)
        assert len(service.sessions) == 2

    asyncio.run(main())


def test_a_server_stops_while_a_session_waits(monkeypatch):
    monkeypatch.setattr("agentgym.serving.app_server.GRACE", 0)
    partner = Partner()
    service = make_service(partner)
    with EnvServer("127.0.0.1", 0, service) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        playing = Playing(server, service)
        body = json.dumps({"session_id": begin(playing, index=0), "action": "wait"})
        with closing(HTTPConnection(playing.address)) as connection:
            connection.request("POST", "/step", body)
            partner.wait()
            server.stop()
            thread.join(WAIT)
        assert not thread.is_alive()
        service._thread.submit(int).result(WAIT)  # nothing waits in it
        assert partner.held[0][1].cancelled()


def test_a_turn_is_given_up_while_its_client_is_away():
    async def main():
        turns, order, back = Turns(), [], asyncio.Event()

        async def first():
            async with turns.turn("a"):
                async with turns.away("a"):
                    await back.wait()
                order.append("a")

        async def second():
            async with turns.turn("b"):
                order.append("b")
                back.set()
                await asyncio.sleep(0)
                order.append("b")

        await asyncio.gather(first(), second())
        return order

    assert asyncio.run(asyncio.wait_for(main(), WAIT)) == ["b", "b", "a"]


# ---- the gateway -------------------------------------------------------------------------------


@contextmanager
def gateway_of(partner, journal, **parts):
    model = make_model()
    with talking(model, SayingEngine(model), journal, env=make_service(partner), **parts) as gateway:
        try:
            yield gateway
        finally:
            partner.release()


def test_sessions_of_the_gateway_hold_up_no_other(tmp_path):
    partner, now = Partner(), [0.0]
    with gateway_of(partner, tmp_path, limits=GatewayLimits(idle=10), clock=lambda: now[0]) as gateway:
        slow, other = gateway.begin(index=0), gateway.begin(index=1)
        gateway.say(slow, "Well?")
        step = Later(gateway.post, f"{slow}/env/step", action="wait")
        partner.wait()
        assert gateway.post(f"{other}/env/step", action="hi")["observation"]["text"] == "hello! hi hi!"
        assert gateway.get(f"{other}/env/state")["step_count"] == 1
        status, answer = gateway.ask(slow, method="DELETE")
        assert (status, "waits for an answer" in answer["error"]) == (409, True)
        now[0] = 11.0
        gateway.gateway.expire()
        assert [f"/sessions/{each['session_id']}" for each in gateway.get("/sessions")] == [slow]
        partner.release()
        assert step.value()["observation"]["text"] == "hello! wait wait."
        assert gateway.post(f"{slow}/complete")["reward"] == 1.0


def test_sessions_of_the_journal_are_taken_up_beside_one_that_waits(tmp_path):
    partner, now = Partner(), [0.0]
    with gateway_of(partner, tmp_path, limits=GatewayLimits(idle=10), clock=lambda: now[0]) as gateway:
        slow, other = gateway.begin(index=0), gateway.begin(index=1)
        step = Later(gateway.post, f"{slow}/env/step", action="wait")
        partner.wait()
        partner.release()
        step.value()
        now[0] = 11.0
        gateway.gateway.expire()
        assert gateway.get("/sessions") == []
        state = Later(gateway.get, f"{slow}/env/state")  # its step is played anew
        partner.wait()
        assert gateway.get(f"{other}/env/state")["step_count"] == 0
        assert not state.outcome.done()
        partner.release()
        assert state.value()["step_count"] == 1


def test_a_step_that_the_journal_does_not_take_is_undone_beside_one_that_waits(tmp_path, monkeypatch):
    partner = Partner()
    with gateway_of(partner, tmp_path) as gateway:
        slow, other = gateway.begin(index=0), gateway.begin(index=1)
        step = Later(gateway.ask, f"{slow}/env/step", {"action": "wait"})
        partner.wait()

        def full(*arguments):
            raise UsageError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(SessionJournal, "append", full)
            assert gateway.ask(f"{other}/env/step", {"action": "hi"})[0] == 503
            partner.release()
            assert step.value()[0] == 503
        for session in (slow, other):
            assert gateway.get(f"{session}/env/state")["step_count"] == 0
            assert gateway.post(f"{session}/env/step", action="yo")["observation"]["text"] == "hello! yo yo!"
