"""Faiss proposes, exact products rank: what is found has the scores of the exact engine, in any batch."""

import sys
from types import SimpleNamespace

import faiss
import numpy as np
import pytest

from agentgym.errors import UsageError
from agentgym.retrieval.engines.exact import build_exact
from agentgym.retrieval.engines.faiss import build_faiss, open_faiss
from tests.retrieval.spelling import Spelling
from tests.retrieval.test_exact import many

pytestmark = pytest.mark.peer

CORPUS = many(600)
QUERIES = [text[2:15] for _, text in CORPUS[:40]] + ["", "\u5546", "the of"]
KINDS = ["flat", "hnsw", "ivfpq"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faiss")
    for kind in KINDS:
        build_faiss(
            CORPUS, corpus="drawn", folder=folder / kind, encoder=Spelling(), kind=kind, lists=8, probes=6
        )
    build_exact(CORPUS, corpus="drawn", folder=folder / "exact", encoder=Spelling())
    return folder


@pytest.fixture(scope="module")
def reference(folder):
    from agentgym.retrieval.engines.exact import open_exact

    return open_exact(folder / "exact", encoder=Spelling()).search_all(QUERIES, 10)


@pytest.mark.parametrize(("kind", "least"), [("flat", 1.0), ("hnsw", 0.95), ("ivfpq", 0.7)])
def test_scores_are_exact_and_few_are_left_out(folder, reference, kind, least):
    index = open_faiss(folder / kind, encoder=Spelling())
    shares = []
    for ours, best in zip(index.search_all(QUERIES, 10), reference, strict=True):
        known = dict(zip(best.documents.tolist(), best.scores.tolist(), strict=True))
        pairs = list(zip(ours.documents.tolist(), ours.scores.tolist(), strict=True))
        assert all(known.get(number, value) == value for number, value in pairs)
        assert [value for _, value in pairs] == sorted((value for _, value in pairs), reverse=True)
        shares.append(len(known.keys() & dict(pairs).keys()) / 10)
    assert np.mean(shares) >= least


@pytest.mark.parametrize("kind", KINDS)
def test_batches_change_no_bit(folder, kind):
    index = open_faiss(folder / kind, encoder=Spelling())
    together = index.search_all(QUERIES, 7)
    assert index.encoder.calls == [QUERIES]
    for query, hits in zip(QUERIES, together, strict=True):
        alone = index.search(query, 7)
        assert alone.scores.tobytes() == hits.scores.tobytes()
        assert alone.documents.tolist() == hits.documents.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_interface(folder, kind):
    index = open_faiss(folder / kind, encoder=Spelling())
    index.verify()
    assert (len(index), index.ids(np.array([0], np.int32))) == (600, [CORPUS[0][0]])
    assert 300 < len(index.search("abcd", 10_000).documents) <= 600
    assert index.manifest.standing == "recomputable"
    with pytest.raises(UsageError, match="ask for k >= 1, not 0"):
        index.search("abcd", 0)
    with pytest.raises(UsageError, match="was encoded with weights_sha256 'letters', not 'others'"):
        open_faiss(folder / kind, encoder=Spelling("others"))


@pytest.mark.parametrize("kind", KINDS)
def test_small_corpora(tmp_path, kind):
    for count in (0, 1, 3):
        index = build_faiss(
            CORPUS[:count], corpus="few", folder=tmp_path / str(count), encoder=Spelling(), kind=kind
        )
        assert len(index.search("abcd", 5).documents) == count


def test_structures_are_pinned(folder, tmp_path):
    manifests = [open_faiss(folder / kind, encoder=Spelling()).manifest for kind in KINDS]
    assert len({manifest.fingerprint for manifest in manifests}) == 3
    assert "structure_sha256" not in manifests[0].text_parameters
    assert manifests[2].parameters["lists"] == 8


def test_a_damaged_structure(tmp_path):
    folder = tmp_path / "index"
    build_faiss(CORPUS[:50], corpus="drawn", folder=folder, encoder=Spelling(), kind="hnsw")
    path = folder / "structure.faiss"
    raw = path.read_bytes()
    build_faiss(CORPUS[:40], corpus="drawn", folder=tmp_path / "other", encoder=Spelling(), kind="hnsw")
    path.write_bytes((tmp_path / "other" / "structure.faiss").read_bytes())
    with pytest.raises(UsageError, match=r"structure.faiss holds 40 vectors of 64: build it again"):
        open_faiss(folder, encoder=Spelling())
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(UsageError, match=r"is not a complete index .structure.faiss.: build it again"):
        open_faiss(folder, encoder=Spelling())
    path.write_bytes(raw)
    index = open_faiss(folder, encoder=Spelling())
    path.write_bytes(raw + b"x")
    with pytest.raises(UsageError, match=r"the structure in .* was changed"):
        index.verify()


def test_what_is_refused(folder, tmp_path, monkeypatch):
    for options, message in (
        ({"kind": "flatt"}, "unknown kind 'flatt' .*choose one of flat, hnsw, ivfpq"),
        ({"links": 0}, "links must be a whole number of at least 1, got 0"),
    ):
        with pytest.raises(UsageError, match=message):
            build_faiss(CORPUS, corpus="drawn", folder=tmp_path / "index", encoder=Spelling(), **options)
    with pytest.raises(UsageError, match="unknown device 'gpu': choose auto, cpu, cuda or cuda:NUMBER"):
        open_faiss(folder / "hnsw", encoder=Spelling(), device="gpu")
    with pytest.raises(UsageError, match="faiss finds no GPU: install faiss-gpu-cu12 in place of faiss-cpu"):
        open_faiss(folder / "flat", encoder=Spelling(), device="cuda")
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UsageError, match="this index needs faiss-cpu: pip install"):
        open_faiss(folder / "flat", encoder=Spelling())


def test_a_flat_structure_is_searched_where_there_is_a_gpu(folder, monkeypatch):
    """The GPUs are played by faiss's structure on the CPU."""
    used = []
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 2, raising=False)
    monkeypatch.setattr(faiss, "GpuMultipleClonerOptions", SimpleNamespace, raising=False)
    monkeypatch.setattr(
        faiss, "index_cpu_to_gpus_list", lambda flat, co, gpus: used.append(gpus) or flat, raising=False
    )
    queries = [text for _, text in CORPUS[:5]]
    opened = {
        device: open_faiss(folder / "flat", encoder=Spelling(), device=device)
        for device in ("cpu", "auto", "cuda", "cuda:1")
    }
    assert used == [None, None, [1]]
    found = [[hits.documents.tolist() for hits in index.search_all(queries, 5)] for index in opened.values()]
    assert found[0] == found[1] == found[2] == found[3]
    assert len({index.manifest.fingerprint for index in opened.values()}) == 1
    assert open_faiss(folder / "hnsw", encoder=Spelling(), device="cuda").search(queries[0], 5)
