"""The retrieval server: public dialects, micro-batching, limits."""

import asyncio
import http.client
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from agentgym.errors import UsageError
from agentgym.retrieval.corpus.wire_formats import RetrievalLimits, read_request
from agentgym.retrieval.searcher import search_in_memory
from agentgym.serving.hosts import HostGuard
from agentgym.serving.retrieval.app import RetrievalService, make_app
from agentgym.serving.retrieval.batching import MicroBatcher, QueueFullError
from agentgym.serving.retrieval.server import RetrievalServer
from tests.serving.retrieving import PASSAGES, serving
from tests.waiting import wait_until

VASA = {
    "id": "p2",
    "title": "Vasa",
    "text": "Vasa is a ship that sank in 1628.\nShe was raised in 1961.",
    "contents": "Vasa\nVasa is a ship that sank in 1628.\nShe was raised in 1961.",
}


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


# requests as the public clients send them, headers included
AS_REQUESTS = {
    "User-Agent": "python-requests/2.32.3",
    "Accept-Encoding": "gzip, deflate",
    "Accept": "*/*",
    "Connection": "keep-alive",
    "Content-Type": "application/json",
}
AS_SKYRL = {**AS_REQUESTS, "Accept": "application/json"}


def contents_of(result):
    """Read an answer as Search-R1's, verl's and SkyRL's clients do: the text of each document, by list."""
    return [[found["document"]["contents"] for found in passages] for passages in result["result"]]


def test_search_r1_and_verl_send_several_queries(server):
    body = b'{"queries": ["which ship was raised", "analytical engine"], "topk": 2, "return_scores": true}'
    status, answer = server.ask(body, headers=AS_REQUESTS)
    assert status == 200
    assert [[text.partition("\n")[0] for text in texts] for texts in contents_of(answer)] == [
        ["Vasa", "Kronan"],
        ["Ada Lovelace"],
    ]
    assert answer["result"][0][0]["document"] == VASA
    scores = [found["score"] for found in answer["result"][0]]
    assert scores == sorted(scores, reverse=True)


def test_skyrl_and_verl_agent_send_one_query(server):
    body = b'{"query": "which ship was raised", "topk": 1, "return_scores": true}'
    status, answer = server.ask(body, headers=AS_SKYRL)
    assert status == 200
    assert contents_of(answer) == [[VASA["contents"]]]


@pytest.mark.parametrize("asked", [{"queries": ["raised"]}, {"query": "raised"}])
@pytest.mark.parametrize("scores", [{}, {"return_scores": False}])
def test_without_scores_documents_stand_alone(server, asked, scores):
    assert server.ask({**asked, **scores}) == (200, {"result": [[VASA]]})


@pytest.mark.parametrize("k", [{}, {"topk": None}, {"topk": 0}])
def test_the_number_of_passages_has_a_default(k):
    with serving(default_k=1) as server:
        assert server.ask({"query": "ship raised", **k})[1]["result"] == [[VASA]]


def test_titles_may_stand_in_quotation_marks():
    with serving(quoted=True) as server:
        answer = server.ask({"query": "raised", "topk": 1})[1]
        assert answer["result"][0][0]["contents"].startswith('"Vasa"\nVasa is')


@pytest.mark.parametrize(
    ("query", "found"),
    [("", 0), ("the of and", 0), ("鉄の船", 0), ("ö", 1), ("ship\nsank] <search>", 3), ("x" * 65_536, 0)],
)
def test_odd_queries_are_queries(server, query, found):
    status, answer = server.ask({"query": query, "topk": 1_000, "return_scores": True})
    assert (status, len(answer["result"][0])) == (200, found)


def test_passages_come_as_they_are(server):
    answer = server.ask({"query": "Åland", "topk": 1})[1]
    assert answer["result"][0][0]["text"] == "Åland är en ö. <search>ship</search>"


def test_no_queries_have_no_passages(server):
    assert server.ask({"queries": []}) == (200, {"result": []})


