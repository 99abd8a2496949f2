"""The environment server over HTTP: OpenEnv's routes, many sessions a message, limits, refusals."""

import asyncio
import base64
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing

import gymnasium
import pytest

from agentgym.core.types import Snapshot
from agentgym.errors import UsageError
from agentgym.registration import open_env
from agentgym.serving.env.app import make_app
from agentgym.serving.env.service import EnvService
from agentgym.serving.env.sessions import EnvLimits, EnvSessions, SessionError
from agentgym.serving.hosts import HostGuard
from tests.serving.playing import WAIT, serving
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


def begin(server, **data):
    return server.play("reset", **data)["metadata"]["session_id"]


def test_an_episode_over_http_is_the_environments_own(server):
    env = open_env("agentgym/Sokoban-v0")
    seen, info = env.reset(seed=3)
    answer = server.play("reset", seed=3, episode_id="mine", instructions=False)
    metadata = answer.pop("metadata")
    session, snapshot = metadata.pop("session_id"), base64.b64decode(metadata.pop("snapshot"))
    assert answer == {
        "observation": {"text": seen},
        "reward": None,
        "done": False,
        "terminated": False,
        "truncated": False,
    }
    assert metadata == info | {"admissible_actions": list(info["admissible_actions"]), "episode_id": "mine"}
    assert env.restore(Snapshot.from_bytes(snapshot))[0] == seen
    for action in ("up", "no such action", "left"):
        seen, reward, terminated, truncated, info = env.step(action)
        answer = server.play("step", action={"action": action}, session_id=session)
        assert (answer["observation"]["text"], answer["reward"]) == (seen, reward)
        assert (answer["terminated"], answer["truncated"], answer["done"]) == (terminated, truncated, False)
        assert answer["metadata"]["state_hash"] == info["state_hash"]
        assert answer["metadata"]["action_is_valid"] is info["action_is_valid"]
    status, state = server.ask(f"state?session_id={session}", method="GET")
    assert (status, state["episode_id"], state["step_count"]) == (200, "mine", 3)
    assert state["state_hash"] == info["state_hash"]
    assert state["measures"] == env.measures()


def test_what_is_served_is_described(server):
    assert server.ask("health", method="GET") == (200, {"status": "healthy"})
    schema = server.ask("schema", method="GET")[1]
    assert schema["action"]["required"] == ["action"]
    assert list(schema["action"]["properties"]) == ["action"]
    assert schema["observation"]["properties"]["text"] == {"type": "string"}
    assert server.ask("metadata", method="GET")[1]["name"] == "agentgym/Sokoban-v0"
    about = server.ask("environment", method="GET")[1]
    assert (about["tasks"], about["options"]) == (10_000, {"split": "train"})
    assert "/step" in server.ask("openapi.json", method="GET")[1]["paths"]


def test_tasks_are_named_by_id_index_or_source(server):
    tasks = open_env("agentgym/Sokoban-v0").tasks
    status, listed = server.ask("agentgym/Sokoban-v0/task_range", {"split": "train", "start": 1, "stop": 3})
    assert status == 200
    assert [task["id"] for task in listed["tasks"]] == [tasks[1].id, tasks[2].id]
    for named in ({"task": tasks[2].id}, {"task": tasks[2].source_id}, {"split": "train", "index": 2}):
        assert server.play("reset", **named)["metadata"]["task_id"] == tasks[2].id
    assert server.ask("list_environments", method="GET")[1] == ["agentgym/Sokoban-v0"]
    assert server.ask("agentgym/Sokoban-v0/num_tasks", {"split": "train"})[1] == {"num_tasks": 10_000}
    assert (
        server.ask("agentgym/Sokoban-v0/task", {"split": "train", "index": 2})[1]["task"]["id"] == tasks[2].id
    )
    late = {"split": "train", "index": 10_000}
    for kind, data in (("num_tasks", {"split": "test"}), ("task", late), ("task", 3)):
        assert server.ask(f"agentgym/Sokoban-v0/{kind}", data)[0] == 422
    assert server.ask("agentgym/Sokoban-v0/task_range", {"split": "train"})[0] == 422
    assert server.ask("agentgym/Chess-v0/num_tasks", {"split": "train"})[0] == 404


