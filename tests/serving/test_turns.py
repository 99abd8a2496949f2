"""Turns of clients, and the environment server under one that sends and never reads."""

import asyncio
import json
import socket
import threading
from collections import deque
from contextlib import closing
from http.client import HTTPConnection
from itertools import repeat

import pytest
from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol
from websockets.sync.client import connect

from agentgym.serving.app_server import READ_SIZE
from agentgym.serving.turns import Turns
from tests.serving.playing import WAIT, serving


def framed(message):
    """Return the frame of a short WebSocket message."""
    text = json.dumps(message).encode()
    return bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text


def taken(*arrivals, costs):
    """Return whose turns they were, of clients that arrive at once; ``costs``: of a turn, by client."""
    now, order = [0.0], []

    async def take(turns, client):
        async with turns.turn(client):
            order.append(client)
            now[0] += costs[client]

    async def main():
        turns = Turns(lambda: now[0])
        await asyncio.gather(*(take(turns, client) for client in arrivals))

    asyncio.run(main())
    return "".join(order)


def test_a_client_that_sends_much_is_after_one_that_sends_little():
    assert taken(*"aaaaaab", costs={"a": 1.0, "b": 1.0}) == "abaaaaa"
    assert taken(*"aaaabbbb", costs={"a": 1.0, "b": 1.0}) == "abababab"


def test_turns_are_shared_by_time_and_not_by_number():
    assert taken(*"aaaabbbb", costs={"a": 3.0, "b": 1.0}) == "abbbabaa"


def test_an_error_gives_the_turn_on():
    async def main():
        turns, done = Turns(), []

        async def take(client):
            async with turns.turn(client):
                done.append(client)
                raise ValueError

        await asyncio.gather(*(take(client) for client in "abc"), return_exceptions=True)
        waiting = asyncio.gather(*(take(client) for client in "def"), return_exceptions=True)
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(take("g"), return_exceptions=True)
        return "".join(done)

    assert asyncio.run(main()) == "abcdg"


def test_a_client_that_sends_without_end_does_not_hold_others_up(monkeypatch):
    frame = framed({"type": "state"})
    playing, sent, kinds = threading.Event(), threading.Event(), []
    with serving(sessions=2, rate=1_000_000) as server:
        handle = server.service.handle

        def counted(client, kind, data, away):
            kinds.append(kind)
            playing.set()
            assert sent.wait(WAIT)
            return handle(client, kind, data, away)

        monkeypatch.setattr(server.service, "handle", counted)
        with connect(server.socket) as client, closing(HTTPConnection(server.address, timeout=WAIT)) as other:
            client.socket.sendall(frame * 4_000)
            assert playing.wait(WAIT)
            other.request("POST", "/reset", b"{}")  # is in the kernel when this returns
            sent.set()
            assert other.getresponse().status == 200
    assert kinds.index("reset") < 100


def test_of_a_connection_no_more_is_read_at_once_than_is_played_soon(monkeypatch):
    received, sizes = AutoWebSocketsProtocol.data_received, []

    def measured(protocol, data):
        sizes.append(len(data))
        received(protocol, data)

    monkeypatch.setattr(AutoWebSocketsProtocol, "data_received", measured)
    with serving(sessions=2, rate=1_000_000) as server, connect(server.socket, max_queue=None) as client:
        client.socket.sendall(framed({"type": "state"}) * 4_000)
        for _ in range(4_000):
            assert json.loads(client.recv(WAIT))["type"] == "state"
    assert max(sizes) <= READ_SIZE


UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has the limit")
def test_a_client_that_never_reads_is_let_go():
    frames = framed({"type": "reset"}) * 1_000
    with serving(sessions=2, rate=1_000_000, idle=1) as server:
        host, _, port = server.address.partition(":")
        with socket.create_connection((host, int(port)), timeout=WAIT) as client:
            client.sendall(UPGRADE)
            assert b" 101 " in client.recv(4_096)
            with pytest.raises(ConnectionError):  # by the server; a TimeoutError would be this socket's own
                deque(map(client.sendall, repeat(frames)), maxlen=0)
        with connect(server.socket) as one, connect(server.socket) as two:  # there is room again
            assert one.protocol is not two.protocol
