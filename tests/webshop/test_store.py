"""Products are imported as WebShop reads them, whole or not at all, and read one by one."""

import json
import multiprocessing
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentgym.cli import main
from agentgym.data.importing import find_damage, import_data, is_present, read_manifest
from agentgym.data.recordfile import RecordWriter
from agentgym.envs.webshop.data import importer
from agentgym.envs.webshop.data.importer import check_file, open_catalogue, sets_in
from agentgym.envs.webshop.data.productfiles import read_catalogue
from agentgym.envs.webshop.data.products import Instruction, Product
from agentgym.envs.webshop.data.productstore import ProductStoreWriter, StoredCatalogue, open_store
from agentgym.envs.webshop.engine.view import ShopView
from agentgym.envs.webshop.engine.visit import RESULTS, Visit
from agentgym.envs.webshop.engine.world import ShopWorld
from agentgym.envs.webshop.source import documents
from agentgym.errors import MissingDataError, UsageError
from agentgym.registration import data_source
from agentgym.retrieval.engines.bm25 import build_bm25
from tests.webshop import upstream


def quiet(done, total):
    pass


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "data"


@pytest.fixture
def copy(tmp_path, data):
    return upstream.write(tmp_path / "copy")


@pytest.fixture
def shop(copy):
    import_data(data_source("webshop"), copy, progress=quiet)
    return open_catalogue("webshop/small")


def all_of(catalogue):
    products = [catalogue.product(i) for i in range(len(catalogue))]
    return products, list(catalogue.instructions("human")), list(catalogue.instructions("synthetic"))


# ---- what is read ------------------------------------------------------------------------------------


def test_products_are_read_as_webshop_reads_them(shop):
    assert [shop.product(i).asin for i in range(len(shop))] == ["B1", "B2", "B0", "B3"]
    assert shop.product(0) == Product(
        asin="B1",
        title="Product B1",
        description="A description.",
        bullets=("First point.", "Second point."),
        category="garden",
        query="desk lamps",
        product_category="Home \u203a Lamps",
        pricing=(12.5,),
        options=(("color", ("red | blue", "red | blue")),),
        attributes=("solid wood",),
    )
    assert shop.product(1).bullets == ("one text",)
    assert (shop.product(1).pricing, shop.product(1).price_tag) == ((1000.5, 20.0), "$1000.5 to $20.0")
    assert shop.product(1).attributes == ("DUMMY_ATTR",)
    assert (shop.product(2).pricing, shop.product(2).title) == ((100.0,), 'Lamp "X"')
    assert shop.product(2).description == "caf\u00e9 \u2764\ufe0f"
    assert (shop.product(3).bullets, shop.product(3).options, shop.product(3).attributes) == ((), (), ())


def test_indexed_text(shop):
    assert (
        shop.product(0).indexed_text == "product b1 a description. first point. color: red | blue, red | blue"
    )


def test_instructions_are_those_of_the_products_that_are_there(shop):
    assert list(shop.instructions("synthetic")) == [Instruction("B0", "find a lamp", ("red",))]
    assert list(shop.instructions("human")) == [
        Instruction("B0", "a red lamp.", ("red",), ("red | blue",)),
        Instruction("B0", "a lamp", (), ()),
    ]


def test_products_are_found_by_name(shop):
    assert [shop.index_of(asin) for asin in ("B1", "B2", "B0", "B3")] == [0, 1, 2, 3]
    for asin in ("B", "B4", "B11", "", "nan", "LONGER4THAN10", "\u5546\ud800"):
        assert shop.index_of(asin) is None
    for index in (-1, 4):
        with pytest.raises(IndexError):
            shop.product(index)


def test_the_store_holds_what_a_list_would(shop, copy):
    files = [copy / f"items_{name}.json" for name in ("shuffle_1000", "ins_v2_1000", "human_ins")]
    listed = read_catalogue(*files)
    assert all_of(shop) == all_of(listed)
    assert shop.sha256 == listed.sha256


def test_lines_hold_what_an_array_does(shop, copy, tmp_path):
    lines = upstream.write(tmp_path / "lines")
    (lines / "items_shuffle_1000.json").unlink()
    rows = [{"id": each["asin"], "contents": "", "product": each} for each in upstream.PRODUCTS]
    (lines / "products_1000.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert all_of(open_catalogue(str(lines))) == all_of(shop)


def test_prices_already_read(copy):
    rows = [upstream.product("B1", pricing=[3, 4.5, 6]), upstream.product("B2", pricing=[])]
    upstream.write(copy, products=rows)
    catalogue = open_catalogue(str(copy))
    assert [catalogue.product(i).pricing for i in range(2)] == [(3.0, 4.5), (100.0,)]


# ---- parts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "asins"), [(1, ["B1"]), (2, ["B1"]), (3, ["B1", "B2"]), (6, ["B1", "B2", "B0"])]
)
def test_the_first_records_before_any_is_left_out(shop, first, asins):
    part = StoredCatalogue(shop.path, first=first)
    assert [part.product(i).asin for i in range(len(part))] == asins
    assert part.index_of("B3") is None
    assert len(list(part.instructions("synthetic"))) == ("B0" in asins)
    with pytest.raises(IndexError):
        part.product(len(asins))
    assert part.sha256 != shop.sha256