def test_many_sessions_are_reset_and_stepped_by_one_message(server):
    envs = [open_env("agentgym/Sokoban-v0") for _ in range(3)]
    seen = [env.reset(seed=seed)[0] for seed, env in enumerate(envs)]
    answer = server.play("reset_many", sessions=[None] * 3, seeds=[0, 1, 2])
    assert answer["observation"] == {"text": seen}
    sessions = answer["metadata"]["session_id"]
    actions = ["up", "left", "down"]
    moved = [env.step(action) for env, action in zip(envs, actions, strict=True)]
    answer = server.play("step_many", sessions=sessions, actions=actions, turns=[0, 0, 0])
    assert answer["observation"]["text"] == [each[0] for each in moved]
    assert answer["reward"] == [each[1] for each in moved]
    assert answer["metadata"]["state_hash"] == [each[4]["state_hash"] for each in moved]
    assert answer["done"] == answer["terminated"] == [False] * 3
    # some of them, in another order, and a group of one task
    answer = server.play("step_many", sessions=sessions[::-2], actions=["up", "up"])
    assert answer["metadata"]["turn"] == [2, 2]
    task = envs[0].task.id
    answer = server.play("reset_many", sessions=[sessions[1], None], tasks=[task, task], rollouts=[0, 1])
    assert len(set(answer["metadata"]["state_hash"])) == 1
    ended = [*sessions, answer["metadata"]["session_id"][1]]
    assert server.play("close_many", sessions=ended) == {"sessions": 4}
    assert server.ask("step", {"action": "up", "session_id": sessions[0]})[0] == 404


def test_a_snapshot_crosses_the_wire_into_any_session(server):
    first = begin(server, seed=1, instructions=False)
    server.play("step", action="up", session_id=first)
    held = server.play("snapshot", session_id=first)["snapshot"]
    ahead = server.play("step", action="left", session_id=first)
    for session in (first, None, begin(server, instructions=False)):
        back = server.play("restore", snapshot=held, **({} if session is None else {"session_id": session}))
        again = server.play("step", action="left", session_id=back["metadata"]["session_id"])
        assert again["metadata"]["state_hash"] == ahead["metadata"]["state_hash"]
        assert (again["reward"], again["observation"]) == (ahead["reward"], ahead["observation"])


@pytest.fixture(scope="module")
def finished(server):
    """Return a session whose episode is over."""
    with serving(options={"max_steps": 1}) as short:
        session = begin(short, snapshot=False)
        assert short.play("step", action="up", session_id=session)["done"]
        yield short, session


@pytest.mark.parametrize("kind", ["step", "step_many"])
def test_finished_sessions_play_on_only_after_a_reset(finished, kind):
    short, session = finished
    message = {
        "step": {"action": "up", "session_id": session},
        "step_many": {"sessions": [session, begin(short)], "actions": ["up", "up"]},
    }[kind]
    status, answer = short.ask(kind, message)
    assert (status, answer["error"]) == (409, f"session {session}: its episode is over: reset it")
    if kind == "step_many":  # the other one has not moved
        assert short.play("state", session_id=message["sessions"][1])["step_count"] == 0
    assert short.play("state", session_id=session)["truncated"] is True


