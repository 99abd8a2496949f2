"""Location prior: how often a kind of receptacle holds a kind of object, counted on train games.

The rule-based baseline searches by it. ``prior.toml`` holds the counts of two sources, none of their texts:
the published train games, and as many built-in ones. ``python -m agentgym.envs.alfworld.prior`` counts them
anew, which takes the published games in the data directory; ``--check`` compares instead.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from agentgym.core.tasks import Task
from agentgym.envs.alfworld.builtin.tasks import builtin_tasks
from agentgym.envs.alfworld.tasks import stored_tasks
from agentgym.io.files import replace_file

FILE = Path(__file__).with_name("prior.toml")

GAMES = 3_553
"""Train games counted of each source: all the published ones."""

FLOOR = 0.001
"""Chance of what has never been seen."""

PriorCounts: TypeAlias = Mapping[str, Mapping[str, Sequence[int]]]
"""Counts by thing and receptacle: receptacles that hold such a thing at first, and receptacles of the games
that have one anywhere."""

_HEADER = """\
# Where things are at first in train games: thing = {{ receptacle = [holding one, of all] }}, over the
# receptacles of the games that have such a thing. Kinds that never hold one are left out.
# Made by `python -m agentgym.envs.alfworld.prior` from {games} games of each source.
"""

_INSIDE = re.compile(r"\(inreceptacle (\S+) (\S+)\)")
_THING_KIND = re.compile(r"\(objecttype (\S+) (\S+?)type\)")
_PLACE_KIND = re.compile(r"\(receptacletype (\S+) (\S+?)type\)")


def chance(thing: str, receptacle: str) -> float:
    """Return the probability that a kind of receptacle holds a kind of object, if the room has one.

    Example:
        >>> chance("egg", "fridge") > chance("egg", "drawer")
        True
    """
    return _chances().get((thing, receptacle), FLOOR)


@cache
def _chances() -> dict[tuple[str, str], float]:
    holding: Counter[tuple[str, str]] = Counter()
    of_all: Counter[tuple[str, str]] = Counter()
    for counts in load().values():
        for thing, places in counts.items():
            for place, (some, every) in places.items():
                holding[thing, place] += some
                of_all[thing, place] += every
    return {key: FLOOR + some / (1 + of_all[key]) for key, some in holding.items()}


def load() -> Mapping[str, PriorCounts]:
    """Return the counts of the file by source."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def count(tasks: Iterable[Task]) -> PriorCounts:
    """Count where things are at first in games."""
    holding: Counter[tuple[str, str]] = Counter()
    of_all: Counter[tuple[str, str]] = Counter()
    for task in tasks:
        facts = task.content.read().problem.lower().partition("(:init")[2].partition("(:goal")[0]
        things, places = dict(_THING_KIND.findall(facts)), dict(_PLACE_KIND.findall(facts))
        filled = {(things[o], r) for o, r in _INSIDE.findall(facts) if o in things and r in places}
        holding.update((thing, places[receptacle]) for thing, receptacle in filled)
        for thing in {thing for thing, _ in filled}:
            of_all.update((thing, kind) for kind in places.values())
    counts: dict[str, dict[str, list[int]]] = {}
    for (thing, place), some in sorted(holding.items()):
        counts.setdefault(thing, {})[place] = [some, of_all[thing, place]]
    return counts


def text(sources: Mapping[str, PriorCounts]) -> str:
    """Return the file's content for the counts of each source."""
    parts = [_HEADER.format(games=f"{GAMES:,}")]
    for source, counts in sources.items():
        parts.append(f"\n[{source}]\n")
        for thing, places in counts.items():
            cells = ", ".join(f"{place} = [{some}, {every}]" for place, (some, every) in places.items())
            parts.append(f"{thing} = {{ {cells} }}\n")
    return "".join(parts)


def main() -> int:
    """Write the file, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    arguments = parser.parse_args()
    published = stored_tasks("train", "official", types=None, dialect="game", on_error="raise")
    games = {"builtin": builtin_tasks("train"), "official": published}
    made = text({source: count(islice(tasks, GAMES)) for source, tasks in games.items()})
    if not arguments.check:
        replace_file(FILE, made)
        return 0
    same = made == FILE.read_text(encoding="utf-8")
    sys.stdout.write(f"{FILE.name} {'is' if same else 'is not'} what the train games give\n")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
