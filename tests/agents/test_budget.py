"""Prompts fit their budget; what must be known stays, and what is left out is said."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.types import Completion, Request, Step
from agentgym.errors import UsageError
from agentgym.prompts import load_template
from agentgym.prompts.budget import PromptBuilder, PromptTooLongError, fit
from agentgym.prompts.fields import Exchange, PromptFields
from agentgym.prompts.rendering import render

TERSE = load_template("terse", "bare")


class WordTokenizer:
    """One token per word or other character; a chat has one token before and two after."""

    piece = re.compile(r"\w+|\s|[^\w\s]")

    def __init__(self):
        self.words = []
        self.numbers = {}
        self.calls = 0

    def encode(self, text):
        pieces = self.piece.findall(text)
        for piece in pieces:
            if piece not in self.numbers:
                self.numbers[piece] = 3 + len(self.words)
                self.words.append(piece)
        return [self.numbers[piece] for piece in pieces]

    def decode(self, ids):
        return "".join(self.words[number - 3] for number in ids)

    def encode_chat(self, message):
        self.calls += 1
        return [0, *self.encode(message), 1, 2]


def length(template, slots, **left_out):
    return len(WordTokenizer().encode_chat(render(template, slots, **left_out).text))


def slots(turns=6, **changes):
    values = {
        "task": "find the mug",
        "observation": "now " + "you see a shelf and " * 5,
        "turn": turns,
        "recent": tuple(Exchange(f"seen{i} and much besides", f"done{i}") for i in range(turns)),
        "admissible_actions": ("go to shelf 1", "look"),
        "location": "",
        "held": "",
        "moved": (),
    }
    return PromptFields(**(values | changes))


def test_what_fits_stays_whole():
    tokenizer = WordTokenizer()
    fitted = fit(TERSE, slots(), tokenizer, length(TERSE, slots()))
    assert fitted.prompt == render(TERSE, slots())
    assert fitted.ids == tuple(WordTokenizer().encode_chat(fitted.prompt.text))
    assert tokenizer.decode(fitted.ids[1:-2]) == fitted.prompt.text
    assert tokenizer.calls == 1  # the common case costs one pass over the text


@pytest.mark.parametrize("dropped", range(1, 7))
def test_the_oldest_turns_go_first(dropped):
    budget = length(TERSE, slots(), dropped=dropped)
    fitted = fit(TERSE, slots(), WordTokenizer(), budget)
    assert (fitted.prompt.dropped, fitted.prompt.shown, fitted.prompt.cut) == (dropped, 6 - dropped, 0)
    assert len(fitted.ids) == budget
    assert re.findall(r"seen(\d)", fitted.prompt.text) == [str(i) for i in range(dropped, 6)]
    assert f"omitted: {dropped}\n" in fitted.prompt.text
    one_less = fit(TERSE, slots(), WordTokenizer(), budget - 1)
    assert one_less.prompt.dropped == dropped + 1 if dropped < 6 else one_less.prompt.cut


def test_the_end_of_the_observation_goes_last():
    whole = slots()
    budget = length(TERSE, whole, dropped=6) - 3
    fitted = fit(TERSE, whole, WordTokenizer(), budget)
    cut = fitted.prompt.cut
    assert fitted.prompt.dropped == 6
    assert cut > 0
    assert f"\n\n{whole.observation[:-cut]}\ncut: {cut}\n\n" in fitted.prompt.text
    assert length(TERSE, whole, dropped=6, cut=cut - 1) > budget  # not a character more than needed


def test_an_observation_that_tells_the_task_is_never_cut():
    whole = slots(task="")
    least = length(TERSE, whole, dropped=6)
    assert fit(TERSE, whole, WordTokenizer(), least).prompt.cut == 0
    message = (
        rf"^the prompt of terse/bare needs {least} tokens for its instructions, its observation, which tells "
        rf"the task, and 2 possible actions, but the budget is {least - 1}: raise it$"
    )
    with pytest.raises(PromptTooLongError, match=message):
        fit(TERSE, whole, WordTokenizer(), least - 1)


def test_a_budget_too_small_for_task_and_actions_is_refused():
    whole = slots()
    least = length(TERSE, whole, dropped=6, cut=len(whole.observation))
    assert len(fit(TERSE, whole, WordTokenizer(), least).ids) <= least
    message = (
        rf"^the prompt of terse/bare needs {least} tokens for its instructions, its task and 2 possible "
        rf"actions, but the budget is {least - 1}: raise it$"
    )
    with pytest.raises(PromptTooLongError, match=message):
        fit(TERSE, whole, WordTokenizer(), least - 1)


WORDS = st.text("ab {}\n", max_size=60)
SLOTS = st.builds(
    PromptFields,
    task=WORDS,
    observation=WORDS,
    turn=st.integers(9, 50),
    recent=st.lists(st.builds(Exchange, WORDS, WORDS), max_size=9).map(tuple),
    admissible_actions=st.lists(WORDS, max_size=9).map(tuple),
    location=WORDS,
    held=WORDS,
    moved=st.lists(WORDS, max_size=3).map(tuple),
)
TEMPLATES = [
    TERSE,
    load_template("alfworld-account", "think-action"),
    load_template("sokoban", "analysis-calls"),
]


@given(template=st.sampled_from(TEMPLATES), filled=SLOTS, share=st.floats(0, 1.1))
def test_a_prompt_fits_with_task_and_actions_whole_or_is_refused(template, filled, share):
    budget = max(1, int(share * length(template, filled)))
    turns, characters = len(filled.recent), len(filled.observation)
    least = length(template, filled, dropped=turns)
    if filled.task:
        least = min(least, length(template, filled, dropped=turns, cut=characters))
    if min(least, length(template, filled)) > budget:
        with pytest.raises(
            PromptTooLongError, match=rf"^the prompt of \S+ needs {least:,} tokens .*: raise it$"
        ):
            fit(template, filled, WordTokenizer(), budget)
        return
    tokenizer = WordTokenizer()
    fitted = fit(template, filled, tokenizer, budget)
    prompt = fitted.prompt
    assert len(fitted.ids) <= budget
    assert tokenizer.decode(fitted.ids[1:-2]) == prompt.text
    assert prompt == render(template, filled, dropped=prompt.dropped, cut=prompt.cut)
    assert not prompt.cut or (filled.task and not prompt.shown)
    assert prompt.text.startswith(template.static)
    assert filled.task in prompt.text
    if filled.admissible_actions:
        assert prompt.text.endswith(template.separator.join(filled.admissible_actions))
    if length(template, filled) <= budget:
        assert (prompt.dropped, prompt.cut) == (0, 0)


def test_a_builder_tells_as_many_turns_as_it_is_asked_to():
    step = Step("seen", "0", ("a",), Completion("a"), 0.0, "1", True, False, False)
    request = Request(0, "t", "", 5, "now", ("a", "b"), "1", 7, history=(step,) * 5, extra={"goal": "win"})
    for history in (0, 1, 3, 9):
        builder = PromptBuilder(TERSE, WordTokenizer(), budget=500, history=history)
        filled = PromptFields.of(request, history=history)
        assert builder.build(request).prompt == render(TERSE, filled)
        assert builder.build(request).prompt.shown == min(history, 5)
    assert PromptBuilder(TERSE, WordTokenizer(), budget=40, history=5).build(request).prompt.dropped > 0


@pytest.mark.parametrize(
    ("response", "action"),
    [
        ("<think>why</think><action>Go to  shelf 1</action>", "go to shelf 1"),
        ("<think>why</think><action>fly</action>", "fly"),
        ("go to shelf 1", ""),
    ],
)
def test_a_builder_reads_what_its_template_asks_for(response, action):
    request = Request(0, "t", "", 0, "now", ("go to shelf 1", "look"), "1", 7)
    builder = PromptBuilder(load_template("generic", "think-action"), WordTokenizer(), budget=500)
    assert builder.read(response, request) == action


@pytest.mark.parametrize("numbers", [{"budget": 0}, {"budget": 9, "history": -1}])
def test_impossible_numbers_are_refused(numbers):
    with pytest.raises(UsageError, match=r"^(budget|history) must be a whole number of at least .*$"):
        PromptBuilder(TERSE, WordTokenizer(), **numbers)


def test_a_long_history_is_fitted_in_few_passes():
    tokenizer = WordTokenizer()
    long = replace(slots(), recent=slots(turns=1000).recent, turn=1000)
    fitted = fit(TERSE, long, tokenizer, 2_000)
    assert 1_950 < len(fitted.ids) <= 2_000
    assert tokenizer.calls <= 12  # 2 + log2(1000)
