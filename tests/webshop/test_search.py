"""Search finds what the original's search found, and is built once."""

import json
import os
from pathlib import Path

import pytest

from agentgym.envs.webshop.data.importer import open_catalogue
from agentgym.envs.webshop.data.products import ListCatalogue, Product
from agentgym.envs.webshop.env import WebShopEnv
from agentgym.envs.webshop.source import load_world, open_search, search_in_memory
from agentgym.errors import UsageError
from benchmarks.parity import webshop_search
from benchmarks.parity.webshop_search import agreement, asked, recorded_searches
from tests.webshop import upstream


@pytest.fixture
def copy(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    return upstream.write(tmp_path / "copy")


def test_titles_descriptions_first_points_and_options_are_found():
    item = Product("B3", "Title", "Depiction", ("first", "second"), options=(("color", ("red",)),))
    index = search_in_memory(ListCatalogue([item]), "one")
    found = {
        word: len(index.search(word, 5).documents)
        for word in ["title", "depiction", "first", "color", "red", "second"]
    }
    assert found == {"title": 1, "depiction": 1, "first": 1, "color": 1, "red": 1, "second": 0}


@pytest.mark.parametrize(
    "engine",
    [
        "bm25",
        pytest.param("pyserini", marks=pytest.mark.java),
    ],
)
def test_an_index_is_built_once(copy, tmp_path, engine):
    catalogue = open_catalogue(str(copy))
    first = open_search(catalogue, engine)
    (folder,) = (path for path in (tmp_path / "cache" / "webshop").iterdir() if path.is_dir())
    changed = folder.stat().st_mtime_ns
    again = open_search(catalogue, engine)
    assert folder.stat().st_mtime_ns == changed
    assert asked(first)("product b2") == asked(again)("product b2")
    assert asked(again)("product b2")[0] == "B2"
    assert again.manifest.corpus == f"webshop {catalogue.sha256}"


def test_other_products_are_another_index(copy):
    index = open_search(open_catalogue(str(copy)), "bm25")
    upstream.write(copy, products=[upstream.product("C1")])
    other = open_search(open_catalogue(str(copy)), "bm25")
    assert (len(index), len(other)) == (4, 1)


def test_episodes_share_the_world_and_its_searches(copy):
    envs = [WebShopEnv(dataset=str(copy), goals="synthetic", split=split) for split in ("upstream-test",) * 2]
    assert envs[0].world is envs[1].world
    for env in envs:
        env.reset(seed=0)
        env.step("search[product]")
    info = envs[0].world.found.cache_info()
    assert (info.hits > 0, info.misses, info.maxsize is not None) == (True, 1, True)


@pytest.mark.java
def test_the_engine_is_part_of_what_an_episode_depends_on(copy):
    worlds = [load_world(str(copy), tagger="words", search=search) for search in ("bm25", "pyserini")]
    assert worlds[0].manifest["search"] == "bm25/1"
    assert worlds[0].key != worlds[1].key


def test_unknown_engines(copy):
    with pytest.raises(UsageError, match="unknown search 'bm26'"):
        WebShopEnv(dataset=str(copy), search="bm26")
    with pytest.raises(UsageError, match="unknown search 'exact'; choose one of bm25, pyserini"):
        WebShopEnv(search="exact")
    with pytest.raises(UsageError, match="the built-in data set is searched by bm25"):
        WebShopEnv(search="pyserini")


def recordings():
    """Return the folder of the recordings, beside the data."""
    return Path(os.environ["AGENTGYM_DATA"]).parent / "golden"


@pytest.mark.assets
def test_all_recorded_searches_are_found_in_the_same_order(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    recorded = recorded_searches(recordings())
    assert len(recorded) == 45
    index = open_search(open_catalogue("webshop/small"), "bm25")
    assert agreement(asked(index), recorded) == {"top 10": 1.0, "top 50": 1.0, "tau": 1.0, "identical": 1.0}


def test_agreement_is_measured():
    recorded = {"a": ["A", "B", "C"], "b": ["A", "B"]}
    found = {"a": ["B", "A", "D"], "b": ["A", "B"]}
    result = agreement(found.__getitem__, recorded)
    assert result == pytest.approx({"top 10": 5 / 6, "top 50": 5 / 6, "tau": 0.0, "identical": 0.5})


def test_the_committed_report():
    report = json.loads(webshop_search.OUT.read_text())
    assert report["engines"]["bm25"]["top 10"] >= 0.95
