"""Tools: what may be declared, that every suite's say all its actions, and that they stay what they are."""

import json
import random
import re
from pathlib import Path

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym  # noqa: F401 (registers the environments)
from agentgym.core.calls import read_calls
from agentgym.core.hashing import sha256_json
from agentgym.core.tools import (
    ACT,
    Tool,
    ToolCall,
    ToolCallError,
    ToolParameter,
    action_of,
    call_of,
    tool_schemas,
)
from agentgym.errors import UsageError
from agentgym.registration import ENVIRONMENTS

GOLDEN = Path(__file__).with_name("tools.json")
OPTIONS = [{}, {"actions": "full"}]
QUERY = ToolParameter("query")
SEARCH = Tool("search", "Search.", (QUERY,), parallel=True)


def environments():
    for env_id in sorted(ENVIRONMENTS):
        for options in OPTIONS if "Sokoban" in env_id else OPTIONS[:1]:
            yield pytest.param(env_id, options, id=" ".join([env_id, *options.values()]))


# ---- suites --------------------------------------------------------------------------------------


def test_the_tools_of_suites_are_what_they_were():
    """They are in the prompts of tool-calling agents: change them with the environment's version, then write
    what the test computes into tools.json."""
    found = {env_id: gymnasium.make(env_id).unwrapped.tools for env_id in sorted(ENVIRONMENTS)}
    now = {env_id: sha256_json(tool_schemas(tools)) for env_id, tools in found.items() if tools != (ACT,)}
    assert now == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize(("env_id", "options"), list(environments()))
def test_every_action_is_a_call_and_every_call_that_action(env_id, options):
    env = gymnasium.make(env_id, **options).unwrapped
    tools = env.tools
    rng = random.Random(0)
    for seed in range(4):
        _, info = env.reset(seed=seed)
        for _ in range(30):
            for action in info["admissible_actions"]:
                call = call_of(tools, action)
                assert call is not None, action
                assert action_of(tools, call) == action
                says = [tool.name for tool in tools if tool.arguments(action) is not None]
                assert says == [call.name]  # no other tool says the same
            action = rng.choice(info["admissible_actions"])
            _, _, terminated, truncated, info = env.step(re.sub("<.*?>", "word", action))
            if terminated or truncated:
                break


# ---- calls and actions ---------------------------------------------------------------------------


@given(text=st.text())
def test_any_text_comes_through_a_call(text):
    action = SEARCH.action({"query": text})
    assert read_calls(action, ["search"]) == (("search", text),)
    assert SEARCH.arguments(action) == {"query": text}


@given(text=st.text())
def test_any_text_comes_through_a_template_as_it_is(text):
    click = Tool("click", "Click.", (ToolParameter("text"),), "click[{text}]")
    assert click.action({"text": text}) == f"click[{text}]"
    assert click.arguments(f"click[{text}]") == {"text": text}


@given(
    first=st.integers(),
    second=st.floats(allow_nan=False, allow_infinity=False),
    third=st.booleans(),
)
def test_values_of_other_types_come_through(first, second, third):
    kinds = (ToolParameter("a", "integer"), ToolParameter("b", "number"), ToolParameter("c", "boolean"))
    tool = Tool("set", "Set.", kinds, "set {a}, {b} to {{{c}}}")
    arguments = {"a": first, "b": second, "c": third}
    assert tool.arguments(tool.action(arguments)) == arguments


def test_slots_that_divide_an_action_in_several_ways_take_the_shortest():
    take = Tool(
        "take", "Take.", (ToolParameter("object"), ToolParameter("place")), "take {object} from {place}"
    )
    assert take.arguments("take a from b from c") == {"object": "a", "place": "b from c"}
    assert take.arguments("take a") is None


COUNT = Tool(
    "count",
    "Count.",
    (
        ToolParameter("what", choices=("sheep", "cows")),
        ToolParameter("to", "integer", default=10),
        ToolParameter("step", "number", default=1),
    ),
    "count {what} to {to} by {step}",
)


