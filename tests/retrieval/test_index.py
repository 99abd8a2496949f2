"""An index is opened as what it was made of, or not at all."""

import json
from dataclasses import replace

import pytest

from agentgym.errors import UsageError
from agentgym.retrieval import index as index_module
from agentgym.retrieval.analysis import ANALYSER
from agentgym.retrieval.corpus.passages import PASSAGES
from agentgym.retrieval.engines.bm25 import build_bm25, open_bm25
from agentgym.retrieval.index import MANIFEST, Manifest
from agentgym.retrieval.opening import open_or_build

SHOP = [("B1", "red shirt"), ("B0", "red lamp")]


@pytest.fixture
def folder(tmp_path):
    build_bm25(SHOP, corpus="shop", folder=tmp_path / "index")
    return tmp_path / "index"


def change(folder, **fields):
    path = folder / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_no_index(tmp_path):
    with pytest.raises(UsageError, match=r"no index in .*nothing.*: build it first"):
        open_bm25(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"engine": "other/1"}, r"has engine 'other/1', not 'bm25/1': delete it and build it again"),
        ({"analyser": "other"}, r"has analyser 'other'"),
        ({"schema": 9}, r"has schema 9, not 2"),
        ({"more": 1}, r"is damaged"),
    ],
)
def test_an_index_of_something_else(folder, fields, message):
    change(folder, **fields)
    with pytest.raises(UsageError, match=message):
        open_bm25(folder)


def test_an_index_of_an_older_analyser_names_the_command_that_builds_it(folder):
    change(folder, analyser="lucene-english-porter/1")
    with pytest.raises(
        UsageError, match=rf"not '{ANALYSER}': .* again, `rm -r {folder}`: what opens it builds it$"
    ):
        open_bm25(folder)
    options = folder.rename(folder.with_name("bm25-k1=1.2"))
    (folder.parent / PASSAGES).touch()
    build = rf"agentgym index build {folder.parent} --engine bm25 --option k1=1.2"
    with pytest.raises(UsageError, match=rf"`rm -r {options} && {build}`$"):
        open_bm25(options)


def test_a_mended_analyser_keeps_fingerprints(folder):
    manifest = Manifest.read(folder)
    older = replace(manifest, analyser="lucene-english-porter/1")
    other = replace(manifest, analyser="lucene-english-porter/3")
    assert manifest.fingerprint == older.fingerprint != other.fingerprint


@pytest.mark.parametrize("name", ["terms", "documents", "parts", "id_bytes"])
def test_a_missing_or_damaged_array(folder, name):
    path = folder / f"{name}.npy"
    raw = path.read_bytes()
    path.write_bytes(raw[:-3])
    with pytest.raises(UsageError, match="is not a complete index"):
        open_bm25(folder)
    path.unlink()
    with pytest.raises(UsageError, match="is not a complete index"):
        open_bm25(folder)


def test_a_manifest_names_the_corpus(folder):
    manifest = Manifest.read(folder)
    assert (manifest.corpus, manifest.count) == ("shop", 2)
    assert manifest.corpus_sha256 != build_bm25(SHOP[::-1], corpus="shop").manifest.corpus_sha256
    assert set(manifest.libraries) == {"numpy", "PyStemmer"}


def test_open_or_build(tmp_path):
    calls = []

    def documents():
        calls.append(1)
        return iter(SHOP)

    for _ in range(2):
        index = open_or_build("bm25", tmp_path / "index", documents, corpus="shop", count=2)
        assert index.ids(index.search("lamp", 3).documents) == ["B0"]
    assert calls == [1]
    with pytest.raises(UsageError, match="has corpus 'shop', not 'other'"):
        open_or_build("bm25", tmp_path / "index", documents, corpus="other", count=2)
    with pytest.raises(UsageError, match=r"unknown engine 'bm52' .did you mean 'bm25'..; choose one of bm25"):
        open_or_build("bm52", tmp_path / "index", documents, corpus="shop", count=2)


def test_a_second_build_replaces_the_first(folder):
    build_bm25([("C0", "green chair")], corpus="more", folder=folder)
    assert open_bm25(folder).manifest.corpus == "more"
    assert [path.name for path in folder.parent.iterdir()] == ["index"]


def test_a_full_disk_leaves_what_was_there(folder, monkeypatch):
    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(index_module.os, "fsync", full)
    with pytest.raises(UsageError, match=r"cannot write the index .*: No space left on device"):
        build_bm25([("C0", "green chair")], corpus="more", folder=folder)
    assert open_bm25(folder).manifest.corpus == "shop"
    assert [path.name for path in folder.parent.iterdir()] == ["index"]