def test_a_part_that_is_all_is_the_same_data(shop):
    assert StoredCatalogue(shop.path, first=7).sha256 == shop.sha256
    with pytest.raises(UsageError, match="ask for the first 1 or more products"):
        StoredCatalogue(shop.path, first=0)


def test_the_first_thousands_of_the_full_set(data, tmp_path):
    import_data(data_source("webshop"), upstream.write(tmp_path / "full", ending=""), progress=quiet)
    assert sets_in(data / "webshop") == {"full"}
    assert len(open_catalogue("webshop/full")) == 4
    assert len(open_catalogue("webshop/3")) == 2
    assert len(open_catalogue("webshop/100k")) == 4


def test_a_set_of_its_own_comes_before_a_part(data, tmp_path):
    import_data(data_source("webshop"), upstream.write(tmp_path / "full", ending=""), progress=quiet)
    rows = [upstream.product("C1")]
    import_data(
        data_source("webshop"),
        upstream.write(tmp_path / "own", ending="_100k", products=rows),
        progress=quiet,
    )
    assert sets_in(data / "webshop") == {"full", "100k"}
    assert open_catalogue("webshop/100k").product(0).asin == "C1"
    assert read_manifest(data_source("webshop"))["full.products"].records == 4


# ---- where data are ----------------------------------------------------------------------------------


def test_files_that_were_not_imported_are_read_through_the_cache(data, tmp_path, copy):
    copy.rename(tmp_path / "webshop")
    (tmp_path / "webshop").rename(data.mkdir() or data / "webshop")
    assert len(open_catalogue("webshop/small")) == 4
    cached = list((tmp_path / "cache" / "webshop").iterdir())
    assert [path.suffix for path in cached] == [".products"]
    again = open_catalogue("webshop/small")
    assert again is open_catalogue(str(data / "webshop" / "items_shuffle_1000.json"))
    upstream.write(data / "webshop", products=[upstream.product("C1")])
    assert len(open_catalogue("webshop/small")) == 1


def test_missing_data_say_what_to_run(data, copy):
    with pytest.raises(
        MissingDataError,
        match=r"no data 'webshop/small' .*: run `agentgym data download webshop-small`, or run",
    ):
        open_catalogue("webshop/small")
    import_data(data_source("webshop"), copy, progress=quiet)
    with pytest.raises(MissingDataError, match=r"no set 'full' of WebShop .*has small: run `agentgym data"):
        open_catalogue("webshop/full")
    with pytest.raises(MissingDataError, match=r"no products at '.*nowhere': name a folder"):
        open_catalogue("nowhere")


