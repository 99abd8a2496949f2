"""The whole of WebShop's catalogue fits, and is searched, in memory that does not grow with its texts."""

import json
import subprocess
import sys

import pytest

from agentgym.envs.webshop.data.productstore import StoredCatalogue
from agentgym.retrieval.engines.bm25 import open_bm25
from benchmarks.speed import webshop_scale
from benchmarks.speed.webshop_catalogue import asin, instructions
from benchmarks.speed.webshop_scale import PHASES, markdown

FULL = 1_181_436


def run(phase, folder, products):
    """Run a phase of the benchmark in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.speed.webshop_scale", "--phase", phase]
    command += ["--folder", str(folder), "--products", str(products)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(answer.stdout)


@pytest.mark.parametrize("products", [2_500, pytest.param(FULL, marks=pytest.mark.slow)])
def test_import_index_and_search(tmp_path, products):
    figures = {}
    for phase in ("write", "import", "open", "build bm25", "search bm25"):
        figures[phase] = run(phase, tmp_path, products)
    assert figures["import"]["peak_mb"] < 1_000
    assert figures["build bm25"]["peak_mb"] < 4_000
    assert figures["open"]["open_ms"] < 1_000
    catalogue = StoredCatalogue(tmp_path / "store" / "full.products")
    assert len(catalogue) == products
    assert len(list(catalogue.instructions("human"))) == int(products * 0.0102)
    index = open_bm25(tmp_path / "bm25")
    for number in (0, products // 2, products - 1):
        item = catalogue.product(number)
        assert catalogue.index_of(item.asin) == number
        assert item.asin == asin(number)
        assert index.search(f"{item.title} {item.description}", 1).documents.tolist() == [number]


def test_what_is_made_up_is_always_the_same():
    assert instructions(3) == instructions(3)
    assert len(set(instructions(100))) == 100


def test_the_committed_report():
    record = json.loads(webshop_scale.OUT.read_text())
    assert set(record["sizes"]["100000"]) >= set(PHASES)
    assert webshop_scale.OUT.with_suffix(".md").read_text() == markdown(record)
