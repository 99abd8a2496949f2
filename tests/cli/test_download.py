"""``agentgym data download`` and ``agentgym index download`` through the command line."""

import hashlib
import json

import pytest

from agentgym import MissingDataError
from agentgym.data import sources
from agentgym.retrieval import adopt
from tests.data import mirror
from tests.data.test_download import archive, tree_of
from tests.suite_texts import env_table, suite_text

LEVEL = """\
; 0
##########
#@ $ $   #
#  $ $   #
#        #
#  . .   #
#  . .   #
#        #
#        #
#        #
##########
"""

LEVELS = {
    "unfiltered/train/000.txt": LEVEL.encode(),
    "unfiltered/test/000.txt": LEVEL.encode(),
    "medium/valid/000.txt": LEVEL.encode(),
}
DOCUMENTS = b"".join(
    json.dumps({"_id": str(number), "title": f"T{number}", "text": f"the {number}th text"}).encode() + b"\n"
    for number in range(30)
)
CORPUS = """
name = "small"
about = "a small corpus"
source = "https://example.com"
licence = "MIT"
reader = "documents"
rule = "a passage for each line"
passages = 30
folder = "toys/small"

[[files]]
path = "toys/small/corpus.jsonl"
records = 30
"""


def entry(sets, name, data, **more):
    digest = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return {"sets": sets, "name": name, "urls": [f"http://127.0.0.1:1/{name}"], "check": "V"} | digest | more


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Serve Boxoban's archive and a corpus; yield the address and the handler."""
    about = {"licence": "MIT", "revision": "1"}
    packed = archive(LEVELS)
    tables = {
        "boxoban": {**about, "source": "boxoban", "gives": ["unfiltered"], "tree_sha256": tree_of(LEVELS)},
        "gated": {**about, "source": "papersearch", "terms": "https://example.com/terms"},
        "small": {**about, "corpus": "small", "folder": "toys/small", "built": True},
    }
    levels = {"sets": ["boxoban"], "name": "levels.tar.gz", "urls": ["http://127.0.0.1:1/tar.gz/78011d8"]}
    queries = {"sets": ["gated"], "name": "queries.jsonl", "urls": ["http://127.0.0.1:1/queries"]}
    files = [
        levels | {"check": "V", "unpacked": 10_000},
        queries | {"check": "-"},
        entry(["small"], "corpus.jsonl", DOCUMENTS),
    ]
    mirror.write_sources(tmp_path / "sources.toml", tables, files)
    monkeypatch.setattr(sources, "SOURCES", tmp_path / "sources.toml")
    (tmp_path / "corpora").mkdir()
    (tmp_path / "corpora" / "small.toml").write_text(CORPUS)
    served = {"boxoban/levels.tar.gz": packed, "small/corpus.jsonl": DOCUMENTS}
    with mirror.serving(served) as (url, handler):
        yield url, handler


def test_one_command_ends_with_verified_data(cli, host, tmp_path):
    url, handler = host
    words = ("data", "download", "boxoban", "--mirror", url)
    code, out, err = cli(*words)
    assert (code, out) == (
        0,
        f"boxoban: imported and verified, in {tmp_path / 'data' / 'sokoban'} (MIT)\n",
    )
    assert f"levels.tar.gz: {len(handler.files['/boxoban/levels.tar.gz']):,} bytes, from 127.0.0.1" in err
    assert cli("data", "verify", "boxoban")[:2] == (0, "boxoban: as it should be\n")
    assert cli(*words)[:2] == (0, f"boxoban: is here, in {tmp_path / 'data' / 'sokoban'} (MIT)\n")
    assert len(handler.seen) == 1
    _, out, _ = cli("data", "list")
    assert [line.split()[0] for line in out.splitlines() if "imported" in line] == ["boxoban"]


