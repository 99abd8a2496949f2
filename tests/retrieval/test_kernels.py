"""The compiled search finds what NumPy finds, and both what the formula says, whatever the windows."""

from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import UsageError
from agentgym.retrieval.engines.bm25 import Bm25, build_bm25, execution, open_bm25
from agentgym.retrieval.engines.bm25 import index as bm25_module
from agentgym.retrieval.engines.bm25.execution import CompiledRanker, choose_backend
from agentgym.retrieval.engines.bm25.merging import merge_blocks
from agentgym.retrieval.engines.bm25.ranking import NumpyRanker
from tests.retrieval.naive import rank

WORDS = [f"word{i}" for i in range(60)]
SHARES = 1 / np.arange(1, 61) / np.sum(1 / np.arange(1, 61))

texts = st.lists(st.text("abc d", max_size=120), max_size=150)


@contextmanager
def windows(bits):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25_module, "merge_blocks", partial(merge_blocks, bits=bits))
        yield


def both(corpus, bits):
    """Return an index by each backend."""
    with windows(bits):
        reference = build_bm25(corpus, corpus="drawn", backend="numpy")
    return reference, Bm25(reference.manifest, reference._postings, "numba")


def found(index, query, k):
    hits = index.search(query, k)
    return index.ids(hits.documents), hits.scores.tolist()


def drawn(count, longest, seed=5):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest, count)
    return [
        (f"D{i:06}", " ".join(rng.choice(WORDS, length, p=SHARES)))
        for i, length in zip(rng.permutation(count), lengths, strict=True)
    ]


@settings(deadline=None)
@given(
    texts,
    st.lists(st.lists(st.sampled_from([*"abcd", "ab", "zz"]), max_size=7), max_size=5),
    st.integers(1, 12),
    st.sampled_from([1, 3, 6, 7, 16]),
)
def test_numba_numpy_and_the_formula_agree(texts, queries, k, bits):
    corpus = [(f"D{(7919 * i) % 1009:04}", text) for i, text in enumerate(texts)]
    reference, compiled = both(corpus, bits)
    asked = [" ".join(words) for words in queries]
    for query, together in zip(asked, compiled.search_all(asked, k), strict=True):
        expected = rank(corpus, query, k)
        assert found(reference, query, k) == expected
        assert found(compiled, query, k) == expected
        assert (compiled.ids(together.documents), together.scores.tolist()) == expected


@pytest.mark.parametrize("bits", [6, 9, 16])
def test_many_documents_with_pairs_of_every_kind(bits):
    corpus = drawn(1500, 400)
    reference, compiled = both(corpus, bits)
    postings = reference._postings
    assert 0 < len(postings.odd_places) < len(postings.documents)
    assert np.unique(postings.impacts).tolist() == list(range(1, 256))
    rng = np.random.default_rng(1)
    queries = [" ".join(rng.choice(WORDS, rng.integers(1, 9), p=weights)) for weights in (SHARES, None) * 20]
    for k in (1, 5, 100, 10_000):
        for query, hits in zip(queries, compiled.search_all(queries, k), strict=True):
            expected = reference.search(query, k)
            assert np.array_equal(hits.documents, expected.documents)
            assert np.array_equal(hits.scores, expected.scores)
    assert found(compiled, queries[0], 7) == rank(corpus, queries[0], 7)


def test_threads_and_passes_change_nothing(monkeypatch):
    _, compiled = both(drawn(2000, 40), 7)
    queries = [f"word{i} word{j} word{(i * j) % 60}" for i in range(12) for j in range(12)]
    alone = [found(compiled, query, 5) for query in queries]
    monkeypatch.setattr(execution, "THREADED_FROM", 0)
    monkeypatch.setattr(execution, "usable_cores", lambda: 4)
    fresh = Bm25(compiled.manifest, compiled._postings, "numba")
    together = fresh.search_all([*queries, *queries], 5)
    assert fresh._ranking._threads == 4
    assert [(fresh.ids(hits.documents), hits.scores.tolist()) for hits in together] == alone * 2
    monkeypatch.setattr(execution, "_ROOM", 10)
    assert [hits.documents.tolist() for hits in fresh.search_all(queries, 5)] == [
        hits.documents.tolist() for hits in together[: len(queries)]
    ]


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_queries_at_the_edge(backend, tmp_path):
    corpus = [*drawn(30, 9), ("D9", "\u5546\u54c1 \u7ea2 and the"), ("D8", "the of")]
    index = build_bm25(corpus, corpus="drawn", folder=tmp_path / "index", backend=backend)
    assert index.backend == backend
    for query in ("", "the of and", "\u5929", "zebra", "?"):
        assert found(index, query, 5) == ([], [])
    assert index.ids(index.search("\u5546\u54c1", 5).documents) == ["D9"]
    long = " ".join(f"{WORDS[i % 60]} other{i:0250}" for i in range(4_000))
    assert len(long) > 1_000_000
    assert found(index, long, 10) == rank(corpus, long, 10)
    assert len(index.search("word0", 10**9).documents) == len(rank(corpus, "word0", 40)[0])
    nothing = build_bm25([], corpus="nothing", backend=backend)
    assert found(nothing, "red", 3) == ([], [])
    assert found(build_bm25([("A", "the")], corpus="one", backend=backend), "the red", 3) == ([], [])


