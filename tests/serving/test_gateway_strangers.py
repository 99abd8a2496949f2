"""The gateway under clients that send what nothing behind it takes: every request is a line, or is served."""

import asyncio
import errno
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from agentgym.prompts.chat_tokenizer import ChatTokenizer
from agentgym.serving.gateway import journal
from tests.serving.gateway_stand_ins import TOOL, call_text, stored, talking

SOKOBAN = "agentgym/Sokoban-v0"
HALF = "\ud800"
ASKED = {"role": "user", "content": "Which way?"}


# ---- halves of surrogate pairs, as models write them -----------------------------------------------


def tool(**changes):
    return {"type": "function", "function": TOOL["function"] | changes}


def called(name, arguments):
    function = {"name": name, "arguments": arguments}
    call = {"id": HALF, "type": "function", "function": function}
    return [ASKED, {"role": "assistant", "tool_calls": [call]}, ASKED]


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": HALF}]},
        {"messages": [ASKED], "tools": [tool(name=HALF)]},
        {"messages": [ASKED], "tools": [tool(description=HALF)]},
        {"messages": [ASKED], "tools": [tool(parameters={"type": "object", "properties": {HALF: {}}})]},
        {"messages": called(HALF, "{}")},
        {"messages": called("look", json.dumps({HALF: HALF}))},
        {"messages": called("look", {"place": HALF})},
        {"messages": called("look", HALF)},
        {"messages": [ASKED], "stop": [HALF]},
    ],
)
def test_halves_of_surrogate_pairs_are_read_as_replacement_characters(gateway, body):
    session = gateway.begin(index=0)
    status, answer = gateway.ask(f"{session}/v1/chat/completions", body)
    assert status == 200, answer


def test_anthropics_tools_may_have_halves_too(gateway):
    session = gateway.begin(index=0)
    used = {"type": "tool_use", "id": HALF, "name": HALF, "input": {HALF: HALF}}
    result = {"type": "tool_result", "tool_use_id": HALF, "content": HALF}
    messages = [ASKED, {"role": "assistant", "content": [used]}, {"role": "user", "content": [result]}]
    tools = [{"name": HALF, "description": HALF, "input_schema": {"type": "object", "properties": {}}}]
    body = {"messages": messages, "tools": tools, "max_tokens": 8, "system": HALF}
    status, answer = gateway.ask(f"{session}/v1/messages", body)
    assert status == 200, answer


@pytest.mark.parametrize("as_object", [False, True])
def test_an_answer_with_halves_is_continued_and_its_episode_stored(gateway, engine, pool, as_object):
    session = gateway.begin(index=0)
    engine.says = [call_text(place=HALF)]
    said = gateway.say(session, "Which way?", tools=[TOOL])
    if as_object:  # as clients write it that have read the arguments
        (call,) = said["tool_calls"]
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    result = {"role": "tool", "content": HALF, "tool_call_id": said["tool_calls"][0]["id"]}
    gateway.say(session, "Which way?", said, result, tools=[TOOL])
    assert [each["parent_trace_id"] is None for each in gateway.get(f"{session}/traces")] == [True, False]
    gateway.post(f"{session}/env/step", action=f"go {HALF}")
    gateway.post(f"{session}/complete")
    ((trajectory, _),) = stored(pool)
    assert trajectory.steps[-1].action == "go \ufffd"


def test_tools_that_a_template_takes_too_long_for_are_a_line(gateway):
    session = gateway.begin(index=0)
    body = {"messages": [ASKED], "tools": [tool(description="a" * (15 << 20))]}
    status, answer = gateway.ask(f"{session}/v1/chat/completions", body)
    assert status == 400, answer
    assert "\n" not in answer["error"]["message"]