def test_a_suite_brings_its_data(cli, host, tmp_path, monkeypatch):
    url, _ = host
    monkeypatch.setenv("AGENTGYM_MIRROR", url)
    suite = tmp_path / "levels.toml"
    kwargs = {"dataset": "boxoban/unfiltered", "max_steps": 5}
    table = env_table("agentgym/Sokoban-v0", 1, split="test", kwargs=kwargs)
    suite.write_text(suite_text("levels", table, seed=1, attempts=1))
    words = ("bench", suite, "--out", tmp_path / "results")
    code, _, err = cli(*words)
    assert code == 2
    assert "agentgym data download boxoban" in err
    assert cli(*words, "--download")[0] == 0
    assert (tmp_path / "data" / "sokoban" / "manifest.json").exists()


def test_addresses_are_printed_and_what_they_bring_is_imported(cli, host, tmp_path):
    _, handler = host
    code, out, _ = cli("data", "download", "boxoban", "--print-urls")
    assert (code, out) == (0, "http://127.0.0.1:1/tar.gz/78011d8\n")
    brought = tmp_path / "brought"
    brought.mkdir()
    (brought / "78011d8").write_bytes(handler.files["/boxoban/levels.tar.gz"])  # as wget names it
    assert cli("data", "import", "boxoban", brought)[0] == 0
    assert cli("data", "verify", "boxoban")[0] == 0
    assert not handler.seen


def test_a_folder_of_ones_own_is_refused_before_anything_is_fetched(refused, host, tmp_path):
    url, handler = host
    (tmp_path / "data" / "sokoban").mkdir(parents=True)
    assert "was not imported by agentgym" in refused("data", "download", "boxoban", "--mirror", url)
    assert not handler.seen


def test_what_cannot_be_had_is_one_line(refused, host):
    url, handler = host
    assert "did you mean 'boxoban'?" in refused("data", "download", "boxobam")
    assert "did you mean 'small'?" in refused("index", "download", "smal")
    assert "name one with --mirror" in refused("data", "download", "boxoban", "--only-mirror")
    assert "is not an address" in refused("data", "download", "boxoban", "--mirror", "nowhere")
    handler.faults["/gated/queries.jsonl"] = [mirror.status(403)]
    complaint = refused("data", "download", "gated", "--mirror", url, "--only-mirror")
    assert "accept the terms at https://example.com/terms" in complaint


def test_ctrl_c_says_what_stays(cli, host, monkeypatch):
    url, _ = host

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("agentgym.data.fetching.Fetcher._receive", interrupt)
    code, _, err = cli("data", "download", "boxoban", "--mirror", url)
    assert code == 130
    assert err.count("\n") == 1
    assert err.endswith("interrupted: fetched files stay, and the same command continues from there\n")


def test_a_corpus_is_ready_to_search(cli, host, tmp_path):
    url, handler = host
    described = ("--corpora", tmp_path / "corpora")
    words = ("index", "download", "small", "--mirror", url, *described)
    code, out, _ = cli(*words)
    assert (code, out) == (0, f"small: 30 passages in {tmp_path / 'data' / 'toys' / 'small'}\n")
    assert "T7" in cli("index", "query", "small", "7th", *described)[1]
    assert cli(*words)[0] == 0
    assert len(handler.seen) == 1
    code, out, _ = cli("index", "download", "small", "--print-urls")
    assert (code, out) == (0, "http://127.0.0.1:1/corpus.jsonl\n")


@pytest.mark.parametrize("name", ["wiki-18-e5", "wiki-18-bm25"])
def test_an_index_that_cannot_be_taken_over_is_not_fetched(cli, monkeypatch, name):
    def lacking(*_):
        raise MissingDataError("what it needs is not here")

    for needed in ("load", "find_jar"):
        monkeypatch.setattr(adopt, needed, lacking)
    code, _, error = cli("index", "download", name, "--mirror", "http://127.0.0.1:1", "--only-mirror")
    assert (code, error) == (2, "agentgym: what it needs is not here\n")


def test_the_list_fits_a_terminal(cli, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    _, out, _ = cli("data", "list")
    table = out.split("\n", 2)[2]
    assert max(map(len, table.splitlines())) <= 80
    for name, found in sources.source_list().set.items():
        assert (f"\n{name} " in table) == bool(found.source)
