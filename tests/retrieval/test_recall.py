"""Recall of supporting passages on the real samples, as measured before this project had search."""

import pytest

from agentgym.core.types import Passage
from agentgym.io.paths import data_directory
from agentgym.io.untrusted import loads_json, read_json
from agentgym.retrieval.opening import open_searcher

DEPTHS = (5, 10, 20)
MEASURED = {
    "hotpotqa": (3930, (0.762, 0.875, 0.932)),
    "twowiki": (1294, (0.667, 0.723, 0.740)),
    "musique": (5021, (0.480, 0.546, 0.647)),
}
"""Passages of each sample, and BM25's shares at 5, 10 and 20 of them."""


def read(path):
    """Return the rows of a file of JSON lines."""
    return [loads_json(line, str(path)) for line in path.read_bytes().splitlines()]


def supporting(row):
    """Return what supports the answer: titles, or titles with texts."""
    if "supporting_facts" in row:
        return {(title, "") for title, _ in row["supporting_facts"]}
    parts = (row["passages"][part["paragraph_support_idx"]] for part in row["decomposition"])
    return {(passage["title"], passage["text"]) for passage in parts}


def recall(name, passages, folder, depths=DEPTHS):
    """Return the mean share of the supporting passages that a search with the question finds."""
    rows = read(data_directory() / name / "questions.jsonl")
    with_text = "supporting_facts" not in rows[0]
    place = folder / f"{name}-{len(passages)}"
    searcher = open_searcher("bm25", place, lambda: passages, corpus=name, count=len(passages))
    shares = []
    for depth in depths:
        found = searcher.search([row["question"] for row in rows], depth)
        known = [{(each.title, each.text if with_text else "") for each in some} for some in found]
        wanted = [supporting(row) for row in rows]
        hits = [len(part & all_) / len(part) for part, all_ in zip(wanted, known, strict=True)]
        shares.append(sum(hits) / len(hits))
    return shares


def passages_of(name):
    """Return a sample's passages."""
    rows = read(data_directory() / name / "corpus.jsonl")
    return [Passage(str(row["id"]), row["title"], row["text"]) for row in rows]


@pytest.mark.assets
@pytest.mark.parametrize("name", MEASURED)
def test_bm25(name, tmp_path):
    count, shares = MEASURED[name]
    passages = passages_of(name)
    assert len(passages) == count
    assert recall(name, passages, tmp_path) == pytest.approx(shares, abs=0.001)


@pytest.mark.assets
def test_bm25_among_distractors(tmp_path):
    passages = passages_of("twowiki")
    known = {(passage.title, passage.text) for passage in passages}
    rows = read_json(data_directory() / "twowiki" / "distractor_corpus.json")
    more = dict.fromkeys((row["title"], row["text"]) for row in rows)
    fresh = [key for key in more if key not in known]
    passages += [Passage(str(len(passages) + place), *key) for place, key in enumerate(fresh)]
    assert len(passages) == 7005
    assert recall("twowiki", passages, tmp_path, (10,)) == pytest.approx([0.690], abs=0.01)