REFUSED = [
    ("step", {"action": "up"}, 422, "name a session"),
    ("step", {"action": "up", "session_id": "0" * 32}, 404, "no session '000"),
    ("step", {"action": 3, "session_id": "SESSION"}, 422, "action: expected a string, got 3"),
    ("step", {"session_id": "SESSION"}, 422, "key 'action' is missing"),
    ("step", {"action": "up", "session_id": "SESSION", "turn": 7}, 409, "it is at step 0, not 7"),
    ("step", {"action": "up", "sesion_id": "x"}, 422, "unknown key 'sesion_id' (did you mean 'session_id'?)"),
    ("step", [], 422, "expected a table"),
    ("step_many", {"sessions": ["SESSION"] * 2, "actions": ["up"] * 2}, 422, "each once"),
    ("step_many", {"sessions": [], "actions": []}, 422, "at least one session"),
    ("step_many", {"sessions": ["SESSION"], "actions": []}, 422, "as many actions"),
    ("step_many", {"sessions": ["SESSION", "x"], "actions": ["up", "up"]}, 404, "no session 'x'"),
    ("reset", {"task": "no such task"}, 422, "no task 'no such task' in split 'train'"),
    ("reset", {"seed": -1}, 422, "seed"),
    ("reset", {"split": "test"}, 422, "is not served here"),
    ("reset", {"index": 10_000}, 422, "index is from 0 to 9,999"),
    ("reset", {"episode_id": "x" * 256}, 422, "at most 255 characters"),
    ("reset_many", {"sessions": [None] * 65}, 503, "sessions are in use"),
    ("reset_many", {"sessions": [None], "seeds": [1, 2]}, 422, "seeds"),
    ("restore", {"snapshot": "%%%"}, 422, "not base64"),
    ("restore", {"snapshot": "aGVsbG8="}, 422, "no bytes of a snapshot"),
    ("restore", b"[", 422, "not JSON"),
    ("reset", b'{"seed": "\xff"}', 422, "not UTF-8"),
    ("reset", b"[" * 100_000, 422, "nested more than 64 deep"),
    ("reset", b" " * ((4 << 20) + 1), 413, "at most 4,194,304 bytes"),
    ("reset", b" " * (50 << 20), 413, "at most 4,194,304 bytes"),
    ("jump", {}, 404, "no such route"),
]


@pytest.mark.parametrize(("kind", "body", "status", "line"), REFUSED)
def test_what_cannot_be_done_is_refused_in_a_line_and_nothing_changes(server, kind, body, status, line):
    session = begin(server, snapshot=False)
    before, sessions = server.play("state", session_id=session), len(server.service.sessions)
    if not isinstance(body, bytes):
        body = json.loads(json.dumps(body).replace("SESSION", session))
    found, answer = server.ask(kind, body)
    assert (found, line in answer["error"]) == (status, True), answer
    assert "\n" not in answer["error"]
    assert len(answer["error"]) < 300
    assert server.play("state", session_id=session) == before
    assert len(server.service.sessions) == sessions
    server.play("close_many", sessions=[session])


def test_a_foreign_snapshot_leaves_the_session_as_it_was(server):
    session = begin(server, seed=2)
    before = server.play("state", session_id=session)
    other = open_env("agentgym/EZPoints-v0")
    other.reset(seed=0)
    held = base64.b64encode(other.snapshot().to_bytes()).decode()
    status, answer = server.ask("restore", {"session_id": session, "snapshot": held})
    assert (status, "cannot restore a snapshot of suite 'ezpoints'" in answer["error"]) == (422, True)
    assert server.play("state", session_id=session) == before


@pytest.mark.parametrize(
    ("headers", "status", "line"),
    [
        ({"Host": "evil.example"}, 421, "this site is not known as 'evil.example'"),
        ({"Origin": "http://evil.example"}, 403, "pages of other sites may not play here"),
        ({"Host": "env.example"}, 200, ""),
    ],
)
def test_other_sites_and_names_are_refused(headers, status, line):
    with serving(sessions=2, allowed_hosts=("env.example",)) as server:
        found, answer = server.ask("reset", {}, headers=headers)
        assert (found, line in str(answer)) == (status, True)
        for kind in ("openapi.json", "health", "schema", "nothing"):
            refused = server.ask(kind, method="GET", headers=headers)[0] == 421
            assert refused == (headers.get("Host") == "evil.example"), kind


