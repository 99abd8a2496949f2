"""Multi-hop question drawing for people: passages, those that support the answer, and its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agentgym.core.markup import Element, element
from agentgym.core.suite_spec import SuiteDrawing
from agentgym.core.types import Passage, Step
from agentgym.envs.multihop.data.questions import StoredQuestion
from agentgym.envs.multihop.env import MultihopEnv, MultihopState

MAX_DRAWN = 40
"""Passages; of more, their number is."""

_NOTICE = "The last action was not accepted, and nothing changed."


def draw_search(env: MultihopEnv, steps: Sequence[Step]) -> Element:
    """Draw the question, its gold answer, and the passages found so far, the newest marked."""
    state: MultihopState = env.snapshot().state
    question: StoredQuestion = env.task.content
    gold = (question.answer, *question.aliases)
    missing = env.corpus.missing(question, state.passages)
    titles = [each if isinstance(each, str) else each.title for each in missing]
    fresh = set(state.passages[len(state.passages) - state.fresh :])
    return element(
        "div",
        element("p", element("strong", "Question "), question.question),
        element("p", element("strong", "Gold answer "), element("mark", question.answer), class_="muted"),
        _answer(env, state),
        _hops(question),
        element("p", element("strong", "Still missing "), "; ".join(titles), class_="bad")
        if titles
        else None,
        element(
            "ol",
            *(
                _passage(env, question, number, gold, new=number in fresh)
                for number in state.passages[:MAX_DRAWN]
            ),
            class_="passages",
        ),
        element("p", f"and {len(state.passages) - MAX_DRAWN} more")
        if len(state.passages) > MAX_DRAWN
        else None,
        class_="search",
    )


def _answer(env: MultihopEnv, state: MultihopState) -> Element | None:
    if state.answer is None:
        return None
    measures = env.measures()
    scored = f" exact match {measures['em']:g}, F1 {measures['f1']:.2f}"
    return element(
        "p",
        element("strong", "Answer given "),
        state.answer,
        element("span", scored, class_="tag"),
        class_="good" if measures["em"] == 1.0 else "bad",
    )


def _hops(question: StoredQuestion) -> Element | None:
    """Draw the hops of a question that comes with them."""
    hops = [
        element("li", f"{hop.question} ", element("strong", hop.answer)) for hop in question.decomposition
    ]
    return element("details", element("summary", f"{len(hops)} hops"), element("ol", *hops)) if hops else None


def _passage(
    env: MultihopEnv, question: StoredQuestion, number: int, gold: Sequence[str], *, new: bool
) -> Element:
    passage: Passage = env.corpus.passage(number)
    own = question.gold_titles if env.corpus.name == "fullwiki" else question.supporting
    supports = (passage.title if env.corpus.name == "fullwiki" else number) in own
    return element(
        "li",
        element("strong", passage.title),
        element("span", "supports the answer", class_="tag good") if supports else None,
        element("span", "new", class_="tag here") if new else None,
        element("p", *_marked(passage.text, gold)),
        class_="card good" if supports else "card",
    )


def _marked(text: str, answers: Sequence[str]) -> Iterator[Element | str]:
    """Yield a text with the places where an answer stands in it marked."""
    wanted = "|".join(re.escape(answer) for answer in sorted(answers, key=len, reverse=True) if answer)
    for number, part in enumerate(re.split(f"({wanted})", text, flags=re.IGNORECASE) if wanted else [text]):
        if part:
            yield element("mark", part) if number % 2 else part


def notices(env: MultihopEnv) -> tuple[str, ...]:
    """Return the notice of an action that was not accepted, with its advice."""
    return (_NOTICE, "Choose one of the actions listed.", env.form.advice)


DRAWING = SuiteDrawing(draw_search, notices)
