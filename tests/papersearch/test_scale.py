"""Many papers: expanding them takes next to no memory of the process's own."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from agentgym.core.types import Passage
from agentgym.envs.papersearch.builtin.graph import builtin_graph
from agentgym.envs.papersearch.data.citations import CITATIONS, CitationGraph
from agentgym.envs.papersearch.data.corpus import open_corpus
from agentgym.envs.papersearch.engine.world import CITED, CITING, PaperWorld, View
from agentgym.retrieval.corpus.passages import PASSAGES, write_passages

PAPERS, REFERENCES = 200_000, 10
SURVEYS, SURVEY_REFERENCES = 200, 120
"""One paper in so many cites so many others."""
EXPANDED = 500


def made_up():
    """Yield papers with titles and abstracts of the built-in ones' length, twice as long."""
    texts = builtin_graph().papers
    for number in range(PAPERS):
        first, second = texts[number % len(texts)], texts[number * 7919 % len(texts)]
        text = f"{first.abstract} {second.abstract}"
        yield Passage(f"p{number:07d}", f"{first.title}, part {number}", text)


def edges():
    """Return (E, 2) citations of earlier papers, of some much more often than of others."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(REFERENCES, PAPERS)
    counts[::SURVEYS] = SURVEY_REFERENCES
    counts[:1_000] = 0
    owners = np.repeat(np.arange(PAPERS), counts)
    targets = (owners * rng.random(len(owners)) ** 2).astype(np.int64)
    return np.unique(np.stack([owners, targets], axis=1), axis=0).astype(np.int32)


def build(folder):
    """Write the two mapped files; return the number of citations."""
    write_passages(folder / PASSAGES, made_up(), corpus="made up")
    ids = (f"p{number:07d}" for number in range(PAPERS))
    dates = 20_00_00_00 + np.arange(PAPERS, dtype=np.int32) // 10_000 * 10_000 + 101
    graph = CitationGraph.of(ids, dates.astype(np.int32), np.ones(PAPERS, np.bool_), edges())
    graph.write(folder / CITATIONS)
    return len(graph.cited.papers)


def expand(folder):
    """Expand papers that have all neighbours; return their number each, and the process's own megabytes."""
    corpus = open_corpus(folder)
    world = PaperWorld("made up", corpus, None, None)
    cited, citing = np.diff(corpus.graph.cited.starts), np.diff(corpus.graph.citing.starts)
    full = np.flatnonzero((cited >= CITED) & (citing >= CITING))[:EXPANDED]
    found = [world.neighbours(int(number), View(20_24_12_31)) for number in full]
    assert all(corpus.paper(neighbour).text for neighbours in found for neighbour in neighbours)
    lines = Path("/proc/self/status").read_text().splitlines()
    own = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024
    return {len(neighbours) for neighbours in found}, own


def alone(work, folder):
    """Do some work in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(work, folder).result()


@pytest.mark.slow
def test_a_fifth_of_a_million_papers(tmp_path):
    assert alone(build, tmp_path) > 9 * PAPERS
    counts, own = alone(expand, tmp_path)
    assert counts == {CITED + CITING}
    assert own <= 200, "what is mapped is not the process's own"