def test_a_token_is_asked_for_where_one_is_set():
    with serving(sessions=2, token="open sesame") as server:
        for headers in ({}, {"Authorization": "Bearer open sesam"}, {"Authorization": "open sesame"}):
            for kind, method in (
                ("reset", "POST"),
                ("environment", "GET"),
                ("openapi.json", "GET"),
                ("nothing", "GET"),
                ("state", "GET"),
                ("mcp", "POST"),
            ):
                status, answer = server.ask(kind, b"{}", method=method, headers=headers)
                assert (status, "asks for a token" in answer["error"]) == (401, True)
        assert server.ask("reset", {}, headers={"Authorization": "Bearer open sesame"})[0] == 200
        assert server.ask("health", method="GET")[0] == 200
        assert len(server.service.sessions) == 1


def test_an_address_that_sends_too_much_is_told_to_wait():
    with serving(sessions=2, rate=3) as server:
        statuses = [server.ask("environment", method="GET")[0] for _ in range(5)]
        assert statuses[:3] == [200] * 3
        assert 429 in statuses[3:]


def test_sessions_that_are_left_alone_end_and_make_room():
    with serving(sessions=2, idle=0.2) as server:
        left = begin(server)
        wait_until(lambda: not len(server.service.sessions))
        status, answer = server.ask("step", {"action": "up", "session_id": left})
        assert (status, "idle too long" in answer["error"]) == (404, True)
        assert [server.ask("reset", {})[0] for _ in range(2)] == [200, 200]


def test_a_session_in_use_does_not_end():
    now = [0.0]
    with serving(sessions=3) as server:
        sessions = EnvSessions(server.service.envs, EnvLimits(idle=10), clock=lambda: now[0])
        for _ in range(2):
            list(sessions.reset([None]))  # waits for nothing
        busy, idle = sessions.ids()
        now[0] = 9.0
        sessions.find(busy)
        now[0] = 11.0
        assert sessions.expire() == 1
        assert (busy in sessions, idle in sessions) == (True, False)
        with pytest.raises(SessionError, match="no session"):
            list(sessions.step([busy, idle], ["up", "up"]))


def test_slow_clients_are_let_go():
    with serving(sessions=2, patience=0.2, idle=0.5) as server:
        host, _, port = server.address.partition(":")
        for sent, status in (
            (b"", b""),
            (b"POST /reset HTTP/1.1\r\nHost: 127", b""),
            (b"POST /reset HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{", b"408"),
        ):
            with socket.create_connection((host, int(port)), timeout=WAIT) as connection:
                connection.sendall(sent)
                answer = b"".join(iter(lambda: connection.recv(65_536), b""))
                assert status in answer.partition(b"\r\n")[0]
        assert server.ask("health", method="GET")[0] == 200


def test_a_broken_engine_is_a_line_and_the_server_goes_on(server, monkeypatch):
    session = begin(server)
    slot = server.service.sessions.find(session).slot
    monkeypatch.setattr(server.service.envs.envs[slot], "step", lambda action: 1 / 0)
    status, answer = server.ask("step", {"action": "up", "session_id": session})
    assert (status, "step failed (ZeroDivisionError)" in answer["error"]) == (500, True)
    monkeypatch.undo()
    assert server.ask("step", {"action": "up", "session_id": session})[0] == 200


def rpc(server, method, params=None, number=1):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}
    status, answer = server.ask("mcp", message)
    assert (status, answer["jsonrpc"], answer["id"]) == (200, "2.0", number)
    return answer