@pytest.mark.parametrize(
    ("body", "status", "line"),
    [
        (b"{", 422, "not JSON"),
        (b"[" * 100_000, 422, "nested more than 64 deep"),
        (b'{"query": "\xff"}', 422, "not UTF-8"),
        ([], 422, "a request is an object with 'query' or 'queries', not []"),
        ({}, 422, "either 'query'"),
        ({"query": "a", "queries": ["a"]}, 422, "either 'query'"),
        ({"queries": "a"}, 422, "'queries' is a list of at most 4,096 texts"),
        ({"queries": ["a"] * 4_097}, 422, "'queries' is a list of at most 4,096 texts"),
        ({"query": 7}, 422, "a query is a text, not 7"),
        ({"queries": ["a", None]}, 422, "a query is a text, not None"),
        ({"query": "x" * 65_537}, 422, "at most 65,536 characters, not 65,537"),
        (b'{"query": "\\ud800"}', 422, "half of a surrogate pair"),
        ({"query": "a", "topk": 1_001}, 422, "'topk' is a whole number from 1 to 1,000, not 1001"),
        ({"queries": ["a"] * 33, "topk": 1_000}, 422, "at most 32,768 passages, not 1,000 for each of 33"),
        ({"query": "a", "topk": -1}, 422, "not -1"),
        ({"query": "a", "topk": "3"}, 422, "not '3'"),
        ({"query": "a", "topk": True}, 422, "not True"),
        ({"query": "a", "return_scores": "yes"}, 422, "'return_scores' is true or false"),
        ({"query": "a", "top_k": 3}, 422, "no 'top_k' (did you mean 'topk'?)"),
        ({"query": "a", "max_date": 2018}, 422, "known: query, queries, topk, return_scores"),
        (b" " * ((4 << 20) + 1), 413, "at most 4,194,304 bytes"),
    ],
)
def test_what_is_no_request_is_refused_in_a_line(server, body, status, line):
    found, answer = server.ask(body)
    assert found == status
    assert list(answer) == ["error"]
    assert line in answer["error"]
    assert "\n" not in answer["error"]
    assert len(answer["error"]) < 300


def test_requests_at_the_limits_are_taken():
    limits = RetrievalLimits()
    body = json.dumps({"queries": ["a"] * 4_096, "topk": 8}).encode()
    assert read_request(body, limits) == (("a",) * 4_096, 8, False)
    assert read_request(b'{"query": "a", "topk": 1000}', limits).k == 1_000
    with pytest.raises(UsageError, match="at most 4,096 texts"):
        read_request(body.replace(b'["a"', b'["b", "a"'), limits)


def test_there_is_nothing_else(server):
    for method, path, status in (("GET", "/", 404), ("GET", "/retrieve", 405), ("POST", "/health", 405)):
        found, answer = server.ask(None, method=method, path=path)
        assert (found, list(answer)) == (status, ["error"])


def test_other_sites_and_names_are_refused(server):
    for headers, status in (
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": server.url}, 200),
    ):
        assert server.ask({"query": "a"}, headers=headers)[0] == status
    for path in ("/openapi.json", "/health", "/nothing"):
        assert server.ask(None, method="GET", path=path, headers={"Host": "evil.example"})[0] == 421


def test_the_form_of_requests_is_described(server):
    status, described = server.ask(None, method="GET", path="/openapi.json")
    body = described["paths"]["/retrieve"]["post"]["requestBody"]
    forms = body["content"]["application/json"]["schema"]["oneOf"]
    assert (status, body["required"]) == (200, True)
    assert [form["required"] for form in forms] == [["queries"], ["query"]]
    assert all({"topk", "return_scores"} < set(form["properties"]) for form in forms)


def test_a_request_that_breaks_off_is_refused():
    scope = {
        "type": "http", "method": "POST", "path": "/retrieve", "raw_path": b"/retrieve", "query_string": b"",
        "headers": [(b"host", b"localhost")], "http_version": "1.1", "scheme": "http", "root_path": "",
    }  # fmt: skip
    came = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])
    sent = []

    async def receive():
        return next(came)

    async def send(message):
        sent.append(message)

    service = RetrievalService(search_in_memory(PASSAGES, corpus="four passages"), wait=0.75)
    assert service.batcher._wait == 0.75
    asyncio.run(make_app(service, HostGuard("127.0.0.1"))(scope, receive, send))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert (sent[0]["status"], json.loads(sent[1]["body"])) == (400, {"error": "the request is not whole"})


