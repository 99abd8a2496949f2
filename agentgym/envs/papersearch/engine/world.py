"""Read-only world of a corpus, shared by all its episodes: papers, citations, search."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

import numpy as np

from agentgym.core.tasks import TaskSet
from agentgym.envs.papersearch.data.corpus import PaperCorpus
from agentgym.envs.papersearch.data.fields import LATEST
from agentgym.retrieval.searcher import Searcher

CITING: Final = 30
"""Papers citing one that expanding it finds at most: the latest."""

CITED: Final = 99
"""Papers cited by one that expanding it finds at most: the first of its references."""

DEEPER: Final = 10
"""Times as many papers are asked for where some may be out of view; and again where that is too few."""


class View(NamedTuple):
    """Filter of the papers that an episode may find."""

    latest: int = LATEST
    """Last date of papers that can be found."""
    hidden: frozenset[int] = frozenset()
    """Papers that cannot be found."""


class PaperWorld:
    """A corpus with its search."""

    def __init__(self, name: str, corpus: PaperCorpus, searcher: Searcher, topics: Callable[[str], TaskSet]):
        """Put a world together; ``searcher`` is over its papers, ``topics`` returns the tasks of a split."""
        self.name = name
        self.topics = topics
        self.corpus = corpus
        self.searcher = searcher
        dates = corpus.graph.sorted_dates
        self._last_date = int(dates[-1]) if len(dates) else 0

    def visible(self, numbers: Collection[int], view: View) -> list[int]:
        """Return the papers that may be found, in order."""
        dates = self.corpus.graph.dates
        return [
            number for number in numbers if int(dates[number]) <= view.latest and number not in view.hidden
        ]

    def best(self, queries: Sequence[str], k: int, view: View) -> list[list[int]]:
        """Return the best ``k`` papers in view of each query, or as many as there are."""
        best: list[list[int]] = [[] for _ in queries]
        short, depth = list(range(len(queries))), self.first_depth(k, view)
        while short:
            found = self.searcher.hits([queries[place] for place in short], depth)
            for place, hits in zip(short, found, strict=True):
                best[place] = self.visible(hits.documents.tolist(), view)[:k]
            short = [
                place
                for place, hits in zip(short, found, strict=True)
                if self.is_short(len(best[place]), len(hits.documents), k, depth)
            ]
            depth = self.next_depth(depth)
        return best

    def first_depth(self, k: int, view: View) -> int:
        """Return the depth of a first search that likely has ``k`` papers in view."""
        all_in_view = not view.hidden and self._last_date <= view.latest
        return min(k if all_in_view else DEEPER * k, max(len(self.corpus), 1))

    def next_depth(self, depth: int) -> int:
        """Return the depth of the next search where ``depth`` was too little."""
        return min(depth * DEEPER, max(len(self.corpus), 1))

    def is_short(self, seen: int, found: int, k: int, depth: int) -> bool:
        """Return whether asking for more papers may bring more into view.

        ``seen``: papers found and in view; ``found``: all that were found; ``k``: wanted; ``depth``:
        requested.
        """
        return seen < k and found == depth < len(self.corpus)

    def neighbours(self, number: int, view: View) -> tuple[int, ...]:
        """Return the papers of an expansion: `CITING` papers that cite it, then `CITED` that it cites.

        Papers out of view or without an abstract do not count towards these numbers.
        """
        graph = self.corpus.graph
        found: dict[int, None] = {}
        for row, limit in ((graph.citing.row(number), CITING), (graph.cited.row(number), CITED)):
            may = row[(graph.dates[row] <= view.latest) & graph.has_abstract[row]]
            if view.hidden:
                may = may[~np.isin(may, list(view.hidden))]
            found.update(dict.fromkeys(may[:limit].tolist()))
        return tuple(found)
