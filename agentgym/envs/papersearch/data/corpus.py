"""A corpus of papers: titles and abstracts by number, and their citations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from agentgym.core.hashing import sha256_json
from agentgym.core.types import Passage
from agentgym.data.recordfile import open_unchanged, stamp_of
from agentgym.envs.papersearch.data.citations import CITATIONS, CitationGraph, open_citations
from agentgym.envs.papersearch.data.fields import plain_id
from agentgym.retrieval.corpus.passages import PASSAGES, PassageFile, PassageList, PassageStore

MAX_CACHED_PAPERS = 1 << 14
"""Papers that stay in memory once they are read."""


class PaperRecord(NamedTuple):
    """One paper as files and generators give it."""

    id: str
    title: str
    abstract: str
    """Abstract; empty where it is unknown."""
    date: int = 0
    """``year * 10000 + month * 100 + day``, with 0 for what is not known."""
    references: tuple[str, ...] = ()
    """Ids of those that it cites."""


class PaperCorpus:
    """Papers with their citations; read-only, and shared by all episodes.

    Example:
        >>> first = PaperRecord("a", "First", "One.")
        >>> second = PaperRecord("b", "Second", "Two.", references=("a", "?"))
        >>> corpus = corpus_in_memory([first, second])
        >>> len(corpus), corpus.paper(1).title, corpus.graph.citing.row(0).tolist()
        (2, 'Second', [1])
    """

    def __init__(self, passages: PassageStore, graph: CitationGraph, graph_sha256: str):
        """Put texts and citations of the same papers together."""
        self.passages = passages
        self.graph = graph
        self.sha256 = sha256_json({"passages": passages.sha256, "citations": graph_sha256})
        """64 hex digits over all papers and citations, in order."""
        self.paper = lru_cache(MAX_CACHED_PAPERS)(passages.__getitem__)
        """Returns the paper of a number: id, title, and the abstract as its text."""

    def __len__(self) -> int:
        """Number of papers."""
        return len(self.passages)

    def number_of(self, id: str) -> int | None:
        """Return the number of the paper with an id, of whatever version; None where there is none."""
        number = self.graph.number_of(id)
        return number if number is not None and plain_id(self.paper(number).id) == plain_id(id) else None


def corpus_in_memory(papers: Sequence[PaperRecord], passages: PassageStore | None = None) -> PaperCorpus:
    """Return a corpus of some thousand papers, numbered in order; references to others are left out."""
    if passages is None:
        passages = PassageList(map(passage_of, papers))
    graph = CitationGraph.of(
        (paper.id for paper in papers),
        [paper.date for paper in papers],
        [bool(paper.abstract) for paper in papers],
        list(edges_of(papers, {plain_id(paper.id): number for number, paper in enumerate(papers)})),
    )
    return PaperCorpus(passages, graph, graph.sha256())


def open_corpus(folder: Path) -> PaperCorpus:
    """Map the corpus of a folder, of which nothing is read; one object as long as its files stay the same."""
    citations = stamp_of(folder / CITATIONS, "citations")
    return open_unchanged(folder / PASSAGES, "papers", _mapped, citations=citations)


def _mapped(path: Path, citations: tuple[int, ...]) -> PaperCorpus:
    return PaperCorpus(PassageFile(path), *open_citations(path.with_name(CITATIONS)))


def passage_of(paper: PaperRecord) -> Passage:
    """Return the passage of a paper, which is searched and shown."""
    return Passage(paper.id, paper.title, paper.abstract)


def edges_of(papers: Iterable[PaperRecord], numbers: dict[str, int]) -> Iterable[tuple[int, int]]:
    """Yield each citation within a corpus once, as numbers; no paper cites itself.

    ``papers`` in order, from number 0 on; ``numbers``: of all papers, by id without version.
    """
    for number, paper in enumerate(papers):
        for id in dict.fromkeys(map(plain_id, paper.references)):
            target = numbers.get(id, number)
            if target != number:
                yield number, target
