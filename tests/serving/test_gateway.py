"""The gateway over HTTP: sessions, OpenAI's and Anthropic's APIs, refusals, streams."""

import json
import threading
from contextlib import ExitStack

import openai
import pytest

from agentgym.core.hashing import content_id
from agentgym.errors import UsageError
from tests.serving.gateway_stand_ins import (
    TOOL,
    SayingEngine,
    call_text,
    make_model,
    talking,
)

ASKED = [{"role": "user", "content": "Which way?"}]


@pytest.fixture
def gateway(model, engine):
    with talking(model, engine) as running:
        yield running


@pytest.fixture
def client_of():
    """Return a function that opens OpenAI's client for a session."""
    with ExitStack() as stack:
        yield lambda gateway, session: stack.enter_context(
            openai.OpenAI(base_url=f"{gateway.url}{session}/v1", api_key="key", max_retries=0, timeout=60)
        )


def test_sessions_are_begun_listed_and_deleted(gateway):
    begun = gateway.post("/sessions", session_id="mine", task="t", labels=["a"], metadata={"k": 1})
    assert begun["session_id"] == "mine"
    assert begun["url"] == begun["base_url"] == f"{gateway.url}/sessions/mine/v1"
    assert begun["anthropic_base_url"] == f"{gateway.url}/sessions/mine"
    assert (begun["group"], begun["rollout"], begun["state"]) == ("mine", 0, "open")
    assert gateway.ask("/sessions", {"session_id": "mine"})[0] == 409
    status, other = gateway.ask("/sessions")  # no body
    assert status == 200
    assert {each["session_id"] for each in gateway.get("/sessions")} == {"mine", other["session_id"]}
    gateway.say("/sessions/mine", "Which way?")
    assert gateway.get("/sessions/mine")["trace_count"] == 1
    assert gateway.ask("/sessions/mine", method="DELETE") == (200, {"deleted": 1})
    assert gateway.ask("/sessions/mine", method="GET")[0] == 404
    assert gateway.get("/health") == {"status": "healthy", "sessions": 1, "version": 3}


def test_members_of_a_group_take_their_places(gateway):
    members = [gateway.post("/sessions", group="g", group_size=3) for _ in range(3)]
    assert [each["rollout"] for each in members] == [0, 1, 2]
    assert len({each["seed"] for each in members}) == 1
    assert gateway.post("/sessions", group="g", rollout=7)["rollout"] == 7
    assert gateway.post("/sessions", group="g")["rollout"] == 8


