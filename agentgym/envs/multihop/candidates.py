"""Candidates: the names that were seen so far, as searches and answers to choose from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from agentgym.core.calls import Call, write_calls
from agentgym.core.types import Passage
from agentgym.envs.multihop.forms import ANSWER, SEARCH, normal_query

_MAX_CACHED_TEXTS = 1 << 14
_MAX_CACHED_LISTS = 1 << 10

_WORD = re.compile(r"[^\W\d_]\.(?=\s)|[^\W_]+(?:[-'\u2019&][^\W_]+)*|\S")
"""An initial with its point; a word; any other sign."""

_WITHIN = frozenset({"of", "de", "von", "the", "upon", "la", "del"})
"""Words that may stand within a name."""

FUNCTION_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "at",
        "by",
        "did",
        "do",
        "does",
        "for",
        "from",
        "in",
        "is",
        "it",
        "its",
        "of",
        "on",
        "or",
        "that",
        "the",
        "this",
        "to",
        "was",
        "were",
        "which",
        "who",
        "whose",
        "with",
    ]
)
"""Words that carry no meaning of their own."""

_NO_NAMES = FUNCTION_WORDS | frozenset(
    [
        "he",
        "her",
        "his",
        "how",
        "she",
        "their",
        "there",
        "they",
        "what",
        "when",
        "where",
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ]
)
"""Words that are no name by themselves, nor begin or end one."""

_KIND = re.compile(r" \([^()]*\)$")
"""Ending that tells titles of one name apart."""


@lru_cache(maxsize=_MAX_CACHED_TEXTS)
def names_in(text: str) -> tuple[str, ...]:
    """Return the names and years in a text, each once, in order.

    Example:
        >>> names_in("The Quiet Otters formed in Lorhaven in 1962, says Ada K. Moore, University of Esk.")
        ('Quiet Otters', 'Lorhaven', '1962', 'Ada K. Moore', 'University of Esk')
    """
    return tuple(_distinct(_runs(_WORD.findall(text))))


def base_title(title: str) -> str:
    """Return a title without its disambiguation.

    Example:
        >>> base_title("The Amber Bell (film)")
        'The Amber Bell'
    """
    return _KIND.sub("", title)


@lru_cache(maxsize=_MAX_CACHED_LISTS)
def candidate_actions(question: str, passages: tuple[Passage, ...], made: frozenset[str]) -> tuple[str, ...]:
    """Return the searches and answers to choose from.

    ``passages``: those found, in an order that depends on their set alone; ``made``: the queries so far, as
    `normal_query` writes them.
    """
    titles = [base_title(passage.title) for passage in passages]
    names = _distinct(
        [*names_in(question), *titles, *(n for passage in passages for n in names_in(passage.text))]
    )
    known = made | {normal_query(title) for title in (*titles, *(passage.title for passage in passages))}
    queries = (query for query in (question, *names) if normal_query(query) not in known)
    return (
        *(write_calls([Call(SEARCH, query)]) for query in queries),
        *(write_calls([Call(ANSWER, name)]) for name in _distinct(["yes", "no", *names])),
    )


def _runs(words: Iterable[str]) -> Iterator[str]:
    """Yield runs of capitalised words, and numbers of three or four digits."""
    run: list[str] = []
    for word in (*words, ""):
        if word[:1].isupper() or (run and word in _WITHIN):
            run.append(word)
            continue
        yield from _trimmed(run)
        run = []
        if word.isdecimal() and 3 <= len(word) <= 4:
            yield word


def _trimmed(run: list[str]) -> Iterator[str]:
    while run and run[-1].lower() in _NO_NAMES | _WITHIN:
        run.pop()
    begin = 0
    while begin < len(run) and run[begin].lower() in _NO_NAMES:
        begin += 1
    if run[begin:]:
        yield " ".join(run[begin:])


def _distinct(names: Iterable[str]) -> list[str]:
    """Return names that differ in more than case and blanks, the first spelling of each."""
    return list({normal_query(name): name for name in reversed(list(names))}.values())[::-1]