def test_health_tells_what_is_searched(server):
    calls = len(server.index.calls)
    server.ask({"queries": ["ship", "engine"]})
    status, health = server.ask(None, method="GET", path="/health")
    assert status == 200
    assert health["status"] == "ok"
    assert health["index"] == {
        "engine": "bm25/1",
        "standing": "exact",
        "fingerprint": server.index.manifest.fingerprint,
        "corpus": "four passages",
        "corpus_sha256": server.store.sha256,
        "count": 4,
    }
    assert (health["waiting"], health["calls"]) == (0, calls + 1)


def held_up(server, clients, bodies):
    """Send a request that the index takes its time over, and meanwhile others; return all answers."""
    server.index.free.clear()
    first = clients.submit(server.ask, bodies[0])
    wait_until(lambda: server.index.calls)
    asked = [clients.submit(server.ask, body) for body in bodies[1:]]
    wait_until(lambda: server.ask(None, method="GET", path="/health")[1]["waiting"] >= len(asked))
    server.index.free.set()
    return [future.result() for future in (first, *asked)]


def test_sixty_four_connections_share_calls_of_the_index():
    bodies = [{"query": f"ship {number}", "topk": 2, "return_scores": True} for number in range(64)]
    with serving() as server, ThreadPoolExecutor(64) as clients:
        answers = held_up(server, clients, bodies)
        assert answers[0][0] == 200
        assert all(answer == answers[0] for answer in answers)
        assert [len(queries) for queries, _ in server.index.calls] == [1, 63]


def test_each_number_of_passages_has_a_call_of_its_own():
    bodies = [{"query": "ship", "topk": 1 + number % 2} for number in range(9)]
    with serving() as server, ThreadPoolExecutor(9) as clients:
        answers = held_up(server, clients, bodies)
        assert [len(answer["result"][0]) for _, answer in answers] == [1 + number % 2 for number in range(9)]
        assert sorted(k for _, k in server.index.calls[1:]) == [1, 2]


def test_a_full_queue_tells_clients_to_come_again():
    with serving(limits=RetrievalLimits(waiting=2)) as server, ThreadPoolExecutor(3) as clients:
        server.index.free.clear()
        first = clients.submit(server.ask, {"query": "ship"})
        wait_until(lambda: server.index.calls)
        second = clients.submit(server.ask, {"queries": ["ship", "engine"]})
        wait_until(lambda: server.ask(None, method="GET", path="/health")[1]["waiting"] >= 2)
        with closing(http.client.HTTPConnection(server.address, timeout=300)) as connection:
            connection.request("POST", "/retrieve", b'{"query": "x"}')
            refused = connection.getresponse()
            assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
            assert b"2 queries wait already" in refused.read()
        server.index.free.set()
        assert (first.result()[0], second.result()[0]) == (200, 200)


def test_an_answer_has_a_largest_size():
    with serving(limits=RetrievalLimits(answer=800)) as server:
        assert server.ask({"queries": ["ship"]})[0] == 200
        assert server.ask({"queries": ["ship"] * 9}) == (
            413,
            {"error": "an answer has at most 800 bytes: ask for fewer passages at once"},
        )


def test_requests_for_many_passages_have_calls_of_their_own():
    calls = []

    def search(queries, k):
        calls.append(len(queries))
        return list(queries)

    async def ask():
        batcher = MicroBatcher(search, waiting=99, most_found=8, wait=0.0)
        batcher.start()
        await asyncio.gather(*(batcher.search(tuple(queries), 4) for queries in ("a", "b", "c", "defg")))
        await batcher.close()

    asyncio.run(ask())
    assert (sum(calls), max(calls[:-1])) == (7, 2)
    assert calls[-1] == 4


def raw_answer(server, data):
    """Return what a server says to bytes, until it closes; nothing where the client goes at once."""
    host, _, port = server.address.partition(":")
    with socket.create_connection((host, int(port)), timeout=300) as connection:
        connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(65_536), b"")) if data.endswith(b"\r\n") else b""


HEAD = b"POST /retrieve HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 40\r\n"


