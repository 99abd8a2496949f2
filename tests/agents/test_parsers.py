"""Responses are read as they were meant or not at all, and no text stops the reader."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentgym.errors import UsageError
from agentgym.prompts.parsers import FORMATS, Answer, format_of, settle
from tests.pace import within

TAGS = ["<think>", "</think>", "<action>", "</action>", "<analysis>", "</analysis>", "<tool_call>"]
TAGS += ["</tool_call>", "<search>", "</search>", "<answer>", "</answer>"]
PIECES = [
    *TAGS,
    "```json",
    "```",
    '{"name": "act", "arguments": ',
    '{"action": "up"}',
    "}",
    "up",
]
ANY_TEXT = st.text(st.characters())
"""Lone surrogates included, which `st.text` leaves out by itself."""
SURROGATES = {chr(code) for code in range(0xD800, 0xE000)}
NEARLY = st.lists(st.sampled_from(PIECES) | ANY_TEXT, max_size=12).map("".join)
NAMES = st.sampled_from(sorted(FORMATS))
OF_ANY_ACTION = st.sampled_from(sorted({*FORMATS} - {"search-r1"}))
"""Search-R1's states searches and answers alone: see test_tool_formats."""
ACTIONS = st.text(min_size=1).filter(lambda text: text == text.strip())


def parse(name, text):
    return FORMATS[name].parse(text)


def nested(depth):
    return "<analysis></analysis><tool_call>" + "[" * depth


# ---- any text -----------------------------------------------------------------------------------


@given(name=NAMES, text=ANY_TEXT | NEARLY)
@example(name="analysis-calls", text=nested(200_000))
@example(name="json-call", text="[" * 200_000)
@example(name="json-call", text='{"name": "act", "arguments": ' + "9" * 5_000 + "}")
@example(name="json-call", text="```")
@example(name="json-call", text=r'{"name": "act", "arguments": {"action": "\ud800"}}')
def test_any_text_has_an_answer(name, text):
    answer = parse(name, text)
    assert bool(answer.actions) == bool(answer.action)
    assert answer.actions or answer.problem
    assert "\n" not in answer.problem
    assert all(answer.actions)
    answer.action.encode()  # can be sent and hashed: no half of a surrogate pair


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("piece", PIECES)
def test_reading_takes_time_in_proportion_to_the_text(name, piece):
    within(2_000, parse, name, piece * 200_000)  # a quadratic reader takes minutes


# ---- what is written is read --------------------------------------------------------------------


CLOSING = {
    "think-action": ("</think>", "</action>"),
    "tool-calls": (),
    "analysis-calls": ("</analysis>",),
    "json-call": (),
    "plain": (),
}
"""What no action may hold."""


@given(
    name=OF_ANY_ACTION,
    thought=st.text() | NEARLY,
    actions=st.lists(ACTIONS | NEARLY.map(str.strip).filter(bool), min_size=1, max_size=4),
)
@example(
    name="analysis-calls", thought="</analysis><tool_call>", actions=["</tool_call>", '"}<tool_call>\n{']
)
@example(name="think-action", thought="<think></think><action>", actions=["<action>up</action"])
@example(name="plain", thought="", actions=["<think>a</think>b"])
@example(name="plain", thought="", actions=["go <think>"])
def test_what_is_written_is_read(name, thought, actions):
    form = FORMATS[name]
    actions = actions if form.several and name != "tool-calls" else actions[:1]  # of act, one at a time
    sendable = all(character not in SURROGATES for character in "".join(actions))
    early = name == "tool-calls" and "</think>" in thought
    early |= name == "plain" and any(
        action.startswith("<think>") or "</think>" in action.partition("<think>")[0] for action in actions
    )
    if not sendable or early or any(tag in action for tag in CLOSING[name] for action in actions):
        with pytest.raises(UsageError, match="cannot state the actions"):
            form.write(thought, actions)
    else:
        answer = form.parse(form.write(thought, actions))
        assert answer == Answer(thought.strip() if form.thinks else "", tuple(actions), "")
        assert answer.action == "\n".join(actions)


