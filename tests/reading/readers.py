"""A reply of the corpus, read through the doors that there are."""

import asyncio
import json
from pathlib import Path

from agentgym.endpoint.replies import MalformedAnswerError, read_answer_body
from agentgym.endpoint.streams import read_stream
from agentgym.reading import Reading, UnreadableError, fitted, read_message, read_text

HERE = Path(__file__).parent
SCHEMAS = {
    each["function"]["name"]: each["function"]["parameters"]
    for each in json.loads((HERE / "tools.json").read_text(encoding="utf-8"))
}


def corpus():
    """Return the cases."""
    return [json.loads(line) for line in (HERE / "replies.jsonl").read_text(encoding="utf-8").splitlines()]


def message_of(reply):
    """Return a whole reply of an endpoint as a message."""
    calls = [
        {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
        for call in reply.tool_calls
    ]
    return {"content": reply.text, "reasoning_content": reply.reasoning, "tool_calls": calls}


def endpoint_reading(kind, reply):
    """Read a body or stream as an endpoint's client does, or a message alone."""
    try:
        if kind == "stream":
            return read_message(message_of(asyncio.run(read_stream(_pieces([*reply, "[DONE]"])))), SCHEMAS)
        if "choices" in reply:
            return read_message(message_of(read_answer_body(json.dumps(reply).encode())), SCHEMAS)
    except MalformedAnswerError as error:
        return Reading(problem=str(error))
    return read_message(reply, SCHEMAS)


async def _pieces(events):
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        yield f"data: {data}\n\n".encode()


def read(case):
    """Return calls with fitted arguments, thought, text and problem of a case."""
    said = (
        read_text(case["reply"], SCHEMAS)
        if case["kind"] == "text"
        else endpoint_reading(case["kind"], case["reply"])
    )
    calls, problem = [], said.problem
    for call in said.calls:
        if call.name not in SCHEMAS:
            problem = problem or f"a call of an unknown tool {call.name!r}"
            continue
        try:
            calls.append([call.name, fitted(call, SCHEMAS[call.name])[0]])
        except UnreadableError as error:
            problem = problem or str(error)
    return calls, said.thought, said.text, problem


def differences(case):
    """Return the names of the parts that are read otherwise than the case expects."""
    calls, thought, text, problem = read(case)
    found = [] if calls == case["calls"] else ["calls"]
    found += [
        name
        for name, said in (("thought", thought), ("text", text))
        if case[name] is not None and case[name].strip() != said.strip()
    ]
    if case["problem"] is not None and case["problem"] != bool(problem):
        found.append("problem")
    return found
