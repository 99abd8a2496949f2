"""The gateway under clients that send what nothing behind it takes: every request is a line, or is served."""

import json

import pytest

from agentgym.rollout.datapool import DataPool
from tests.serving.gateway_stand_ins import TOOL, SayingEngine, call_text, make_model, stored, talking

SOKOBAN = "agentgym/Sokoban-v0"
HALF = "\ud800"
ASKED = {"role": "user", "content": "Which way?"}


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.fixture
def engine(model):
    return SayingEngine(model)


@pytest.fixture
def pool(tmp_path):
    with DataPool(tmp_path / "pool", group_size=2) as opened:
        yield opened


@pytest.fixture
def gateway(model, engine, pool):
    with talking(model, engine, env=SOKOBAN, pool=pool) as running:
        yield running


# ---- halves of surrogate pairs, as models write them -----------------------------------------------


def tool(**changes):
    return {"type": "function", "function": TOOL["function"] | changes}


def called(name, arguments):
    function = {"name": name, "arguments": arguments}
    call = {"id": HALF, "type": "function", "function": function}
    return [ASKED, {"role": "assistant", "tool_calls": [call]}, ASKED]


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": HALF}]},
        {"messages": [ASKED], "tools": [tool(name=HALF)]},
        {"messages": [ASKED], "tools": [tool(description=HALF)]},
        {"messages": [ASKED], "tools": [tool(parameters={"type": "object", "properties": {HALF: {}}})]},
        {"messages": called(HALF, "{}")},
        {"messages": called("look", json.dumps({HALF: HALF}))},
        {"messages": called("look", {"place": HALF})},
        {"messages": called("look", HALF)},
        {"messages": [ASKED], "stop": [HALF]},
    ],
)
def test_halves_of_surrogate_pairs_are_read_as_replacement_characters(gateway, body):
    session = gateway.begin(index=0)
    status, answer = gateway.ask(f"{session}/v1/chat/completions", body)
    assert status == 200, answer


def test_anthropics_tools_may_have_halves_too(gateway):
    session = gateway.begin(index=0)
    used = {"type": "tool_use", "id": HALF, "name": HALF, "input": {HALF: HALF}}
    result = {"type": "tool_result", "tool_use_id": HALF, "content": HALF}
    messages = [ASKED, {"role": "assistant", "content": [used]}, {"role": "user", "content": [result]}]
    tools = [{"name": HALF, "description": HALF, "input_schema": {"type": "object", "properties": {}}}]
    body = {"messages": messages, "tools": tools, "max_tokens": 8, "system": HALF}
    status, answer = gateway.ask(f"{session}/v1/messages", body)
    assert status == 200, answer


@pytest.mark.parametrize("as_object", [False, True])
def test_an_answer_with_halves_is_continued_and_its_episode_stored(gateway, engine, pool, as_object):
    session = gateway.begin(index=0)
    engine.says = [call_text(place=HALF)]
    said = gateway.say(session, "Which way?", tools=[TOOL])
    if as_object:  # as clients write it that have read the arguments
        (call,) = said["tool_calls"]
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    result = {"role": "tool", "content": HALF, "tool_call_id": said["tool_calls"][0]["id"]}
    gateway.say(session, "Which way?", said, result, tools=[TOOL])
    assert [each["parent_trace_id"] is None for each in gateway.get(f"{session}/traces")] == [True, False]
    gateway.post(f"{session}/env/step", action=f"go {HALF}")
    gateway.post(f"{session}/complete")
    ((trajectory, _),) = stored(pool)
    assert trajectory.steps[-1].action == "go \ufffd"


def test_tools_that_a_template_takes_too_long_for_are_a_line(gateway):
    session = gateway.begin(index=0)
    body = {"messages": [ASKED], "tools": [tool(description="a" * (15 << 20))]}
    status, answer = gateway.ask(f"{session}/v1/chat/completions", body)
    assert status == 400, answer
    assert "\n" not in answer["error"]["message"]
