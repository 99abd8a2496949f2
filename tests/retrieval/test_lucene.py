"""Lucene: what it finds, the project's own index finds too, word for word and rank for rank."""

import os
import subprocess
import sys

import numpy as np
import pytest

from agentgym.errors import MissingDataError, UsageError
from agentgym.retrieval.analysis import Analyser
from agentgym.retrieval.bm25 import build_bm25
from agentgym.retrieval.lucene import JAR_VARIABLE, build_lucene, find_jar, java_class, open_lucene
from agentgym.retrieval.words import words

SHOP = [
    ("B3", "Red cotton shirts"),
    ("B1", "Blue cotton shirt"),
    ("B2", "A red, red lamp"),
    ("B0", "Blue cotton shirt"),
]

PIECES = [*"aab1_.,:;'-/ ", " the ", "ing ", "ies ", "logy ", "bly ", "\u2019s "]
PIECES += ["\u00e9", "\u03b1", "\u6f22", "\ud55c", "\u2764\ufe0f", "\u00bd"]


def test_a_jar_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv(JAR_VARIABLE, str(tmp_path / "no.jar"))
    with pytest.raises(MissingDataError, match="where no file is: name Anserini's jar"):
        find_jar()


def test_no_jar(monkeypatch):
    monkeypatch.delenv(JAR_VARIABLE, raising=False)
    monkeypatch.setattr("agentgym.retrieval.lucene.files", lambda name: None)
    with pytest.raises(MissingDataError, match=r"pip install --no-deps pyserini==0\.25\.0"):
        find_jar()


def test_a_missing_package_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jnius_config", None)
    with pytest.raises(UsageError, match=r"Lucene needs pyjnius: pip install 'pyjnius"):
        java_class("java.lang.Object.NotCached")


@pytest.mark.java
def test_lucene_and_bm25_agree(tmp_path):
    rng = np.random.default_rng(2)
    corpus = [(f"D{i:04}", "".join(rng.choice(PIECES, rng.integers(1, 300)))) for i in rng.permutation(500)]
    lucene = build_lucene(corpus, corpus="drawn", folder=tmp_path / "index")
    own = build_bm25(corpus, corpus="drawn")
    assert lucene.manifest.corpus_sha256 == own.manifest.corpus_sha256
    for _ in range(100):
        query = "".join(rng.choice(PIECES, rng.integers(1, 30)))
        theirs, ours = lucene.search(query, 50), own.search(query, 50)
        assert theirs.documents.tolist() == ours.documents.tolist()
        np.testing.assert_allclose(theirs.scores, ours.scores, atol=1e-4)  # Anserini moves ties apart


@pytest.mark.java
def test_words_and_terms_agree():
    analyse = java_class("io.anserini.analysis.AnalyzerUtils").analyze
    english = java_class("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
    standard = java_class("org.apache.lucene.analysis.standard.StandardAnalyzer")()
    rng = np.random.default_rng(1)
    analyser = Analyser()
    for _ in range(2000):
        text = "".join(rng.choice(PIECES, rng.integers(1, 20)))
        assert words(text) == [str(word) for word in analyse(standard, text).toArray()]
        assert analyser.terms(text) == [str(term) for term in analyse(english, text).toArray()]


@pytest.mark.java
def test_interface(tmp_path):
    build_lucene(SHOP, corpus="shop", folder=tmp_path / "index")
    index = open_lucene(tmp_path / "index")
    assert (len(index), index.manifest.parameters) == (4, {"k1": 0.9, "b": 0.4})
    hits = index.search("blue", 5)
    assert index.ids(hits.documents) == ["B0", "B1"]
    assert [len(each.documents) for each in index.search_all(["zebra", "lamp"], 5)] == [0, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


@pytest.mark.java
def test_a_java_machine_without_the_jar():
    code = (
        "from jnius import autoclass; autoclass('java.lang.String')\n"
        "from agentgym.retrieval.lucene import java_class\n"
        "java_class('io.anserini.search.SimpleSearcher')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False
    )
    assert "a Java machine runs without" in run.stderr
