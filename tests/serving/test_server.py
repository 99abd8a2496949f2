"""The server under the sites: requests that no form sends."""

import socket
import threading
from contextlib import closing

import pytest

from agentgym.errors import UsageError
from agentgym.serving.server import MOST_BYTES, HttpRequest, HttpResponse, SiteServer


@pytest.fixture
def echo():
    """A server that answers with what it was asked, and a function that sends it bytes."""
    asked: list[HttpRequest] = []

    def answer(request):
        asked.append(request)
        return HttpResponse(200, b"answer")

    server = SiteServer("127.0.0.1", 0, answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()

    def send(data):
        with closing(socket.create_connection(server.server_address, timeout=30)) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            received = b""
            while part := connection.recv(65_536):
                received += part
        return received

    yield asked, send
    server.shutdown()
    thread.join()
    server.server_close()


def test_fields_and_cookies_are_read(echo):
    asked, send = echo
    body = b"a=1&b=%C3%A9+x&a=2&empty="
    head = (
        b"POST /act?ignored=1 HTTP/1.1\r\nHost: x\r\nCookie: visit=abc; other=d\r\nContent-Length: 25\r\n\r\n"
    )
    assert send(head + body).endswith(b"\r\n\r\nanswer")
    send(b"GET /p?q=%2Fx&q=y HTTP/1.0\r\n\r\n")
    assert asked == [
        HttpRequest("POST", "/act", {"a": "2", "b": "é x", "empty": ""}, {"visit": "abc", "other": "d"}),
        HttpRequest("GET", "/p", {"q": "y"}, {}),
    ]


def test_a_connection_serves_several_requests(echo):
    asked, send = echo
    received = send(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n")
    assert received.count(b"HTTP/1.1 200") == 2
    assert [request.path for request in asked] == ["/a", "/b"]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"POST /act HTTP/1.1\r\n\r\n", b"411"),
        (b"POST /act HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"411"),
        (b"POST /act HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"411"),
        (b"POST /act HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MOST_BYTES + 1), b"413"),
        (b"POST /act HTTP/1.1\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n", b"413"),
        (b"PUT / HTTP/1.1\r\n\r\n", b"501"),
        (b"GET /?" + b"&".join(b"%d=" % i for i in range(101)) + b" HTTP/1.1\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nCookie: a[\x01]=1\r\n\r\n", b"200"),
        (b"GET http://[x HTTP/1.1\r\n\r\n", b"200"),
    ],
)
def test_odd_requests_get_an_answer(echo, data, status):
    _, send = echo
    first = send(data).split(b"\r\n")[0]
    assert status in first


def test_an_address_that_cannot_be_had(echo):
    with pytest.raises(UsageError, match="ports end at 65535"):
        SiteServer("127.0.0.1", 70_000, lambda request: HttpResponse(200))
    with pytest.raises(
        UsageError, match=r"cannot listen on 192\.0\.2\.1:0: .*; choose another --port or --host"
    ):
        SiteServer("192.0.2.1", 0, lambda request: HttpResponse(200))


def test_the_address_of_ipv6_is_written_in_brackets():
    try:
        server = SiteServer("::1", 0, lambda request: HttpResponse(200))
    except UsageError:  # a machine without IPv6
        return
    with server:
        assert server.url == f"http://[::1]:{server.server_port}/"
