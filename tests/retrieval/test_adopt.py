"""Published indexes are searched as they are, and only with the encoder and documents that made them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from agentgym.core.types import Passage
from agentgym.errors import UsageError
from agentgym.retrieval import adopt
from agentgym.retrieval.adopt import adopt_index
from agentgym.retrieval.corpus.passages import PASSAGES, PassageFile, PassageList, adopt_passages, documents
from agentgym.retrieval.engines.bm25 import build_bm25
from agentgym.retrieval.engines.faiss import open_faiss
from agentgym.retrieval.products import score
from tests.retrieval.spelling import Spelling
from tests.retrieval.test_exact import many

pytestmark = pytest.mark.peer

WORLD = [Passage(id, f"title {id}", text) for id, text in many(150)]
QUERIES = [passage.text[3:12] for passage in WORLD[:30]]


def contents(passage):
    return f'"{passage.title}"\n{passage.text}'


@pytest.fixture
def published(tmp_path):
    """Return documents and a flat faiss file, as FlashRAG and Search-R1 publish them."""
    import faiss

    lines = "".join(json.dumps({"id": each.id, "contents": contents(each)}) + "\n" for each in WORLD)
    (tmp_path / "corpus.jsonl").write_text(lines)
    structure = faiss.index_factory(64, "Flat", faiss.METRIC_INNER_PRODUCT)
    structure.add(Spelling().encode_passages([contents(passage) for passage in WORLD]))
    faiss.write_index(structure, str(tmp_path / "e5_Flat.index"))
    return tmp_path


def adopted(folder, **options):
    given = {"corpus": "wiki", "published": folder / "corpus.jsonl", "encoder": Spelling(), **options}
    return adopt_index(folder / "e5_Flat.index", folder / "adopted", **given)


def test_a_published_index_is_searched_as_it_is(published):
    before = {path.name: path.read_bytes() for path in published.iterdir()}
    searcher = adopted(published)
    assert {path.name: path.read_bytes() for path in published.iterdir() if path.is_file()} == before
    stored = Spelling().encode_passages([contents(passage) for passage in WORLD])
    ids = np.array([passage.id.encode() for passage in WORLD])
    for query, found in zip(QUERIES, searcher.search(QUERIES, 5), strict=True):
        scores = score(stored.__getitem__, np.arange(150), Spelling().encode_queries([query])[0])
        best = np.lexsort((ids, -scores))[:5]
        assert found == [WORLD[number] for number in best]
    assert searcher.search(QUERIES[:1], 1)[0][0] in WORLD
    assert searcher.standing == "recomputable"
    index = open_faiss(published / "adopted" / "faiss", encoder=Spelling())
    index.verify()
    assert index.manifest.fingerprint == searcher.fingerprint
    assert sum(path.stat().st_size for path in (published / "adopted" / "faiss").glob("*.json")) < 2_000


def test_batches_change_no_bit(published):
    index = adopted(published).index
    for query, together in zip(QUERIES, index.search_all(QUERIES, 7), strict=True):
        alone = index.search(query, 7)
        assert alone.scores.tobytes() == together.scores.tobytes()
        assert alone.documents.tolist() == together.documents.tolist()


def test_an_encoder_must_be_named(published):
    with pytest.raises(UsageError, match="does not say what made its vectors: pass encoder='e5-base-v2'"):
        adopted(published, encoder=None)


class Shifted(Spelling):
    """Another encoder with as many dimensions."""

    def encode_passages(self, texts):
        return np.roll(super().encode_passages(texts), 1, axis=1)


def test_another_encoder_or_other_documents(published):
    with pytest.raises(
        UsageError, match=r"\d+% of the 100 vectors looked at in .* are those that spelling makes"
    ):
        adopted(published, encoder=Shifted())
    wide = Spelling()
    wide.parameters = {**wide.parameters, "dimensions": 65}
    with pytest.raises(UsageError, match="has vectors of 64 numbers, and spelling makes such of 65"):
        adopted(published, encoder=wide)
    lines = (published / "corpus.jsonl").read_text().splitlines(keepends=True)
    (published / "corpus.jsonl").write_text("".join(lines[::-1]))
    with pytest.raises(UsageError, match="% of the 100 vectors looked at"):
        adopted(published)
    (published / "corpus.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(UsageError, match="has 150 vectors, and there are 149 documents"):
        adopted(published)
    assert not (published / "adopted" / "faiss").exists()


def test_another_metric(published):
    import faiss

    structure = faiss.IndexFlatL2(64)
    structure.add(np.zeros((150, 64), np.float32))
    faiss.write_index(structure, str(published / "e5_Flat.index"))
    with pytest.raises(UsageError, match="ranks by another metric than the inner product"):
        adopted(published)
    (published / "e5_Flat.index").write_bytes(b"no index")
    with pytest.raises(UsageError, match="is no whole index"):
        adopted(published)


def test_published_passages(published):
    path = published / "corpus.jsonl"
    store = adopt_passages(published / PASSAGES, path, corpus="wiki")
    assert list(store) == WORLD
    assert store.title(7) == WORLD[7].title
    assert store.sha256 == PassageList(WORLD).sha256
    again = PassageFile(published / PASSAGES)
    again.verify()
    with pytest.raises(IndexError):
        again[150]
    assert build_bm25(documents(again), corpus="wiki").manifest.corpus_sha256 == again.sha256
    order = [passage.id for passage in WORLD[::-1]]
    assert list(adopt_passages(published / PASSAGES, path, corpus="wiki", order=order)) == WORLD[::-1]
    with pytest.raises(UsageError, match="has no document of id 'other'"):
        adopt_passages(published / PASSAGES, path, corpus="wiki", order=["other"])
    whole = path.read_text()
    for changed in (whole[:-10], whole + "\n"):
        path.write_text(changed)
        with pytest.raises(
            UsageError, match=r"corpus.jsonl has [\d,]+ bytes, and had [\d,]+ when it was taken over"
        ):
            PassageFile(published / PASSAGES)
    path.unlink()
    with pytest.raises(UsageError, match=r"its documents are in .*: No such file"):
        PassageFile(published / PASSAGES)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", "line 2: a document is an object with a text"),
        ('{"id": 1}', "line 2: a document has texts"),
        ("{", "line 2: not JSON"),
        ('{"id": "D", "contents": "a"}', "two documents have the id 'D'"),
        ('{"id": "E", "contents": "' + "x" * (5 << 20) + '"}', "line 2: over 4,194,304 bytes"),
    ],
)
def test_documents_that_are_refused(tmp_path, line, message):
    (tmp_path / "corpus.jsonl").write_text('{"id": "D", "contents": "a"}\n' + line + "\n")
    with pytest.raises(UsageError, match=message):
        adopt_passages(tmp_path / PASSAGES, tmp_path / "corpus.jsonl", corpus="wiki")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"]


def test_passages_of_lucene_stand_in_its_order(published, monkeypatch):
    (published / "lucene").mkdir()
    index = build_bm25(((each.id, each.contents) for each in WORLD[::-1]), corpus="wiki")
    lucene = SimpleNamespace(adopt_lucene=lambda folder, *, corpus: index)
    monkeypatch.setattr(adopt, "import_module", lambda name: lucene)
    searcher = adopt_index(
        published / "lucene", published / "adopted", corpus="wiki", published=published / "corpus.jsonl"
    )
    assert list(searcher.store) == WORLD[::-1]
    assert (published / "adopted" / "lucene").resolve() == published / "lucene"


@pytest.mark.java
def test_a_folder_of_lucene(published):
    from agentgym.retrieval.engines.lucene import build_lucene

    build_lucene(((each.id, contents(each)) for each in WORLD), corpus="made", folder=published / "built")
    folder = published / "built" / "lucene"
    for _ in range(2):  # the second time its manifest is there
        searcher = adopt_index(
            folder, published / "adopted", corpus="wiki", published=published / "corpus.jsonl"
        )
        own = build_bm25(((each.id, contents(each)) for each in WORLD), corpus="wiki")
        for query in QUERIES:
            ids = [passage.id for passage in searcher.search([query], 5)[0]]
            assert ids == own.ids(own.search(query, 5).documents)
    assert searcher.standing == "recomputable"
