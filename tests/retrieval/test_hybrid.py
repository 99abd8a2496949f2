"""Fusion by ranks, as its formula says."""

import numpy as np
import pytest

from agentgym.errors import UsageError
from agentgym.retrieval.engines.bm25 import build_bm25
from agentgym.retrieval.engines.exact import build_exact
from agentgym.retrieval.engines.hybrid import HybridIndex
from agentgym.retrieval.index import Hits
from tests.retrieval.spelling import Spelling

SHOP = [(f"B{(7 * number) % 10}", f"{'red ' * number} shirt {number}") for number in range(10)]


class Ranked:
    """An index that finds the same documents for every query."""

    def __init__(self, order):
        self.order, self.calls = order, []
        self.manifest = build_bm25(SHOP, corpus="shop").manifest

    def __len__(self):
        return 10

    def ids(self, documents):
        return [SHOP[number][0] for number in documents]

    def search_all(self, queries, k):
        self.calls.append((list(queries), k))
        order = self.order[:k]
        return [Hits(np.array(order, np.int32), np.linspace(9, 1, len(order), dtype=np.float32))] * len(
            queries
        )


def found(index, k=10):
    hits = index.search("query", k)
    return list(zip(hits.documents.tolist(), hits.scores.tolist(), strict=True))


def test_literal_scores():
    index = HybridIndex(Ranked([3, 1, 2]), Ranked([2, 3]))
    scores = [(3, 1 / 61 + 1 / 62), (2, 1 / 63 + 1 / 61), (1, 1 / 62)]
    assert found(index) == [(number, float(np.float32(score))) for number, score in scores]
    qdrant = HybridIndex(Ranked([3, 1, 2]), Ranked([2, 3]), k0=2, first=0)
    scores = [(3, 1 / 2 + 1 / 3), (2, 1 / 4 + 1 / 2), (1, 1 / 3)]
    assert found(qdrant) == [(number, float(np.float32(score))) for number, score in scores]


def test_equal_scores_stand_in_the_order_of_ids():
    index = HybridIndex(Ranked([5, 4, 6]), Ranked([4, 5, 1]))
    numbers = [number for number, _ in found(index)]
    assert [SHOP[number][0] for number in numbers] == ["B5", "B8", "B2", "B7"]


def test_depth():
    parts = Ranked([0, 1, 2, 3]), Ranked([3, 2, 1, 0])
    assert [number for number, _ in found(HybridIndex(*parts, depth=1), k=1)] == [0]
    HybridIndex(*parts, depth=2).search_all(["one", "two"], 3)
    assert [part.calls[-1] for part in parts] == [(["one", "two"], 3)] * 2
    assert [len(part.calls) for part in parts] == [2, 2]


def test_engines_are_asked_once_and_batches_change_nothing(tmp_path):
    encoder = Spelling()
    dense = build_exact(SHOP, corpus="shop", folder=tmp_path / "index", encoder=encoder)
    index = HybridIndex(build_bm25(SHOP, corpus="shop"), dense)
    queries = ["red shirt", "", "7", "\u5546", "the", "red " * 1000]
    together = index.search_all(queries, 20)
    assert encoder.calls == [queries]
    for query, hits in zip(queries, together, strict=True):
        alone = index.search(query, 20)
        assert alone.scores.tobytes() == hits.scores.tobytes()
        assert alone.documents.tolist() == hits.documents.tolist()
    assert (len(index), len(together[0].documents)) == (10, 10)
    assert index.manifest.standing == "recomputable"
    assert index.manifest.text_parameters["engines"] == "bm25/1 exact/1"
    assert HybridIndex(index, index.parts[0]).manifest.text_parameters["engines"] == "bm25/1 exact/1 bm25/1"


def test_nothing_found():
    assert found(HybridIndex(Ranked([]), Ranked([]))) == []


def test_what_is_refused():
    bm25 = build_bm25(SHOP, corpus="shop")
    with pytest.raises(
        UsageError, match="fuses indexes over one corpus: these are over 10 documents of 'shop' and 9"
    ):
        HybridIndex(bm25, build_bm25(SHOP[:9], corpus="others"))
    for options in ({"k0": -1}, {"k0": 1.5}, {"first": -1}, {"depth": 0}, {"k0": 0, "first": 0}):
        with pytest.raises(UsageError, match="hybrid"):
            HybridIndex(bm25, bm25, **options)
    with pytest.raises(UsageError, match="ask for k >= 1, not 0"):
        HybridIndex(bm25, bm25).search("red", 0)
