"""Observations: the query, the calls so far, and the best of the pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentgym.core.calls import Call, write_calls
from agentgym.envs.papersearch.data.corpus import PaperCorpus
from agentgym.envs.papersearch.data.fields import LATEST, shown_date
from agentgym.envs.papersearch.engine.pool import SHOWN, Pool
from agentgym.envs.papersearch.engine.world import View

ABSTRACT_WORDS: Final = 400
"""Largest number of words of an abstract that are shown."""

CALLS_SHOWN: Final = 25
"""Number of calls that are shown, the last ones."""

CALL_LENGTH: Final = 200
"""Characters of a call that are shown."""

REJECTED: Final = (
    "The last action was not accepted: write calls such as search[river ice], one a line, or stop."
)


class PoolPage:
    """Writes observations."""

    def __init__(self, corpus: PaperCorpus, *, show_scores: bool):
        """Know the papers."""
        self._corpus = corpus
        self._show_scores = show_scores

    def text(self, query: str, view: View, calls: Sequence[Call], pool: Pool, *, valid: bool) -> str:
        """Return an observation; ``calls`` and ``pool`` are of the episode, ``valid`` of the last action."""
        head = f"Query: {query}"
        if view.latest < LATEST:
            head += f"\nPapers until {shown_date(_first_day(view.latest))} are found."
        sections = [head, _calls_so_far(calls), self._papers(pool)]
        if not valid:
            sections.append(REJECTED)
        return "\n\n".join(sections)

    def _papers(self, pool: Pool) -> str:
        if not pool.scores:
            return "Papers found so far: none"
        count = f"Papers found so far: {len(pool.scores)}, of which {len(pool.expanded)} expanded"
        best = f"The {SHOWN} best expanded papers and the {SHOWN} best others, the best first:"
        entries = []
        for number, score in pool.shown():
            paper = self._corpus.paper(number)
            mark = "expanded" if number in pool.expanded else "new"
            scored = f" ({score:.2f})" if self._show_scores else ""
            date = shown_date(int(self._corpus.graph.dates[number]))
            entries.append(
                f"[{paper.id}]{scored} {mark}: {paper.title}{f' ({date})' if date else ''}\n"
                f"Abstract: {_cut(paper.text)}"
            )
        return "\n\n".join((f"{count}\n{best}", *entries))


def _calls_so_far(calls: Sequence[Call]) -> str:
    if not calls:
        return "Calls so far: none"
    lines = [write_calls([call]) for call in calls[-CALLS_SHOWN:]]
    cut = [line if len(line) <= CALL_LENGTH else f"{line[:CALL_LENGTH]}..." for line in lines]
    return "\n".join((f"Calls so far: {len(calls)}", *cut))


def _cut(abstract: str) -> str:
    """Return an abstract on one line, so that nothing in it looks like another paper."""
    words = abstract.split()
    return " ".join(words if len(words) <= ABSTRACT_WORDS else [*words[:ABSTRACT_WORDS], "..."])


def _first_day(latest: int) -> int:
    """Undo `agentgym.envs.papersearch.data.fields.last_day`."""
    if latest % 10_000 == 99_99:
        return latest - 99_99
    return latest - 99 if latest % 100 == 99 else latest