def test_paths(copy, tmp_path):
    with pytest.raises(UsageError, match=r"items_ins_v2_1000\.json is not a file of products"):
        open_catalogue(str(copy / "items_ins_v2_1000.json"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no products: name one file"):
        open_catalogue(str(tmp_path / "empty"))
    upstream.write(copy, ending="")
    with pytest.raises(UsageError, match="holds the sets full, small: name one file"):
        open_catalogue(str(copy))
    assert len(open_catalogue(str(copy / "items_shuffle.json"))) == 4
    import_data(data_source("webshop"), copy, progress=quiet)
    assert len(open_catalogue(str(tmp_path / "data" / "webshop" / "small.products"))) == 4


def test_upstreams_own_folder_is_found(tmp_path, data):
    upstream.write(tmp_path / "WebShop" / "data")
    import_data(data_source("webshop"), tmp_path / "WebShop", progress=quiet)
    assert len(open_catalogue("webshop/small")) == 4


def test_the_command_line(copy, data, capsys):
    assert main(["data", "import", "webshop", str(copy)]) == 0
    assert "imported 1 files, 4 records" in capsys.readouterr().out
    assert main(["data", "verify", "webshop"]) == 0
    assert main(["data", "list"]) == 0
    assert is_present(data_source("webshop"), "small")
    assert not is_present(data_source("webshop"), "full")
    store = data / "webshop" / "small.products"
    raw = bytearray(store.read_bytes())
    raw[30] ^= 1
    store.write_bytes(raw)
    assert main(["data", "verify", "webshop"]) == 1
    assert "is not what was imported" in capsys.readouterr().out


def test_files_that_were_not_imported_are_verified(copy, data):
    data.mkdir()
    copy.rename(data / "webshop")
    assert list(find_damage(data_source("webshop"), progress=quiet)) == []
    assert {path.name: check_file(path) for path in importer.find_files(data / "webshop")} == {
        "items_human_ins.json": 2,
        "items_ins_v2_1000.json": 4,
        "items_shuffle_1000.json": 7,
    }
    upstream.write(data / "webshop", products=[upstream.product("B1", name=None)])
    (problem,) = find_damage(data_source("webshop"), progress=quiet)
    assert "field 'name': expected a string, got null" in problem


# ---- what is wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, r"items_shuffle_1000\.json:\d+: field 'name': expected a string, got null"),
        ({"query": 7}, r"field 'query': expected a string, got 7"),
        ({"pricing": "$ask"}, r"field 'pricing': expected a price, got 'ask'"),
        ({"pricing": "12.5"}, r"field 'pricing': expected prices that begin with \$"),
        ({"pricing": [float("nan")]}, r"field 'pricing': expected a finite price"),
        ({"small_description": ["a", None]}, r"field 'small_description': .*it has null"),
        ({"customization_options": [1]}, r"field 'customization_options': expected an object"),
        (
            {"customization_options": {"Size": 3}},
            r"'customization_options': expected a list for 'Size'",
        ),
        ({"customization_options": {"Size": [{"value": 3}]}}, r"each entry of 'Size' needs a string"),
    ],
)
def test_malformed_products(copy, data, change, message):
    upstream.write(copy, products=[*upstream.PRODUCTS, upstream.product("B9", **change)])
    with pytest.raises(UsageError, match=message):
        import_data(data_source("webshop"), copy, progress=quiet)
    assert not data.exists() or os.listdir(data) == []


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"entries": {"B1": {"attributes": "red"}}},
            r"items_ins_v2_1000\.json:1: field 'attributes': expected",
        ),
        (
            {"entries": {"B1": {"instruction": "x", "instruction_attributes": []}}},
            r"field 'instruction_attributes': is empty",
        ),
        (
            {"wishes": {"B1": [{"instruction": "x"}]}},
            r"items_human_ins\.json:1: field 'instruction_attr.*: is missing",
        ),
        ({"wishes": {"B1": {}}}, r"items_human_ins\.json:1: expected a list of instructions, got \{\}"),
    ],
)
def test_malformed_entries(copy, data, files, message):
    upstream.write(copy, **files)
    with pytest.raises(UsageError, match=message):
        import_data(data_source("webshop"), copy, progress=quiet)
    assert not data.exists() or os.listdir(data) == []


def test_a_file_that_is_cut_off(copy, data):
    path = copy / "items_shuffle_1000.json"
    path.write_text(path.read_text()[:-200])
    with pytest.raises(UsageError, match=r"items_shuffle_1000\.json:\d+: not whole JSON"):
        import_data(data_source("webshop"), copy, progress=quiet)
    assert not data.exists() or os.listdir(data) == []


def test_a_failed_import_leaves_what_was_there(shop, copy, data):
    before = {path.name: path.read_bytes() for path in (data / "webshop").iterdir()}
    upstream.write(copy, products=[upstream.product("B9", name=1)])
    with pytest.raises(UsageError, match="field 'name'"):
        import_data(data_source("webshop"), copy, progress=quiet)
    assert {path.name: path.read_bytes() for path in (data / "webshop").iterdir()} == before
    assert os.listdir(data) == ["webshop"]


def test_missing_files(copy, data, tmp_path):
    (copy / "items_ins_v2_1000.json").unlink()
    with pytest.raises(
        UsageError, match=r"no attributes beside .*: put items_ins_v2_1000\.json or items_ins"
    ):
        import_data(data_source("webshop"), copy, progress=quiet)
    (copy / "items_shuffle_1000.json").unlink()
    with pytest.raises(UsageError, match=r"no products beside .*: put items_shuffle\.json"):
        import_data(data_source("webshop"), copy, progress=quiet)
    with pytest.raises(UsageError, match=r"holds none of items_shuffle\.json"):
        import_data(data_source("webshop"), tmp_path / "nowhere", progress=quiet)


def test_a_store_is_not_imported_again(shop, data, tmp_path):
    with pytest.raises(UsageError, match="has been imported before"):
        import_data(data_source("webshop"), data / "webshop" / "small.products", progress=quiet)


def test_two_files_of_one_set(copy, data):
    (copy / "products_1000.jsonl").write_text("{}")
    with pytest.raises(UsageError, match="and another file are one set: name one of them"):
        import_data(data_source("webshop"), copy, progress=quiet)


