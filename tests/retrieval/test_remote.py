"""The client of a retrieval server, against servers that misbehave."""

import json
import re
import socket
import threading
from contextlib import closing, contextmanager, suppress
from functools import partial

import numpy as np
import pytest

from agentgym.core.queries import UnansweredError
from agentgym.core.types import Passage
from agentgym.errors import UsageError
from agentgym.retrieval.corpus.passages import PassageList
from agentgym.retrieval.corpus.wire_formats import read_document
from agentgym.retrieval.engines import http_client
from agentgym.retrieval.engines.remote import RemoteIndex, RetrievalClient, _Numbers
from agentgym.retrieval.searcher import Searcher, SearcherBackend
from tests.serving.retrieving import PASSAGES, serving
from tests.waiting import PATIENCE


def whole(data):
    """Return whether data are a request with all of its body."""
    head, blank, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head)
    return bool(blank) and len(body) == (int(length[1]) if length else 0)


@contextmanager
def scripted(*answers):
    """Run a server that gives one raw answer after the other; yields its address and what it was sent.

    An answer is bytes, or a function of the connection. The last one is repeated.
    """
    sent = []
    with closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as listener:

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:  # it was shut down
                    return
                with connection:
                    connection.settimeout(PATIENCE)
                    data = b""
                    while not whole(data):
                        data += connection.recv(65_536)
                    sent.append(data)
                    answer = answers[min(len(sent), len(answers)) - 1]
                    if callable(answer):
                        answer(connection)
                    else:
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", sent
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def reply(value, status=b"200 OK", kind=b"application/json", extra=b""):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    head = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n"
    return head % (status, kind, len(body), extra) + body


def found(*documents, score=1.0):
    return {"result": [[{"document": document, "score": score} for document in documents]]}


VASA = {"id": "p2", "contents": "Vasa\nA ship."}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(http_client, "_FIRST_PAUSE", 0.001)


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


@pytest.mark.parametrize("dialect", ["queries", "query"])
def test_a_server_is_searched_as_the_index_itself(server, dialect):
    queries = ["which ship was raised", "engine", "the of", "ship"]
    expected = server.index.search_all(queries, 2)
    calls = len(server.index.calls)
    with closing(RetrievalClient(server.url, dialect=dialect)) as client:
        index = RemoteIndex(client, server.store)
        for hits, own in zip(index.search_all(queries, 2), expected, strict=True):
            assert hits.documents.tolist() == own.documents.tolist()
            assert hits.scores.tobytes() == own.scores.tobytes()
        assert index.ids(np.array([1, 0])) == ["p2", "p1"]
        assert index.search("raised", 5).documents.tolist() == [1]
        if dialect == "queries":
            assert len(server.index.calls) == calls + 2
        assert client.search([], 3) == []
        searcher = Searcher(index, server.store)
        assert searcher.standing == "attested"
        assert index.manifest.corpus_sha256 == server.store.sha256
        assert index.manifest.text_parameters["engine"] == "bm25/1"
        backend = SearcherBackend(searcher)
        assert backend.kind.standing == "attested"
        assert backend.answer([("which ship was raised", 1)]) == [[[1, float(expected[0].scores[0])]]]


def test_the_passages_have_to_be_the_servers(server):
    with closing(RetrievalClient(server.url)) as client:
        fewer = PassageList(PASSAGES[:3])
        with pytest.raises(UsageError, match="not over these 3 of sha256"):
            Searcher(RemoteIndex(client, fewer), fewer)
        other = PassageList([*PASSAGES[:1], Passage("p2", "Vasa", "A crispbread."), *PASSAGES[2:]])
        with pytest.raises(UnansweredError, match="reads otherwise for 'p2': it has another corpus"):
            RemoteIndex(client, other).search("raised", 1)
        renamed = PassageList([Passage(f"q{passage.id}", "x", passage.text) for passage in PASSAGES])
        with pytest.raises(UnansweredError, match="finds the passage 'p2', which is not among the 4 here"):
            RemoteIndex(client, renamed).search("raised", 1)


def test_ids_with_one_digest_are_told_apart(monkeypatch):
    monkeypatch.setattr("agentgym.retrieval.engines.remote._digest", lambda id: 7)
    numbers = _Numbers(PassageList(PASSAGES))
    assert [numbers.of(passage.id) for passage in PASSAGES] == list(range(len(PASSAGES)))
    assert numbers.of("another") is None


