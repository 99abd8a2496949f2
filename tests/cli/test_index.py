"""``agentgym index``: building, inspecting, querying and verifying."""

import json
import shutil

import pytest

from agentgym.cli import main
from agentgym.io.paths import shipped_folder
from agentgym.retrieval.corpus.passages import PASSAGES as FILE
from tests.serving.retrieving import PASSAGES, serving

DOCUMENTS = [
    {"id": "p1", "title": "Ada Lovelace", "text": "Ada Lovelace wrote about the Analytical Engine."},
    {"id": "p2", "contents": '"Vasa"\nVasa is a ship that sank in 1628. ' + "She was raised. " * 20},
    {"id": "p3", "title": "Kronan \x1b[31m", "text": "Kronan is a ship that sank in 1676."},
]

DESCRIPTION = """\
name = "ships"
about = "ships"
source = "the sea"
licence = "CC0-1.0"
reader = "documents"
rule = "a passage for each line"
passages = 4
also = ["boats"]

[[files]]
path = "ships.jsonl"
records = 3

[index]
engine = "bm25"
analyser = "lucene-english-porter/2"
parameters = { k1 = 0.9, b = 0.4 }
"""


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """A folder with the data, the cache and descriptions, which commands run in."""
    (tmp_path / "indexes").mkdir()
    (tmp_path / "indexes" / "ships.toml").write_text(DESCRIPTION, encoding="utf-8")
    (tmp_path / "ships.jsonl").write_text("\n".join(map(json.dumps, DOCUMENTS)), encoding="utf-8")
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("agentgym.cli.corpus.shipped_folder", tmp_path.joinpath)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys, *words, code=0):
    """Run a command; return its output, or what it says is wrong."""
    assert main(["index", *words]) == code
    output = capsys.readouterr()
    return output.err if code == 2 else output.out


def test_a_corpus_is_built_searched_and_verified(capsys, folders):
    folder = folders / "cache" / "indexes" / "ships"
    text = said(capsys, "build", "ships")
    assert f"3 passages, indexed by bm25/1, in {folder}" in text
    assert "ships: 3 passages, not the 4 expected" in text
    assert json.loads((folder / "corpus.json").read_text())["deviations"] == [
        "3 passages, not the 4 expected"
    ]

    lines = said(capsys, "query", "boats", "which ship was raised", "-k", "2").splitlines()
    assert lines[0].split()[0::2] == ["1", "p2"]
    assert lines[0].endswith("Vasa")
    assert len(lines[1].strip()) == 160
    assert "p3  Kronan" in lines[2]
    assert "\x1b" not in lines[2]

    text = said(capsys, "query", "ships", "engine", "zebra")
    assert "engine:\n  1 " in text
    assert text.endswith("zebra:\nnothing is found\n")

    text = said(capsys, "info", "ships")
    for part in (
        "the sea",
        "CC0-1.0",
        "lucene-english-porter/2",
        "exact",
        "k1",
        "ships.jsonl",
        "not the 4 expected",
    ):
        assert part in text

    text = said(capsys, "verify", "ships")
    assert "passages: as it should be\nbm25: as it should be\n" in text

    assert said(capsys, "query", str(folder), "raised").startswith("  1 ")
    text = said(capsys, "list")
    assert "ships" in text
    assert "bm25" in text


def test_a_file_is_a_corpus(capsys, folders):
    assert "Vasa" in said(capsys, "query", "ships.jsonl", "raised")
    (folders / "ships.jsonl").write_text(json.dumps(DOCUMENTS[0]), encoding="utf-8")
    assert said(capsys, "query", "ships.jsonl", "raised") == "nothing is found\n"
    assert said(capsys, "list").count("ships") >= 2


def test_what_takes_long_is_built_only_by_the_command_for_it(capsys, folders, monkeypatch):
    for module in ("agentgym.cli.corpus", "agentgym.retrieval.opening"):
        monkeypatch.setattr(f"{module}.ON_DEMAND", 2)
    refused = said(capsys, "query", "boats", "raised", code=2)
    assert "has 4 passages and is not built: run `agentgym index build boats`" in refused
    said(capsys, "build", "boats")
    assert "Vasa" in said(capsys, "query", "boats", "raised")
    refused = said(capsys, "query", "ships", "raised", "--option", "k1=1.2", code=2)
    folder = folders / "cache" / "indexes" / "ships"
    command = f"agentgym index build {folder} --engine bm25 --option k1=1.2"
    assert f"{folder} has no index bm25-k1=1.2, but bm25: `{command}` builds it over 3 passages" in refused
    said(capsys, *command.split()[2:])
    assert "Vasa" in said(capsys, "query", "ships", "raised", "--option", "k1=1.2")


def test_the_list_has_the_corpora_of_the_package_and_of_the_cache(capsys, folders, monkeypatch):
    monkeypatch.setattr("agentgym.cli.corpus.shipped_folder", shipped_folder)
    monkeypatch.setenv("COLUMNS", "80")
    said(capsys, "build", "ships.jsonl")
    lines = said(capsys, "list").splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split() for line in lines if "wiki-18" in line] == [
        ["wiki-18", "(21,015,324)", "not", "built"]
    ]
    (own,) = (line.split() for line in lines if line.startswith("ships-"))
    assert (own[1], own[-1]) == ("3", "bm25")
    assert "Vasa" in said(capsys, "query", own[0], "raised")


