"""Bodies and streams of servers, in forms that public reports describe, and the action that each is.

A case is a message for a whole answer, or a list of deltas for a stream. Its tools are ALFWorld's where it
calls `look`, else HotpotQA's.
"""

import json
from functools import cache
from typing import Any, NamedTuple

from agentgym.core.tools import ToolCall, action_of
from agentgym.registration import open_env


class Case(NamedTuple):
    """An answer of a server."""

    said: Any
    """A message, or the deltas of a stream; or all of a body, or all events."""
    action: str
    """What is played; empty where the answer cannot be read."""
    suite: str = "alfworld"
    finish: Any = "tool_calls"

    @property
    def streamed(self):
        return isinstance(self.said, list)

    @property
    def message(self):
        """The message of an answer that comes whole."""
        return self.said["choices"][0]["message"] if "choices" in self.said else self.said

    def body(self):
        """Return the body of an answer that comes whole."""
        if "choices" in self.said:
            return self.said
        choice = {"index": 0, "message": {"role": "assistant", **self.said}, "finish_reason": self.finish}
        return {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}

    def events(self):
        """Return the events of a stream; a whole answer comes as one delta."""
        if self.streamed and any("choices" in each for each in self.said):
            return self.said
        deltas = self.said if self.streamed else [indexed(self.message)]
        parts = [({"role": "assistant"}, None), *((delta, None) for delta in deltas), ({}, self.finish)]
        return [
            {**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
            for delta, finish in parts
        ]

    def sent(self, stream):
        """Return the bytes that a server sends."""
        if not stream:
            return json.dumps(self.body()).encode()
        lines = [*map(json.dumps, self.events()), "[DONE]"]
        return "".join(f"data: {line}\n\n" for line in lines).encode()


SUITES = {"hotpotqa": {"search", "answer"}, "alfworld": {"look"}, "sokoban": {"move"}}
ENVIRONMENTS = {
    "alfworld": "agentgym/ALFWorld-v0",
    "hotpotqa": "agentgym/HotpotQA-v0",
    "sokoban": "agentgym/Sokoban-v0",
}
HEAD = {"id": "x", "created": 1, "model": "m"}
USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
LEFT_OUT = object()


@cache
def tools_of(suite):
    """Return the tools of a suite."""
    return open_env(ENVIRONMENTS[suite]).tools


def call(arguments=LEFT_OUT, name=None, id="c1", **more):
    """Return a call or a piece of one, with what it is given."""
    function = {} if name is None else {"name": name}
    if arguments is not LEFT_OUT:
        function["arguments"] = arguments
    return {"type": "function", "function": function, **({"id": id} if id else {}), **more}


def message(*calls, content=None):
    return {"content": content, "tool_calls": list(calls)}


def piece(arguments=LEFT_OUT, name=None, id=None, index=0):
    """Return a delta with a piece of a call; ``index`` None for none."""
    return {"tool_calls": [call(arguments, name, id, **({} if index is None else {"index": index}))]}


def indexed(message):
    """Return a message as a delta, whose calls have their index."""
    calls = [{"index": place, **each} for place, each in enumerate(message.get("tool_calls") or [])]
    return {**message, **({"tool_calls": calls} if calls else {})}


def look(arguments=LEFT_OUT, **more):
    return message(call(arguments, "look", **more))


HERMES = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
XML = "<think>\nHm.\n</think>\n\n<tool_call>\n<function=look>\n</function>\n</tool_call>"
QUERY, HALVES = '{"query": "the Ouse"}', ('{"query": ', '"the Ouse"}')
CALLED = "search[the Ouse]"
TWO = "search[the Ouse]\nsearch[the Nene]"
OTHER = '{"query": "the Nene"}'


def of_corpus(case):
    """Return a body or stream of `replies.jsonl` as a case; None where no suite has its tools."""
    called = case["calls"]
    suite = next((suite for suite, tools in SUITES.items() if {name for name, _ in called} <= tools), None)
    foreign = suite is None or any("steps" in given for _, given in called)
    if foreign or case["kind"] not in ("openai", "stream"):
        return None
    actions = [action_of(tools_of(suite), ToolCall(*each)) for each in called]
    several = all(name == "search" for name, _ in called)
    return Case(case["reply"], "\n".join(actions if several else actions[:1]), suite)


CASES = {
    # ---- whole ----
    "whole": Case(look("{}"), "look"),
    "empty arguments": Case(look(""), "look"),
    "blank arguments": Case(look("  "), "look"),
    "null arguments": Case(look(None), "look"),
    "no arguments": Case(look(), "look"),
    "null as text": Case(look("null"), "look"),
    "empty list": Case(look("[]"), "look"),
    "object": Case(look({}), "look"),
    "fenced": Case(look("```json\n{}\n```"), "look"),
    "encoded twice": Case(look('"{}"'), "look"),
    "quotes after": Case(look('{}""'), ""),
    "two objects": Case(look("{}{}"), ""),
    "unknown argument": Case(look('{"place": "here"}'), ""),
    "unknown tool": Case(message(call("{}", "stare")), ""),
    "finish null": Case(look("{}"), "look", finish=None),
    "finish empty": Case(look("{}"), "look", finish=""),
    "no id": Case(look("{}", id=""), "look"),
    "namespace": Case(message(call("{}", "functions.look")), "look"),
    "function_call": Case({"content": None, "function_call": {"name": "look", "arguments": "{}"}}, "look"),
    "two calls of one": Case(message(call("{}", "look"), call("{}", "look", "c2")), "look"),
    "words beside": Case(message(call("{}", "look"), content="I look."), "look"),
    "thought beside": Case(message(call("{}", "look"), content="<think>\nHm.\n</think>"), "look"),
    "hermes as text": Case({"content": HERMES}, "look", finish="stop"),
    "xml as text": Case({"content": XML}, "look", finish="stop"),
    "text": Case(message(call(QUERY, "search")), CALLED, "hotpotqa"),
    "object with text": Case(message(call({"query": "the Ouse"}, "search")), CALLED, "hotpotqa"),
    "text encoded twice": Case(message(call(json.dumps(QUERY), "search")), CALLED, "hotpotqa"),
    "two calls": Case(message(call(QUERY, "search"), call(OTHER, "search", "c2")), TWO, "hotpotqa"),
    "number for a text": Case(message(call('{"text": 1994}', "answer")), "answer[1994]", "hotpotqa"),
    "null for a text": Case(message(call('{"text": null}', "answer")), "", "hotpotqa"),
    "cut arguments": Case(message(call('{"query": "the Ou', "search")), "", "hotpotqa", finish="length"),
    # ---- streams ----
    "streamed": Case([piece("", "look", "a"), piece("{"), piece("}")], "look"),
    "streamed null": Case([piece(None, "look", "a")], "look"),
    "streamed object": Case([piece({}, "look", "a")], "look"),
    "name again": Case([piece("", "look", "a"), piece("{}", "look", "a")], "look"),
    "name in every piece": Case(
        [piece(HALVES[0], "search", "a"), piece(HALVES[1], "search")], CALLED, "hotpotqa"
    ),
    "no index": Case([piece("", "look", "a", None), piece("{}", None, "a", None)], "look"),
    "no index, one id": Case(
        [piece(HALVES[0], "search", "a", None), piece(HALVES[1], None, None, None)], CALLED, "hotpotqa"
    ),
    "index 0 for two": Case([piece(QUERY, "search", "a"), piece(OTHER, "search", "b")], TWO, "hotpotqa"),
    "two indices": Case([piece(QUERY, "search", "a"), piece(OTHER, "search", "b", 1)], TWO, "hotpotqa"),
    "whole again": Case([piece(QUERY, "search", "a"), piece(QUERY, "search", "a")], CALLED, "hotpotqa"),
    "function_call streamed": Case(
        [{"function_call": {"name": "look", "arguments": ""}}, {"function_call": {"arguments": "{}"}}], "look"
    ),
    "text in pieces": Case([{"content": HERMES[:20]}, {"content": HERMES[20:]}], "look", finish="stop"),
}
"""By name."""
