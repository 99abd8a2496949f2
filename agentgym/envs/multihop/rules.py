"""Rule-based reader, with an agent's view: the baseline of reading agents.

It searches the question, then the names in the passages that share most with it, and answers with the name or
year that stands nearest to the question's words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agentgym.core.calls import Call, read_calls, write_calls
from agentgym.core.policies import RequestPolicy
from agentgym.core.types import Policy, Request
from agentgym.envs.multihop.candidates import FUNCTION_WORDS, base_title, names_in
from agentgym.envs.multihop.env import MultihopEnv
from agentgym.envs.multihop.forms import ANSWER, CALLS, SEARCH, normal_query
from agentgym.errors import UnsupportedEnvError
from agentgym.vector.core import AgentVectorEnv

_PASSAGE = re.compile(r"\[[0-9]+\] (.*)")
_QUERY = re.compile(r"- (.*)")
_WORDS = re.compile(r"\w+")
_SENTENCES = re.compile(r"(?<=[.!?]) (?=[^a-z])")
_YEAR = re.compile(r"\b1[0-9]{3}\b|\b20[0-9]{2}\b")
_LAST = frozenset({"last", "later", "latest", "younger", "newer", "recent", "recently"})
_YES_OR_NO = frozenset({"are", "did", "do", "does", "is", "was", "were", "have", "has"})
_NEAR = 0.8
"""Weight of a hop, in shared words."""
_STEM = 4


class Seen(NamedTuple):
    """Parsed observation."""

    passages: tuple[str, ...]
    """Title and text of each passage."""
    queries: frozenset[str]
    """Queries as `normal_query` writes them."""


def make_lexical(envs: AgentVectorEnv) -> Policy:
    """Make the agent ``lexical``."""
    game = envs.prototype
    if not isinstance(game, MultihopEnv):
        name = type(game).__name__
        raise UnsupportedEnvError(f"the agent 'lexical' answers questions, not {name}; use the agent 'rules'")
    return LexicalPolicy(game.form.searches, envs.max_steps, enumerates=game.enumerates)


class LexicalPolicy(RequestPolicy):
    """Searches and answers by overlap of words. It remembers nothing: all follows from the request."""

    def __init__(self, searches: int, max_steps: int, *, enumerates: bool = False):
        """Set the form of the game; ``searches`` is the most in one step."""
        self._searches = searches
        self._max_steps = max_steps
        self._enumerates = enumerates

    def _action(self, request: Request) -> str:
        question: str = request.extra["question"]
        seen = _read(request.observation)
        queries = [] if request.turn + 1 >= self._max_steps else self._queries(question, seen)
        if self._enumerates:
            return _nearest_listed(request.admissible_actions, queries, _answer(question, seen))
        if queries:
            return write_calls(Call(SEARCH, query) for query in queries[: self._searches])
        return write_calls([Call(ANSWER, _answer(question, seen))])

    def _queries(self, question: str, seen: Seen) -> list[str]:
        """Return the next queries: the question, then names of the best passages, then nothing."""
        if normal_query(question) not in seen.queries:
            return [question, *names_in(question)] if not seen.queries else [question]
        titles = {normal_query(base_title(passage.partition(": ")[0])) for passage in seen.passages}
        known = seen.queries | titles | {normal_query(name) for name in names_in(question)}
        best = sorted(seen.passages, key=lambda passage: -_overlap(question, passage))[
            : max(2, self._searches)
        ]
        found = [
            name
            for passage in best
            for name in names_in(passage.partition(": ")[2])
            if not name.isdecimal() and normal_query(name) not in known
        ]
        return list(dict.fromkeys(found))


def _answer(question: str, seen: Seen) -> str:
    """Return the answer by overlap of words: of a comparison one side, else the nearest name or year."""
    first = question.split(maxsplit=1)[0].lower()
    sides = _sides(question)
    if sides is not None and first in ("which", "who"):
        return _compared(question, sides, seen)
    if first in _YES_OR_NO:
        return _yes_or_no(question, seen)
    return _nearest_name(question, seen) or "yes"


def _nearest_name(question: str, seen: Seen) -> str:
    """Return the name, or the year in a question for one, that stands right after the question's words.

    Sentences of passages that the question does not name, but a passage does that it names, count for more.
    """
    wants_year = "year" in _content(question) or question.startswith("When")
    own = {normal_query(name) for name in names_in(question)}
    cues = _stems(word for word in _content(question) if word not in _content(" ".join(own)))
    linked = _linked(question, seen)
    best, answer = 0.0, ""
    for passage in seen.passages:
        title, _, text = passage.partition(": ")
        near = _NEAR * linked.get(_plain(title), 0.0)
        for sentence in _SENTENCES.split(text):
            before: set[str] = set()
            for name in names_in(sentence):
                head = sentence.partition(name)[0]
                before = cues & _stems(_content(head))
                fits = name.isdecimal() == wants_year and normal_query(name) not in own and name not in title
                if fits and (worth := near + len(before) / (1 + 0.01 * len(head))) > best:
                    best, answer = worth, name
    return answer


def _linked(question: str, seen: Seen) -> dict[str, float]:
    """Return the number of names, up to three, from a question's passages to a title."""
    normal = normal_query(question)
    texts: dict[str, str] = {}
    for passage in sorted(seen.passages, key=lambda passage: _overlap(question, passage)):
        title, _, text = passage.partition(": ")
        texts[_plain(title)] = text  # the better match comes last and stays
    depth = {title: 0.0 for title in texts if title in normal}
    for hop in (1.0, 2.0, 3.0):
        for title in [title for title, at in depth.items() if at == hop - 1]:
            for name in map(_plain, names_in(texts[title])):
                if name in texts:
                    depth.setdefault(name, hop)
    return depth


