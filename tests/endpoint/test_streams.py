"""Answers that come piece by piece: the same as those that come whole, or asked for again."""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.endpoint import UnansweredRequestError
from agentgym.endpoint.replies import MalformedAnswerError
from agentgym.endpoint.streams import read_stream
from tests.endpoint.fake import FakeEndpoint, Said, asking, completion, delta, events

USAGE = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 4}}


def read(data: bytes, cuts: list[int] | None = None):
    places = [0, *sorted(min(cut, len(data)) for cut in cuts or []), len(data)]

    async def pieces() -> AsyncIterator[bytes]:
        for start, end in pairwise(places):
            yield data[start:end]

    return asyncio.run(read_stream(pieces()))


def test_a_stream_is_put_together():
    said = events(
        {"model": "served", **delta(role="assistant", content="")},
        delta(reasoning_content="Hm."),
        delta(content="hel"),
        delta(content="lo"),
        delta("stop"),
        USAGE,
    )
    fake = FakeEndpoint(said)
    with fake.open(stream=True) as endpoint:
        [reply] = endpoint.ask([asking()])
    assert fake.bodies[0]["stream"] is True
    assert fake.bodies[0]["stream_options"] == {"include_usage": True}
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("hello", "Hm.", "stop")
    assert (reply.prompt_tokens, reply.completion_tokens) == (5, 4)


def test_calls_come_in_pieces():
    said = events(
        delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "search", "arguments": '{"query'}}]),
        delta(tool_calls=[{"index": 1, "id": "b", "function": {"name": "open", "arguments": "{}"}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": '": "x"}'}}]),
        delta("tool_calls"),
    )
    with FakeEndpoint(said).open(stream=True) as endpoint:
        [reply] = endpoint.ask([asking()])
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [
        ("a", "search", '{"query": "x"}'),
        ("b", "open", "{}"),
    ]


def test_tokens_come_in_pieces():
    first = delta(content="a")
    first["choices"][0] |= {"token_ids": [7], "logprobs": {"content": [{"token": "a", "logprob": -0.5}]}}
    second = delta("length", content="b")
    second["choices"][0] |= {"token_ids": [8], "logprobs": {"content": [{"token": "b", "logprob": -1}]}}
    fake = FakeEndpoint(events(first, second))
    with fake.open(stream=True, logprobs=True, token_ids=True) as endpoint:
        [reply] = endpoint.ask([asking()])
    assert fake.bodies[0]["logprobs"] is True
    assert fake.bodies[0]["return_token_ids"] is True
    assert (reply.token_ids, reply.logprobs, reply.finish_reason) == ((7, 8), (-0.5, -1.0), "length")


def test_only_the_first_choice_is_read():
    second = {"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "stop"}]}
    reply = read(events(delta(content="a"), second, delta("stop", content="b")).body)
    assert (reply.text, reply.tool_calls, reply.finish_reason) == ("ab", (), "stop")
    assert read(events(delta("stop", content="a"), second).body).choices == 2


def test_a_server_that_answers_whole_is_read_whole():
    with FakeEndpoint(completion("whole")).open(stream=True) as endpoint:
        assert endpoint.ask([asking()])[0].text == "whole"


BROKEN = {
    "cut before the answer's end": events(delta(content="half an"), done=False),
    "cut within an event": Said(events(delta(content="half")).body[:30], headers=events().headers),
    "no events": events(done=False),
    "only the end": events(),
    "HTML": Said(b"<html></html>", headers=events().headers),
    "an error in the middle": events(delta(content="half"), {"error": {"message": "overloaded"}}),
    "an event that is no object": events(delta(content="half"), [1]),
    "a delta of another type": events({"choices": [{"delta": "x", "finish_reason": None}]}),
    "a call that is far off": events(delta("stop", tool_calls=[{"index": 10**9, "function": {}}])),
    "not JSON": Said(b"data: {half\n\n", headers=events().headers),
}


@pytest.mark.parametrize("said", BROKEN.values(), ids=BROKEN)
def test_a_broken_stream_is_never_half_an_answer(said):
    with FakeEndpoint(said, events(delta("stop", content="whole"))).open(stream=True) as endpoint:
        [reply] = endpoint.ask([asking()])
    assert (reply.text, reply.retries) == ("whole", 1)
    with (
        FakeEndpoint(otherwise=lambda _: said).open(stream=True, attempts=1) as endpoint,
        pytest.raises(UnansweredRequestError),
    ):
        endpoint.ask([asking()])


@given(st.lists(st.integers(0, 400), max_size=20), st.sampled_from([b"\n", b"\r\n"]))
def test_where_the_bytes_are_cut_does_not_matter(cuts, newline):
    said = events(delta(content="grüß"), delta(content=" dich"), delta("stop"), USAGE)
    answer = read(b": comment\n\nevent: x\n" + said.body.replace(b"\n", newline), cuts)
    assert answer.text == "grüß dich"
    assert answer.usage_stated


def test_the_last_event_needs_no_empty_line():
    answer = read(b"data: " + json.dumps(delta("stop", content="x")).encode())
    assert answer.text == "x"


@given(st.binary(max_size=300))
def test_any_bytes_are_an_answer_or_none(data):
    with pytest.raises(MalformedAnswerError):
        read(b"data: " + data)


def test_an_event_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("agentgym.endpoint.streams.MAX_LINE_LENGTH", 100)
    with pytest.raises(MalformedAnswerError, match="more than 100 bytes"):
        read(b"data: " + b"a" * 200)
