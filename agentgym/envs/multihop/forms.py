"""Forms of the game: calls in a step, the parsing of actions, and the wording of instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from agentgym.core.calls import begins_call, read_calls
from agentgym.core.tools import Tool, ToolParameter

FormName: TypeAlias = Literal["steppo", "search-r1"]

Untagged: TypeAlias = Literal["end", "answer", "invalid"]
"""Effect of an action without a call: the episode ends, or the action is the answer, or is rejected."""

SEARCH: Final = "search"
ANSWER: Final = "answer"
CALLS: Final = (SEARCH, ANSWER)

TEMPLATES: Final = ("search[<query>]", "answer[<text>]")
"""Actions, where they are not enumerated."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form of the game."""

    searches: int
    """Largest number of searches in a step."""
    k: int
    """Largest number of passages that a search finds."""
    steps: int
    """Step limit."""
    untagged: Untagged
    advice: str
    """Answer to an action that is not accepted."""


FORMS: Final[Mapping[FormName, Form]] = {
    "steppo": Form(
        searches=4,
        k=5,
        steps=5,
        untagged="end",
        advice="Write up to 4 searches, a line each, as search[query], or one answer as answer[text].",
    ),
    "search-r1": Form(
        searches=1,
        k=3,
        steps=4,
        untagged="invalid",
        advice="Write one search as search[query], or one answer as answer[text], and nothing else.",
    ),
}
"""Forms by name."""


def tools_of(form: Form, untagged: Untagged) -> tuple[Tool, ...]:
    """Return the tools: ``search``, in parallel where a step may have several, and ``answer``."""
    query = ToolParameter("query", description="What to look for, in a few words.")
    text = ToolParameter("text", description="The answer alone: a name, a number, a date, yes or no.")
    return (
        Tool(SEARCH, "Search for passages.", (query,), parallel=form.searches > 1),
        Tool(ANSWER, "Answer the question, which ends the task.", (text,), untagged=untagged == "answer"),
    )


class Turn(NamedTuple):
    """Meaning of an action: searches, an answer, or the end without either."""

    queries: tuple[str, ...] = ()
    answer: str | None = None


NO_CALL: Final = Turn()
"""Turn without a call: the episode ends unanswered, and the action is invalid."""


def read_turn(action: str, form: Form, untagged: Untagged) -> Turn | None:
    r"""Return an action's meaning; None where it does nothing.

    The action holds calls of ``search`` and ``answer``, as `read_calls` reads them, as many as the form
    takes; ``untagged`` is the meaning of one without any call.

    Example:
        >>> read_turn("search[a red house]", FORMS["search-r1"], "invalid")
        Turn(queries=('a red house',), answer=None)
        >>> read_turn("answer[Rome]", FORMS["steppo"], "end")
        Turn(queries=(), answer='Rome')
        >>> read_turn("search[Rome]\nanswer[Rome]", FORMS["steppo"], "end") is None
        True
        >>> read_turn("It is Rome.", FORMS["steppo"], "answer")
        Turn(queries=(), answer='It is Rome.')
    """
    if not _is_text(action):
        return None
    calls = read_calls(action, CALLS)
    if calls is None:
        return None if untagged == "invalid" or begins_call(action, CALLS) else _untagged(action, untagged)
    queries = tuple(call.text.strip() for call in calls if call.name == SEARCH)
    answers = [call.text.strip() for call in calls if call.name == ANSWER]
    if answers:
        return None if queries or len(answers) > 1 else Turn(answer=answers[0])
    return Turn(queries) if all(queries) and len(queries) <= form.searches else None


@lru_cache(maxsize=1 << 12)
def normal_query(query: str) -> str:
    """Return the normal form that identifies queries: lower case and single blanks.

    Example:
        >>> normal_query(" The  Red House")
        'the red house'
    """
    return " ".join(query.lower().split())


def _untagged(action: str, untagged: Untagged) -> Turn:
    return Turn(answer=action.strip()) if untagged == "answer" else NO_CALL


def _is_text(action: str) -> bool:
    """Return whether an action can be written down: half a surrogate pair cannot."""
    return (
        not any("\ud800" <= character <= "\udfff" for character in action) if not action.isascii() else True
    )
