"""Published indexes are searched as they are, and only with the encoder and documents that made them."""

import hashlib
import io
import json
import shutil
import tarfile

import numpy as np
import pytest

from agentgym.cli import main
from agentgym.core.types import Passage
from agentgym.data import sources
from agentgym.envs.multihop.corpora import open_corpus
from agentgym.errors import MissingDataError, UsageError
from agentgym.retrieval import adopt
from agentgym.retrieval.adopt import adopt_index
from agentgym.retrieval.corpus.passages import PASSAGES, PassageFile, PassageList, adopt_passages, documents
from agentgym.retrieval.engines import exact
from agentgym.retrieval.engines.bm25 import build_bm25, open_bm25
from agentgym.retrieval.engines.faiss import open_faiss
from agentgym.retrieval.engines.pyserini import build_pyserini
from agentgym.retrieval.inner_products import score
from tests.data import mirror
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
    index = open_faiss(published / "adopted" / "faiss-spelling", encoder=Spelling())
    index.verify()
    assert index.manifest.fingerprint == searcher.fingerprint
    assert sum(path.stat().st_size for path in index._folder.glob("*.json")) < 2_000


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
    assert list((published / "adopted").iterdir()) == []


def test_another_metric(published):
    import faiss

    structure = faiss.IndexFlatL2(64)
    structure.add(np.zeros((150, 64), np.float32))
    faiss.write_index(structure, str(published / "e5_Flat.index"))
    with pytest.raises(UsageError, match="ranks by another metric than the inner product"):
        adopted(published)
    (published / "e5_Flat.index").write_bytes(b"no index")
    with pytest.raises(UsageError, match="is not a complete index"):
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
    texts = [(each.id, each.contents) for each in WORLD[::-1]]
    monkeypatch.setattr(
        adopt,
        "adopt_pyserini",
        lambda source, folder, corpus: build_bm25(texts, corpus=corpus, folder=folder),
    )
    monkeypatch.setattr(adopt, "open_pyserini", open_bm25)
    searcher = adopt_index(
        published / "lucene", published / "adopted", corpus="wiki", published=published / "corpus.jsonl"
    )
    assert list(searcher.store) == WORLD[::-1]
    assert searcher.index.manifest.corpus_sha256 == PassageList(WORLD[::-1]).sha256


WIKI = """\
name = "wiki-18"
about = "a world"
source = "nowhere"
licence = "CC0-1.0"
reader = "documents"
rule = "a passage for each line"
passages = 150
folder = "searchqa/fullwiki"
files = [{ path = "corpus.jsonl" }]
"""


@pytest.fixture
def run(published, monkeypatch, capsys):
    """Return a function that runs `agentgym index` where wiki-18 is described and nothing can be built."""
    (published / "descriptions").mkdir()
    (published / "descriptions" / "wiki-18.toml").write_text(WIKI)
    monkeypatch.setattr("agentgym.cli.corpus.shipped_folder", lambda name: published / "descriptions")
    monkeypatch.setenv("AGENTGYM_DATA", str(published / "data"))
    monkeypatch.setenv("AGENTGYM_CACHE", str(published / "cache"))
    monkeypatch.setattr(adopt, "open_encoder", lambda name: Spelling())
    monkeypatch.setattr(exact, "open_encoder", lambda name, device: Spelling())
    monkeypatch.setattr("agentgym.retrieval.opening.progress_bar", None)  # begins what is built

    def run(*words, code=0):
        assert main(["index", *map(str, words)]) == code
        said = capsys.readouterr()
        return said.err if code == 2 else said.out

    return run


def adopting(folder, name, *words):
    documents = ("--documents", folder / "corpus.jsonl")
    return ("adopt", folder / "e5_Flat.index", *documents, "--encoder", "spelling", "--name", name, *words)


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("name", ["wiki-18", "my-wiki"])
def test_an_adopted_index_is_found_by_every_name_it_has(published, run, name, old):
    assert "150 passages, ranked by faiss/1" in run(*adopting(published, name))
    folder = published / ("data/searchqa/fullwiki" if name == "wiki-18" else "cache/indexes/my-wiki")
    if old:  # before indexes were adopted by the names of their encoders
        (folder / "faiss-spelling").rename(folder / "faiss")
    assert sorted(path.name for path in folder.iterdir()) == [
        "faiss" if old else "faiss-spelling",
        "passages.records",
    ]
    found = run("query", name, QUERIES[0])
    vectors = ("--engine", "faiss", "--encoder")
    for words in ((name, *vectors, "spelling"), (name, *vectors, "owner/spelling@/x"), (folder,)):
        assert run("query", *words[:1], QUERIES[0], *words[1:]) == found
    assert f"index {'faiss' if old else 'faiss-spelling'}" in run("info", name)
    assert "as it should be" in run("verify", name)
    assert name in run("list")