def _plain(title: str) -> str:
    return normal_query(base_title(title)).removeprefix("the ")


def _compared(question: str, sides: tuple[str, str], seen: Seen) -> str:
    """Return the side of the earlier year, or of the later one in a question for the last."""
    years = [_year_of(side, seen) for side in sides]
    if None in years or years[0] == years[1]:
        return sides[0]
    late = bool(_LAST & set(_content(question)))
    return sides[years.index(max(years) if late else min(years))]  # type: ignore[type-var]


def _year_of(name: str, seen: Seen) -> int | None:
    for passage in seen.passages:
        title, _, text = passage.partition(": ")
        if normal_query(base_title(title)) == normal_query(name) and (year := _YEAR.search(text)):
            return int(year[0])
    return None


def _yes_or_no(question: str, seen: Seen) -> str:
    """Return whether the passages about two names have a name or year in common."""
    about = [
        {normal_query(name) for name in names_in(passage.partition(": ")[2])}
        for passage in seen.passages
        if (title := base_title(passage.partition(": ")[0])) and normal_query(title) in normal_query(question)
    ]
    common = set.intersection(*about) if len(about) > 1 else set()
    return "yes" if common else "no"


def _sides(question: str) -> tuple[str, str] | None:
    """Return the two that a question asks to choose between."""
    head, between, tail = question.rstrip("?").rpartition(" or ")
    if not between:
        return None
    return head.rpartition(", ")[2].strip(), tail.strip()


def _nearest_listed(listed: Sequence[str], queries: Sequence[str], answer: str) -> str:
    """Return the listed search for one of the queries, or the listed answer that shares most words."""
    calls = [(action, call) for action in listed for call in read_calls(action, CALLS) or ()]
    by_query = {normal_query(call.text): action for action, call in calls if call.name == SEARCH}
    search = next((by_query[key] for query in queries if (key := normal_query(query)) in by_query), None)
    if search is not None or not calls:
        return search or ""
    answers = [(action, call.text) for action, call in calls if call.name == ANSWER]
    return max(answers, key=lambda each: _likeness(each[1], answer))[0]


def _likeness(one: str, other: str) -> float:
    left, right = set(_WORDS.findall(one.lower())), set(_WORDS.findall(other.lower()))
    return len(left & right) / max(1, len(left | right))


def _overlap(question: str, text: str) -> float:
    """Return the share of the question's words that a text has."""
    content = [word for word in _content(question) if word not in FUNCTION_WORDS]
    words = set(_content(text))
    return sum(word in words for word in content) / max(1, len(content))


def _stems(words: Iterable[str]) -> set[str]:
    """Return the stems of words, which ``directed`` and ``director`` share."""
    return {word[:_STEM] for word in words if word not in FUNCTION_WORDS}


def _content(text: str) -> list[str]:
    return _WORDS.findall(text.lower())


def _read(observation: str) -> Seen:
    """Return an observation, parsed."""
    lines = observation.split("\n")
    passages = tuple(found[1] for line in lines if (found := _PASSAGE.fullmatch(line)))
    start = lines.index("Queries so far:") if "Queries so far:" in lines else len(lines)
    queries = (found[1] for line in lines[start:] if (found := _QUERY.fullmatch(line)))
    return Seen(passages, frozenset(normal_query(query) for query in queries))
