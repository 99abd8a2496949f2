"""Vectors searched exactly: the same bits in any batch, and nothing but what was encoded."""

import json
import os
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from agentgym.errors import UsageError
from agentgym.retrieval import inner_products
from agentgym.retrieval.engines import vectors
from agentgym.retrieval.engines.exact import build_exact, open_exact
from agentgym.retrieval.index import MANIFEST
from tests.retrieval.spelling import DIMENSIONS, Spelling

SHOP = [
    ("B3", "red cotton shirt"),
    ("B1", "blue cotton shirt"),
    ("B2", "a red lamp"),
    ("B0", "blue cotton shirt"),
    ("B4", ""),
]
QUERIES = ["blue shirt", "red", "", "\u5546\u9b45", "the of", "lamp " * 200_000]


@pytest.fixture
def index(tmp_path):
    return build_exact(SHOP, corpus="shop", folder=tmp_path / "index", encoder=Spelling())


def found(index, query, k):
    return index.ids(index.search(query, k).documents)


def many(count):
    rng = np.random.default_rng(7)
    words = ["".join(rng.choice(list("abcdefgh"), 4)) for _ in range(60)]
    texts = [" ".join(rng.choice(words, 5)) for _ in range(count // 2)]
    return [(f"D{i:04}", texts[i % len(texts)]) for i in rng.permutation(count)]


def test_the_nearest_come_first(index):
    assert found(index, "blue shirt", 3) == ["B0", "B1", "B3"]  # equal scores in the order of ids
    assert found(index, "red lamp", 1) == ["B2"]
    assert len(index.search("red", 1_000).documents) == len(index) == 5
    assert [len(hits.documents) for hits in index.search_all(QUERIES, 2)] == [2] * 6
    assert [len(hits.documents) for hits in index.search_all([], 2)] == []
    with pytest.raises(UsageError, match="ask for k >= 1, not 0"):
        index.search("red", 0)


def test_scores_are_those_of_exact_arithmetic(index):
    encoder = Spelling()
    stored = encoder.encode_passages([text for _, text in SHOP]).astype(np.float16)
    for query in QUERIES:
        wanted = encoder.encode_queries([query])[0]
        exact = [
            float(sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(row, wanted, strict=True)))
            for row in stored
        ]
        hits = index.search(query, 5)
        np.testing.assert_allclose(hits.scores, [exact[number] for number in hits.documents], rtol=1e-7)
        order = sorted(range(5), key=lambda number: (-np.float32(exact[number]), SHOP[number][0]))
        assert hits.documents.tolist() == order


def test_one_call_of_the_encoder(index):
    index.encoder.calls.clear()
    index.search_all(QUERIES, 2)
    assert index.encoder.calls == [QUERIES]


@pytest.mark.parametrize(("rows", "columns"), [(16, 256), (100, 3), (8192, 1)])
def test_batches_and_blocks_change_no_bit(tmp_path, monkeypatch, rows, columns):
    corpus = many(300)
    index = build_exact(corpus, corpus="drawn", folder=tmp_path / "index", encoder=Spelling())
    queries = [text[3:14] for _, text in corpus[:128]]
    alone = [index.search(query, 10) for query in queries]
    monkeypatch.setattr(inner_products, "ROWS", rows)
    monkeypatch.setattr(inner_products, "COLUMNS", columns)
    for together in (index.search_all(queries, 10), index.search_all(queries[::-1], 10)[::-1]):
        for ours, theirs in zip(together, alone, strict=True):
            assert ours.documents.tolist() == theirs.documents.tolist()
            assert ours.scores.tobytes() == theirs.scores.tobytes()
    for query, hits in zip(queries[:20], alone, strict=False):
        scores = inner_products.score(
            index._vectors.__getitem__, np.arange(300), Spelling().encode_queries([query])[0]
        )
        order = np.lexsort((index._ids, -scores))[:10]
        assert hits.documents.tolist() == order.tolist()


def test_near_ties_are_decided_by_exact_scores():
    rng = np.random.default_rng(1)
    base = rng.standard_normal(DIMENSIONS).astype(np.float16)
    rows = np.tile(base, (500, 1))
    rows[:, 0] = np.nextafter(rows[:, 0], np.float16(9), dtype=np.float16) * (np.arange(500) % 3 != 0)
    ids = np.array([f"{i:03}".encode() for i in range(500)])
    query = rng.standard_normal((40, DIMENSIONS)).astype(np.float32)
    query[:, 0] = 1e-6
    longest = float(np.linalg.norm(rows.astype(np.float64), axis=1).max())
    for q, top in zip(query, inner_products.nearest_documents(rows, ids, query, 7, longest, ""), strict=True):
        scores = inner_products.score(rows.__getitem__, np.arange(500), q)
        assert top.documents.tolist() == np.lexsort((ids, -scores))[:7].tolist()


def test_files_hold_the_same_index(index, tmp_path):
    again = open_exact(tmp_path / "index", encoder=Spelling())
    again.verify()
    assert again.manifest == index.manifest
    assert again.search("red", 3).scores.tobytes() == index.search("red", 3).scores.tobytes()
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == [
        "ids.npy",
        "manifest.json",
        "vectors.f16",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    assert (again.manifest.standing, again.manifest.parameters["dimensions"]) == ("recomputable", DIMENSIONS)


def test_where_an_encoder_was_found_is_no_part_of_the_fingerprint(index, tmp_path):
    other = Spelling()
    other.text_parameters = {**other.text_parameters, "encoder": "elsewhere", "revision": "2"}
    again = build_exact(SHOP, corpus="shop", folder=tmp_path / "again", encoder=other)
    assert again.manifest.fingerprint == index.manifest.fingerprint
    weights = build_exact(SHOP, corpus="shop", folder=tmp_path / "more", encoder=Spelling("others"))
    assert weights.manifest.fingerprint != index.manifest.fingerprint


def test_another_encoder(index, tmp_path):
    with pytest.raises(UsageError, match="was encoded with weights_sha256 'letters', not 'others': open it"):
        open_exact(tmp_path / "index", encoder=Spelling("others"))
    with pytest.raises(UsageError, match="unknown encoder 'spelling'"):
        open_exact(tmp_path / "index")


def test_truncated_vectors(index, tmp_path):
    path = tmp_path / "index" / "vectors.f16"
    raw = path.read_bytes()
    for damaged in (raw[:-2], raw + b"xx", b""):
        path.write_bytes(damaged)
        with pytest.raises(
            UsageError, match=r"is not a complete index \(vectors.f16 has [\d,]+ bytes, not 640\)"
        ):
            open_exact(tmp_path / "index", encoder=Spelling())
    path.unlink()
    with pytest.raises(UsageError, match="is not a complete index"):
        open_exact(tmp_path / "index", encoder=Spelling())


def test_vectors_that_are_not_finite(index, tmp_path):
    path = tmp_path / "index" / "vectors.f16"
    stored = np.fromfile(path, np.float16).reshape(5, -1)
    stored[3, 5] = np.nan
    stored.tofile(path)
    again = open_exact(tmp_path / "index", encoder=Spelling())
    with pytest.raises(
        UsageError, match="the vector of document 3 is not finite; delete it and build it again"
    ):
        again.search("red", 2)
    with pytest.raises(UsageError, match="were changed: delete it"):
        again.verify()
    with pytest.raises(UsageError, match="the vector of document 'B2' is not finite"):
        build_exact(SHOP, corpus="shop", folder=tmp_path / "more", encoder=Spelling(broken="lamp"))
    index.encoder = Spelling(broken="lamp")
    with pytest.raises(UsageError, match="the vector of the query 'a lamp' is not finite"):
        index.search_all(["red", "a lamp"], 2)


def test_an_empty_corpus(tmp_path):
    index = build_exact([], corpus="nothing", folder=tmp_path / "index", encoder=Spelling())
    assert (len(index), found(index, "red", 3)) == (0, [])


def test_two_documents_of_one_id(tmp_path):
    with pytest.raises(UsageError, match="two documents have the id 'B3'"):
        build_exact([*SHOP, SHOP[0]], corpus="shop", folder=tmp_path / "index", encoder=Spelling())


class Counting(Spelling):
    def __init__(self, stop=1 << 60, weights="letters"):
        super().__init__(weights)
        self.encoded, self.stop = 0, stop

    def encode_passages(self, texts):
        if self.encoded + len(texts) > self.stop:
            raise KeyboardInterrupt
        self.encoded += len(texts)
        return super().encode_passages(texts)


def interrupted(folder, corpus, stop, monkeypatch):
    monkeypatch.setattr(vectors, "BLOCK", 8)
    with pytest.raises(KeyboardInterrupt):
        build_exact(corpus, corpus="drawn", folder=folder, encoder=Counting(stop))
    assert not folder.exists()


def test_an_interrupted_build_resumes(tmp_path, monkeypatch):
    corpus = many(60)
    interrupted(tmp_path / "index", corpus, 30, monkeypatch)
    encoder = Counting()
    index = build_exact(corpus, corpus="drawn", folder=tmp_path / "index", encoder=encoder)
    assert encoder.encoded == 60 - 24
    whole = build_exact(corpus, corpus="drawn", folder=tmp_path / "whole", encoder=Counting())
    assert index.manifest == whole.manifest
    index.verify()


@pytest.mark.parametrize("changed", ["encoder", "corpus", "vectors", "journal"])
def test_what_was_changed_meanwhile_is_encoded_again(tmp_path, monkeypatch, changed):
    corpus = many(60)
    interrupted(tmp_path / "index", corpus, 30, monkeypatch)
    draft = tmp_path / ".index.encoding"
    encoder, again = Counting(), 60 - 24
    if changed == "encoder":
        encoder, again = Counting(weights="others"), 60
    elif changed == "corpus":
        corpus[10], again = ("other", "text"), 60 - 8
    elif changed == "vectors":
        raw = bytearray((draft / "vectors.f16").read_bytes())
        raw[20 * 2 * DIMENSIONS] ^= 1
        (draft / "vectors.f16").write_bytes(raw)
        again = 60 - 16
    else:
        path = draft / "blocks.jsonl"
        path.write_bytes(path.read_bytes()[:-5])
        again = 60 - 16
    index = build_exact(corpus, corpus="drawn", folder=tmp_path / "index", encoder=encoder)
    assert encoder.encoded == again
    whole = build_exact(corpus, corpus="drawn", folder=tmp_path / "whole", encoder=encoder)
    assert index.manifest == whole.manifest


KILLED = """
import sys, time
from pathlib import Path
from agentgym.retrieval.engines import vectors
from agentgym.retrieval.engines.exact import build_exact
from tests.retrieval.test_exact import Counting, many
vectors.BLOCK = 8

class Slow(Counting):
    def encode_passages(self, texts):
        if self.encoded == 32:
            print("now", flush=True)
            time.sleep(600)
        return super().encode_passages(texts)

build_exact(many(60), corpus="drawn", folder=Path(sys.argv[1]), encoder=Slow())
"""


def test_a_killed_build_resumes(tmp_path, monkeypatch):
    command = [sys.executable, "-c", KILLED, str(tmp_path / "index")]
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=root, env={**os.environ, "PYTHONPATH": root}
    ) as run:
        assert run.stdout.readline() == b"now\n"
        with pytest.raises(UsageError, match="another process is writing to"):
            build_exact(many(60), corpus="drawn", folder=tmp_path / "index", encoder=Counting())
        run.send_signal(signal.SIGKILL)
    monkeypatch.setattr(vectors, "BLOCK", 8)
    encoder = Counting()
    index = build_exact(many(60), corpus="drawn", folder=tmp_path / "index", encoder=encoder)
    assert encoder.encoded == 60 - 32
    whole = build_exact(many(60), corpus="drawn", folder=tmp_path / "whole", encoder=Counting())
    assert index.manifest == whole.manifest


def test_a_manifest_of_another_schema(index, tmp_path):
    path = tmp_path / "index" / MANIFEST
    table = json.loads(path.read_text())
    for fields, message in (
        ({"schema": 1}, r"has schema 1, not 2: delete .* and build it again"),
        ({"engine": "bm25/1"}, "has engine 'bm25/1', not 'exact/1'"),
        (
            {"parameters": {"dimensions": "x"}},
            "is damaged .manifest.json: parameters.dimensions: expected a number",
        ),
        (
            {"text_parameters": {"encoder": 1}},
            "is damaged .manifest.json: text_parameters.encoder: expected a string",
        ),
        ({"count": 1.5}, "is damaged .manifest.json: count: expected an integer"),
    ):
        path.write_text(json.dumps({**table, **fields}))
        with pytest.raises(UsageError, match=message):
            open_exact(tmp_path / "index", encoder=Spelling())
