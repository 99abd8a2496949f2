"""Engines by name: built once, opened again, with what they take and nothing else."""

from typing import get_args

import pytest

from agentgym.core.types import Passage
from agentgym.errors import UsageError
from agentgym.retrieval.analysis import ANALYSER
from agentgym.retrieval.engines import exact
from agentgym.retrieval.index import MANIFEST
from agentgym.retrieval.opening import (
    OPTIONS,
    SearchEngine,
    index_folder,
    open_index,
    open_or_build,
    open_searcher,
)
from tests.retrieval.spelling import Spelling

WORLD = [
    Passage("p1", "Vasa", "A ship that sank in 1628."),
    Passage("p2", "Ada Lovelace", "A mathematician."),
    Passage("p3", "Mary Rose", "A ship that sank in 1545."),
]

MINILM = {"encoder": "minilm"}


@pytest.fixture(autouse=True)
def spelling(monkeypatch):
    """Return the devices that encoders are opened on."""
    devices = []
    monkeypatch.setattr(
        exact, "open_encoder", lambda name, device: devices.append(device) or Spelling(weights=name)
    )
    return devices


def opened(engine, folder, **options):
    return open_searcher(engine, folder / "world", lambda: WORLD, corpus="world", count=3, **options)


def titles(searcher, query):
    return [passage.title for passage in searcher.search([query], 2)[0]]


def test_every_engine_has_its_options():
    assert set(OPTIONS) == set(get_args(SearchEngine))


@pytest.mark.parametrize(
    ("engine", "options", "folders"),
    [
        ("bm25", {}, ["bm25"]),
        ("bm25", {"k1": 1.2, "b": 0.75}, ["bm25-b=0.75-k1=1.2"]),
        ("exact", MINILM, ["exact-minilm"]),
        ("hybrid", MINILM, ["bm25", "exact-minilm"]),
        (
            "hybrid",
            {**MINILM, "of": ("exact", "bm25"), "k0": 2, "first": 0},
            ["bm25", "exact-minilm"],
        ),
    ],
)
def test_built_once_and_opened_again(tmp_path, monkeypatch, engine, options, folders):
    first = opened(engine, tmp_path, **options)
    assert titles(first, "which ship sank in 1545") == ["Mary Rose", "Vasa"]
    assert sorted(path.name for path in (tmp_path / "world").iterdir()) == [*folders, "passages.records"]
    monkeypatch.setattr(exact, "build_exact", None)
    again = opened(engine, tmp_path, **options)
    assert (again.fingerprint, again.standing) == (first.fingerprint, first.standing)
    assert again.standing == ("exact" if engine == "bm25" else "recomputable")


def test_a_device_is_handed_on_and_names_nothing(tmp_path, spelling):
    for engine in ("exact", "hybrid"):
        plain = opened(engine, tmp_path, **MINILM)
        other = opened(engine, tmp_path, **MINILM, device="cuda:1")
        assert plain.fingerprint == other.fingerprint
    assert set(spelling) == {"auto", "cuda:1"}
    assert sorted(path.name for path in (tmp_path / "world").glob("*-*")) == ["exact-minilm"]


def test_the_parts_of_a_hybrid_stand_where_they_would_alone(tmp_path):
    for folder, parts in (("hybrid-1a", ["bm25-1a", "exact-1a-minilm"]), ("both", ["both"])):
        index = open_or_build(
            "hybrid",
            tmp_path / folder / folder,
            lambda: ((passage.id, passage.contents) for passage in WORLD),
            corpus="world",
            count=3,
            encoder="minilm",
        )
        assert len(index) == 3
        assert sorted(path.name for path in (tmp_path / folder).iterdir()) == parts


def test_open_index(tmp_path):
    opened("hybrid", tmp_path, encoder="minilm")
    assert open_index(tmp_path / "world" / "bm25").manifest.engine == "bm25/1"
    with pytest.raises(UsageError, match="was encoded with weights_sha256 'minilm', not 'spelling': open it"):
        open_index(tmp_path / "world" / "exact-minilm")
    assert open_index(tmp_path / "world" / "exact-minilm", encoder="minilm").manifest.engine == "exact/1"


def test_folders_of_encoders(tmp_path):
    names = {
        index_folder(tmp_path / "exact", encoder, {}).name for encoder in ("/a/model", "/b/model", "e5@/c")
    }
    assert len(names) == 3
    assert all(name.startswith("exact-") and "/" not in name for name in names)


@pytest.mark.parametrize(
    ("engine", "options", "message"),
    [
        ("exakt", {}, r"unknown engine 'exakt' .did you mean 'exact'"),
        ("exact", {}, "the engine 'exact' needs an encoder: pass encoder='minilm'"),
        ("hybrid", {}, "the engine 'exact' needs an encoder"),
        ("bm25", MINILM, "the engine 'bm25' takes no encoder: leave out encoder='minilm'"),
        ("bm25", {"k2": 1}, r"the engine 'bm25': unknown option 'k2'; known: k1, b"),
        ("hybrid", {"of": ("bm25", "hybrid")}, "a hybrid is of two engines that have folders"),
        ("hybrid", {"of": "bm25"}, "a hybrid is of two engines that have folders"),
        (
            "hybrid",
            {"of": ("bm25", "bm25"), **MINILM},
            "takes an encoder: leave out encoder='minilm'",
        ),
        ("remote", {}, "the engine 'remote' needs the url of a server"),
    ],
)
def test_what_is_refused(tmp_path, engine, options, message):
    with pytest.raises(UsageError, match=message):
        opened(engine, tmp_path, **options)


def test_a_server_has_no_folder(tmp_path):
    with pytest.raises(UsageError, match="a server's index is not opened from a folder"):
        open_or_build("remote", tmp_path, lambda: [], corpus="", count=0, url="http://127.0.0.1:1")


@pytest.mark.parametrize("engine", ["bm25", "hybrid"])
def test_an_index_in_a_cache_is_built_anew_for_another_analyser(tmp_path, engine):
    texts = [("a", "Jose\u0301's ship"), ("b", "a ship")]

    def again(**more):
        options = {"encoder": "minilm"} if engine == "hybrid" else {}
        return open_or_build(
            engine, tmp_path / engine, lambda: texts, corpus="of two", count=2, **options, **more
        )

    again()
    manifest = tmp_path / "bm25" / MANIFEST
    manifest.write_text(manifest.read_text().replace(ANALYSER, "lucene-english-porter/1"))
    with pytest.raises(UsageError, match="lucene-english-porter/1"):
        again()
    assert again(renew=True).search("jose\u0301", 1).documents.tolist() == [0]
    assert ANALYSER in manifest.read_text()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