def test_numbers_that_are_ids_need_no_table():
    store = PassageList([Passage(str(number), f"T{number}", "x") for number in (1, 0, 2)])
    answers = found({"id": 2, "contents": '"T2"\nx'}, {"id": "0", "title": "T0", "text": "x"})
    with scripted(reply({}, b"404 Not Found"), reply(answers)) as (url, sent):
        index = RemoteIndex(RetrievalClient(url), store)
        assert index.search("a", 2).documents.tolist() == [2, 1]
        assert b"POST /retrieve HTTP/1.1" in sent[1]
        assert b'{"queries": ["a"], "topk": 2, "return_scores": true}' in sent[1]


@pytest.mark.parametrize(
    ("document", "title", "text"),
    [
        ({"id": 1, "contents": '"A"\nb\nc'}, "A", "b\nc"),
        ({"id": 1, "contents": "A\nb"}, "A", "b"),
        ({"id": 1, "contents": "A"}, "A", ""),
        ({"id": 1, "contents": '"\nb'}, '"', "b"),
        ({"id": 1, "title": "T", "text": "x", "contents": '"T"\nx'}, "T", "x"),
        ({"id": 1, "title": "T\nU", "text": ""}, "T U", ""),
        ({"id": 1, "title": "T", "contents": "U\nv"}, "U", "v"),
    ],
)
def test_documents_of_public_corpora_are_read(document, title, text):
    assert read_document(document) == Passage("1", title, text)


def test_a_document_without_id_is_named_after_its_content():
    first, second, other = (read_document({"contents": text}) for text in ("A\nb", "A\nb", "A\nc"))
    assert first.id == second.id != other.id
    assert len(first.id) == 32


DEADLINES = []
"""What the client's timers would call."""


class TimerByHand:
    """A timer that the server of a test ends."""

    def __init__(self, seconds, function):
        DEADLINES.append(function)

    def start(self):
        pass

    def cancel(self):
        pass


def drip(connection, head=False):
    """Send a few bytes, the head among them or not, before the client's time is up."""
    whole = reply(found(VASA))
    at_once = whole.index(b"\r\n\r\n") + 4 if head else 0
    for byte in (whole[:at_once], *(bytes([each]) for each in whole[at_once : at_once + 5])):
        connection.sendall(byte)
    silent(connection)


def cut(connection):
    connection.sendall(reply(found(VASA))[:-10])


def silent(connection):
    DEADLINES.pop()()
    with suppress(ConnectionError):
        connection.recv(1)  # until the client has gone


HUGE = b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 5_000
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (silent, "cannot be asked: no whole answer within 60 s (2 attempts)"),
        (drip, "cannot be asked: no whole answer within 60 s (2 attempts)"),
        (partial(drip, head=True), "answers too slowly: no whole answer within 60 s, though it began"),
        (cut, "cannot be asked: the answer ends after 75 of 85 bytes"),
        (b"", "cannot be asked: Remote end closed connection without response"),
        (b"SSH-2.0-x\r\n", "cannot be asked: SSH-2.0-x"),
        (CHUNKED, "cannot be asked: IncompleteRead"),
        (reply({"detail": "no\nGPU"}, b"500 Error"), "answers 500: 'no\\nGPU'"),
        (reply(b"<html>", b"502 Bad Gateway", b"text/html"), "answers 502"),
        (reply({"error": "busy"}, b"503 Busy"), "answers 503: 'busy'"),
        (reply([{"loc": []}], b"422 Unprocessable"), "answers 422"),
        (reply(b"", b"302 Found", extra=b"Location: /x\r\n"), "answers 302"),
        (
            reply(b"<html><body>", kind=b"text/html"),
            "gives no answer of a retrieval server: the answer: not JSON",
        ),
        (reply(b'{"result": [[{"document": {}, "score": NaN}]]}'), "NaN is not a number of JSON"),
        (reply(b"[" * 1_000), "more than 64 deep"),
        (HUGE, "answers with more than 2,000 bytes"),
        (reply(b" " * 2_001), "answers with more than 2,000 bytes"),
        (reply([]), "has no list 'result', but is []"),
        (reply({"result": {}}), "has no list 'result'"),
        (reply({"result": []}), "has 0 lists of passages for 1 queries"),
        (reply({"result": [[], []]}), "has 2 lists of passages for 1 queries"),
        (reply({"result": [None]}), "a list of at most 2, not None"),
        (reply(found(*({"id": n, "contents": "x"} for n in range(3)))), "a list of at most 2, not [{"),
        (reply({"result": [[VASA]]}), "an object with 'document' and 'score'"),
        (reply({"result": [["Vasa"]]}), "an object with 'document' and 'score'"),
        (reply(found(VASA, score="1")), "a score is a finite number, not '1'"),
        (reply(found(VASA, score=True)), "a score is a finite number, not True"),
        (reply(found(VASA, VASA)), "one passage twice for a query"),
        (reply(found({"id": 1, "contents": 7})), "texts 'title' and 'text', or 'contents'"),
        (reply(found({"id": [], "contents": "x"})), "the id of a document is a text or a whole number"),
    ],
)
def test_what_is_no_answer_is_one_line(answer, problem, monkeypatch):
    monkeypatch.setattr(http_client, "Timer", TimerByHand)
    with scripted(answer) as (url, _):
        client = RetrievalClient(url, timeout=60.0, attempts=2, largest=2_000)
        with pytest.raises(UnansweredError) as raised:
            client.search(["ship"], 2)
        assert str(raised.value).startswith(f"the retrieval server {url} ")
        assert problem in str(raised.value)
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 400


