"""Queries of the built-in graph: a subject and a method or setting, at some date.

What a query asks for are the papers of that subject and facet that had appeared by then, whatever names they
use. All queries for one pair of subject and facet are in one split, which follows from the pair's content.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from agentgym.core.hashing import content_id
from agentgym.core.rng import KeyRng
from agentgym.core.tasks import ListTaskSet, Task, TaskSet, check_split, split_of
from agentgym.envs.papersearch.builtin.graph import (
    BUILTIN,
    FIRST_YEAR,
    SUBJECTS,
    VERSION,
    YEARS,
    builtin_graph,
    usual_facets,
)
from agentgym.envs.papersearch.builtin.words import METHOD_QUERIES, METHODS, SETTING_QUERIES, SETTINGS
from agentgym.envs.papersearch.data.fields import last_day
from agentgym.envs.papersearch.suite import SUITE
from agentgym.envs.papersearch.topics import Topic

SPLITS = ("train", "valid", "test")

QUERIES = 8
"""Largest number of queries of a pair of subject and facet."""

MIN_PAPERS, MAX_PAPERS = 3, 20
"""Papers that a query asks for."""

_EARLIEST = 12
"""Years after the first papers at which the first queries are asked."""


class _Pair(NamedTuple):
    subject: int
    kind: str
    """``method`` or ``setting``: the task's type."""
    facet: int


@lru_cache(maxsize=len(SPLITS))
def builtin_topics(split: str) -> TaskSet:
    """Return the queries of a split."""
    check_split(split, SPLITS)
    members = _members()
    pairs = (pair for pair in _pairs() if split_of(content_id((BUILTIN, pair))) == split)
    tasks = [task for pair in pairs for task in _tasks(pair, members[pair])]
    made = ListTaskSet(split, tasks, dataset=BUILTIN, suite=SUITE.name)
    made.manifest = {**made.manifest, "generator": "citations", "version": VERSION}
    return made


def _pairs() -> Iterator[_Pair]:
    for subject in range(len(SUBJECTS)):
        methods, settings = usual_facets(subject)
        yield from (_Pair(subject, "method", method) for method in methods)
        yield from (_Pair(subject, "setting", setting) for setting in settings)


def _members() -> dict[_Pair, list[tuple[int, str]]]:
    """Return, of each pair, the dates and ids of its papers."""
    members: defaultdict[_Pair, list[tuple[int, str]]] = defaultdict(list)
    graph = builtin_graph()
    for paper, design in zip(graph.papers, graph.designs, strict=True):
        members[_Pair(design.subject, "method", design.method)].append((paper.date, paper.id))
        members[_Pair(design.subject, "setting", design.setting)].append((paper.date, paper.id))
    return members


def _tasks(pair: _Pair, members: list[tuple[int, str]]) -> Iterator[Task]:
    """Yield a pair's queries: of each date and wording, those that ask for a fair number of papers."""
    draws = KeyRng(VERSION, 4, pair.subject, pair.kind == "setting", pair.facet)
    facets = METHODS[pair.facet] if pair.kind == "method" else (SETTINGS[pair.facet],)
    wordings = METHOD_QUERIES if pair.kind == "method" else SETTING_QUERIES
    _, names = SUBJECTS[pair.subject]
    seen = set()
    for number in range(QUERIES):
        year, month = FIRST_YEAR + draws.between(_EARLIEST, YEARS - 1), draws.between(1, 12)
        slots = {"subject": names[draws.below(5) // 3], "facet": facets[draws.below(5) // 3 % len(facets)]}
        query = draws.pick(wordings).format_map(slots)
        date = year * 10_000 + month * 100
        gold = tuple(sorted(id for when, id in members if when <= last_day(date)))
        topic = Topic(query, gold, date)
        if MIN_PAPERS <= len(gold) <= MAX_PAPERS and topic not in seen:
            seen.add(topic)
            source = f"builtin/{pair.subject}/{pair.kind}/{pair.facet}/{number}"
            yield Task(topic.id, topic, source, pair.kind, {"papers": len(gold)})
