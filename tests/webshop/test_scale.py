"""The whole of WebShop's catalogue fits, and is searched, in memory that does not grow with its texts."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from agentgym.envs.webshop.data.importer import convert, find_files
from agentgym.envs.webshop.data.productstore import StoredCatalogue
from agentgym.envs.webshop.source import documents
from agentgym.retrieval.engines.bm25 import build_bm25, open_bm25
from benchmarks.speed.webshop_catalogue import asin, instructions, write_upstream

FULL = 1_181_436


def import_products(folder, products):
    (folder / "upstream").mkdir()
    write_upstream(folder / "upstream", products)
    convert(list(find_files(folder / "upstream")), folder / "store", progress=lambda done, total: None)


def build_index(folder):
    catalogue = StoredCatalogue(folder / "store" / "full.products")
    build_bm25(documents(catalogue), corpus="made up", folder=folder / "bm25")


def megabytes(work, arguments):
    """Do some work; return the most memory that this process has had."""
    work(*arguments)
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def peak(work, *arguments):
    """Return the megabytes that some work takes in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(megabytes, work, arguments).result()


@pytest.mark.parametrize("products", [2_500, pytest.param(FULL, marks=pytest.mark.slow)])
def test_import_index_and_search(tmp_path, products):
    assert peak(import_products, tmp_path, products) < 1_000
    assert peak(build_index, tmp_path) < 4_000
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
