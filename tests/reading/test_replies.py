"""The corpus of replies: sure ones are read as expected, and what is not of the others is listed."""

import json

import pytest

from agentgym.reading import read_text, text
from agentgym.reading.conventions import conventions, marks, thoughts
from tests.reading.readers import HERE, corpus, differences

CASES = {case["id"]: case for case in corpus()}
OTHERWISE = {
    "qwen3-coder/closing-parameter-missing": ["calls", "text"],
    "qwen3-coder/no-think-end": ["calls", "thought"],
    "llama3/within-prose": ["calls"],
    "llama3/brace-in-prose-after": ["calls"],
    "llama3/builtin-call": ["calls", "text"],
    "llama4/text-before": ["calls", "text"],
    "llama4/bad-sibling": ["calls"],
    "lfm2/leading-zero": ["calls", "text", "problem"],
    "gemma4/colon-before-call": ["calls"],
    "gemma4/bare-after-thought": ["calls"],
    "kimi-k2/broken-sibling": ["calls"],
    "minimax/m1-bad-line": ["calls"],
    "json/single-quotes": ["calls"],
    "negative/bad-sibling-in-list": ["calls"],
    "negative/good-then-cut": ["calls"],
    "openai/content-thinking-parts": ["thought"],
    "openai/fenced-arguments": ["calls"],
    "stream/cumulative": ["calls"],
}
"""Parts that are read otherwise than a case expects, of cases for which another reading can be defended."""


@pytest.mark.parametrize("id", CASES)
def test_a_reply_is_read_as_expected(id):
    assert differences(CASES[id]) == OTHERWISE.get(id, [])


def test_only_an_unsure_case_may_be_read_otherwise():
    assert [id for id in OTHERWISE if not CASES[id].get("unsure")] == []


def test_every_case_calls_tools_that_there_are():
    tools = {each["function"]["name"] for each in json.loads((HERE / "tools.json").read_text("utf-8"))}
    lines = (HERE / "replies.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(CASES) == len(lines) > 500
    assert {name for case in CASES.values() for name, _ in case["calls"]} == tools


def test_a_reply_without_a_sign_holds_no_marks_of_any_convention():
    spelled = [each.begin for each in thoughts()] + [each.end for each in thoughts()]
    spelled += [each.begin for each in conventions()] + [*marks().announcing]
    assert [each for each in spelled if not text._SIGN.search(each)] == ["Here is my response:"]  # not alone


def test_a_reply_that_no_model_writes_is_refused_at_once():
    said = read_text("a" * (text.MAX_REPLY + 1), ("look",))
    assert (said.calls, said.problem) == ((), "a reply of more than 2,097,152 characters")