def test_a_call_is_answered_and_kept_token_by_token(model, gateway, engine):
    session = gateway.begin()
    engine.says = ["go right", "go up"]
    first = gateway.post(
        f"{session}/v1/chat/completions", model="m", messages=ASKED, logprobs=True, return_token_ids=True
    )
    (request,) = engine.requests
    assert request.sampling.temperature == 1.0
    assert tuple(first["prompt_token_ids"]) == request.prompt_ids
    choice = first["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "go right"}
    assert choice["finish_reason"] == "stop"
    assert choice["token_ids"] == [*model.chat.encode("go right"), model.tokenizer.eos_token_id]
    told = choice["logprobs"]["content"]
    assert "".join(each["token"] for each in told) == "go right<|im_end|>"
    assert told[0]["logprob"] == -0.5
    assert first["usage"]["total_tokens"] == len(request.prompt_ids) + len(choice["token_ids"])
    gateway.say(
        session, *ASKED, {"role": "assistant", "content": [{"type": "text", "text": "go right"}]}, "And now?"
    )
    one, two = gateway.get(f"{session}/traces")
    assert (one["parent_trace_id"], two["parent_trace_id"]) == (None, one["trace_id"])
    begun = one["prompt_token_ids"] + one["completion_token_ids"]
    assert two["prompt_token_ids"][: len(begun)] == begun
    assert two["messages"][-1] == {"role": "user", "content": "And now?"}
    assert two["response_message"]["content"] == "go up"
    assert two["weight_version"] == 3
    assert [each.prompt_ids for each in engine.requests] == [
        tuple(one["prompt_token_ids"]),
        tuple(two["prompt_token_ids"]),
    ]


def test_draws_differ_between_requests_and_members_and_are_the_same_again(model, gateway, engine):
    for rollout in (0, 1):
        session = gateway.begin(group="g", task="t", rollout=rollout, seed=5)
        for _ in range(2):
            gateway.say(session, "Which way?")
    gateway.say(session, "Which way?", seed=11)
    gateway.say(session, "Which way?", seed=11)
    seeds = [request.seed for request in engine.requests]
    drawn = [(5, "t", rollout, number) for rollout in (0, 1) for number in (0, 1)]
    assert seeds[:4] == [int(content_id(each)[:16], 16) for each in drawn]
    assert len(set(seeds[:4])) == 4
    assert seeds[4] == seeds[5]
    engine.requests.clear()
    with talking(model, engine) as other:
        session = other.begin(group="g", task="t", rollout=0, seed=5)
        other.say(session, "Which way?")
    assert engine.requests[0].seed == seeds[0]


def test_texts_that_end_an_answer_end_its_tokens(model, gateway, engine):
    session = gateway.begin()
    engine.says = ["go right, go left, go up"]
    said = gateway.say(session, "Which way?", stop=["left", "up"])
    assert said["content"] == "go right, go "
    (trace,) = gateway.get(f"{session}/traces")
    assert trace["finish_reason"] == "stop"
    assert model.chat.decode(trace["completion_token_ids"]) == "go right, go left"
    assert len(trace["logprobs"]) == len(trace["completion_token_ids"])
    gateway.say(session, "Which way?", said, "And now?")
    assert gateway.get(f"{session}/traces")[1]["parent_trace_id"] == trace["trace_id"]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"top_p": 0.9}, "top_p = 0.9 would change what is sampled"),
        ({"frequency_penalty": 0.1}, "would change what is sampled"),
        ({"logit_bias": {"3": 1}}, "would change what is sampled"),
        ({"n": 2}, "n = 2 would change"),
        ({"response_format": {"type": "json_object"}}, "ask for the form in the prompt, or offer a tool"),
        ({"tool_choice": "required"}, "must be one of 'auto', 'none'"),
        ({"mirostat": 2}, "'mirostat' is not known here"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": "hot"}, "temperature: expected a number"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": [""]}, "a text that ends an answer is not empty"),
        ({"messages": []}, "the last message is of a user or a tool"),
        ({"messages": [*ASKED, {"role": "assistant", "content": "go"}]}, "not continued here"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "only text is read"),
        ({"messages": [{"role": "fly", "content": "a"}]}, "the role of a message"),
        ({"tools": [{"type": "function"}]}, "the function of a tool is an object"),
    ],
)
def test_what_could_not_be_recomputed_is_refused_in_one_line(gateway, engine, more, line):
    session = gateway.begin()
    body = {"model": "m", "messages": ASKED} | more
    status, answer = gateway.ask(f"{session}/v1/chat/completions", body)
    assert status == 400
    assert line in answer["error"]["message"]
    assert "\n" not in answer["error"]["message"]
    assert answer["error"]["type"] == "invalid_request_error"
    harmless = {"top_p": 1.0, "n": 1, "presence_penalty": 0, "logit_bias": None, "user": "me", "store": False}
    gateway.say(session, "Which way?", **harmless)
    assert len(engine.requests) == 1


def test_a_full_context_and_a_failing_engine_leave_the_session_usable(gateway, engine, client_of):
    session = gateway.begin()
    with pytest.raises(openai.BadRequestError) as caught:
        client_of(gateway, session).chat.completions.create(
            model="m", messages=[{"role": "user", "content": "go " * 5000}]
        )
    assert caught.value.code == "context_length_exceeded"
    engine.fails = UsageError("the servers are gone")
    status, answer = gateway.ask(f"{session}/v1/chat/completions", {"messages": ASKED})
    assert (status, answer["error"]["code"]) == (503, "engine_error")
    assert "the servers are gone" in answer["error"]["message"]
    engine.fails = None
    assert gateway.say(session, "Which way?")["content"] == "I think it is near."
    assert len(gateway.get(f"{session}/traces")) == 1


def test_openais_client_works_unchanged_with_tools_and_streams(gateway, engine, client_of):
    session = gateway.begin()
    client = client_of(gateway, session)
    assert [each.id for each in client.models.list()] == ["model"]
    messages = [{"role": "user", "content": "Which way?"}]
    engine.says = ["So. " + call_text(place="left", n=1.0), "go right", "go up", "<think>hm</think>go on"]
    answer = client.chat.completions.create(model="m", messages=messages, tools=[TOOL])
    (choice,) = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "So."
    (call,) = choice.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("look", {"place": "left", "n": 1})
    # the SDK's own record goes back, another client's form of it does the same below
    messages += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": "Nothing."}]
    stream = client.chat.completions.create(
        model="m", messages=messages, tools=[TOOL], stream=True, stream_options={"include_usage": True}
    )
    events = list(stream)
    said = "".join(each.choices[0].delta.content or "" for each in events if each.choices)
    assert said == "go right"
    assert events[-1].usage.completion_tokens == 3
    assert [each.choices[0].finish_reason for each in events if each.choices][-1] == "stop"
    anew = {
        "role": "assistant",
        "content": "So. ",
        "tool_calls": [
            {"type": "function", "function": {"name": "look", "arguments": '{"n":1,"place":"left"}'}}
        ],
    }
    messages = [
        messages[0],
        anew,
        {"role": "tool", "content": "Nothing."},
        {"role": "assistant", "content": said},
    ]
    messages.append({"role": "user", "content": "And now?"})
    with client.chat.completions.stream(model="m", messages=messages, tools=[TOOL]) as streamed:
        final = streamed.get_final_completion()
    assert final.choices[0].message.content == "go up"
    messages += [{"role": "assistant", "content": "go up"}, {"role": "user", "content": "On?"}]
    client.chat.completions.create(model="m", messages=messages, tools=[TOOL], tool_choice="none")
    traces = gateway.get(f"{session}/traces")
    assert [each["parent_trace_id"] for each in traces] == [
        None,
        *(each["trace_id"] for each in traces[:-1]),
    ]
    assert [each["finish_reason"] for each in traces] == ["tool_calls", "stop", "stop", "stop"]


