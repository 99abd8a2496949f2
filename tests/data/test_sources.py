"""The list of official files agrees with what others state of them."""

import hashlib
import os
import re
import tomllib
from pathlib import Path

import pytest

from agentgym.data.sources import how_to_get, size_of, source_list
from agentgym.envs.alfworld.suite import ALFWORLD
from agentgym.envs.papersearch.suite import PAPERSEARCH
from agentgym.envs.webshop.suite import WEBSHOP
from agentgym.registration import data_sources

LUCENE = "https://huggingface.co/datasets/PeterJinGo/wiki-18-bm25-index/resolve/2c7554f25f425038c4bcb155735a0f831851fd78/bm25/"  # fmt: skip  # noqa: E501


@pytest.fixture(scope="module")
def stated():
    """Return the specifications beside the official data."""
    return Path(os.environ["AGENTGYM_DATA"]).parent / "specs"


@pytest.mark.assets
def test_every_address_and_digest_is_stated_elsewhere(stated):
    files = tomllib.loads((stated / "sources.toml").read_text())["file"]
    known = {
        (url, file.get("size"), file.get("sha256"), file.get("md5")) for file in files for url in file["urls"]
    }
    lucene = hashlib.sha256()
    for file in source_list().file:
        if file.sets == ("wiki-18-bm25",):
            assert file.urls == (LUCENE + file.name.removeprefix("anserini/"),)
            lucene.update(f"{file.sha256} {file.size} {file.name}\n".encode())
            continue
        for url in file.urls:
            assert (url, file.size, file.sha256, file.md5) in known
    assert lucene.hexdigest() == "f799c3b738b6da76fb5b2e807ab8d9b4a80b6ca198a22b599dbbcb2e5c372a05"
    listed = (stated / "boxoban.sha256").read_bytes()
    assert source_list().set["boxoban"].tree_sha256 == hashlib.sha256(listed).hexdigest()
    assert sum(1 for _ in listed.splitlines()) == 1505


@pytest.mark.assets
def test_parts_come_to_what_is_stated_of_the_whole(stated):
    files = tomllib.loads((stated / "sources.toml").read_text())["file"]
    whole = next(file["joined_size"] for file in files if "joined_size" in file)
    assert size_of(source_list().files("wiki-18-e5")) == whole


def test_every_set_has_files_and_every_file_a_set():
    listed = source_list()
    assert {name for file in listed.file for name in file.sets} == set(listed.set)
    known = {source.name: source for source in data_sources()}
    for name, found in listed.set.items():
        assert bool(found.source) != bool(found.corpus), name
        assert set(found.gives) <= set(known[found.source].sets) if found.source else found.folder
        assert set(found.needs) <= set(listed.set)
        options = [file.option for file in listed.files(name)]
        assert options == sorted(options)


def test_every_file_is_known_by_something_or_recorded():
    for file in source_list().file:
        assert re.fullmatch("[0-9a-f]{64}", file.sha256 or "0" * 64)
        assert (file.sha256 is None) == (
            file.check in ("size", "-") or file.md5 is not None or bool(file.unpacked)
        )


def test_the_command_that_brings_a_set_is_named():
    assert how_to_get(WEBSHOP, "small").startswith(
        "run `agentgym data download webshop-small`, or run `agentgym "
    )
    assert how_to_get(WEBSHOP, "full").startswith("run `agentgym data download webshop`")
    assert how_to_get(ALFWORLD, "valid_seen").startswith("run `agentgym data download alfworld`")
    assert how_to_get(PAPERSEARCH, "ieee-vis").startswith("run `agentgym data import papersearch PATH`")