# ---- what would be refused at the end is refused at the beginning --------------------------------------


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ({"group": "a\nb"}, "printable characters"),
        ({"group": "g" * 201}, "printable characters"),
        ({"labels": [""]}, "printable characters"),
        ({"labels": ["a\x1b"]}, "printable characters"),
        ({"labels": [f"{n}" for n in range(65)]}, "at most 64"),
        ({"group_size": 10**30}, "group_size must be"),
        ({"rollout": 2**63}, "rollout must be"),
        ({"seed": -1}, "a seed is a whole number"),
        ({"metadata": {"a": "b" * 70_000}}, "at most 65,536 characters"),
        ({"sampling_params": {"a": "b" * 70_000}}, "at most 65,536 characters"),
    ],
)
def test_a_session_is_begun_only_with_what_its_episode_can_be_stored_with(gateway, body, line):
    status, answer = gateway.ask("/sessions", body)
    assert (status, line in answer["error"]) == (400, True), answer
    assert "\n" not in answer["error"]
    assert gateway.get("/sessions") == []


@pytest.mark.parametrize("body", [{"task": "a\nb"}, {"task": "x", "env_id": "\x1b[2J"}])
def test_names_that_a_pool_could_not_list_are_refused_without_an_environment_too(model, engine, pool, body):
    with talking(model, engine, pool=pool) as gateway:
        status, answer = gateway.ask("/sessions", body)
        assert (status, "printable characters" in answer["error"]) == (400, True)


def test_a_group_that_would_not_take_the_episode_refuses_its_session(gateway, pool):
    first = gateway.begin(index=0, group="g", group_size=2)
    for other, line in (
        ({"index": 1, "group_size": 2}, "name another group"),  # another task
        ({"index": 0, "group_size": 3}, "name another group"),
    ):
        status, answer = gateway.ask("/sessions", {"group": "g", **other})
        assert (status, line in answer["error"]) == (400, True), answer
    second = gateway.begin(index=0, group="g", group_size=2)
    for session in (first, second):
        gateway.say(session, "Which way?")
        gateway.post(f"{session}/complete")
    for rollout, line in ((0, "has another rollout 0 already"), (7, "has its 2 episodes already")):
        body = {"index": 0, "group": "g", "group_size": 2, "rollout": rollout}
        status, answer = gateway.ask("/sessions", body)
        assert (status, line in answer["error"]) == (400, True), answer
    assert len(stored(pool)) == 2
    assert len(gateway.gateway.env.sessions) == 0


def test_the_list_of_sessions_has_nothing_that_a_client_can_make_long(gateway):
    body = {"metadata": {"a": "b" * 60_000}, "labels": [f"{n:0200d}" for n in range(64)], "group": "g" * 200}
    session = gateway.begin(index=0, task=None, **body)
    assert gateway.get(session)["metadata"] == body["metadata"]
    assert gateway.get(session)["labels"] == body["labels"]
    assert len(json.dumps(gateway.get("/sessions"))) < 1_000


# ---- long texts -------------------------------------------------------------------------------------


def test_a_text_that_no_context_holds_is_refused_before_it_is_tokenised(gateway, monkeypatch):
    read = []
    monkeypatch.setattr(ChatTokenizer, "encode_rendered", lambda chat, bodies, rendered: read.append(bodies))
    session = gateway.begin(index=0)
    long = "a" * (15 << 20)
    for messages in ([{"role": "user", "content": long}], called("look", long)):
        status, answer = gateway.ask(f"{session}/v1/chat/completions", {"messages": messages})
        assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
    assert read == []


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [ASKED] * 10_001},
        {"messages": [ASKED], "tools": [TOOL] * 10_001},
        {"messages": [ASKED], "stop": [f"{n}" for n in range(65)]},
    ],
)
def test_long_lists_are_a_line(gateway, engine, body):
    session = gateway.begin(index=0)
    status, answer = gateway.ask(f"{session}/v1/chat/completions", body)
    assert (status, "at most" in answer["error"]["message"]) == (400, True)
    assert engine.requests == []


def test_of_an_action_that_no_game_reads_no_more_is_kept(model, engine, pool, tmp_path):
    with talking(model, engine, env=SOKOBAN, pool=pool, journal=tmp_path) as gateway:
        session = gateway.begin(index=0)
        gateway.say(session, "Which way?")
        row = gateway.post(f"{session}/env/step", action="u" * 1_000_000)
        assert row["metadata"]["action_is_valid"] is False
        before = standing(gateway, session)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.jsonl")) < 50_000
    with talking(model, engine, env=SOKOBAN, pool=pool, journal=tmp_path) as gateway:
        assert standing(gateway, session) == before


