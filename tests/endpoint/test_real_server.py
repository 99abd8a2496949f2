"""`transformers serve` with a tiny model: what a real server answers, refuses and ignores."""

import json
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from agentgym.errors import UsageError
from benchmarks.served import server as served
from benchmarks.served.families import save_family_model
from benchmarks.served.server import ModelServer

TEXTS = ("Go up, down, left or right.", "You push boxes onto targets.")


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    save_family_model(folder / "tiny-qwen3", "qwen3", TEXTS)
    with ModelServer(folder / "tiny-qwen3", log=folder / "server.log") as running:
        yield running


def asked(server, **changes):
    """Send one request past the client; return the status and the body."""
    body = {
        "model": server.model,
        "messages": [{"role": "user", "content": "Go?"}],
        "max_tokens": 4,
    } | changes
    request = urllib.request.Request(
        f"{server.url}/chat/completions",
        json.dumps({name: value for name, value in body.items() if value is not None}).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_it_ignores_without_a_word_what_it_cannot_do(server):
    status, body = asked(server, n=2, logprobs=True, response_format={"type": "json_object"}, temperature=0)
    assert status == 200
    (choice,) = body["choices"]
    assert "logprobs" not in choice
    assert body == asked(server, temperature=0)[1] | {"id": body["id"], "created": body["created"]}
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(choice["message"]["content"])
    assert body["usage"]["completion_tokens"] == 4


def test_it_refuses_what_it_does_not_know(server):
    assert asked(server, best_of=2)[0] == 422
    status, said = asked(server, model="another")
    assert status == 400
    assert "pinned" in said


def test_a_server_that_cannot_start_says_why(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"transformers serve ended with 1, see .*server\.log: \S"):
        ModelServer(tmp_path / "empty", log=tmp_path / "server.log").__enter__()


def test_a_server_ends_with_its_parent(tmp_path):
    command = [sys.executable, "-P", served.__file__, "serve", "absent", "--port", "0"]
    orphan = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    orphan.stdin.close()
    assert orphan.wait(30) == 1