def test_arguments_that_are_not_given_take_their_defaults():
    assert COUNT.action({"what": "cows"}) == "count cows to 10 by 1"
    assert COUNT.arguments("count cows to 10 by 1") == {"what": "cows", "to": 10, "step": 1}
    assert COUNT.arguments("count pigs to 10 by 1") is None
    assert COUNT.example() == "count sheep to 1 by 1.0"


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("count", {}, "a call of count without the argument 'what'"),
        ("count", {"what": "pigs"}, "a call of count: the argument 'what' is not one of sheep, cows"),
        ("count", {"what": 1}, "a call of count: the argument 'what' is not of type string"),
        ("count", {"what": None}, "a call of count: the argument 'what' is not of type string"),
        ("count", {"what": "cows", "to": "9"}, "a call of count: the argument 'to' is not of type integer"),
        ("count", {"what": "cows", "to": 9.0}, "a call of count: the argument 'to' is not of type integer"),
        ("count", {"what": "cows", "to": True}, "a call of count: the argument 'to' is not of type integer"),
        (
            "count",
            {"what": "cows", "step": float("nan")},
            "a call of count: the argument 'step' is not of type number",
        ),
        ("count", {"what": "cows", "of": 1}, "a call of count with an unknown argument 'of'"),
        ("counts", {}, "a call of an unknown tool 'counts' (did you mean 'count'?)"),
    ],
)
def test_a_call_that_does_not_fit_is_none(name, arguments, message):
    with pytest.raises(ToolCallError) as caught:
        action_of((COUNT, SEARCH), ToolCall(name, arguments))
    assert str(caught.value) == message


# ---- declarations --------------------------------------------------------------------------------


def test_a_tools_method_takes_its_arguments_and_no_more():
    page = type("Page", (), {"search": SEARCH.method(lambda self, given: SEARCH.action(given))})()
    assert page.search("x") == page.search(query="x") == "search[x]"
    with pytest.raises(TypeError, match="too many positional arguments"):
        page.search("x", "y")
    with pytest.raises(ToolCallError):
        page.search(words="x")


def test_schemas_are_those_of_functions():
    (schema,) = tool_schemas((COUNT,))
    assert schema == {
        "type": "function",
        "function": {
            "name": "count",
            "description": "Count.",
            "parameters": {
                "type": "object",
                "properties": {
                    "what": {"type": "string", "enum": ["sheep", "cows"]},
                    "to": {"type": "integer", "default": 10},
                    "step": {"type": "number", "default": 1},
                },
                "required": ["what"],
            },
        },
    }
    with pytest.raises(UsageError, match="tools are told apart by name: count, count"):
        tool_schemas((COUNT, COUNT))


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (lambda: ToolParameter("two words"), "no parameter is 'two words' of type 'string'"),
        (lambda: ToolParameter("n", "int"), "no parameter is 'n' of type 'int'"),
        (lambda: ToolParameter("n", "integer", choices=("1",)), "choices for strings only"),
        (
            lambda: ToolParameter("n", "integer", default="1"),
            "the default '1' does not fit: the argument 'n'",
        ),
        (lambda: Tool("a b", "", (QUERY,)), "no tool is called 'a b'"),
        (lambda: Tool("a", "", (QUERY,), "a"), "has to hold each once"),
        (lambda: Tool("a", "", (QUERY,), "{query} {query}"), "has to hold each once"),
        (lambda: Tool("a", "", (QUERY, QUERY), "{query} {query}"), "has to hold each once"),
        (lambda: Tool("a", "", (), "{query}"), "takes nothing, so its template"),
        (lambda: Tool("a", "", (QUERY,), "{query!r}"), "write slots as {name}"),
        (lambda: Tool("a", "", (QUERY,), "{query"), "double such braces"),
        (lambda: Tool("a", ""), "takes no single string: give it a template"),
        (lambda: Tool("a", "", (ToolParameter("n", "integer"),)), "takes no single string"),
        (lambda: Tool("a", "", (QUERY,), "a {query}", parallel=True), "parallel goes without a template"),
        (lambda: Tool("a", "", (), "a", untagged=True), "untagged with a single string"),
    ],
)
def test_what_cannot_be_called_or_filled_is_refused(declared, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        declared()