def test_compiled_from_files_and_in_memory_is_one_kernel(tmp_path):
    corpus = drawn(50, 9)
    held = build_bm25(corpus, corpus="drawn", backend="numba")
    mapped = build_bm25(corpus, corpus="drawn", folder=tmp_path / "index", backend="numba")
    assert found(held, "word1 word2", 9) == found(mapped, "word1 word2", 9)
    kernel = held._ranking._kernel
    compiled = len(kernel.signatures)
    found(open_bm25(tmp_path / "index", backend="numba"), "word1", 9)
    assert len(kernel.signatures) == compiled == 1


def test_which_backend_runs(monkeypatch):
    small = build_bm25(drawn(20, 9), corpus="drawn")
    assert (small.backend, type(small.search("word1", 1)).__name__) == ("numpy", "Hits")
    assert isinstance(small._ranking, NumpyRanker)
    monkeypatch.setattr(execution, "COMPILED_FROM", 10)
    large = build_bm25(drawn(20, 9), corpus="drawn")
    large.search("word1", 1)
    assert (large.backend, type(large._ranking)) == ("numba", CompiledRanker)
    with pytest.raises(UsageError, match=r"unknown backend 'nunba' .did you mean 'numba'..; choose one of"):
        build_bm25([], corpus="none", backend="nunba").search("x", 1)
    monkeypatch.setattr(execution, "find_spec", lambda name: None)
    assert choose_backend(None, large._postings) == "numpy"
    with pytest.raises(UsageError, match=r"numba is not installed: pip install .*numba"):
        choose_backend("numba", large._postings)


def test_a_small_index_that_is_asked_much_is_searched_by_kernels(monkeypatch):
    monkeypatch.setattr("agentgym.retrieval.engines.bm25.index.COMPILED_AFTER", 4)
    monkeypatch.setattr(execution, "COMPILED_AFTER", 4)
    index, fixed = (build_bm25(drawn(20, 9), corpus="drawn", backend=name) for name in (None, "numpy"))
    queries = ["word1", "word2 word1", "word3"]
    for backend in ("numpy", "numba", "numba"):
        hits = [found(one, query, 5) for query in queries for one in (index, fixed)]
        assert hits[::2] == hits[1::2]
        assert (index.backend, fixed.backend) == (backend, "numpy")


def test_words_of_one_stem_and_repeated_words_count_together():
    index = build_bm25([("a", "walking walks"), ("b", "walk on"), ("c", "on and on")], corpus="three")
    (term,) = index._terms_of("walks walked walk")
    (single,) = index._terms_of("walking")
    assert (term.start, term.weight, term.bound) == (single.start, 3 * single.weight, 3 * single.bound)
    assert index._terms_of("and nowhere") == []


def test_a_numba_that_does_not_work_is_named(monkeypatch):
    def broken(name):
        raise ImportError("Numba needs NumPy 2.2 or less")

    index = build_bm25(drawn(20, 9), corpus="drawn")
    monkeypatch.setattr(execution, "import_module", broken)
    monkeypatch.setattr(execution, "COMPILED_FROM", 10)
    with pytest.warns(
        RuntimeWarning, match=r"searches are slow: numba does not work here .Numba needs NumPy"
    ):
        assert index.backend == "numpy"
    with pytest.raises(UsageError, match=r"numba does not work here .*: install another version of it"):
        choose_backend("numba", index._postings)
