"""The environment server's WebSocket, as OpenEnv's clients speak to it."""

import json
import logging

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from agentgym.registration import open_env
from tests.serving.playing import WAIT, serving
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


def say(socket, kind, data=None):
    """Send a message and return the type and data of the answer."""
    socket.send(json.dumps({"type": kind, **({} if data is None else {"data": data})}))
    answer = json.loads(socket.recv(WAIT))
    return answer["type"], answer["data"]


def test_a_connection_plays_a_session_of_its_own(server):
    env = open_env("agentgym/Sokoban-v0")
    count = len(server.service.sessions)
    with connect(server.socket) as socket:
        assert say(socket, "state") == ("state", {"episode_id": None, "step_count": 0})
        for seed in (1, 2):
            kind, data = say(socket, "reset", {"seed": seed, "episode_id": f"e{seed}", "instructions": False})
            seen, info = env.reset(seed=seed)
            assert (kind, data["observation"], data["reward"]) == ("observation", {"text": seen}, None)
            assert data["metadata"]["state_hash"] == info["state_hash"]
            seen, reward, _, _, info = env.step("up")
            kind, data = say(socket, "step", {"action": "up"})
            assert (data["observation"], data["reward"], data["done"]) == ({"text": seen}, reward, False)
            assert data["metadata"]["state_hash"] == info["state_hash"]
            kind, state = say(socket, "state")
            assert (kind, state["episode_id"], state["step_count"]) == ("state", f"e{seed}", 1)
        held = say(socket, "snapshot")[1]["snapshot"]
        assert say(socket, "restore", {"snapshot": held})[1]["metadata"]["state_hash"] == info["state_hash"]
        tools = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert say(socket, "mcp", tools)[1]["result"]["tools"][0]["name"] == "move"
        assert len(server.service.sessions) == count + 1
        socket.send('{"type": "close"}')
        with pytest.raises(ConnectionClosed):
            socket.recv(WAIT)
    wait_until(lambda: len(server.service.sessions) == count)


def test_a_connection_that_breaks_off_ends_its_session_without_a_word(server, caplog):
    caplog.set_level(logging.ERROR)
    count = len(server.service.sessions)
    with connect(server.socket) as socket:
        say(socket, "reset")
        socket.send('{"type": "step", "data": {"action": "up"}}')
        socket.socket.close()
    wait_until(lambda: len(server.service.sessions) == count)
    assert caplog.records == []


def test_what_cannot_be_done_is_an_error_and_the_session_goes_on(server):
    with connect(server.socket) as socket:
        say(socket, "reset", {"seed": 1})
        for text, code in (
            ("{", "INVALID_JSON"),
            ("[]", "VALIDATION_ERROR"),
            ('{"type": "jump"}', "UNKNOWN_TYPE"),
            ('{"type": 3}', "UNKNOWN_TYPE"),
            ('{"type": "step", "data": {"action": 3}}', "VALIDATION_ERROR"),
            ('{"type": "step", "data": {"action": "up", "session_id": "x"}}', "SESSION_ERROR"),
            ('{"type": "restore", "data": {"snapshot": "eA=="}}', "VALIDATION_ERROR"),
        ):
            socket.send(text)
            answer = json.loads(socket.recv(WAIT))
            assert (answer["type"], answer["data"]["code"]) == ("error", code)
            assert "\n" not in answer["data"]["message"]
        socket.send(b'{"type": "step", "data": {"action": "up"}}')
        assert json.loads(socket.recv(WAIT))["data"]["metadata"]["turn"] == 1


def test_a_session_begun_elsewhere_is_played_by_one_connection(server):
    session = server.play("reset", seed=5)["metadata"]["session_id"]
    named = f"{server.socket}?session_id={session}"
    with connect(named) as socket:
        assert say(socket, "step", {"action": "up"})[1]["metadata"]["turn"] == 1
        with connect(named) as second:
            assert "played by another WebSocket" in json.loads(second.recv(WAIT))["data"]["message"]
        with connect(f"{server.socket}?session_id=none") as third:
            assert json.loads(third.recv(WAIT))["data"]["code"] == "SESSION_ERROR"
        assert say(socket, "step", {"action": "up"})[1]["metadata"]["turn"] == 2
        own = say(socket, "reset")[1]["metadata"]["session_id"]
        assert own == session
    with connect(server.socket) as socket:  # a session that it begins is its own as well
        own = say(socket, "reset")[1]["metadata"]["session_id"]
        with connect(f"{server.socket}?session_id={own}") as second:
            assert "played by another WebSocket" in json.loads(second.recv(WAIT))["data"]["message"]
        assert say(socket, "step", {"action": "up"})[1]["metadata"]["turn"] == 1
    wait_until(lambda: not server.service.sessions.find(session).attached)
    assert server.play("state", session_id=session)["step_count"] == 0


def test_refusals_come_before_the_connection():
    with serving(sessions=1, token="secret") as server:
        allowed = {"Authorization": "Bearer secret"}
        for headers, status in (
            ({}, 401),
            (allowed | {"Origin": "http://evil.example"}, 403),
            (allowed | {"Sec-Fetch-Site": "cross-site"}, 403),
        ):
            with pytest.raises(InvalidStatus) as refused, connect(server.socket, additional_headers=headers):
                pass
            assert refused.value.response.status_code == status
            assert list(json.loads(refused.value.response.body)) == ["error", "code"]
        with connect(server.socket, additional_headers=allowed):
            wait_until(lambda: server.service.sessions is not None)
            with pytest.raises(InvalidStatus) as refused, connect(server.socket, additional_headers=allowed):
                pass
            assert refused.value.response.status_code == 503


def test_full_servers_and_busy_addresses_say_so():
    with serving(sessions=2, rate=20) as server, connect(server.socket) as socket:
        server.play("reset_many", sessions=[None, None])
        assert say(socket, "reset")[1]["code"] == "CAPACITY_REACHED"
        answers = [say(socket, "state")[1] for _ in range(40)]
        assert "at most 20 messages a second" in answers[-1]["message"]


def test_large_messages_and_idle_connections_are_closed():
    with serving(sessions=2, body=1_000, idle=0.3) as server:
        with connect(server.socket) as socket:
            socket.send("x" * 2_000)
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(WAIT)
            assert closed.value.rcvd.code == 1009
        with connect(server.socket) as socket:
            say(socket, "reset", {"snapshot": False})
            assert "no message for 0.3 s" in json.loads(socket.recv(WAIT))["data"]["message"]
            with pytest.raises(ConnectionClosed):
                socket.recv(WAIT)
        wait_until(lambda: len(server.service.sessions) == 0)
