"""An index of Lucene's by pyserini's own searcher: ``make test-pyserini``, in an environment of its own."""

import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from agentgym.core.types import Passage
from agentgym.envs.multihop.search import check_search
from agentgym.errors import MissingPackageError, UsageError
from agentgym.retrieval.corpus.passages import PassageList, documents
from agentgym.retrieval.engines import pyserini
from agentgym.retrieval.engines.bm25 import build_bm25
from agentgym.retrieval.engines.lucene import adopt_lucene, build_lucene
from agentgym.retrieval.opening import open_or_build, open_searcher

WORDS = "ship sank lamp red blue cotton shirt of the in running ran runner's Vasa 1628 1,628 queen".split()  # noqa: SIM905
needs_pyserini = pytest.mark.skipif(find_spec("tiktoken") is None, reason="needs what pyserini imports")


def drawn(count, seed=1):
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, rng.integers(3, 60))) for _ in range(count)]
    return [Passage(f"D{number:03}", f"Title {number}", text) for number, text in enumerate(texts)]


def test_it_is_an_engine_of_search():
    check_search("pyserini", None)
    with pytest.raises(UsageError, match="takes no encoder"):
        check_search("pyserini", "minilm")


def test_a_missing_package_is_one_line_with_the_extra(monkeypatch):
    monkeypatch.setattr(pyserini, "java_class", lambda name: None)
    monkeypatch.setitem(sys.modules, "pyserini.search.lucene", None)
    monkeypatch.setitem(sys.modules, "pyserini", None)
    with pytest.raises(MissingPackageError, match=r"needs pyserini.*: in an environment of its own"):
        pyserini._searcher_class()


def test_importing_it_asks_for_no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    seen = []
    monkeypatch.setattr(pyserini, "java_class", lambda name: None)
    module = ModuleType("pyserini.search.lucene")
    module.__getattr__ = lambda name: seen.append(pyserini.os.environ["OPENAI_API_KEY"]) or SimpleNamespace
    for name in ("pyserini", "pyserini.search"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "pyserini.search.lucene", module)
    assert pyserini._searcher_class() is SimpleNamespace
    assert (seen[-1], "OPENAI_API_KEY" in pyserini.os.environ) == ("none", False)


@pytest.mark.java
@needs_pyserini
def test_pyserini_ranks_as_bm25(tmp_path):
    store = PassageList(drawn(300))
    index = open_or_build(
        "pyserini", tmp_path / "pyserini", lambda: documents(store), corpus="drawn", count=len(store)
    )
    assert [path.name for path in tmp_path.iterdir()] == ["lucene"]
    assert type(index._searcher).__module__.startswith("pyserini.")
    assert (index.manifest.engine, index.manifest.standing) == ("pyserini/1", "recomputable")
    assert "pyserini" in index.manifest.libraries
    own = build_bm25(documents(store), corpus="drawn")
    rng = np.random.default_rng(2)
    for _ in range(60):
        query = " ".join(rng.choice(WORDS, rng.integers(1, 6)))
        theirs, ours = index.search(query, 20), own.search(query, 20)
        assert theirs.documents.tolist() == ours.documents.tolist(), query
        np.testing.assert_allclose(theirs.scores, ours.scores, atol=1e-4)
    assert index.ids(theirs.documents) == own.ids(ours.documents)
    again = open_searcher("pyserini", tmp_path / "c", lambda: store, corpus="c", count=300, k1=1.2, b=0.75)
    assert again.index.manifest.parameters == {"k1": 1.2, "b": 0.75}


@pytest.mark.java
@needs_pyserini
def test_a_published_folder_is_opened_as_it_is(tmp_path):
    built = build_lucene([(p.id, p.text) for p in drawn(40)], corpus="drawn", folder=tmp_path / "built")
    published = (tmp_path / "built" / "lucene").rename(tmp_path / "published")
    with pytest.raises(UsageError, match="build it first"):
        pyserini.open_pyserini(published)
    adopt_lucene(published, corpus="published")
    index = pyserini.open_pyserini(published)
    for query in WORDS:
        hits = index.search(query, 10)
        assert index.ids(hits.documents) == built.ids(built.search(query, 10).documents)
    next(published.glob("segments*")).write_bytes(b"no index")
    with pytest.raises(UsageError, match="is no whole index of Lucene's"):
        pyserini.open_pyserini(published)
