"""The cache of answers: its modes, equal calls under way, several processes, and kills."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentgym.endpoint import (
    CacheMissError,
    ChatReply,
    ContentFilteredError,
    ContextOverflowError,
    EndpointSession,
    UnansweredRequestError,
)
from agentgym.endpoint.cache import AnswerCache, reply_of, value_of
from agentgym.errors import UsageError
from tests.endpoint.fake import FakeEndpoint, asking, completion, refusal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers" / "cache.sqlite"


def counting():
    """Return an endpoint that never says the same again."""
    fake = FakeEndpoint()
    plain = fake.otherwise
    fake.otherwise = lambda body: plain({"messages": [{"content": f"{len(fake.bodies)}"}]})
    return fake


def ask(fake, text="one", **fields):
    with fake.open() as endpoint:
        return endpoint.ask([asking(text, **fields)])[0]


def test_write_keeps_and_finds(path):
    fake = counting()
    with EndpointSession(cache=path, mode="write"):
        first, again, other = ask(fake), ask(fake), ask(fake, "two")
    assert [reply.text for reply in (first, again, other)] == ["re: 1", "re: 1", "re: 2"]
    assert [reply.from_cache for reply in (first, again, other)] == [False, True, False]
    assert again.seconds == first.seconds  # byte for byte, latency included
    with EndpointSession(cache=path, mode="write"):
        assert ask(fake, label="another episode").text == "re: 1"
        assert ask(fake, sample=1).text == "re: 3"
    assert len(fake.bodies) == 3


def test_off_neither_keeps_nor_finds(path):
    fake = counting()
    with EndpointSession(cache=path, mode="off"):
        assert [ask(fake).text, ask(fake).text] == ["re: 1", "re: 2"]
    assert not path.exists()


def test_read_finds_and_does_not_keep(path):
    fake = counting()
    with EndpointSession(cache=path, mode="write"):
        ask(fake)
    with EndpointSession(cache=path, mode="read"):
        assert [ask(fake).text, ask(fake, "two").text, ask(fake, "two").text] == ["re: 1", "re: 2", "re: 3"]
    with EndpointSession(cache=path, mode="read"):
        assert ask(fake, "two").text == "re: 4"


def test_replay_only_never_asks(path, monkeypatch):
    monkeypatch.setenv("CLOSED_API_KEY", "a-key-to-begin-with")
    fake = counting()
    with EndpointSession(cache=path, mode="write"):
        recorded = ask(fake)
    closed = FakeEndpoint(otherwise=lambda _: pytest.fail("the network is closed"))
    with EndpointSession(cache=path, mode="replay-only"):
        replayed = ask(closed)
        with pytest.raises(CacheMissError) as error, closed.open() as endpoint:
            endpoint.ask([asking("never asked", label="episode 12")])
    assert replayed == recorded.__class__(**{**vars_of(recorded), "from_cache": True})
    assert "episode 12" in str(error.value)
    assert "\n" not in str(error.value)
    assert closed.bodies == []


def vars_of(reply):
    return {name: getattr(reply, name) for name in reply.__slots__}


def test_replay_only_needs_no_key(path):
    fake = counting()
    with EndpointSession(cache=path, mode="write"):
        ask(fake)
    with (
        EndpointSession(cache=path, mode="replay-only"),
        fake.open(key_env="KEY_THAT_IS_NOT_SET_KEY") as endpoint,
    ):
        assert endpoint.ask([asking("one")])[0].text == "re: 1"


def test_failed_calls_are_not_kept(path):
    fake = FakeEndpoint(refusal(400, "odd"))
    with EndpointSession(cache=path, mode="write"):
        with pytest.raises(UnansweredRequestError):
            ask(fake)
        assert ask(fake).text == "re: one"


def test_equal_calls_under_way_are_one(path):
    fake = FakeEndpoint(delay=0.3)
    with fake.open() as endpoint:
        replies = endpoint.ask([asking("same", label=str(number)) for number in range(10)])
        assert len(fake.bodies) == 1
        assert {reply.text for reply in replies} == {"re: same"}
        assert [reply.from_cache for reply in replies] == [False] + [True] * 9
        different = endpoint.ask([asking("same", sample=number) for number in range(3)])
        assert len(fake.bodies) == 4
        assert not any(reply.from_cache for reply in different)


def test_equal_calls_fail_together_and_are_asked_again():
    fake = FakeEndpoint(refusal(400, "odd"), delay=0.3)
    with fake.open() as endpoint:
        futures = [endpoint.submit(asking()) for _ in range(3)]
        assert all(isinstance(future.exception(), UnansweredRequestError) for future in futures)
        assert endpoint.ask([asking()])[0].text == "re: Say hello."


def test_values_are_json(path):
    with EndpointSession(cache=path, mode="write"):
        ask(counting())
    with sqlite3.connect(path) as connection:
        [(key, value)] = connection.execute("SELECT key, value FROM answers").fetchall()
    connection.close()
    assert len(key) == 64
    assert json.loads(value)["reply"]["text"] == "re: 1"


def test_values_are_read_back_as_they_were():
    reply = ChatReply(
        "a", (), "stop", 1, 2, 3, 4, 0.125, 2, token_ids=(1, 2), logprobs=(-0.5,), reasoning="b"
    )
    value = json.loads(json.dumps(value_of(reply, "2026-01-31")))
    assert reply_of(value) == (reply, "2026-01-31")
    for wrong in ({}, {"reply": value["reply"]}, {**value, "when": 1}, {"reply": {"txt": ""}, "when": ""}):
        with pytest.raises(UsageError):
            reply_of(wrong)


def test_files_that_are_no_cache_are_left_alone(tmp_path):
    text, other = tmp_path / "notes.txt", tmp_path / "other.sqlite"
    text.write_text("not a database, but long enough to be looked at " * 10)
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    for path in (text, other):
        before = path.read_bytes()
        for writable in (False, True):
            with pytest.raises(UsageError, match="cache"):
                AnswerCache(path, writable=writable)
        assert path.read_bytes() == before
    with pytest.raises(UsageError, match="there is no cache"):
        AnswerCache(tmp_path / "absent.sqlite", writable=False)
    assert not (tmp_path / "absent.sqlite").exists()


def test_what_stands_in_a_cache_is_read_strictly(path):
    with EndpointSession(cache=path, mode="write"):
        ask(counting())
    for value in ("not JSON", "[]", '{"reply": 7, "when": "2026-01-01"}', "[" * 10_000):
        connection = sqlite3.connect(path)
        connection.execute("UPDATE answers SET value = ?", (value,))
        connection.commit()
        connection.close()
        with EndpointSession(cache=path, mode="replay-only"), pytest.raises(UsageError) as error:
            ask(counting())
        assert "\n" not in str(error.value)


def test_sessions_check_what_they_are_given(path):
    for wrong in ({"mode": "on"}, {"mode": "read"}, {"cache": path, "mode": "replay"}):
        with pytest.raises(UsageError):
            EndpointSession(**wrong)
    with EndpointSession() as session, pytest.raises(UsageError, match="entered once"):
        session.__enter__()
    with pytest.raises(UsageError, match="entered once"):
        session.__enter__()


WRITER = """
import sys
from pathlib import Path
from agentgym.endpoint.cache import AnswerCache
cache = AnswerCache(Path(sys.argv[1]), writable=True)
for number in range(int(sys.argv[3]), 1_000_000):
    cache.keep(f"{sys.argv[2]} {number}", {"number": number, "text": "x" * 2_000})
    print(number, flush=True)