def test_what_one_answer_cannot_hold_is_asked_for_in_parts():
    with serving() as server:
        found = RetrievalClient(server.url).search(["ship"] * 70, 1_000)
        assert len(found) == 70
        assert {len(passages) for passages in found} == {3}
        assert len(server.index.calls) == 3


def test_a_server_that_is_not_there_is_one_line():
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(UnansweredError, match=rf":{port} cannot be asked: Connection refused \(3 attempts\)"):
        RemoteIndex(RetrievalClient(f"http://127.0.0.1:{port}"), PassageList(PASSAGES))


def test_busy_servers_are_asked_again_and_wrong_answers_are_not():
    busy = reply({}, b"503 Busy", extra=b"Retry-After: 0\r\n")
    with scripted(b"", busy, reply(found(VASA))) as (url, sent):
        assert RetrievalClient(url).search(["ship"], 1)[0][0].passage.title == "Vasa"
        assert len(sent) == 3
    for wrong in (reply({"result": []}), reply({}, b"404 Not Found"), reply(b"<html>")):
        with scripted(wrong) as (url, sent):
            with pytest.raises(UnansweredError):
                RetrievalClient(url).search(["ship"], 1)
            assert len(sent) == 1


def test_servers_name_no_pause_that_is_long(monkeypatch):
    slept = []
    monkeypatch.setattr(http_client.time, "sleep", slept.append)
    with scripted(reply({}, b"429 Slow", extra=b"Retry-After: 99999\r\n"), reply(found(VASA))) as (url, _):
        RetrievalClient(url).search(["ship"], 1)
    assert http_client.MAX_PAUSE in slept


def test_connections_are_kept_and_opened_again(server):
    with closing(RetrievalClient(server.url)) as client:
        client.search(["ship"], 1)
        kept = client._http._idle[0]
        client.search(["ship"], 1)
        assert client._http._idle == [kept]
        kept.sock.shutdown(socket.SHUT_RDWR)  # as a server does that has waited for long
        assert len(client.search(["ship"], 1)[0]) == 1


def test_a_fork_opens_connections_of_its_own(server):
    with closing(RetrievalClient(server.url)) as client:
        client.search(["ship"], 1)
        client._http._process = -1  # what a forked process finds
        kept = client._http._idle[0]
        client.search(["ship"], 1)
        assert kept not in client._http._idle


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000",
        "ftp://host",
        "http://",
        "http://me:secret@host",
        "http://host/x?y=1",
        "http://host:99999",
        "http://ho st",
        "http://höst",
        "http://[::1",
    ],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(UsageError, match="is not an address of a server"):
        RetrievalClient(url)


@pytest.mark.parametrize(
    "options",
    [{"attempts": 0}, {"timeout": 0.0}, {"timeout": float("nan")}, {"largest": 0}, {"dialect": "querys"}],
)
def test_arguments_are_checked(options):
    with pytest.raises(UsageError):
        RetrievalClient("http://host", **options)