def test_streamed_tool_calls_come_whole(gateway, engine, client_of):
    session = gateway.begin()
    engine.says = [call_text(place="left") + call_text(place="right")]
    with client_of(gateway, session).chat.completions.stream(
        model="m", messages=ASKED, tools=[TOOL]
    ) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.content in (None, "")
    assert [json.loads(call.function.arguments)["place"] for call in message.tool_calls] == ["left", "right"]


def test_a_template_without_tools_is_named(model):
    chatml = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    other = make_model()
    other.tokenizer.chat_template = chatml
    with talking(other, SayingEngine(other)) as running:
        session = running.begin()
        status, answer = running.ask(f"{session}/v1/chat/completions", {"messages": ASKED, "tools": [TOOL]})
        assert (status, "chat template writes no tools" in answer["error"]["message"]) == (400, True)


def test_a_template_whose_calls_are_not_read_back_is_named(model):
    other = make_model()
    other.tokenizer.chat_template = (
        "{{ tools | tojson if tools }}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    with talking(other, SayingEngine(other)) as running:
        session = running.begin()
        status, answer = running.ask(f"{session}/v1/chat/completions", {"messages": ASKED, "tools": [TOOL]})
        assert (status, answer["error"]["message"]) == (
            400,
            "the model's chat template writes tools, but its call of look is not read back: it writes none: "
            "leave out 'tools'",
        )


def test_clients_show_the_token_in_either_form(model, engine):
    with talking(model, engine, token="sesame") as running:
        assert running.ask("/sessions", {})[0] == 401
        bearer = {"Authorization": "Bearer sesame"}
        session = running.ask("/sessions", {"session_id": "s"}, headers=bearer)[1]["session_id"]
        path = f"/sessions/{session}/v1/chat/completions"
        for headers, status in (
            (bearer, 200),
            ({"x-api-key": "sesame"}, 200),
            ({"x-api-key": "sesam"}, 401),
            ({"Authorization": "sesame"}, 401),
        ):
            assert running.ask(path, {"messages": ASKED}, headers=headers)[0] == status
        status, answer = running.ask(path, {"messages": ASKED})
        assert (status, answer["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("responses", "/v1/responses is not offered: call /v1/chat/completions"),
        ("messages/count_tokens", "read usage.input_tokens of the answer from /v1/messages"),
    ],
)
def test_routes_that_are_absent_name_the_other_way(gateway, path, line):
    session = gateway.begin()
    status, answer = gateway.ask(f"{session}/v1/{path}", {"input": "?"})
    assert (status, line in answer["error"]["message"]) == (404, True)


def test_malformed_requests_are_one_line(gateway):
    session = gateway.begin()
    for body in (b"{", b"[]", b"\xff", json.dumps({"messages": 3}).encode()):
        status, answer = gateway.ask(f"{session}/v1/chat/completions", body)
        assert status == 400, answer
        assert "\n" not in answer["error"]["message"]
    for body in (
        {"session_id": "../x"},
        {"sesion_id": "x"},
        {"group_size": 0},
        {"rollout": -1},
        {"index": 1},
    ):
        status, answer = gateway.ask("/sessions", body)
        assert (status, answer["code"]) == (400, "invalid_request_error"), body
    assert gateway.ask("/sessions/none/v1/models", method="GET")[1]["error"]["code"] == "SESSION_ERROR"
    assert gateway.ask("/nothing", method="GET")[0] == 404
    assert gateway.ask(f"{session}/env/step", {"action": "x"})[0] == 404


def test_sessions_talk_at_once(model, gateway, engine):
    sessions = [gateway.begin() for _ in range(24)]

    def talk(session):
        said = gateway.say(session, "Which way?")
        gateway.say(session, "Which way?", said, "And now?")

    threads = [threading.Thread(target=talk, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for session in sessions:
        traces = gateway.get(f"{session}/traces")
        assert [each["parent_trace_id"] for each in traces] == [None, traces[0]["trace_id"]]


def test_sessions_make_room_for_others(model, engine):
    with talking(model, engine, limits={"sessions": 2}) as running:
        first, second = running.begin(), running.begin()
        assert running.ask("/sessions", {})[0] == 503
        running.say(first, "Which way?")
        running.post(f"{first}/complete")
        third = running.begin()
        assert {f"/sessions/{each['session_id']}" for each in running.get("/sessions")} == {second, third}
        assert running.get(first)["completed"]["calls"] == 1
