"""Calls of random tools as every convention writes them: read back whole, and never as others when cut."""

import random

import pytest

from agentgym.reading import UnreadableError, fitted, read_text
from agentgym.reading.conventions import conventions, marks, thoughts
from tests.reading.readers import corpus
from tests.reading.writers import ENDS, WRITERS

VARIATIONS, CUT, MUTATED = 70, 6, 60
"""Answers of each convention that are read back, that are cut at every byte, and that are mutated."""
THOUGHTS = [mark for each in thoughts() for mark in (each.begin, each.end)]
LETTERS = (
    "a",
    "Go. ",
    "é",
    "北京",
    "🙂",
    " ",
    "\n",
    "\n\n",
    "\t",
    "\r\n",
    "\u2028",
    "\x0b",
    "\x08",
    "\x00",
    "\ufeff",
)
VALUES = ("1994", "-3", "0.5", "true", "null", "None", "{}", "[1, 2]", "x=1", "look()", "\\n", "\\u00e9")
SYNTAX = (*"'\"\\`,:;()[]{}<>|=", "</", "', b='", '", "b": "', "')]", '")]', '"}', "')\n")
PIECES = (*LETTERS, *VALUES, *SYNTAX, *(each.marker for each in conventions()), *THOUGHTS, *marks().final)
KINDS = ("string", "string", "string", "integer", "number", "boolean")
NAMES = ("go", "look_up", "Find2", "a", "search", "get-item", "name", "function")
KEYS = ("query", "n", "name", "arguments", "x_1", "text", "type", "id")


def text_of(rng, without):
    """Return a text of pieces that holds none of some marks."""
    said = "".join(rng.choice(PIECES) for _ in range(rng.randrange(6)))
    while mark := next((mark for mark in without if mark in said), ""):
        said = said.replace(mark, "")
    return said


def value_of(rng, kind, without):
    """Return an argument of a type."""
    if kind == "string":
        return text_of(rng, without)
    if kind == "boolean":
        return rng.random() < 0.5
    return rng.randrange(-99, 9_999) if kind == "integer" else rng.randrange(-99, 99) / 8


def variation(kind, number):
    """Return the schemas of random tools, up to three calls of them, and the answer that makes these."""
    rng = random.Random(f"{kind} {number}")
    tools = {name: {key: rng.choice(KINDS) for key in rng.sample(KEYS, rng.randrange(5))} for name in NAMES}
    called = [rng.choice(NAMES) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    calls = [
        (name, {key: value_of(rng, each, ENDS.get(kind, ())) for key, each in tools[name].items()})
        for name in called
    ]
    schemas = {
        name: {"properties": {key: {"type": each} for key, each in keys.items()}, "required": list(keys)}
        for name, keys in tools.items()
    }
    return schemas, calls, WRITERS[kind](calls)


def read(text, schemas):
    """Return the calls of a text with fitted arguments; None where it has a problem."""
    said = read_text(text, schemas)
    assert "\n" not in said.problem
    if said.problem:
        assert not said.calls
        return None
    try:
        return [(call.name, fitted(call, schemas.get(call.name, {}))[0]) for call in said.calls]
    except UnreadableError:
        return None


def test_every_convention_has_a_writer():
    assert WRITERS.keys() == {each.name for each in conventions()} | {"json", "fenced-json", "python"}
    assert len(WRITERS) * VARIATIONS > 2_000


@pytest.mark.parametrize("kind", WRITERS)
def test_what_a_convention_writes_is_read_back(kind):
    refused = []
    for number in range(VARIATIONS):
        schemas, calls, text = variation(kind, number)
        back = read(text, schemas)
        if back is None:
            refused.append(text)
        else:
            assert back == calls, text
    assert refused == []


@pytest.mark.parametrize("begin", ["", "<think>"], ids=["begun by the prompt", "begun"])
@pytest.mark.parametrize("kind", WRITERS)
def test_a_thought_is_no_part_of_calls_nor_they_of_it(kind, begin):
    rng = random.Random(kind)
    for number in range(VARIATIONS):
        schemas, calls, text = variation(kind, number)
        thought = "Hm. " + text_of(rng, THOUGHTS)
        said = f"{begin}{thought}</think>\n\n{text}"
        assert read(said, schemas) == calls, said
        assert read_text(said, schemas).thought == thought.strip(), said


def test_a_call_that_a_thought_drafts_is_not_made():
    draft, call = (f'<tool_call>{{"name": "go", "arguments": {{"x": "{x}"}}}}</tool_call>' for x in "ab")
    for said in (f"Perhaps {draft}? No.</think>{call}", f"<think>Perhaps {draft}? No.</think>{call}"):
        reading = read_text(said, ("go",))
        assert [each.arguments for each in reading.calls] == [{"x": "b"}]
        assert reading.thought == f"Perhaps {draft}? No."
    said = read_text("It goes between <answer> tags.</think><answer>Ely</answer>", (), answer_tags=True)
    assert ([*said.calls], said.thought) == ([("answer", "Ely", "", True)], "It goes between <answer> tags.")


def test_halves_of_characters_that_are_escaped_are_joined():
    for said in (r"\ud83d\ude42", r"\U0001f642", "🙂"):
        (call,) = read_text(f"[go(x='{said}', y='\\x41\\b\\/\\q')]", ("go",)).calls
        assert call.arguments == {"x": "🙂", "y": "A\b/\\q"}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_cut_answer_makes_no_other_call(kind):
    for number in range(CUT):
        schemas, calls, text = variation(kind, number)
        data = text.encode()
        for length in range(len(data)):
            cut = data[:length].decode(errors="replace")
            back = read(cut, schemas) or []
            assert back == calls[: len(back)], cut


@pytest.mark.parametrize("kind", WRITERS)
def test_nothing_raises_whatever_is_said(kind):
    rng = random.Random(kind)
    for number in range(MUTATED):
        schemas, _, text = variation(kind, number)
        for _ in range(8):
            begin = rng.randrange(len(text) + 1)
            end = min(begin + rng.choice((0, 0, 1, 3, 20)), len(text))
            text = text[:begin] + rng.choice(("", rng.choice(PIECES))) + text[end:]
            read(text, schemas)


def test_replies_of_the_corpus_may_be_mutated():
    rng = random.Random(0)
    for case in corpus():
        if case["kind"] == "text":
            text = case["reply"]
            place = rng.randrange(len(text) + 1)
            read(text[:place] + rng.choice(PIECES) + text[place + rng.randrange(3) :], {"look": {}})
