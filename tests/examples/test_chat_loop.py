"""The loop of the tutorial: an OpenAI client plays, and its answers are read."""

import json
from dataclasses import replace

import httpx2 as httpx
import openai
import pytest

import agentgym
from examples.chat_loop import main, play


def client(answer):
    """Return an OpenAI client whose server answers with what a function says of the last message."""

    def handle(request):
        text = answer(json.loads(request.content)["messages"][-1]["content"])
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": "any", "choices": [choice]}
        return httpx.Response(200, json=body)

    http = openai.DefaultHttpxClient(transport=httpx.MockTransport(handle))
    return openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="none", http_client=http)


def test_the_oracle_behind_a_client_wins():
    env = agentgym.chat("agentgym/EZPoints-v0")
    oracle = env.env.oracle()

    def answer(_):
        request = replace(env._request(), snapshot=env.env.snapshot)
        return oracle.act([request])[0].action

    assert [play(client(answer), "any", env, seed) for seed in range(3)] == [True] * 3
    assert not play(client(lambda _: "no such action"), "any", env, 0)


def test_the_program_prints_what_was_won(monkeypatch, capsys):
    server = client(lambda _: "=")
    monkeypatch.setattr(openai, "OpenAI", lambda base_url: server)
    command = "chat_loop http://127.0.0.1:9/v1 any --env agentgym/EZPoints-v0 --split test --episodes 2"
    monkeypatch.setattr("sys.argv", command.split())
    main()
    assert capsys.readouterr().out == "won 0 of 2\n"


@pytest.mark.parametrize(
    ("key", "env", "line"),
    [
        ("none", "EZPoints-v0", "http://127.0.0.1:9/v1: Connection error."),
        ("", "EZPoints-v0", "http://127.0.0.1:9/v1: .*OPENAI_API_KEY"),
        ("none", "EZPoint-v0", "did you mean 'agentgym/EZPoints-v0'"),
    ],
)
def test_a_server_or_key_that_is_not_there_is_one_line(monkeypatch, key, env, line):
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    if key:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setattr("sys.argv", f"chat_loop http://127.0.0.1:9/v1 any --env agentgym/{env}".split())
    with pytest.raises(SystemExit, match=line) as ended:
        main()
    assert "\n" not in str(ended.value)