def test_tools_are_listed_and_called(server):
    (tool,) = rpc(server, "tools/list")["result"]["tools"]
    assert (tool["name"], tool["inputSchema"]["required"]) == ("move", ["direction"])
    session = rpc(server, "openenv/session/create", {"seed": 4})["result"]["session_id"]
    asked = {"name": "move", "arguments": {"direction": "up"}, "session_id": session}
    result = rpc(server, "tools/call", asked)["result"]
    env = open_env("agentgym/Sokoban-v0")
    env.reset(seed=4)
    assert result["content"] == [{"type": "text", "text": env.step("up")[0]}]
    assert result["structuredContent"]["metadata"]["state_hash"] == env.state_hash()
    assert rpc(server, "openenv/session/close", {"session_id": session})["result"]["closed"] is True
    for method, params, code in (
        ("tools/call", asked, -32602),
        ("tools/call", {"name": "jump", "arguments": {}, "session_id": session}, -32602),
        ("tools/call", {"name": "move", "arguments": []}, -32602),
        ("tools/call", {"name": "move", "arguments": {"direction": "up"}, "session_id": 3}, -32602),
        ("prompts/list", {}, -32601),
    ):
        assert rpc(server, method, params)["error"]["code"] == code
    for odd in ({"name": "move", "arguments": []}, {"name": 3, "arguments": {}}):
        told = rpc(server, "tools/call", odd)["error"]["message"]
        assert told == "tools/call takes a name and an object of arguments"
    assert server.ask("mcp", {})[1]["error"]["code"] == -32600


def test_observations_state_rules_task_and_possible_actions_unless_they_are_not_wanted(server):
    first = server.play("reset", seed=4)
    session, shown = first["metadata"]["session_id"], first["observation"]
    assert shown["instructions"].startswith("You are playing Sokoban: push every box onto a target.")
    assert shown["text"] in shown["instructions"]
    assert shown["instructions"].endswith("Possible actions:\nup, down, left, right")
    second = server.play("step", action="up", session_id=session)["observation"]
    assert "after 1 turns" in second["instructions"]
    assert "You are playing" not in second["instructions"]
    assert server.play("reset", seed=4, instructions=False)["observation"] == {"text": shown["text"]}
    schema = server.ask("schema", method="GET")[1]
    (tool,) = schema["action"]["available_tools"]
    assert (tool["name"], tool["input_schema"]["required"]) == ("move", ["direction"])
    assert schema["observation"]["properties"].keys() >= shown.keys()


def test_the_actions_of_openenvs_tool_clients_are_steps(server):
    listed = server.play("step", action={"type": "list_tools", "metadata": {}})
    assert [tool["name"] for tool in listed["observation"]["tools"]] == ["move"]
    session = begin(server, seed=4)
    env = open_env("agentgym/Sokoban-v0")
    env.reset(seed=4)

    def call(name, **arguments):
        action = {"type": "call_tool", "tool_name": name, "arguments": arguments}
        return server.play("step", action=action, session_id=session)

    for name, arguments, kind in (
        ("jump", {}, "tool_not_found"),
        ("move", {"direction": "sideways"}, "invalid_args"),
        ("move", {}, "invalid_args"),
    ):
        refused = call(name, **arguments)
        assert (refused["observation"]["error"]["error_type"], refused["reward"]) == (kind, 0.0)
    seen, reward, _, _, info = env.step("left")
    row = call("move", direction="left")
    assert (row["reward"], row["metadata"]["state_hash"]) == (reward, info["state_hash"])
    assert row["observation"]["tool_name"] == "move"
    assert seen in row["observation"]["result"]
    status, answer = server.ask("step", {"action": {"type": "call_tol"}, "session_id": session})
    assert (status, "list_tools" in answer["error"]) == (422, True)


