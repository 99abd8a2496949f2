"""Long and hostile replies: read in linear time, and what is wrong with them is one line for a terminal."""

import json

import pytest

from agentgym.core.tools import Tool, ToolParameter
from agentgym.io.untrusted import printable
from agentgym.prompts.formats.calls import read_tool_calls
from agentgym.reading import UnreadableError, fitted, read_message, read_text
from tests.pace import within
from tests.reading.hostile import KINDS
from tests.reading.writers import WRITERS

TOOLS = ("go", "answer")
SPINS = 2_500
"""For a million characters, of which the slowest kind takes a third; twice that is the fewest for a text."""
LONG = (
    *(
        "marker hermes",
        "mark </s>",
        "thought </think>",
        "thoughts in turn",
        "sign '{'",
        "sign '['",
        "sign ' '",
    ),
    *(
        "sign '\\\\'",
        "calls of hermes",
        "empty lists",
        "keys",
        "python escaped",
        "long qwen-xml",
        "cut hermes",
    ),
)
"""Kinds of which ten million characters are read."""


def read(text):
    """Read a text in every way that a reply is; return the problem."""
    said = read_text(text, TOOLS, answer_tags=True)
    assert read_text(text, TOOLS, answer_tags=True, thinks=False).problem.count("\n") == 0
    return said.problem


def is_a_line(problem):
    return "\n" not in problem and printable(problem) == problem and len(problem) < 300


def test_every_kind_takes_linear_time():
    for name, make in KINDS.items():
        assert is_a_line(within(SPINS / 5, read, make(100_000))), name


@pytest.mark.parametrize("kind", LONG)
def test_ten_megabytes_are_read(kind):
    said = within(10 * SPINS, read_text, KINDS[kind](10_000_000), TOOLS, attempts=1)
    assert is_a_line(said.problem)


def test_deep_nesting_is_a_problem():
    for opening in ("[", '{"a":', '[{"a":[', "{a:", "[[{a:["):
        for begin in (
            "<tool_call>",
            "<|tool_call>call:go{x:",
            '{"name": "go", "arguments": ',
            "<function=go>",
        ):
            said = read_text(begin + opening * 100_000, TOOLS)
            assert is_a_line(said.problem), begin
            assert not said.calls


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("name", ["\x1b[2J", "a\nb", "go\u202e", "\x00", "go" * 5_000, "\ud800"])
def test_a_problem_is_a_line_for_a_terminal(kind, name):
    """Names, keys and values come from the model."""
    tools = (Tool("go", "Go.", (ToolParameter("x"), ToolParameter("n", "integer")), "{x} {n}"),)
    for calls in ([(name, {"x": "a", "n": 1})], [("go", {name: 1})], [("go", {"x": name, "n": name})]):
        text = WRITERS[kind](calls)
        for given in (tools, ()):
            assert is_a_line(problem_of(text, given)), text
        for call in read_text(text, ("go", name)).calls:
            for arguments in ("{} {}", '"{}"', "[1]", "null"):
                try:
                    _, notes = fitted(call._replace(arguments=arguments), {})
                except UnreadableError as error:
                    notes = (str(error),)
                assert all(map(is_a_line, notes))


def problem_of(text, tools):
    try:
        return read_tool_calls(text, tools).problem
    except UnreadableError as error:
        return str(error)


@pytest.mark.parametrize(
    "message",
    [
        {"tool_calls": {"a": 1}},
        {"tool_calls": [1]},
        {"tool_calls": [{"function": {"name": ""}}]},
        {"tool_calls": [{"function": {"name": "go"}}] * 200},
        {"content": [{"type": "text", "text": None}, 7, {"type": "tool_use", "name": None, "input": [[]]}]},
        {"content": {"a": 1}, "function_call": "go"},
        {"reasoning": ["a"], "content": 7},
        json.loads('{"content": ' + "[" * 900 + "]" * 900 + "}"),
    ],
    ids=range(8),
)
def test_a_message_of_any_form_is_read(message):
    assert is_a_line(read_message(message, TOOLS).problem)
