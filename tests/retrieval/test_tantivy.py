"""Tantivy's index: the same terms, its own scores, the same interface."""

import sys

import numpy as np
import pytest

from agentgym.errors import UsageError
from agentgym.retrieval.engines.tantivy import K1, B, build_tantivy, open_tantivy
from tests.retrieval.naive import rank

pytestmark = pytest.mark.peer

SHOP = [
    ("B3", "Red cotton shirts"),
    ("B1", "Blue cotton shirt"),
    ("B2", "A red, red lamp"),
    ("B0", "Blue cotton shirt"),
]


def test_ranks_as_its_formula_does(tmp_path):
    rng = np.random.default_rng(4)
    words = [f"word{i}" for i in range(30)]
    corpus = [(f"D{i:03}", " ".join(rng.choice(words, rng.integers(1, 30)))) for i in rng.permutation(200)]
    index = build_tantivy(corpus, corpus="drawn", folder=tmp_path / "index")
    for query in ("word1", "word2 word3 word3", "word4 word5 word6 word7"):
        hits = index.search(query, 200)
        ids, scores = rank(corpus, query, 200, K1, B)
        # tantivy multiplies by k1 + 1 what Lucene's later form leaves out
        found = dict(zip(index.ids(hits.documents), hits.scores / (K1 + 1), strict=True))
        assert found.keys() == set(ids)
        np.testing.assert_allclose([found[id] for id in ids], scores, rtol=1e-4)


def test_interface(tmp_path):
    index = build_tantivy(SHOP, corpus="shop", folder=tmp_path / "index")
    again = open_tantivy(tmp_path / "index")
    assert (len(again), again.manifest) == (4, index.manifest)
    hits = again.search("blue", 5)
    assert again.ids(hits.documents) == ["B0", "B1"]
    assert hits.documents.tolist() == [3, 1]
    assert [len(each.documents) for each in again.search_all(["zebra", "", "lamp"], 5)] == [0, 0, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    with pytest.raises(UsageError, match="ask for k >= 1, not 0"):
        again.search("red", 0)


def test_damage(tmp_path):
    build_tantivy(SHOP, corpus="shop", folder=tmp_path / "index")
    (tmp_path / "index" / "tantivy" / "meta.json").write_text("{")
    with pytest.raises(UsageError, match="is no whole index"):
        open_tantivy(tmp_path / "index")


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tantivy", None)
    with pytest.raises(UsageError, match=r"needs tantivy: pip install .*'tantivy"):
        build_tantivy(SHOP, corpus="shop", folder=tmp_path / "index")
    assert list(tmp_path.iterdir()) == []
