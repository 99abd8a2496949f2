"""The server under the sites: requests that no form sends."""

import socket
import threading
from contextlib import closing

import pytest

from agentgym.errors import UsageError
from agentgym.serving.hosts import HostGuard
from agentgym.serving.http_server import MAX_BYTES, MAX_CHARACTERS, HttpRequest, HttpResponse, SiteServer


@pytest.fixture
def echo_of():
    """Return a function that starts a server; that returns what it was asked, and a way to send bytes."""
    started = []

    def start(**options):
        asked: list[HttpRequest] = []

        def answer(request):
            asked.append(request)
            return HttpResponse(200, b"answer")

        server = SiteServer("127.0.0.1", 0, answer, **options)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        started.append((server, thread))

        def send(data):
            with closing(socket.create_connection(server.server_address, timeout=300)) as connection:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                received = b""
                while part := connection.recv(65_536):
                    received += part
            return received

        return asked, send

    yield start
    for server, thread in started:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def echo(echo_of):
    return echo_of()


def test_fields_and_cookies_are_read(echo):
    asked, send = echo
    body = b"a=1&b=%C3%A9+x&a=2&empty="
    head = b"POST /act?ignored=1 HTTP/1.1\r\nHost: localhost\r\n"
    head += b"Cookie: visit=abc; other=d\r\nContent-Length: 25\r\n\r\n"
    assert send(head + body).endswith(b"\r\n\r\nanswer")
    send(b"GET /p?q=%2Fx&q=y HTTP/1.0\r\n\r\n")
    assert asked == [
        HttpRequest("POST", "/act", {"a": "2", "b": "é x", "empty": ""}, {"visit": "abc", "other": "d"}),
        HttpRequest("GET", "/p", {"q": "y"}, {}),
    ]


def test_a_connection_serves_several_requests(echo):
    asked, send = echo
    received = send(b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\nGET /b HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert received.count(b"HTTP/1.1 200") == 2
    assert [request.path for request in asked] == ["/a", "/b"]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"POST /act HTTP/1.1\r\n\r\n", b"411"),
        (b"POST /act HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"411"),
        (b"POST /act HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"411"),
        (b"POST /act HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MAX_BYTES + 1), b"413"),
        (b"POST /act HTTP/1.1\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n", b"413"),
        (b"PUT / HTTP/1.1\r\n\r\n", b"501"),
        (
            b"GET /?" + b"&".join(b"%d=" % i for i in range(21)) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"400",
        ),
        (b"GET /?a=" + b"x" * (MAX_CHARACTERS + 1) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET /?" + b"x" * (MAX_CHARACTERS + 1) + b"= HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET /?a=" + b"x" * MAX_CHARACTERS + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", b"400"),
        (b"HEAD /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: a[\x01]=1\r\n\r\n", b"200"),
        (b"GET http://[x HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200"),
    ],
)
def test_odd_requests_get_an_answer(echo, data, status):
    asked, send = echo
    received = send(data)
    assert status in received.split(b"\r\n")[0]
    assert b"<" not in received  # refusals are a line of plain text
    assert len(asked) == (status == b"200")


WITHIN = b"GET /within HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("line", "lengths"),
    [
        (b"POST /", b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n"),
        (b"POST /", b"Transfer-Encoding: identity\r\n"),
        (b"POST /", b"Content-Length: 0\r\nContent-Length: %d\r\n" % len(WITHIN)),
        (b"GET /", b"Content-Length: %d\r\n" % len(WITHIN)),
        (b"HEAD /", b"Transfer-Encoding: chunked\r\n"),
    ],
)
def test_a_body_is_no_second_request(echo, line, lengths):
    asked, send = echo
    received = send(line + b" HTTP/1.1\r\nHost: localhost\r\n" + lengths + b"\r\n" + WITHIN)
    assert received.count(b"HTTP/1.1 ") == 1
    assert received.startswith(b"HTTP/1.1 400 ")
    assert asked == []


def test_a_head_request_is_answered_as_a_get_without_the_body(echo):
    asked, send = echo
    full, head = (
        send(b"%s /p?q=1 HTTP/1.1\r\nHost: localhost\r\n\r\n" % method) for method in (b"GET", b"HEAD")
    )
    assert asked[0] == asked[1] == HttpRequest("GET", "/p", {"q": "1"}, {})
    undated = [
        [line for line in text.split(b"\r\n") if not line.startswith(b"Date:")] for text in (full, head)
    ]
    assert undated[0][:-1] == undated[1][:-1]
    assert b"Content-Length: 6" in undated[1]
    assert full.endswith(b"\r\n\r\nanswer")
    assert head.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (b"localhost", b"200"), (b"LocalHost.:8000", b"200"), (b"127.0.0.1:1", b"200"),
        (b"127.9.9.9", b"200"), (b"[::1]:8000", b"200"), (b"evil.example", b"421"),
        (b"evil.example:8000", b"421"), (b"10.0.0.1", b"421"), (b"localhost.evil.example", b"421"),
        (b"127.0.0.1.evil.example", b"421"), (b"a@localhost", b"421"), (b"localhost/", b"421"),
        (b"localhost:x", b"421"), (b"[::1", b"421"), (b"", b"421"), (b"\xc3\xa9", b"421"),
        (b"<b>", b"421"), (b"x" * 5_000, b"421"),
    ],
)  # fmt: skip
def test_only_names_of_the_site_are_answered_to(echo, host, status):
    """Else a page whose own name leads here, DNS rebinding, reads and plays somebody's episode."""
    asked, send = echo
    received = send(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 " + status)
    assert len(asked) == (status == b"200")
    if status == b"421":
        head, _, body = received.partition(b"\r\n\r\n")
        assert body.count(b"\n") == 1
        assert len(body) < 250
        assert b"--allow-host" in body
        assert b"text/plain" in head


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", b"200"),  # not a browser
        (b"Origin: http://localhost:8000\r\n", b"200"),
        (b"Origin: HTTP://LOCALHOST:8000\r\n", b"200"),
        (b"Origin: http://localhost:3000\r\n", b"403"),  # another program's site on this machine
        (b"Origin: http://evil.example\r\n", b"403"),
        (b"Origin: null\r\n", b"403"),
        (b"Origin: http://[\r\n", b"403"),
        (b"Origin: file://localhost:8000\r\n", b"403"),
        (b"Origin: http://localhost:8000\r\nOrigin: http://evil.example\r\n", b"403"),
        (b"Sec-Fetch-Site: cross-site\r\n", b"403"),
        (b"Sec-Fetch-Site: same-site\r\n", b"403"),
        (b"Sec-Fetch-Site: same-origin\r\n", b"200"),
    ],
)
def test_forms_of_other_sites_are_refused(echo, sent, status):
    asked, send = echo
    head = b"POST /act HTTP/1.1\r\nHost: localhost:8000\r\nContent-Length: 3\r\n"
    received = send(head + sent + b"\r\na=1")
    assert received.startswith(b"HTTP/1.1 " + status)
    assert len(asked) == (status == b"200")
    if status == b"403":
        assert received.partition(b"\r\n\r\n")[2].count(b"\n") == 1


