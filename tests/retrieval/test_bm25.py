"""The index ranks as the formula says, from memory, from files, in blocks and from many threads."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import UsageError
from agentgym.retrieval.engines.bm25 import blocks, build_bm25, open_bm25, ranking
from agentgym.retrieval.engines.bm25.postings import ARRAYS
from agentgym.retrieval.engines.bm25.ranking import NumpyRanker
from tests.retrieval.naive import rank

SHOP = [
    ("B3", "Red cotton shirt, short sleeve, size: small, large"),
    ("B1", "Blue cotton shirt for men"),
    ("B2", "A red, red lamp"),
    ("B0", "Blue cotton shirt for men"),
    ("B4", "the of and"),
]

texts = st.lists(st.text("abc d", max_size=120), max_size=80)


def documents(texts):
    return [(f"D{(7919 * i) % 1009:04}", text) for i, text in enumerate(texts)]


def found(index, query, k):
    hits = index.search(query, k)
    return index.ids(hits.documents), hits.scores.tolist()


def arrays(index):
    return {name: getattr(index._postings, name).tolist() for name in ARRAYS}


def test_literal_scores():
    index = build_bm25(SHOP, corpus="shop")
    ids, scores = found(index, "red shirts", 10)
    # D = 4 filled, lengths 8, 4, 3, 4, average 4.75; "red" in 2, "shirt" in 3
    red, shirt = np.log(1 + 2.5 / 2.5), np.log(1 + 1.5 / 3.5)
    norm = {length: 0.9 * (0.6 + 0.4 * length / 4.75) for length in (8, 4, 3)}
    expected = {
        "B3": red / (1 + norm[8]) + shirt / (1 + norm[8]),
        "B2": 2 * red / (2 + norm[3]),
        "B1": shirt / (1 + norm[4]),
        "B0": shirt / (1 + norm[4]),
    }
    assert ids == ["B2", "B3", "B0", "B1"]
    np.testing.assert_allclose(scores, [expected[id] for id in ids], rtol=1e-6)


def test_equal_scores_stand_in_the_order_of_ids():
    index = build_bm25(SHOP, corpus="shop")
    assert found(index, "blue men", 1)[0] == ["B0"]
    assert index.search("blue men", 2).documents.tolist() == [3, 1]


def test_queries_without_a_known_term_find_nothing():
    index = build_bm25(SHOP, corpus="shop")
    for query in ("", "the", "zebra", "\u5546"):
        assert found(index, query, 5) == ([], [])


@given(texts, st.lists(st.text("abc d", max_size=20), max_size=4), st.integers(1, 12))
def test_ranks_as_the_formula_does(texts, queries, k):
    corpus = documents(texts)
    index = build_bm25(corpus, corpus="drawn")
    for query in queries:
        assert found(index, query, k) == rank(corpus, query, k)


@given(texts, st.sampled_from([(1.2, 0.75), (0.9, 0.0), (2.0, 1.0)]))
def test_parameters_count(texts, parameters):
    corpus = documents(texts)
    index = build_bm25(corpus, corpus="drawn", k1=parameters[0], b=parameters[1])
    assert found(index, "a b", 5) == rank(corpus, "a b", 5, *parameters)


WORDS = [f"word{i}" for i in range(40)]
SHARES = 1 / np.arange(1, 41) / np.sum(1 / np.arange(1, 41))


def many_documents(count):
    rng = np.random.default_rng(5)
    return [(f"D{i:05}", " ".join(rng.choice(WORDS, 7, p=SHARES))) for i in rng.permutation(count)]


@pytest.mark.parametrize(
    ("many", "looked_up", "pruned"), [(1, 0, True), (1, 1 << 60, False), (1 << 60, 0, None)]
)
def test_the_best_of_many_documents(monkeypatch, many, looked_up, pruned):
    monkeypatch.setattr(ranking, "MANY", many)
    monkeypatch.setattr(ranking, "LOOKED_UP", looked_up)
    decided = []
    decide = NumpyRanker._decide
    monkeypatch.setattr(NumpyRanker, "_decide", lambda *given: decided.append(decide(*given)) or decided[-1])
    corpus = many_documents(2000)
    index = build_bm25(corpus, corpus="drawn")
    for words in ("0", "0 39", "0 1 2 30", "5 20 20 1 0", "38", "1 2 3 4"):
        query = " ".join(f"word{word}" for word in words.split())
        for k in (1, 3, 20):
            assert found(index, query, k) == rank(corpus, query, k)
    assert bool(decided) == (pruned is not None)
    assert any(found is not None for found in decided) == bool(pruned)


@given(
    texts,
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=6),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.3, 2.0]),
)
def test_leaving_out_changes_nothing(texts, words, k, frequent):
    corpus = documents(texts)
    index = build_bm25(corpus, corpus="drawn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "MANY", 0)
        patch.setattr(ranking, "LOOKED_UP", 0)
        patch.setattr(ranking, "FREQUENT", frequent)
        assert found(index, " ".join(words), k) == rank(corpus, " ".join(words), k)


def test_blocks_change_nothing(tmp_path, monkeypatch):
    corpus = [(f"D{i:03}", f"word{i % 7} word{i % 3} other{i}") for i in range(200)]
    whole = build_bm25(corpus, corpus="drawn")
    monkeypatch.setattr(blocks, "BLOCK", 100)
    parted = build_bm25(corpus, corpus="drawn", folder=tmp_path / "index")
    assert arrays(whole) == arrays(parted)


def test_files_hold_the_same_index(tmp_path):
    index = build_bm25(SHOP, corpus="shop", folder=tmp_path / "index")
    again = open_bm25(tmp_path / "index")
    assert arrays(index) == arrays(again) == arrays(build_bm25(SHOP, corpus="shop"))
    assert again.manifest == index.manifest == build_bm25(SHOP, corpus="shop").manifest
    assert (len(again), again.manifest.count, again.manifest.parameters["filled"]) == (5, 5, 4)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize(
    ("starts", "windows"),
    [
        ([0, 2, 2, 6], [0, 1, 2]),
        ([0, 4, 2, 6], [0, 1, 2]),
        ([0, 2, 4, 6], [0, 0, 2]),
        ([0, 2, 4, 6], [0, 2, 2]),
        ([0, 2, 4, 6], [0, 2, 1]),
        ([1, 0, 4, 6], [0, 1, 2]),
        ([0, 2, 4, 7], [0, 1, 2]),
        ([-1, 2, 4, 6], [0, 1, 2]),
    ],
)
def test_runs_of_a_term_that_are_out_of_order_are_damage(starts, windows):
    index = build_bm25(SHOP, corpus="shop")

    def check(starts, windows, last=3):
        index._postings = SimpleNamespace(
            starts=np.array(starts), windows=np.array(windows), documents=np.zeros(6)
        )
        index._check_runs(0, last)

    check([0, 2, 4, 6], [0, 1, 2])
    check([0, 2, 2, 6], [0, 1, 2], last=1)  # a term of one run
    with pytest.raises(UsageError, match="the index of 'shop' is damaged"):
        check(starts, windows)


def test_an_empty_corpus(tmp_path):
    index = build_bm25([], corpus="nothing", folder=tmp_path / "index")
    assert found(index, "red", 3) == ([], [])
    assert len(index) == 0


def test_threads_agree():
    index = build_bm25(SHOP, corpus="shop")
    queries = ["red shirt", "blue men", "cotton", "lamp"] * 50
    alone = [found(index, query, 3) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: found(index, query, 3), queries)) == alone
    assert [hits.documents.tolist() for hits in index.search_all(queries[:2], 3)] == [[2, 0, 3], [3, 1]]


def test_terms_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr("agentgym.retrieval.engines.bm25.index._MAX_CACHED_WORDS", 2)
    index = build_bm25(SHOP, corpus="shop")
    assert found(index, "red cotton shirt lamp", 9) == rank(SHOP, "red cotton shirt lamp", 9)
    assert len(index._terms) <= 2


def test_progress_counts_documents():
    seen = []
    build_bm25(SHOP, corpus="shop", progress=seen.append)
    assert seen == [1, 2, 3, 4, 5]


def test_two_documents_of_one_id(tmp_path):
    with pytest.raises(UsageError, match="two documents have the id 'B1': give each its own"):
        build_bm25([*SHOP, ("B1", "again")], corpus="shop", folder=tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_build_leaves_nothing(tmp_path):
    def interrupted():
        yield "B0", "red"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_bm25(interrupted(), corpus="shop", folder=tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_no_results_asked_for():
    with pytest.raises(UsageError, match="ask for k >= 1, not 0"):
        build_bm25(SHOP, corpus="shop").search("red", 0)


@pytest.mark.parametrize("parameters", [{"k1": 0.0}, {"b": 1.5}, {"k1": float("nan")}])
def test_parameters_out_of_range(parameters):
    with pytest.raises(UsageError, match=r"(k1 must be a number above 0|b must be a number from 0)"):
        build_bm25(SHOP, corpus="shop", **parameters)


@pytest.mark.peer
def test_scores_are_those_of_bm25s_where_lengths_are_exact():
    import bm25s

    rng = np.random.default_rng(3)
    words = [f"word{i}" for i in range(60)]
    corpus = [(f"D{i:03}", " ".join(rng.choice(words, rng.integers(1, 39)))) for i in range(300)]
    peer = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    peer.index([text.split() for _, text in corpus], show_progress=False)
    index = build_bm25(corpus, corpus="drawn")
    for query in ("word1 word2", "word5", "word9 word10 word11 word12"):
        scores = peer.get_scores(query.split())
        hits = index.search(query, 300)
        np.testing.assert_allclose(hits.scores, scores[hits.documents], rtol=1e-5)
        assert len(hits.documents) == np.count_nonzero(scores)
