"""What is asked and of whom: records, their checks, the bodies and keys that they become."""

import base64
import json
import pickle
from dataclasses import replace

import pytest

from agentgym.endpoint import (
    ChatMessage,
    ChatRequest,
    ChatSampling,
    ChatToolCall,
    EndpointSpec,
    ImagePart,
)
from agentgym.endpoint.wire import body_of, cache_key, estimated_prompt_tokens
from agentgym.errors import UsageError
from tests.endpoint.fake import FakeEndpoint, asking, completion

PNG = b"\x89PNG\r\n\x1a\n and so on"
SPEC = EndpointSpec("http://127.0.0.1:8000/v1", "tiny")
TOOL = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
CALL = ChatToolCall("c1", "search", '{"query": "x"}')
CHAT = (
    ChatMessage("system", "Be short."),
    ChatMessage("user", "What is this?", (ImagePart(PNG),)),
    ChatMessage("assistant", "", tool_calls=(CALL,)),
    ChatMessage("tool", "found", tool_call_id="c1"),
)


def test_a_body_has_all_that_is_asked():
    schema = {"type": "object"}
    sampling = ChatSampling(0.7, 64, seed=5, stop=("\n",), top_p=0.9)
    request = ChatRequest(CHAT, sampling, (TOOL,), schema)
    spec = replace(SPEC, extra={"reasoning_effort": "low"}, logprobs=True, token_ids=True)
    assert body_of(request, spec, ()) == {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "Be short."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {
                        "type": "image_url",
                        "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}"},
                    },
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "search", "arguments": '{"query": "x"}'},
                    }
                ],
            },
            {"role": "tool", "content": "found", "tool_call_id": "c1"},
        ],
        "temperature": 0.7,
        "max_tokens": 64,
        "seed": 5,
        "stop": ["\n"],
        "top_p": 0.9,
        "tools": [TOOL],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": True},
        },
        "logprobs": True,
        "return_token_ids": True,
        "reasoning_effort": "low",
    }
    alone = replace(request, one_call=True)
    assert body_of(alone, spec, ())["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in body_of(alone, spec, ("parallel_tool_calls",))


def test_what_is_not_set_is_not_sent():
    request = asking(sampling=ChatSampling(None, None))
    assert set(body_of(request, SPEC, ())) == {"model", "messages"}


def test_the_server_gets_that_body():
    fake = FakeEndpoint(
        completion("", tool_calls=[{"id": "c2", "function": {"name": "go", "arguments": {"a": 1}}}])
    )
    request = ChatRequest(CHAT, tools=(TOOL,))
    with fake.open() as endpoint:
        [reply] = endpoint.ask([request])
    assert fake.bodies == [body_of(request, endpoint.spec, ())]
    assert reply.tool_calls == (ChatToolCall("c2", "go", '{"a": 1}'),)


def test_a_reply_has_all_that_is_answered():
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 90},
        "completion_tokens_details": {"reasoning_tokens": 15},
    }
    logprobs = {"content": [{"token": "a", "logprob": -0.25}]}
    said = completion("a\ud800", usage=usage, reasoning_content="Hm.", logprobs=logprobs, token_ids=[3])
    with FakeEndpoint(said).open() as endpoint:
        [reply] = endpoint.ask([asking()])
    assert (reply.text, reply.reasoning) == ("a\ufffd", "Hm.")
    assert (reply.prompt_tokens, reply.completion_tokens) == (100, 20)
    assert (reply.cached_tokens, reply.reasoning_tokens) == (90, 15)
    assert (reply.logprobs, reply.token_ids) == ((-0.25,), (3,))
    assert (reply.cost, reply.from_cache, reply.retries) == (None, False, 0)
    assert reply.seconds > 0


def test_refusals_and_parts_are_text():
    refused = completion()
    table = json.loads(refused.body)
    table["choices"][0]["message"] = {"content": None, "refusal": "I must not."}
    parts = json.loads(refused.body)
    parts["choices"][0]["message"] = {
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    }
    said = [refused._replace(body=json.dumps(each).encode()) for each in (table, parts)]
    with FakeEndpoint(*said).open() as endpoint:
        assert [endpoint.ask([asking(str(n))])[0].text for n in range(2)] == ["I must not.", "ab"]


REQUEST = asking()
OTHERS = {
    "text": asking("Another."),
    "role": replace(REQUEST, messages=(ChatMessage("system", "Say hello."),)),
    "image": replace(REQUEST, messages=(ChatMessage("user", "Say hello.", (ImagePart(PNG),)),)),
    "temperature": replace(REQUEST, sampling=ChatSampling(0.1)),
    "seed": replace(REQUEST, sampling=ChatSampling(seed=1)),
    "stop": replace(REQUEST, sampling=ChatSampling(stop=("x",))),
    "tools": replace(REQUEST, tools=(TOOL,)),
    "schema": replace(REQUEST, response_schema={"type": "object"}),
    "prompt": replace(REQUEST, prompt_id="abc"),
    "sample": replace(REQUEST, sample=1),
}


