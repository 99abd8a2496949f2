"""Real connections: answers over a socket, and connections that are cut before, in and after the headers."""

import json
import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from agentgym.endpoint import Endpoint, EndpointSpec, UnansweredRequestError
from tests.endpoint.fake import asking, completion, delta, events
from tests.waiting import PATIENCE

OK = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\n"


def whole(said=None):
    body = (said or completion("hello")).body
    return OK % b"application/json" + b"content-length: %d\r\n\r\n" % len(body) + body


def chunked(*bodies, end=True):
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(body), body) for body in bodies)
    head = OK % b"text/event-stream" + b"transfer-encoding: chunked\r\n\r\n"
    return head + chunks + (b"0\r\n\r\n" if end else b"")


class Script:
    """A server that says one thing for each connection, in turn, and hangs up."""

    def __init__(self, *said):
        self.said = list(said)
        self.asked: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        for said in self.said:
            connection, _ = self._listener.accept()
            with connection:
                if said is None:  # hung up before anything is read
                    continue
                self.asked.append(self._read(connection))
                if callable(said):
                    said(connection)
                else:
                    connection.sendall(said)

    @staticmethod
    def _read(connection: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65_536)
        head, _, body = data.partition(b"\r\n\r\n")
        [length] = [
            int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        ]
        while len(body) < length:
            body += connection.recv(65_536)
        return body

    def close(self) -> None:
        self._thread.join(PATIENCE)
        self._listener.close()


@contextmanager
def serving(*said, **options):
    server = Script(*said)
    spec = EndpointSpec.of({"url": server.url, "model": "tiny", "first_pause": 0.001, **options})
    endpoint = Endpoint(spec)
    try:
        yield endpoint, server
    finally:
        endpoint.close()
        server.close()


def test_an_answer_over_a_socket():
    with serving(whole()) as (endpoint, server):
        [reply] = endpoint.ask([asking("hä?")])
    assert reply.text == "hello"
    assert json.loads(server.asked[0])["messages"] == [{"role": "user", "content": "hä?"}]


STREAM = [events(delta(content="hel"), done=False).body, events(delta("stop", content="lo")).body]


def test_a_stream_over_a_socket():
    with serving(chunked(*STREAM), stream=True) as (endpoint, _):
        assert endpoint.ask([asking()])[0].text == "hello"


CUT = {
    "before the request is read": None,
    "before the headers": b"",
    "in the headers": b"HTTP/1.1 200 OK\r\ncontent-ty",
    "in the body": whole()[:-10],
    "in no HTTP": b"what?\r\n\r\n",
}


@pytest.mark.parametrize("cut", CUT)
def test_a_connection_that_is_cut_is_made_again(cut):
    with serving(CUT[cut], whole()) as (endpoint, _):
        [reply] = endpoint.ask([asking()])
    assert (reply.text, reply.retries) == ("hello", 1)


@pytest.mark.parametrize(
    "cut",
    [chunked(STREAM[0], end=False), chunked(*STREAM, end=False)[:-30], chunked(STREAM[0])],
    ids=["between events", "within an event", "with an end that is none"],
)
def test_a_stream_that_is_cut_is_never_half_an_answer(cut):
    with serving(cut, chunked(*STREAM), stream=True) as (endpoint, _):
        [reply] = endpoint.ask([asking()])
    assert (reply.text, reply.retries) == ("hello", 1)


@pytest.mark.parametrize("status", [b"200 OK", b"500 Error"])
def test_a_stream_of_single_bytes_has_the_time_of_one_answer(status):
    def drip(connection):
        connection.sendall(chunked(end=False).replace(b"200 OK", status))
        with suppress(OSError):  # the client goes
            while True:
                connection.sendall(b"1\r\nx\r\n")
                time.sleep(0.01)

    with (
        serving(drip, stream=True, timeout=2.0, attempts=3) as (endpoint, _),
        pytest.raises(UnansweredRequestError, match=r"in 1 attempt: no whole .* 2 s, though it began"),
    ):
        endpoint.ask([asking()])


def test_a_server_that_is_away():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    spec = EndpointSpec(f"http://127.0.0.1:{port}/v1", "tiny", attempts=2, first_pause=0.001)
    endpoint = Endpoint(spec)
    with pytest.raises(UnansweredRequestError, match="gave no answer in 2 attempts: Connect") as error:
        endpoint.ask([asking()])
    endpoint.close()
    assert "\n" not in str(error.value)
