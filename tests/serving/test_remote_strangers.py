"""A remote environment whose server sends what no environment does: a line, before memory is taken for it."""

import base64
import json
import tracemalloc

import numpy as np
import pytest

import agentgym
from agentgym.core.markup import png
from agentgym.core.queries import UnansweredError
from agentgym.errors import UsageError
from agentgym.retrieval.engines.http_client import HttpAnswer, HttpClient
from agentgym.serving.env.client import RemoteVectorEnv
from tests.serving.playing import serving


@pytest.fixture(scope="module")
def server():
    with serving("agentgym/VisualSokoban-v0", sessions=512) as running:
        yield running


@pytest.fixture
def altered(monkeypatch):
    """Return a function that has answers of a path changed before the client reads them."""

    def alter(end, change):
        send = HttpClient.send

        def changed(client, method, path, body):
            answer = send(client, method, path, body)
            if not path.endswith(end) or answer.status != 200:
                return answer
            table = json.loads(answer.body)
            return HttpAnswer(200, json.dumps(change(table) or table).encode(), 0.0)

        monkeypatch.setattr(HttpClient, "send", changed)

    return alter


def put(*path):
    """Return a change that puts the last member of a path at the others."""
    *names, last, value = path

    def change(table):
        for name in names:
            table = table[name]
        table[last] = value

    return change


def refused(play):
    """Check that a client refuses an answer in a line, without memory for what it claims."""
    tracemalloc.start()
    try:
        with pytest.raises((UnansweredError, UsageError)) as raised:
            play()
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    assert "sessions are in use" not in str(raised.value)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 300


def png_of(height, width):
    return base64.b64encode(png(np.zeros((height, width, 3), np.uint8))).decode()


def huge_png():
    """Return a small file whose header claims 20,000 x 20,000 pixels."""
    file = bytearray(base64.b64decode(png_of(96, 96)))
    file[16:24] = (20_000).to_bytes(4, "big") * 2
    return base64.b64encode(bytes(file)).decode()


SPACE = ("observation_space", "spaces", "image")


@pytest.mark.parametrize(
    "change",
    [
        put(*SPACE, "shape", [100_000, 100_000, 3]),
        put(*SPACE, "shape", [10**12]),
        put(*SPACE, "shape", [-1, 96, 3]),
        put(*SPACE, "shape", ["96", 96, 3]),
        put(*SPACE, "dtype", "O"),
        put(*SPACE, "dtype", "U100000000"),
        put(*SPACE, "dtype", "(100000,100000)f8"),
        put(*SPACE, "low", "x"),
        put(*SPACE, "low", -5),
        put(
            "observation_space", {"kind": "dict", "spaces": {f"{n}": {"kind": "text"} for n in range(20_000)}}
        ),
        put("observation_space", {"kind": "text", "max_length": -1}),
        put("observation_space", []),
        put("tasks", "10"),
        put("max_steps", 1e30),
        put("max_steps", None),
        put("suite", ["\x1b[2J"]),
        put("manifest_sha256", 3),
        put("options", 3),
        lambda table: [table],
    ],
)
def test_a_description_that_no_server_gives_is_refused(server, altered, change):
    altered("/environment", change)
    refused(lambda: agentgym.remote(server.url))


RESET = [
    put("metadata", "session_id", ["a", "a"]),
    put("metadata", "session_id", ["a"]),
    put("metadata", "turn", ["0", "0"]),
    put("metadata", "turn", [0, True]),
    put("metadata", "won", [0, 1]),
    put("metadata", "score", [0.0, "1"]),
    put("metadata", "state_hash", [None, None]),
    put("metadata", "admissible_actions", [["up"], "up"]),
    put("metadata", "admissible_actions", [["up"], [3]]),
    put("metadata", "extra", 3),
    put("metadata", {}),
    put("observation", "text", ["a", 3]),
    put("observation", "text", "ab"),
    put("observation", "more", ["a", "b"]),
    put("observation", "image_base64", [huge_png()] * 2),
    put("observation", "image_base64", [png_of(48, 96)] * 2),
    put("observation", "image_base64", [png_of(96, 96)[:-40]] * 2),
    put("observation", "image_base64", ["", ""]),
    put("observation", "image_base64", [None, None]),
    put("observation", {}),
]


@pytest.mark.parametrize("change", RESET)
def test_a_reset_that_no_environment_makes_is_refused(server, altered, change):
    altered("/reset_many", change)
    envs = RemoteVectorEnv(2, url=server.url)
    refused(lambda: envs.reset(seed=0))


@pytest.mark.parametrize(
    "change",
    [
        put("reward", ["x", 0.0]),
        put("reward", [float("nan"), 0.0]),
        put("reward", [float("inf"), 0.0]),
        put("reward", [True, False]),
        put("reward", [0.0]),
        put("reward", [0.0, 1.0, 2.0]),
        put("reward", 1.0),
        put("reward", [[0.0, 1.0], [0.0, 1.0]]),
        put("terminated", ["no", "no"]),
        put("truncated", [0, 1]),
        put("truncated", None),
        *RESET,
    ],
)
def test_a_step_that_no_environment_makes_is_refused(server, altered, change):
    envs = RemoteVectorEnv(2, url=server.url)
    envs.reset(seed=0)
    altered("/step_many", change)
    refused(lambda: envs.step(["up", "up"]))


@pytest.mark.parametrize(
    ("end", "change", "call"),
    [
        ("/restore", put("metadata", 3), lambda env: env.restore(env.snapshot())),
        ("/restore", put("observation", {}), lambda env: env.restore(env.snapshot())),
        ("/snapshot", put("snapshot", "%"), lambda env: env.snapshot()),
        ("/snapshot", put("snapshot", 3), lambda env: env.snapshot()),
        ("/state", put("measures", [1]), lambda env: env.measures()),
        ("/state", put("measures", {"a": "x"}), lambda env: env.measures()),
        ("/task_range", put("tasks", []), lambda env: env.tasks[3]),
        ("/task_range", put("tasks", [{"id": 3, "source_id": "a", "type": "b"}]), lambda env: env.tasks[3]),
    ],
)
def test_other_answers_that_no_environment_gives_are_refused(server, altered, end, change, call):
    env = agentgym.remote(server.url)
    env.reset(seed=0)
    altered(end, change)
    refused(lambda: call(env))
    env.close()


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a": NaN}', b"9" * 5_000, b'{"error": "\\u001b[2J\\n"}'])
@pytest.mark.parametrize("status", [200, 400, 500])
def test_what_is_no_answer_is_a_line(server, monkeypatch, body, status):
    monkeypatch.setattr(HttpClient, "send", lambda *asked: HttpAnswer(status, body, 0.0))
    refused(lambda: agentgym.remote(server.url))