def test_a_key_pins_all_that_an_answer_depends_on():
    keys = {name: cache_key(request, SPEC) for name, request in OTHERS.items()}
    specs = [
        replace(SPEC, model="other"),
        replace(SPEC, url="http://127.0.0.1:8001/v1"),
        replace(SPEC, extra={"a": 1}),
        replace(SPEC, logprobs=True),
        replace(SPEC, token_ids=True),
    ]
    keys |= {spec.identity + repr(spec): cache_key(REQUEST, spec) for spec in specs}
    own = cache_key(REQUEST, SPEC)
    assert len({own, *keys.values()}) == 1 + len(keys)
    assert (
        own == "1d82cd8b667aec21e74dcee8b349e8d0558fc191739c1dd48bb66ef85b493864"
    )  # a cache of today is read tomorrow
    same = [
        cache_key(replace(REQUEST, label="episode 3"), SPEC),
        cache_key(REQUEST, replace(SPEC, url="http://127.0.0.1:8000/v1/")),
        cache_key(REQUEST, replace(SPEC, concurrency=3, stream=True, key_env="MY_KEY", timeout=90.0)),
    ]
    assert set(same) == {own}


def test_estimates_are_about_right():
    assert estimated_prompt_tokens(asking("word " * 400)) == 506
    assert estimated_prompt_tokens(ChatRequest(CHAT, tools=(TOOL,))) > 1_000


def test_texts_that_no_file_can_hold_are_mended():
    assert ChatMessage("user", "a\udc00b").text == "a\ufffdb"


@pytest.mark.parametrize(
    "make",
    [
        lambda: ChatMessage("robot", "x"),
        lambda: ChatMessage("user", "x", tool_calls=(CALL,)),
        lambda: ChatMessage("user", "x", tool_call_id="c"),
        lambda: ChatMessage("tool", "x"),
        lambda: ImagePart(b"GIF89a"),
        lambda: ChatSampling(temperature=-1),
        lambda: ChatSampling(temperature=float("nan")),
        lambda: ChatSampling(max_tokens=0),
        lambda: ChatSampling(temperature=2.1),
        lambda: ChatSampling(top_p=0),
        lambda: ChatSampling(top_p=1.1),
        lambda: ChatSampling(stop=("",)),
    ],
)
def test_records_that_are_none(make):
    with pytest.raises(UsageError) as error:
        make()
    assert "\n" not in str(error.value)


def test_the_ends_of_the_ranges_are_in_them():
    for temperature, top_p in ((0, 1), (2, 1e-9), (None, None)):
        sampling = ChatSampling(temperature=temperature, max_tokens=1, top_p=top_p)
        assert (sampling.temperature, sampling.max_tokens, sampling.top_p) == (temperature, 1, top_p)


def test_records_are_values():
    request = ChatRequest(CHAT, tools=(TOOL,))
    assert pickle.loads(pickle.dumps(request)) == request
    assert json.loads(json.dumps(SPEC.to_json())) == SPEC.to_json()
    assert EndpointSpec.of(SPEC.to_json()) == SPEC


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000",
        "ftp://host/v1",
        "http://",
        "http://host:0/v1",
        "http://host:99999/v1",
        "http://me:sesame@host/v1",
        "http://sesame@host/v1",
        "http://host/v1?key=sesame",
        "http://host/v1#sesame",
        "http://host/v1 sesame",
        "http://höst/v1",
        "http://[::1/v1",
    ],
)
def test_addresses_that_are_none(url):
    with pytest.raises(UsageError) as error:
        EndpointSpec(url, "tiny")
    assert "sesame" not in str(error.value)
    assert "write http://HOST:PORT/v1" in str(error.value)


def test_the_longest_name_of_a_model():
    assert EndpointSpec("http://h/v1", "m" * 200).model == "m" * 200


def test_addresses_are_named_one_way():
    given = ("http://h/v1", "http://h/v1/", "http://h/v1/chat/completions")
    assert {EndpointSpec(url, "m").identity for url in given} == {"m at http://h/v1"}
    assert (
        EndpointSpec("http://h/v1", "m", extra={"b": 1, "a": 2}).identity
        == 'm at http://h/v1 with {"a":2,"b":1}'
    )


@pytest.mark.parametrize(
    "options",
    [
        {"key_env": "sk-sesame1234567890"},
        {"key_env": "sesame"},
        {"key_env": "HOME"},
        {"model": ""},
        {"model": "two\nlines"},
        {"model": "m" * 201},
        {"concurrency": 0},
        {"concurrency": 1.5},
        {"timeout": float("nan")},
        {"attempts": 0},
        {"requests_per_minute": 0},
        {"extra": {"model": "x"}},
        {"extra": {"a": float("nan")}},
        {"api_key": "sesame"},
    ],
)
def test_specs_that_are_none(options):
    with pytest.raises(UsageError) as error:
        EndpointSpec.of({"url": "http://h/v1", "model": "m", **options})
    assert "sesame" not in str(error.value)
