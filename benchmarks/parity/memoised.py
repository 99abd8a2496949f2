"""TextWorld with its parsing remembered: the fairest baseline, and what makes a parity run affordable.

TextWorld parses each template and each query anew for every admissible command of every step, and
translates a game's PDDL twice per load and twice per reset, once of them for a planner that nothing here
asks. Inside `memoised` each text is parsed and each game is translated once; inside `hurried`, moreover,
names are not copied deeply for each word of a sentence. What it plays is unchanged:
`benchmarks.parity.alfworld` proves that on a sample each time it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

MAX_CACHED_GAMES = 4
"""Translated games remembered: enough to restart the one being played."""

_texts: dict[tuple[str, str], Any] = {}
_queries: dict[str, Any] = {}
_games: dict[tuple[str, str], Any] = {}


@contextmanager
def hurried() -> Iterator[None]:
    """Do as `memoised`, and copy no more of a sentence's context than is written to."""
    from textworld.envs.pddl import textgen

    original = textgen.copy_context
    textgen.copy_context = _copy_dictionaries
    try:
        with memoised():
            yield
    finally:
        textgen.copy_context = original


@contextmanager
def memoised() -> Iterator[None]:
    """Make every TextWorld engine of this process remember what it parses, now and the next time."""
    import fast_downward
    from textworld.envs.pddl import textgen
    from textworld.logic import Rule

    originals = (textgen._parse_and_convert, Rule.__dict__["parse_conjunctive_query"], fast_downward.pddl2sas)
    parse_query = Rule.parse_conjunctive_query

    def query(cls: type, expression: str) -> Any:
        if expression not in _queries:
            _queries[expression] = parse_query(expression)
        return _queries[expression]

    textgen._parse_and_convert = _remember_texts(textgen._parse_and_convert)
    Rule.parse_conjunctive_query = classmethod(query)
    fast_downward.pddl2sas = _remember_games(fast_downward.pddl2sas)
    try:
        yield
    finally:
        textgen._parse_and_convert, Rule.parse_conjunctive_query, fast_downward.pddl2sas = originals


def forget_games() -> None:
    """Forget the games translated so far: the next one is loaded as if it were the first."""
    _games.clear()


def _copy_dictionaries(context: dict[str, Any]) -> dict[str, Any]:
    """Copy a context down to the objects that its dictionaries name, which nothing writes to."""
    own = {"variables": dict(context["variables"]), "mapping": dict(context["mapping"])}
    return {key: own.get(key, value) for key, value in context.items()}


def _remember_texts(parse: Callable[..., Any]) -> Callable[..., Any]:
    def remembered(text: str, rule_name: str, trace: bool = False) -> Any:
        key = (text, rule_name)
        if key not in _texts:
            _texts[key] = parse(text, rule_name=rule_name, trace=trace)
        return deepcopy(_texts[key])  # deriving a sentence writes into it

    return remembered


def _remember_games(translate: Callable[..., Any]) -> Callable[..., Any]:
    def remembered(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> Any:
        del optimize  # only the planner's copy of the game is optimized
        key = (domain, problem)
        if key not in _games:
            if len(_games) >= MAX_CACHED_GAMES:
                forget_games()
            _games[key] = translate(domain, problem, verbose=verbose)
        return _games[key]

    return remembered