@pytest.mark.parametrize(
    ("host", "also", "known", "unknown"),
    [
        ("127.0.0.1", [], ["localhost", "127.0.0.1", "::1"], ["box", "192.168.1.5"]),
        ("192.168.1.5", [], ["192.168.1.5", "localhost"], ["192.168.1.6", "box"]),
        ("box.local", [], ["box.local", "BOX.local.", "localhost"], ["box", "192.168.1.5"]),
        ("0.0.0.0", [], ["192.168.1.5", "localhost", "fe80::1"], ["box"]),
        ("::", ["box"], ["192.168.1.5", "::1", "box"], ["box.evil.example"]),
        ("", [], ["192.168.1.5"], ["box"]),
        ("127.0.0.1", ["Shop.Example.org"], ["shop.example.org"], ["example.org"]),
    ],
)
def test_names_of_a_site(host, also, known, unknown):
    guard = HostGuard(host, also=also)
    assert [name for name in (*known, *unknown) if guard.knows(name)] == known


@pytest.mark.parametrize("name", ["http://shop.example.org", "shop.example.org:80", "", "a b", "*", "é"])
def test_what_is_no_name_cannot_be_allowed(name):
    with pytest.raises(UsageError, match=r"cannot allow host .*: give a name without scheme and port"):
        HostGuard("127.0.0.1", also=[name])


def test_a_proxy_may_name_the_site_or_not(echo_of):
    """With its name allowed, forms are taken whether or not it passes its name on."""
    asked, send = echo_of(allowed_hosts=["shop.example.org"])
    for host in (b"shop.example.org", b"127.0.0.1:8000"):
        head = b"POST /act HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n" % host
        assert send(head + b"Origin: https://shop.example.org\r\n\r\n").startswith(b"HTTP/1.1 200")
        assert send(head + b"Origin: https://evil.example\r\n\r\n").startswith(b"HTTP/1.1 403")
    assert len(asked) == 2


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