def test_a_client_of_the_protocol_begins_plays_and_ends_a_session(server):
    asked = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
    with closing(http.client.HTTPConnection(server.address, timeout=WAIT)) as connection:
        connection.request("POST", "/mcp?seed=4", json.dumps(asked).encode())
        response = connection.getresponse()
        own = {"Mcp-Session-Id": response.headers["Mcp-Session-Id"]}
        begun = json.loads(response.read())["result"]
    env = open_env("agentgym/Sokoban-v0")
    observation, info = env.reset(seed=4)
    assert begun["protocolVersion"] == "2025-06-18"
    assert observation in begun["instructions"]
    assert all(action in begun["instructions"] for action in info["admissible_actions"])
    call = {"name": "move", "arguments": {"direction": info["admissible_actions"][0]}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    result = server.ask("mcp", asked, headers=own)[1]["result"]
    assert env.step(info["admissible_actions"][0])[0] in result["content"][0]["text"]
    assert result["structuredContent"]["metadata"]["state_hash"] == env.state_hash()
    assert "instructions" not in result["structuredContent"]["observation"]  # they are the text
    asked["params"] = {"name": "move", "arguments": {"direction": "sideways"}}
    refused = server.ask("mcp", asked, headers=own)[1]["result"]
    assert refused["isError"] is True
    assert refused["content"][0]["text"].endswith("'direction' is not one of up, down, left, right")
    asked["params"] = {"name": "jump"}
    assert server.ask("mcp", asked, headers=own)[1]["error"]["code"] == -32602
    assert server.ask("mcp", method="DELETE", headers=own)[1]["closed"] is True
    assert server.ask("mcp", method="DELETE", headers=own)[0] == 404


@pytest.mark.parametrize("query", ["seed=" + "9" * 5000, "seed=up", "index=-1", "task=none", "seed="])
def test_a_session_that_cannot_begin_is_refused_and_nothing_fails(server, query):
    asked = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
    status, answer = server.ask(f"mcp?{query}", asked)
    assert status == 200
    assert answer["error"]["code"] == -32602


def test_limits_let_something_through():
    with pytest.raises(UsageError, match="limits: idle must be a number above 0, got 0"):
        EnvLimits(idle=0)


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    words = ["serve", "env", "agentgym/EZPoints-v0", "--split", "test", "--port", "0", "--token", str(token)]
    command = [sys.executable, "-m", "agentgym", *words, "--limit", "sessions=3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        line = run.stdout.readline()
        address = re.search(r"http://(127\.0\.0\.1:\d+)", line)[1]
        with closing(http.client.HTTPConnection(address, timeout=WAIT)) as connection:
            connection.request("GET", "/environment", headers={"Authorization": "Bearer secret"})
            about = json.loads(connection.getresponse().read())
        os.kill(run.pid, signal.SIGINT)
        assert run.wait(WAIT) == 0
        assert run.stdout.read() == "closed\n"
    assert (about["id"], about["options"]["split"]) == ("agentgym/EZPoints-v0", "test")
    assert about["limits"]["sessions"] == 3


def test_a_registered_limit_of_steps_is_served_and_gives_way_to_max_steps():
    env_id = "served/Brief-v0"
    gymnasium.register(env_id, entry_point="tests.corridor:CorridorEnv", max_episode_steps=3)
    try:
        plain = EnvService.open(env_id, EnvLimits(sessions=1))
        longer = EnvService.open(env_id, EnvLimits(sessions=1), options={"max_steps": 5})
    finally:
        del gymnasium.registry[env_id]
    assert (plain.envs.max_steps, longer.envs.max_steps) == (3, 5)


def test_a_route_that_fails_answers_with_a_line_and_500():
    service, sent = EnvService.open("agentgym/EZPoints-v0", EnvLimits(sessions=1)), []
    service.metadata = lambda: 1 / 0
    scope = {
        "type": "http", "method": "GET", "path": "/metadata", "raw_path": b"/metadata", "query_string": b"",
        "headers": [(b"host", b"localhost")], "http_version": "1.1", "scheme": "http", "root_path": "",
    }  # fmt: skip

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    with pytest.raises(ZeroDivisionError):  # passed on to the server, which prints it
        asyncio.run(make_app(service, HostGuard("127.0.0.1"), None)(scope, receive, send))
    line = "the request failed (ZeroDivisionError): see what the server printed"
    assert (sent[0]["status"], json.loads(sent[1]["body"])) == (500, {"error": line})