def test_a_body_that_is_broken_off_is_a_line(server):
    logger = logging.getLogger("uvicorn.error")
    seen = []
    logger.addFilter(keep := lambda record: seen.append(record) or True)
    try:
        for _ in range(3):
            raw_answer(server, HEAD + b'\r\n{"query"')
        wait_until(lambda: len(seen) >= 3)
    finally:
        logger.removeFilter(keep)
    assert [(record.getMessage(), record.exc_info) for record in seen] == [
        ("a client went before its request was whole", None)
    ] * 3
    assert server.ask({"query": "ship"})[0] == 200


def test_a_body_with_two_lengths_is_refused(server):
    chunks = b'11\r\n{"query": "ship"}\r\n0\r\n\r\n'
    said = raw_answer(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    assert said.startswith(b"HTTP/1.1 400 ")
    assert said.count(b"HTTP/1.1") == 1
    assert b"a Content-Length or a Transfer-Encoding, not both" in said


def test_an_index_that_cannot_answer_is_a_line_and_the_server_goes_on(server):
    server.index.error = UsageError("the index is damaged: build it again")
    try:
        assert server.ask({"query": "ship"}) == (
            500,
            {"error": "the index cannot answer: the index is damaged: build it again"},
        )
    finally:
        server.index.error = None
    assert server.ask({"query": "ship"})[0] == 200


def test_the_default_number_of_passages_is_within_the_limit():
    with pytest.raises(UsageError, match="from 1 to 1,000, not 0"):
        RetrievalService(search_in_memory(PASSAGES, corpus="four"), default_k=0)


def test_an_address_that_is_taken_is_an_error(server):
    port = int(server.url.rpartition(":")[2])
    service = RetrievalService(search_in_memory(PASSAGES, corpus="four"))
    with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}: .*choose another --port"):
        RetrievalServer("127.0.0.1", port, service)
    with pytest.raises(UsageError, match="ports end at 65535"):
        RetrievalServer("127.0.0.1", 70_000, service)


def test_a_request_of_many_queries_is_one_call():
    calls = []

    def search(queries, k):
        calls.append(len(queries))
        return [query.upper() for query in queries]

    async def ask():
        batcher = MicroBatcher(search, waiting=4, most=2, wait=0.0)
        batcher.start()
        many = await batcher.search(tuple("abcde"), 1)
        rest = await asyncio.gather(*(batcher.search((letter,), 1) for letter in "fghi"))
        late = [batcher.search((letter,), 1) for letter in "jklmn"]
        full = (await asyncio.gather(*late, return_exceptions=True))[-1]
        await batcher.close()
        return many, rest, full

    many, rest, full = asyncio.run(ask())
    assert (many, rest) == (list("ABCDE"), [["F"], ["G"], ["H"], ["I"]])
    assert calls[:3] == [5, 2, 2]
    assert isinstance(full, QueueFullError)


def test_a_batch_that_is_full_waits_for_no_more():
    async def ask():
        batcher = MicroBatcher(lambda queries, k: list(queries), waiting=9, most=2, wait=600.0)
        batcher.start()
        asked = [asyncio.ensure_future(batcher.search((letter,), 1)) for letter in "abcd"]
        _, waiting = await asyncio.wait(asked, timeout=120.0)
        await batcher.close()
        return len(waiting)

    assert asyncio.run(ask()) == 0


def test_a_request_that_waits_is_cancelled_by_the_end():
    async def ask():
        batcher = MicroBatcher(lambda queries, k: list(queries), waiting=4, wait=0.0)
        waiting = asyncio.ensure_future(batcher.search(("a",), 1))
        await asyncio.sleep(0)
        await batcher.close()
        await asyncio.wait([waiting], timeout=120.0)
        return waiting.cancelled()

    assert asyncio.run(ask())


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    corpus = tmp_path / "ships.jsonl"
    corpus.write_text('{"id": 1, "title": "Vasa", "text": "A ship."}\n', encoding="utf-8")
    words = ["serve", "retrieval", str(corpus), "--port", "0"]
    command = [sys.executable, "-m", "agentgym", *words]
    environment = {**os.environ, "AGENTGYM_CACHE": str(tmp_path / "cache")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as run:
        line = run.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+", line)[0]
        with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=300)) as connection:
            connection.request("POST", "/retrieve", b'{"query": "ship"}')
            assert b'"contents": "Vasa\\nA ship."' in connection.getresponse().read()
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=300)
    assert (run.returncode, out, err) == (0, "closed\n", "")
