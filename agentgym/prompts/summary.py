"""Summary of past turns, by a fixed rule: what was done, whether it was accepted, and what came of it.

A turn is a line: its action, and the first line of the observation after it, where that is another than
before. Turns in a row that would read alike share a line. No model is asked, so that a summary is a function
of an episode's steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from agentgym.core.episodes import observed_text
from agentgym.core.hashing import sha256_json
from agentgym.core.types import Observation, Step
from agentgym.prompts.sections import Section, check_text
from agentgym.prompts.wording import check_complete, parse_table

MAX_OUTCOME = 80
"""Characters of an observation's first line that a summary tells at most."""

_SLOTS = {
    "heading": Section(frozenset()),
    "turn": Section(frozenset(("number", "action"))),
    "turns": Section(frozenset(("number", "last", "action"))),
    "rejected": Section(frozenset()),
    "outcome": Section(frozenset(("outcome",))),
}


class SummaryWords(NamedTuple):
    """The words of ``summary.toml``, and the sha256 that pins them and the rule."""

    heading: str
    turn: str
    turns: str
    rejected: str
    outcome: str
    sha256: str


@cache
def summary_words() -> SummaryWords:
    """Return the words that summaries are made of."""
    where = "summary.toml"
    text = files("agentgym").joinpath("prompts", where).read_text(encoding="utf-8")
    table = parse_table(text, {"id": str, "version": int, **dict.fromkeys(_SLOTS, str)}, where)
    check_complete(table, ("id", "version", *_SLOTS), where)
    for key, section in _SLOTS.items():
        check_text(table[key], section, f"{where}: {key}")
    pin = sha256_json({**table, "longest_outcome": MAX_OUTCOME})
    return SummaryWords(**{key: table[key] for key in _SLOTS}, sha256=pin)


class SummaryLine(NamedTuple):
    """Line for one turn, or for several that are alike."""

    first: int
    """The turn, from 1."""
    last: int
    text: str
    """The action, with what became of it."""


def summary_lines(steps: Sequence[Step], after: Observation) -> list[SummaryLine]:
    """Return what an episode's first turns come to, oldest first.

    Args:
        steps: steps of the turns.
        after: the observation that the last of them led to.

    Example:
        >>> from agentgym.core.types import Completion
        >>> def step(seen, action, valid=True):
        ...     return Step(seen, "0", (), Completion(action), 0.0, "0", valid, False, False)
        >>> jump = step("A hall.", "jump", False)
        >>> steps = [step("A door.", "open it"), jump, jump]
        >>> for line in summary_lines(steps, "A hall."):
        ...     print(line.first, line.last, line.text)
        1 1 open it: A hall.
        2 3 jump (not accepted)
    """
    words = summary_words()
    lines: list[SummaryLine] = []
    seen = [_first_line(step.observation) for step in steps] + [_first_line(after)]
    for number, step in enumerate(steps, start=1):
        text = " ".join(step.action.split())
        if not step.valid:
            text += words.rejected
        if seen[number] and seen[number] != seen[number - 1]:
            text += words.outcome.format(outcome=seen[number])
        if lines and lines[-1].text == text:
            lines[-1] = lines[-1]._replace(last=number)
        else:
            lines.append(SummaryLine(number, number, text))
    return lines


def render_summary(lines: Sequence[SummaryLine]) -> str:
    """Return lines as a part of a prompt; empty where there are none."""
    if not lines:
        return ""
    words = summary_words()
    rendered = [
        (words.turn if first == last else words.turns).format(number=first, last=last, action=text)
        for first, last, text in lines
    ]
    return "\n".join((words.heading, *rendered))


def _first_line(observation: Observation) -> str:
    line = next(iter(observed_text(observation).strip().splitlines()), "")
    return line if len(line) <= MAX_OUTCOME else f"{line[:MAX_OUTCOME]}..."
