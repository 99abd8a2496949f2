"""Turns of clients, and the environment server under one that sends and never reads."""

import asyncio
import json
import threading
from contextlib import closing
from http.client import HTTPConnection

from websockets.sync.client import connect

from agentgym.serving.turns import Turns
from tests.serving.playing import WAIT, serving


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
    message = json.dumps({"type": "state"}).encode()
    frame = bytes([0x81, 0x80 | len(message), 0, 0, 0, 0]) + message
    playing, sent, kinds = threading.Event(), threading.Event(), []
    with serving(sessions=2, rate=1_000_000) as server:
        handle = server.service.handle

        def counted(client, kind, data):
            kinds.append(kind)
            playing.set()
            assert sent.wait(WAIT)
            return handle(client, kind, data)

        monkeypatch.setattr(server.service, "handle", counted)
        with connect(server.socket) as socket, closing(HTTPConnection(server.address, timeout=WAIT)) as other:
            socket.socket.sendall(frame * 4_000)
            assert playing.wait(WAIT)
            other.request("POST", "/reset", b"{}")  # is in the kernel when this returns
            sent.set()
            assert other.getresponse().status == 200
    assert kinds.index("reset") < 100