def test_an_interrupted_import_leaves_nothing(copy, data):
    def interrupt(done, total):
        if done > 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_data(data_source("webshop"), copy, progress=interrupt)
    assert not data.exists() or os.listdir(data) == []


def test_progress_ends_with_all_bytes(copy, data):
    seen = []
    import_data(data_source("webshop"), copy, progress=lambda done, total: seen.append((done, total)))
    total = sum(path.stat().st_size for path in copy.iterdir())
    assert seen[-1] == (total, total)
    assert seen == sorted(seen)


def test_a_name_that_comes_twice(tmp_path):
    with ProductStoreWriter(tmp_path / "two.products") as writer:
        writer.add(Product("B1", "a"), 0)
        writer.add(Product("B1", "b"), 1)
        with pytest.raises(UsageError, match="two products are named"):
            writer.finish()
    assert list(tmp_path.iterdir()) == []


def test_a_name_with_half_a_surrogate_pair(tmp_path):
    with ProductStoreWriter(tmp_path / "odd.products") as writer:
        writer.add(Product("B\ud800", "Lamp"), 0)
        writer.finish()
    shop = StoredCatalogue(tmp_path / "odd.products")
    assert shop.index_of("B\ud800") == 0
    assert shop.product(0).asin == "B\ud800"


def odd_products():
    """Texts that are hard to tell from the marks around them in the stored bytes."""
    texts = ("Lamp", 'a "quoted" \\ title\\', "caf\u00e9 \u2764\ufe0f", ",[12.5],[", "half \ud800")
    for number, text in enumerate(texts):
        yield Product(
            asin=f"B{number}",
            title=text,
            description=text,
            bullets=(text, ",[1.0],["),
            pricing=(12.5,) if number % 2 else (20.0, 3.25),
            options=((text, (text, "red")),),
            attributes=(text,),
        )


@pytest.mark.parametrize("old", [False, True])
def test_a_listing_is_what_the_product_says(tmp_path, monkeypatch, old):
    """Also in stores that were written before listings had places."""
    products = list(odd_products())
    if old:
        finish = RecordWriter.finish
        monkeypatch.setattr(
            RecordWriter,
            "finish",
            lambda self, columns, about: finish(
                self, {name: each for name, each in columns.items() if name != "listings"}, about
            ),
        )
    with ProductStoreWriter(tmp_path / "odd.products") as writer:
        for position, product in enumerate(products):
            writer.add(product, position)
        writer.finish()
    shop = StoredCatalogue(tmp_path / "odd.products", first=4)
    assert [shop.listing(i) for i in range(4)] == [product.listing for product in products[:4]]
    assert shop.listing(0) == ("B0", "Lamp", "$20.0 to $3.25")
    with pytest.raises(IndexError, match="none at 4"):
        shop.listing(4)


def test_a_page_of_results_reads_listings_only(shop, monkeypatch):
    world = ShopWorld(shop, build_bm25(documents(shop), corpus="small"), name="small")
    expected = ShopView(world, "text", parity=None, hide_score=None, show_attributes=False)
    page = expected.page(Visit(RESULTS, "product lamp", 1))
    texts = [node.text for node in page.nodes]
    for index in range(len(shop)):
        product = shop.product(index)
        place = texts.index(product.asin)
        assert texts[place : place + 3] == [product.asin, product.title, product.price_tag]
    monkeypatch.setattr(StoredCatalogue, "product", None)
    again = ShopView(world, "text", parity=None, hide_score=None, show_attributes=False)
    assert again.page(Visit(RESULTS, "product lamp", 1)) == page


# ---- who reads it ------------------------------------------------------------------------------------


def read_in_child(path, results):
    results.put(open_store(Path(path)).product(2).asin)


def test_threads_and_processes_share_a_store(shop):
    expected = [shop.product(i % 4) for i in range(400)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda i: shop.product(i % 4), range(400))) == expected
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    child = context.Process(target=read_in_child, args=(str(shop.path), results))
    child.start()
    assert results.get(timeout=300) == "B0"
    child.join()


def test_products_are_plain_values(shop):
    assert pickle.loads(pickle.dumps(shop.product(0))) == shop.product(0)


# ---- the real set ------------------------------------------------------------------------------------


@pytest.mark.assets
def test_the_published_thousand(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    catalogue = open_catalogue("webshop/small")
    folder = Path(os.environ["AGENTGYM_DATA"], "webshop")
    with (folder / "products_1000.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    assert [catalogue.product(i).indexed_text for i in range(1000)] == [row["contents"] for row in rows]
    assert [catalogue.product(i).price_tag for i in range(1000)] == [row["product"]["Price"] for row in rows]
    attributes = [row["product"]["Attributes"] for row in rows]
    assert [list(catalogue.product(i).attributes) for i in range(1000)] == attributes
    assert len(list(catalogue.instructions("synthetic"))) == 415