def test_one_that_is_tokenised_does_not_hold_others_up(gateway, monkeypatch):
    encode, begun, answered = ChatTokenizer.encode_rendered, threading.Event(), threading.Event()
    in_time = []

    def slow(chat, bodies, rendered):
        begun.set()
        in_time.append(answered.wait(120))
        return encode(chat, bodies, rendered)

    session = gateway.begin(index=0)
    monkeypatch.setattr(ChatTokenizer, "encode_rendered", slow)
    with ThreadPoolExecutor(1) as thread:
        said = thread.submit(gateway.say, session, "Which way?")
        assert begun.wait(60)
        assert gateway.get("/health")["status"] == "healthy"
        assert gateway.post(f"{session}/env/step", action="up")["reward"] is not None
        answered.set()
        assert said.result(60)["content"]
    assert all(in_time)


# ---- a full disk ------------------------------------------------------------------------------------


@contextmanager
def full_disk(monkeypatch):
    """Let nothing be written to journals."""

    def write(file, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(journal, "os", SimpleNamespace(**{**vars(os), "write": write}))
        yield


def standing(gateway, session):
    state = gateway.get(f"{session}/env/state")
    return state["step_count"], state["state_hash"], state["terminated"], state["truncated"]


def test_what_cannot_be_written_has_not_happened_and_what_is_acknowledged_is_written(
    model, engine, tmp_path, monkeypatch
):
    with talking(model, engine, env=SOKOBAN, journal=tmp_path, env_options={"max_steps": 4}) as gateway:
        session = gateway.begin(index=0)
        gateway.say(session, "Which way?")
        for action in ("up", "left", "down"):
            gateway.post(f"{session}/env/step", action=action)
            before = standing(gateway, session), gateway.get(session)
            with full_disk(monkeypatch):
                for path, body in (
                    (f"{session}/env/step", {"action": "right"}),
                    (f"{session}/v1/chat/completions", {"messages": [ASKED]}),
                    ("/sessions", {"session_id": "new"}),
                ):
                    status, answer = gateway.ask(path, body)
                    assert (status, "no" in str(answer).lower()) == (503, True)
            assert (standing(gateway, session), gateway.get(session)) == before
        (listed,) = gateway.get("/sessions")
        assert listed["step_count"] == 3
    with talking(model, engine, env=SOKOBAN, journal=tmp_path, env_options={"max_steps": 4}) as gateway:
        assert (standing(gateway, session), gateway.get(session)) == before
        assert gateway.post(f"{session}/env/step", action="up")["truncated"]


def test_a_session_is_not_deleted_during_a_step(model, engine, tmp_path):
    with talking(model, engine, env=SOKOBAN, journal=tmp_path) as gateway, ThreadPoolExecutor(1) as thread:
        service, stepped, refused = gateway.gateway.env, threading.Event(), threading.Event()
        handle = service.handle

        async def slow(client, kind, *arguments):
            reply = await handle(client, kind, *arguments)
            if kind == "step":
                stepped.set()
                await asyncio.to_thread(refused.wait, 60)
            return reply

        session = gateway.begin(index=0)
        service.handle = slow
        step = thread.submit(gateway.ask, f"{session}/env/step", {"action": "up"})
        assert stepped.wait(60)
        assert gateway.ask(session, method="DELETE")[0] == 409
        refused.set()
        assert step.result(60)[0] == 200
        assert gateway.ask(session, method="DELETE")[0] == 200
    assert list(tmp_path.iterdir()) == []


def test_a_session_takes_nothing_before_it_is_written(gateway, pool, monkeypatch):
    checks, written = threading.Event(), threading.Event()

    def check(**values):
        checks.set()
        assert written.wait(60)

    monkeypatch.setattr(pool, "check", check)
    with ThreadPoolExecutor(1) as thread:
        begun = thread.submit(gateway.begin, session_id="mine", index=0)
        assert checks.wait(60)
        for path, body in (("env/step", {"action": "up"}), ("v1/chat/completions", {"messages": [ASKED]})):
            assert gateway.ask(f"/sessions/mine/{path}", body)[0] == 409
        written.set()
        gateway.say(begun.result(60), "Which way?")