"""


def writer(path, name, start=0):
    command = [sys.executable, "-c", WRITER, str(path), name, str(start)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)


def test_a_kill_loses_no_answer_that_was_handed_on(path):
    path.parent.mkdir()
    said = -1
    for length in (1, 7, 40):
        process = writer(path, "a", said + 1)
        for _ in range(length):
            said = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
        said = max([said, *(int(line) for line in rest.split("\n")[:-1])])
        cache = AnswerCache(path, writable=False)
        kept = [cache.find(f"a {number}") for number in range(said + 1)]
        cache.close()
        assert [each["number"] for each in kept] == list(range(said + 1))


def test_many_may_make_one_cache_at_the_same_time(path):
    path.parent.mkdir()
    with ThreadPoolExecutor(8) as threads:
        caches = list(threads.map(lambda _: AnswerCache(path, writable=True), range(16)))
    for number, cache in enumerate(caches):
        cache.keep(str(number), {"number": number})
    assert [caches[0].find(str(number))["number"] for number in range(16)] == list(range(16))
    for cache in caches:
        cache.close()
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_two_processes_write_to_one_cache(path):
    path.parent.mkdir()
    names = ("a", "b", "c")
    processes = [writer(path, name) for name in names]
    for process in processes:
        assert [int(process.stdout.readline()) for _ in range(50)] == list(range(50))
    for process in processes:
        process.kill()
        process.communicate()
    cache = AnswerCache(path, writable=True)
    for name in names:
        assert [cache.find(f"{name} {number}")["number"] for number in range(50)] == list(range(50))
    cache.keep("a 0", {"number": 99})
    assert cache.find("a 0")["number"] == 0  # the first answer stays
    cache.close()


def test_many_threads_share_a_session(path):
    fake = FakeEndpoint()
    with EndpointSession(cache=path, mode="write"), fake.open() as endpoint, ThreadPoolExecutor(8) as threads:
        texts = [str(number % 20) for number in range(200)]
        found = list(threads.map(lambda text: endpoint.ask([asking(text)])[0].text, texts))
    assert found == [f"re: {text}" for text in texts]
    assert len(fake.bodies) == 20


def test_a_full_context_and_a_filtered_answer_are_met_again_by_a_replay(path):
    for name, answer, error in (
        ("long", refusal(400, "too long", code="context_length_exceeded"), ContextOverflowError),
        ("rude", completion("no", finish="content_filter"), ContentFilteredError),
    ):
        fake = FakeEndpoint(answer)
        messages = []
        for mode in ("write", "replay-only"):
            with EndpointSession(cache=path, mode=mode), pytest.raises(error) as met:
                ask(fake, name)
            messages.append(str(met.value))
        assert messages[0] == messages[1]
        assert len(fake.bodies) == 1, "asked once"


def test_what_may_go_well_next_time_is_not_kept(path):
    with EndpointSession(cache=path, mode="write"), pytest.raises(UnansweredRequestError):
        ask(FakeEndpoint(*[refusal(500)] * 20))
    with EndpointSession(cache=path, mode="write"):
        assert ask(FakeEndpoint()).text == "re: one"
