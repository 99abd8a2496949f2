"""Search for passages: one call of the index for what is not cached, whatever is asked together."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from agentgym.core.queries import UnansweredError
from agentgym.core.types import Passage
from agentgym.errors import UsageError
from agentgym.retrieval.corpus.passages import PassageList, documents
from agentgym.retrieval.engines.bm25 import build_bm25
from agentgym.retrieval.opening import open_searcher
from agentgym.retrieval.searcher import (
    TOLERANCE,
    Searcher,
    SearcherBackend,
    read_hits,
    search_in_memory,
    write_hits,
)
from tests.pace import within

WORLD = [
    Passage("p1", "Vasa", "A ship that sank in 1628."),
    Passage("p2", "Ada Lovelace", "A mathematician; she wrote of Charles Babbage's engine."),
    Passage("p3", "Charles Babbage", "A mathematician who designed an engine."),
    Passage("p4", "\u5546\u9b45", "\u5546\u9b45 is a ship."),
]
QUERIES = ["which ship sank?", "engine", "the", "", "\u5546", "engine", "zebra " * 200_000]


class Counted:
    """An index that keeps what it was asked."""

    def __init__(self, index):
        self.index, self.manifest, self.calls = index, index.manifest, []

    def __len__(self):
        return len(self.index)

    def search_all(self, queries, k):
        self.calls.append((list(queries), k))
        return self.index.search_all(queries, k)


@pytest.fixture
def counted():
    return Counted(build_bm25(documents(PassageList(WORLD)), corpus="world"))


def found(searcher, query, k=5):
    return [passage.id for passage in searcher.search([query], k)[0]]


def test_hits_are_passages():
    searcher = search_in_memory(WORLD, corpus="world")
    assert searcher.search(["which ship sank?"], 1) == [[WORLD[0]]]
    assert found(searcher, "engine") == ["p3", "p2"]
    assert [found(searcher, query) for query in ("", "the of", "zebra", QUERIES[-1])] == [[], [], [], []]
    assert found(searcher, "\u5546") == ["p4"]
    assert len(searcher.search(["a ship, a mathematician"], 1_000_000)[0]) == 4
    with pytest.raises(UsageError, match="ask for k >= 1, not 0"):
        searcher.search(["ship"], 0)


def test_one_call_for_distinct_queries_not_cached(counted):
    searcher = Searcher(counted, PassageList(WORLD))
    together = searcher.hits(QUERIES, 3)
    assert counted.calls == [(list(dict.fromkeys(QUERIES)), 3)]
    assert [write_hits(hits) for hits in together] == [
        write_hits(build_bm25(documents(PassageList(WORLD)), corpus="").search(query, 3)) for query in QUERIES
    ]
    searcher.hits(["engine", "new", "ship", "new"], 3)
    searcher.hits(["engine", "new"], 3)
    searcher.hits(["engine"], 2)
    assert counted.calls[1:] == [(["new", "ship"], 3), (["engine"], 2)]
    assert searcher.hits([], 3) == []


def test_the_cache_is_bounded(counted):
    searcher = Searcher(counted, PassageList(WORLD), cache=2_000)
    for query in ("ship", "engine", "sank", "ship", "sank", "vasa", "lovelace", "sank"):
        searcher.hits([query], 3)
    searcher.hits(["ship", "x" * 10_000], 3)
    searcher.hits(["x" * 10_000], 3)
    asked = [query for queries, _ in counted.calls for query in queries]
    assert asked == ["ship", "engine", "sank", "vasa", "lovelace", "ship", "x" * 10_000, "x" * 10_000]
    uncached = Searcher(counted, PassageList(WORLD), cache=0)
    counted.calls.clear()
    uncached.hits(["ship"], 3)
    uncached.hits(["ship"], 3)
    assert len(counted.calls) == 2


def test_cached_hits_cannot_be_changed():
    searcher = search_in_memory(WORLD, corpus="world")
    with pytest.raises(ValueError, match="read-only"):
        searcher.hits(["ship"], 3)[0].documents[0] = 2


def test_threads_agree():
    searcher = search_in_memory(WORLD, corpus="world")
    small = Searcher(searcher.index, searcher.store, cache=1_500)
    asked = [QUERIES[:4], ["engine", "ship"], ["sank", "mathematician"]] * 60
    alone = [searcher.search(queries, 2) for queries in asked]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda queries: small.search(queries, 2), asked)) == alone


def test_a_cached_query_takes_microseconds():
    searcher = search_in_memory(WORLD, corpus="world")
    within(100, lambda: [searcher.search(["which ship sank?"], 5) for _ in range(2_000)])  # measured: 4


def test_an_index_over_other_passages(counted):
    for others in (WORLD[:-1], WORLD[::-1], [*WORLD[:-1], replace(WORLD[-1], text="other")]):
        with pytest.raises(UsageError, match=r"the index of 'world' was built over .*: build it again"):
            Searcher(counted, PassageList(others))


def test_fingerprints():
    one = search_in_memory(WORLD, corpus="world")
    assert one.fingerprint == search_in_memory(WORLD, corpus="named otherwise").fingerprint
    assert len(one.fingerprint) == 16
    assert one.fingerprint != search_in_memory(WORLD[:-1], corpus="world").fingerprint
    other = build_bm25(documents(one.store), corpus="world", k1=1.2)
    assert one.fingerprint != Searcher(other, one.store).fingerprint


def test_open_searcher(tmp_path):
    built = []

    def passages():
        built.append(1)
        return iter(WORLD)

    for _ in range(2):
        searcher = open_searcher("bm25", tmp_path / "world", passages, corpus="world", count=4)
        assert found(searcher, "ship") == ["p1", "p4"]
    assert built == [1]
    assert searcher.fingerprint == search_in_memory(WORLD, corpus="world").fingerprint
    for other in ({"corpus": "other", "count": 4}, {"corpus": "world", "count": 5}):
        with pytest.raises(UsageError, match="holds 4 passages of 'world', not"):
            open_searcher("bm25", tmp_path / "world", passages, **other)


def test_answers():
    searcher = search_in_memory(WORLD, corpus="world")
    backend = SearcherBackend(searcher)
    assert backend.kind.name == f"search bm25 {searcher.fingerprint}"
    assert (backend.kind.standing, backend.kind.sampled, backend.kind.tolerance) == ("exact", False, 0.0)
    asked = [("engine", 2), ("ship", 1), ["engine", 1], ("zebra", 3)]
    answers = backend.answer(asked)
    assert [[number for number, _ in answer] for answer in answers] == [[2, 1], [0], [2], []]
    assert answers == [backend.answer([question])[0] for question in asked]
    assert json.loads(json.dumps(answers)) == answers
    read = read_hits(answers[0], searcher.store)
    assert write_hits(read) == answers[0]


def test_exact_answers_agree_bit_for_bit():
    backend = SearcherBackend(search_in_memory(WORLD, corpus="world"))
    (answer,) = backend.answer([("engine", 2)])
    assert backend.agrees(json.loads(json.dumps(answer)), answer)
    for said in (
        None,
        [],
        answer[::-1],
        [[2, answer[0][1] + 1e-7], answer[1]],
        [[2.0, answer[0][1]], answer[1]],
    ):
        assert not backend.agrees(said, answer)


def test_fused_ranks_agree_up_to_two_steps(counted):
    """Where vectors differ in their last bits, near ties change places, and so do ranks."""
    counted.manifest = replace(
        counted.manifest,
        engine="hybrid/1",
        parameters={"k0": 60, "first": 1, "depth": 100},
        text_parameters={"engines": "bm25/1 exact/1"},
    )
    backend = SearcherBackend(Searcher(counted, PassageList(WORLD)))

    def fused(*ranks):
        return [[number, 1 / 61 + 1 / (60 + rank)] for number, rank in enumerate(ranks)]

    assert backend.kind.standing == "recomputable"
    assert backend.agrees(fused(2, 3), fused(1, 3))
    assert backend.agrees(fused(1, 2), [*reversed(fused(2, 1))]), "two that changed places"
    assert not backend.agrees(fused(6, 7), fused(1, 7))


def test_recomputed_answers_agree_within_the_tolerance(counted):
    counted.manifest = replace(counted.manifest, engine="exact/1")
    backend = SearcherBackend(Searcher(counted, PassageList(WORLD)), "dense")
    assert backend.kind.name == f"dense exact {counted.manifest.fingerprint}"
    assert (backend.kind.standing, backend.kind.tolerance) == ("recomputable", TOLERANCE)
    near, far = TOLERANCE / 3, TOLERANCE * 3
    computed = [[0, 0.9], [1, 0.8], [2, 0.8 - near]]
    for said in (
        computed,
        [[0, 0.9 + near], *computed[1:]],
        [[0, 0.9], [2, 0.8], [1, 0.8]],
        [*computed[:2], [3, 0.8]],
    ):
        assert backend.agrees(said, computed)
    wrong = [
        [[0, 0.9 + far], *computed[1:]],
        [[1, 0.9], [0, 0.8], computed[2]],
        [[3, 0.9], *computed[1:]],
        computed[:2],
        [*computed[:2], [1, 0.8]],
        [*computed[:2], [9, 0.8]],
        [*computed[:2], [True, 0.8]],
        [*computed[:2], [3, "0.8"]],
        [*computed[:2], [3, float("nan")]],
        [*computed[:2], [3]],
        [*computed[:2], 3],
        {"0": 1},
        None,
        "no",
    ]
    for said in wrong:
        assert not backend.agrees(said, computed)


def test_an_index_that_cannot_answer(counted):
    def away(queries, k):
        raise UsageError("the server is away: start it")

    counted.search_all = away
    with pytest.raises(UnansweredError, match="the server is away: start it"):
        SearcherBackend(Searcher(counted, PassageList(WORLD))).answer([("ship", 3)])


def test_standing_is_that_of_the_weakest_engine(counted):
    for engine, engines, standing in (
        ("bm25/1", "", "exact"),
        ("lucene/1", "", "recomputable"),
        ("hybrid/1", "bm25/1 exact/1", "recomputable"),
        ("hybrid/1", "bm25/1 bm25/1", "exact"),
        ("hybrid/1", "remote/1 exact/1", "attested"),
    ):
        manifest = replace(counted.manifest, engine=engine, text_parameters={"engines": engines})
        assert manifest.standing == standing