def test_an_older_index_is_built_again_by_the_command_that_refusing_it_names(capsys, folders):
    said(capsys, "build", "ships", "--option", "k1=1.2")
    manifest = folders / "cache" / "indexes" / "ships" / "bm25-k1=1.2" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("porter/2", "porter/1"))
    refused = said(capsys, "query", "ships", "raised", "--option", "k1=1.2", code=2)
    remove, build = refused.partition("`")[2].rstrip("`\n").split(" && ")
    assert remove == f"rm -r {manifest.parent}"
    shutil.rmtree(manifest.parent)
    assert build.startswith("agentgym index build ")
    said(capsys, *build.split()[2:])
    assert "Vasa" in said(capsys, "query", "ships", "raised", "--option", "k1=1.2")


def test_damage_is_found(capsys, folders):
    said(capsys, "build", "ships")
    folder = folders / "cache" / "indexes" / "ships"
    path = folder / FILE
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"sank", b"sunk"))
    assert "passages: " in (text := said(capsys, "verify", "ships", code=1))
    assert "holds passages of sha256" in text
    path.write_bytes(whole)
    manifest = folder / "bm25" / "manifest.json"
    table = json.loads(manifest.read_text())
    for key, value, problem in (
        ("corpus_sha256", "0" * 64, "has corpus_sha256"),
        ("count", 4, "has count 4, not 3"),
        ("schema", 1, "has schema 1, not 2"),
        ("engine", "lucene/1", "delete it and build it again"),
    ):
        manifest.write_text(json.dumps({**table, key: value}))
        assert problem in said(capsys, "verify", "ships", code=1)
    manifest.write_text(json.dumps(table))
    assert "as it should be" in said(capsys, "verify", "ships")
    name = next(path for path in (folder / "bm25").iterdir() if path.suffix == ".npy")
    name.write_bytes(name.read_bytes()[:-8])
    assert "as it should be" not in said(capsys, "verify", "ships", code=1).splitlines()[1]


@pytest.mark.parametrize(("key", "value"), [("count", -1), ("count", 1 << 60), ("sha256", "0" * 64)])
def test_a_record_of_other_passages_is_refused(capsys, folders, key, value):
    said(capsys, "build", "ships")
    path = folders / "cache" / "indexes" / "ships" / "corpus.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    for corpus in ("ships", str(path.parent)):
        text = said(capsys, "query", corpus, "boats", code=2)
        assert "delete" in text
        assert "build" in text
        assert len(text.splitlines()) == 1
    assert "not those that were built" in said(capsys, "verify", "ships", code=1)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["build", "shps"], "there is no corpus 'shps' (did you mean 'ships'?); known: ships, boats"),
        (["build", "ships", "--corpora", "cache"], "there are no descriptions in cache"),
        (["build", "ships", "--engine", "bm52"], "unknown engine 'bm52' (did you mean 'bm25'?)"),
        (["build", "nowhere.jsonl"], "cannot read nowhere.jsonl: No such file"),
        (["verify", "ships"], "run `agentgym index build` first"),
        (["query", "ships", "x", "-k", "0"], "ask for -k 1 or more, not 0"),
        (["build", "ships", "--engine", "exact"], "needs an encoder"),
        (
            ["build", "ships", "--engine", "exact", "--encoder", "minilm", "--device", "cuda:99"],
            "there is no device 'cuda:99': torch finds",
        ),
        (["build", "ships", "--option", "k2=1"], "unknown option 'k2'; known: k1, b"),
        (["query", "ships", "x", "--engine", "remote"], "needs the url of a server"),
        (["adopt", "none", "--documents", "ships.jsonl", "--name", "n"], "there is nothing at none"),
        (["adopt", "ships.jsonl", "--documents", "ships.jsonl", "--name", "n"], "pass encoder='e5-base-v2'"),
        (
            ["adopt", "ships.jsonl", "--documents", "ships.jsonl", "--name", "../n"],
            "is not the name of a folder",
        ),
        (["bild", "ships"], "there is no command 'bild' (did you mean 'build'?)"),
    ],
)
def test_the_command_says_what_is_wrong(capsys, words, problem):
    text = said(capsys, *words, code=2)
    assert problem in text
    assert text.count("\n") == 1


def test_an_index_is_as_its_description_says(capsys, folders):
    said(capsys, "build", "ships")
    path = folders / "indexes" / "ships.toml"
    path.write_text(DESCRIPTION.replace("k1 = 0.9", "k1 = 1.2"), encoding="utf-8")
    assert "has k1 0.9, not 1.2 as its description says" in said(capsys, "build", "ships", code=2)


def test_a_server_is_an_engine(capsys, folders):
    said(capsys, "build", "ships")
    with serving() as server:
        remote = ["--engine", "remote", "--option", f"url={server.url}"]
        problem = said(capsys, "query", "ships", "raised", *remote, code=2)
        assert "the index of 'four passages' was built over 4 passages" in problem
        documents = "\n".join(
            json.dumps({"id": one.id, "title": one.title, "text": one.text}) for one in PASSAGES
        )
        (folders / "four.jsonl").write_text(documents, encoding="utf-8")
        assert said(capsys, "query", "four.jsonl", "raised", *remote).splitlines()[0].endswith("p2  Vasa")
        assert len(server.index.calls) == 1


def test_info_tells_what_is_not_built(capsys):
    assert "not built: run `agentgym index build`" in said(capsys, "info", "ships")