@pytest.mark.parametrize(
    ("name", "actions"),
    [
        ("think-action", ["up</action>"]),
        ("think-action", [" up"]),
        ("think-action", ["up", "down"]),
        ("think-action", []),
        ("analysis-calls", []),
        ("analysis-calls", ["up", ""]),
        ("json-call", ["up", "down"]),
        ("tool-calls", ["up", "down"]),
        ("tool-calls", ["up "]),
        ("plain", ["up\n"]),
        ("plain", [""]),
        ("plain", ["up", "down"]),
    ],
)
def test_what_would_not_be_read_is_not_written(name, actions):
    with pytest.raises(UsageError, match=f"^the format '{name}' cannot state the actions .*: give one.*$"):
        FORMATS[name].write("why", actions)


# ---- each format --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "thought", "actions", "problem"),
    [
        ("<think>why</think><action>up</action>", "why", ("up",), ""),
        ("Well. <think> why\n</think>\nSo: <action>\nup </action> Done.", "why", ("up",), ""),
        ("why</think><action>up</action>", "why", ("up",), ""),  # the chat template opened the tag
        (
            "<think>not <action>down</action></think><action>up</action>",
            "not <action>down</action>",
            ("up",),
            "",
        ),
        ("<think>a</think>b</think><action>up</action>", "a</think>b", ("up",), ""),
        ("<think>a</think><action>up</action> and <action>up</action>", "a", ("up",), ""),
        ("<action>up</action>", "", ("up",), "no <think>...</think>"),
        ("<think>why <action>up</action>", "", (), "a <think> that is not closed"),
        ("<think>why</think> up", "", (), "no <action>...</action> after the thought"),
        ("<think>why</think><action>go to shelf 1", "", (), "an <action> that is not closed"),
        ("<think></think><action> </action>", "", (), "an empty action"),
        (
            "<think></think><action>up</action><action>down</action>",
            "",
            (),
            "different actions where one is asked for",
        ),
        ("", "", (), "no <action>...</action> after the thought"),
    ],
)
def test_think_action(text, thought, actions, problem):
    assert parse("think-action", text) == Answer(thought, actions, problem)


def call(name, **arguments):
    return json.dumps({"name": name, "arguments": arguments})


@pytest.mark.parametrize(
    ("calls", "actions", "problem"),
    [
        ([call("act", action="up")], ("up",), ""),
        ([call("act", action=" up\n")], ("up",), ""),
        (
            [call("search", query="red shoes"), call("search", query="a]b")],
            ("search[red shoes]", "search[a]b]"),
            "",
        ),
        ([call("act", action="up"), call("act", action="up")], ("up", "up"), ""),
        (['{"name": "act", "arguments": "{\\"action\\": \\"up\\"}"}'], ("up",), ""),
        (['\n {"name": "act", "arguments": {"action": "up"}}\n'], ("up",), ""),
        ([], (), "no <tool_call>...</tool_call> after the analysis"),
        (["up"], (), "a tool call without exactly one argument"),  # in GLM's form
        (["up!"], (), "a tool call that is not JSON"),
        ([""], (), "a tool call that is not JSON"),
        ([call("act", action="up") + "."], (), "a <tool_call> that is not closed after its JSON object"),
        (['"up"'], (), "a tool call without a name"),
        (['{"name": 3}'], (), "a tool call without a name"),
        (['{"name": "act"}'], (), "a tool call without exactly one argument"),
        (['{"name": "act", "arguments": "up"}'], (), "a tool call that is not JSON"),
        ([call("search", query="a", k="3")], (), "a tool call without exactly one argument"),
        ([call("act", action=["up"])], (), "a tool call whose argument is not a string"),
        ([call("act", direction="up")], (), "a call of act without the argument 'action'"),
        ([call("act", action="up"), call("act", action="")], (), "an empty action"),
    ],
)
def test_analysis_calls(calls, actions, problem):
    text = "<analysis>why</analysis> So:\n" + "\n".join(f"<tool_call>{entry}</tool_call>" for entry in calls)
    assert parse("analysis-calls", text) == Answer("why" if actions else "", actions, problem)


