"""Anthropic's own client, unchanged, at the gateway."""

import anthropic
import pytest

from agentgym.serving.env.sessions import SessionError
from agentgym.serving.gateway.anthropic_messages import error_table
from tests.serving.gateway_stand_ins import call_text, talking

TOOL = {
    "name": "look",
    "description": "Look there.",
    "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}},
}
ASKED = [{"role": "user", "content": "Which way?"}]


@pytest.fixture
def gateway(model, engine):
    with talking(model, engine, token="sesame") as running:
        running.headers |= {"x-api-key": "sesame"}
        yield running


@pytest.fixture
def session(gateway):
    return gateway.begin()


@pytest.fixture
def client(gateway, session):
    settings = {"api_key": "sesame", "max_retries": 0, "timeout": 60}
    with anthropic.Anthropic(base_url=f"{gateway.url}{session}", **settings) as opened:
        yield opened


def parents(gateway, session):
    traces = gateway.get(f"{session}/traces")
    return [each["parent_trace_id"] and int(each["parent_trace_id"].rpartition("/")[2]) for each in traces]


def test_a_conversation_with_tools_goes_on_token_by_token(gateway, session, client, engine):
    engine.says = ["So. " + call_text(place="left"), "go right, go up", "go " * 9]
    settings = {"model": "m", "max_tokens": 64, "system": "Help.", "tools": [TOOL]}
    answer = client.messages.create(messages=ASKED, **settings)
    said, used = answer.content
    assert (said.text, used.name, used.input, answer.stop_reason) == (
        "So.",
        "look",
        {"place": "left"},
        "tool_use",
    )
    assert answer.usage.input_tokens == len(engine.requests[0].prompt_ids)
    result = {
        "type": "tool_result",
        "tool_use_id": used.id,
        "content": [{"type": "text", "text": "Nothing."}],
    }
    chat = [*ASKED, {"role": "assistant", "content": answer.content}]
    chat.append({"role": "user", "content": [result, {"type": "text", "text": "And now?"}]})
    answer = client.messages.create(messages=chat, stop_sequences=[", go"], **settings)
    assert (answer.content[0].text, answer.stop_reason, answer.stop_sequence) == (
        "go right",
        "stop_sequence",
        ", go",
    )
    chat += [{"role": "assistant", "content": "go right"}, {"role": "user", "content": "On?"}]
    with client.messages.stream(messages=chat, **settings) as stream:
        assert "".join(stream.text_stream) == "go " * 9
        final = stream.get_final_message()
    assert (final.stop_reason, final.usage.output_tokens) == (
        "end_turn",
        len(engine.chat.encode("go " * 9)) + 1,
    )
    assert parents(gateway, session) == [None, 0, 1]


def test_streamed_tool_calls_come_whole(client, engine):
    engine.says = [call_text(place="left")]
    with client.messages.stream(model="m", max_tokens=9, messages=ASKED, tools=[TOOL]) as stream:
        (block,) = stream.get_final_message().content
    assert (block.type, block.input) == ("tool_use", {"place": "left"})


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"top_p": 0.5}, "top_p = 0.5 would change"),
        ({"top_k": 5}, "top_k = 5 would change"),
        ({"tool_choice": {"type": "any"}}, "must be one of 'auto', 'none'"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "would change what is sampled"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "none of Anthropic's own"),
        ({"messages": [*ASKED, {"role": "assistant", "content": "I"}]}, "not continued here"),
    ],
)
def test_what_could_not_be_recomputed_is_refused(client, engine, more, line):
    body = {"model": "m", "max_tokens": 9, "messages": ASKED}
    with pytest.raises(anthropic.BadRequestError, match=line):
        client.messages.create(**body, extra_body=more)
    assert engine.requests == []


def test_errors_are_in_the_apis_form(gateway, session, client, engine):
    engine.fails = RuntimeError("out of memory")
    with pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(model="m", max_tokens=9, messages=ASKED)
    assert (caught.value.status_code, caught.value.body["error"]["type"]) == (503, "overloaded_error")
    wrong = {"x-api-key": "sesam"}
    status, answer = gateway.ask(f"{session}/v1/messages", {"messages": ASKED}, headers=wrong)
    assert (status, answer["type"], answer["error"]["type"]) == (401, "error", "authentication_error")
    status, answer = gateway.ask(f"{session}/v1/messages", {"messages": ASKED})
    assert (status, "'max_tokens' is missing" in answer["error"]["message"]) == (400, True)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, "authentication_error"), (409, "invalid_request_error"), (499, "invalid_request_error"),
     (500, "api_error"), (501, "api_error"), (503, "overloaded_error")],
)  # fmt: skip
def test_errors_are_of_anthropics_kinds(status, kind):
    told = error_table(SessionError(status, "SESSION_ERROR", "why"))
    assert told == {"type": "error", "error": {"type": kind, "message": "why"}}
