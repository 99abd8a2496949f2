"""TextWorld with its parsing remembered: the fairest baseline, and what makes a parity run affordable.

TextWorld parses each template and each query anew for every admissible command of every step, and
translates a game's PDDL twice per load and twice per reset, once of them for a planner that nothing here
asks. Inside `memoised` each text is parsed and each game is translated once. What it plays is unchanged;
`benchmarks.parity.alfworld` proves that on a sample each time it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

GAMES_KEPT = 4
"""Translated games remembered: enough to restart the one being played."""


@contextmanager
def memoised() -> Iterator[None]:
    """Make every TextWorld engine of this process remember what it parses."""
    import fast_downward
    from textworld.envs.pddl import textgen
    from textworld.logic import Rule

    originals = (textgen._parse_and_convert, Rule.__dict__["parse_conjunctive_query"], fast_downward.pddl2sas)
    parse_query = Rule.parse_conjunctive_query
    queries: dict[str, Any] = {}

    def query(cls: type, expression: str) -> Any:
        if expression not in queries:
            queries[expression] = parse_query(expression)
        return queries[expression]

    textgen._parse_and_convert = _remember_texts(textgen._parse_and_convert)
    Rule.parse_conjunctive_query = classmethod(query)
    fast_downward.pddl2sas = _remember_games(fast_downward.pddl2sas)
    try:
        yield
    finally:
        textgen._parse_and_convert, Rule.parse_conjunctive_query, fast_downward.pddl2sas = originals


def _remember_texts(parse: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[tuple[str, str], Any] = {}

    def remembered(text: str, rule_name: str, trace: bool = False) -> Any:
        key = (text, rule_name)
        if key not in known:
            known[key] = parse(text, rule_name=rule_name, trace=trace)
        return deepcopy(known[key])  # deriving a sentence writes into it

    return remembered


def _remember_games(translate: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[tuple[str, str], Any] = {}

    def remembered(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> Any:
        del optimize  # only the planner's copy of the game is optimized
        key = (domain, problem)
        if key not in known:
            if len(known) >= GAMES_KEPT:
                known.clear()
            known[key] = translate(domain, problem, verbose=verbose)
        return known[key]

    return remembered