def test_a_call_without_an_analysis_is_a_call():
    answer = parse("analysis-calls", f"<tool_call>{call('act', action='up')}</tool_call>")
    assert answer == Answer("", ("up",), "no <analysis>...</analysis>")


def test_a_call_cut_short_is_none():
    text = f"<analysis></analysis><tool_call>{call('act', action='up')}"
    assert parse("analysis-calls", text[:-1]).problem == "a tool call that is not JSON"
    assert parse("analysis-calls", text).actions == ("up",)  # a text that ends responses leaves it so
    assert (
        parse("analysis-calls", text + ".").problem
        == "a <tool_call> that is not closed after its JSON object"
    )
    assert parse("analysis-calls", text[:-4]).problem == "a tool call that is not JSON"


@pytest.mark.parametrize(
    "wrap", ["{}", " {}\n", "```json\n{}\n```", "```\n{}```", "<tool_call>{}</tool_call>"]
)
def test_json_call(wrap):
    assert parse("json-call", wrap.replace("{}", call("act", action="up"))) == Answer("", ("up",), "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("I go up.", "a tool call that is not JSON"),
        (call("act", action="up") + call("act", action="up"), "more than one JSON object"),
        ("```json\n```", "a tool call that is not JSON"),
        (r'{"name": "act", "arguments": {"action": "\ud800"}}', "half a surrogate pair in the action"),
    ],
)
def test_json_call_refuses(text, problem):
    assert parse("json-call", text) == Answer("", (), problem)


def test_plain():
    assert parse("plain", " go to shelf 1\n") == Answer("", ("go to shelf 1",), "")
    assert parse("plain", "\n") == Answer("", (), "an empty action")


# ---- names and admissible actions ---------------------------------------------------------------


def test_formats_are_known_by_name():
    assert {name: form.name for name, form in FORMATS.items()} == {name: name for name in FORMATS}
    assert format_of("plain") is FORMATS["plain"]
    with pytest.raises(
        UsageError, match=r"^unknown answer format 'plane' \(did you mean 'plain'\?\); choose .*$"
    ):
        format_of("plane")


@pytest.mark.parametrize(
    ("action", "settled"),
    [
        ("up", "up"),
        (" UP ", "up"),
        ("go  to Shelf 1", "go to shelf 1"),
        ("go to shelf 11", "go to shelf 11"),
        ("A", "A"),
        ("a", "a"),
        ("b b", "b b"),  # like two of them
        ("", ""),
    ],
)
def test_settle(action, settled):
    assert settle(action, ("up", "go to shelf 1", "A", "a", "B b", "b B")) == settled


@given(admissible=st.lists(st.text(), unique=True), action=st.text())
def test_settling_keeps_what_is_admissible_and_invents_nothing(admissible, action):
    assert settle(action, admissible) in (*admissible, action)
    for entry in admissible:
        assert settle(entry, admissible) == entry


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("<think>", "</think>"),
        ("", "</think>"),
        ("[THINK]", "[/THINK]"),
        ("<|channel>thought\n", "<channel|>"),
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
        ("<seed:think>", "</seed:think>"),
    ],
)
def test_thoughts_of_families_are_no_actions(begin, end):
    said = f"{begin}Maybe <action>left</action>?{end}"
    assert parse("plain", f"{said}\nup") == Answer("", ("up",), "")
    thought = "Maybe <action>left</action>?"
    assert parse("think-action", f"{said}<action>up</action>") == Answer(thought, ("up",), "")
    if begin:
        assert (
            parse("plain", begin + "Maybe").problem
            == f"a {begin.removesuffix(chr(10)).removesuffix('thought')} that is not closed"
        )