def test_an_index_in_parts_is_downloaded_with_its_corpus_and_searched(published, run, monkeypatch):
    described = WIKI.replace('"corpus.jsonl"', '"w/corpus.jsonl"')
    (published / "descriptions" / "wiki-18.toml").write_text(described)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:  # as wiki-18.jsonl.gz is published
        tar.add(published / "corpus.jsonl", "data00/somebody/wiki_dump.jsonl")
    whole = (published / "e5_Flat.index").read_bytes()
    files = {"corpus.jsonl.gz": packed.getvalue(), "part_aa": whole[:20_000], "part_ab": whole[20_000:]}
    listed = [
        {"sets": [name], "name": file, "urls": [f"http://127.0.0.1:1/{file}"], "check": "V", **joins}
        | {"size": len(files[file]), "sha256": hashlib.sha256(files[file]).hexdigest()}
        for name, file, joins in (
            ("wiki-18", "corpus.jsonl.gz", {}),
            ("wiki-18-e5", "part_aa", {"joins": "e5_Flat.index"}),
            ("wiki-18-e5", "part_ab", {"joins": "e5_Flat.index"}),
        )
    ]
    about = {"licence": "MIT", "revision": "1", "corpus": "wiki-18", "folder": "w"}
    e5 = {**about, "needs": ["wiki-18"], "adopt": "e5_Flat.index", "encoder": "spelling"}
    mirror.write_sources(published / "sources.toml", {"wiki-18": about, "wiki-18-e5": e5}, listed)
    monkeypatch.setattr(sources, "SOURCES", published / "sources.toml")
    served = {f"wiki-18{'-e5' if 'part' in name else ''}/{name}": data for name, data in files.items()}
    with mirror.serving(served) as (url, handler):
        words = ("download", "wiki-18-e5", "--mirror", url, "--only-mirror")
        assert "wiki-18-e5: 150 passages in " in run(*words)
        assert "wiki-18-e5: 150 passages in " in run(*words)
        assert len(handler.seen) == 3
    assert (published / "data" / "w" / "e5_Flat.index").read_bytes() == whole
    assert WORLD[0].id in run("query", "wiki-18", WORLD[0].text, "--engine", "faiss", "--encoder", "spelling")


def test_nothing_is_encoded_again_where_an_index_is_adopted(published, run):
    run(*adopting(published, "my-wiki"))
    folder = published / "cache" / "indexes" / "my-wiki"
    for words, built in (
        (("--engine", "faiss", "--encoder", "minilm"), "--engine faiss --encoder minilm"),
        (("--engine", "exact", "--encoder", "minilm"), "--engine exact --encoder minilm"),
        (("--engine", "hybrid", "--encoder", "minilm"), "--engine bm25"),
        (("--engine", "bm25", "--option", "k1=1.2"), "--engine bm25 --option k1=1.2"),
    ):
        refused = run("query", "my-wiki", "x", *words, code=2)
        assert f"but faiss-spelling: `agentgym index build {folder} {built}` builds it over 150" in refused
        assert refused.count("\n") == 1


def test_a_damaged_one_is_not_to_be_encoded_again(published, run):
    run(*adopting(published, "my-wiki"))
    manifest = published / "cache" / "indexes" / "my-wiki" / "faiss-spelling" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"corpus": "my-wiki"', '"corpus": "w"'))
    refused = run("query", "my-wiki", "x", code=2)
    assert f"build it again, `rm -r {manifest.parent}`, by adopting it: `agentgym index adopt" in refused


def test_an_environment_searches_the_encyclopedia_s_index(published, run):
    run(*adopting(published, "wiki-18"))
    corpus = open_corpus("searchqa/nq", "searchqa", "fullwiki", "faiss", "spelling")
    (hits,) = corpus.backend.answer([corpus.ask(QUERIES[0], 3, None)])
    assert len(hits) == 3
    for engine, encoder in (("exact", "spelling"), ("bm25", None), ("faiss", "minilm")):
        with pytest.raises(MissingDataError, match=r"has no index .*, but faiss-spelling: `agentgym index b"):
            open_corpus("searchqa/nq", "searchqa", "fullwiki", engine, encoder)


def test_other_documents_are_adopted_where_no_other_index_ranks_them(published, run):
    run(*adopting(published, "my-wiki"))
    folder = published / "cache" / "indexes" / "my-wiki"
    documents = published / "corpus.jsonl"
    documents.write_text(documents.read_text().replace('"contents": "', '"contents": "x', 1))
    assert "corpus.jsonl has 10,951 bytes, and had 10,950" in run("query", "my-wiki", "x", code=2)
    run(*adopting(published, "my-wiki"))
    shutil.copytree(folder / "faiss-spelling", folder / "faiss-other", symlinks=True)
    documents.write_text(documents.read_text().replace('"contents": "', '"contents": "x', 1))
    assert "faiss-other ranks other passages: delete it" in run(*adopting(published, "my-wiki"), code=2)


@pytest.mark.java
def test_a_folder_of_lucene(published):
    build_pyserini(((each.id, contents(each)) for each in WORLD), corpus="made", folder=published / "built")
    folder = published / "built" / "lucene"
    for _ in range(2):
        searcher = adopt_index(
            folder, published / "adopted", corpus="wiki", published=published / "corpus.jsonl"
        )
        own = build_bm25(((each.id, contents(each)) for each in WORLD), corpus="wiki")
        for query in QUERIES:
            ids = [passage.id for passage in searcher.search([query], 5)[0]]
            assert ids == own.ids(own.search(query, 5).documents)
    assert searcher.standing == "recomputable"
