"""Lists of downloads that are wrong: one line each, and nothing is written outside the machine's folders."""

import pytest

pytestmark = pytest.mark.assets

NAME = "items_ins_v2_1000.json"

CHANGED = {
    "a size in words": {"size": "many"},
    "a negative size": {"size": -5},
    "half a byte": {"size": 1.5},
    "a truth as a size": {"size": True},
    "an endless size": {"size": 10**30},
    "a digest that is none": {"sha256": "zz"},
    "a digest as a number": {"sha256": 7},
    "an md5 that is none": {"md5": "../x"},
    "no address": {"urls": []},
    "an address alone": {"urls": "https://example.org/x"},
    "a file's address": {"urls": ["file:///etc/passwd"]},
    "an address of FTP": {"urls": ["ftp://example.org/x"]},
    "an address of data": {"urls": ["data:text/plain,x"]},
    "a path": {"urls": ["/etc/passwd"]},
    "an address without a host": {"urls": ["http:///x"]},
    "half a host": {"urls": ["http://[::1/x"]},
    "a port that is none": {"urls": ["http://127.0.0.1:99999/x"]},
    "two lines": {"urls": ["http://127.0.0.1/x\r\nHost: other"]},
    "a blank": {"urls": ["http://127.0.0.1/a b"]},
    "an address as a number": {"urls": [7]},
    "an address with letters beyond ASCII": {"urls": ["http://127.0.0.1:1/caf\u00e9"]},
    "a name that climbs": {"name": "../x.json"},
    "a name that climbs later": {"name": "a/../../x.json"},
    "a name from the root": {"name": "/tmp/x.json"},
    "no name": {"name": ""},
    "a dot": {"name": "."},
    "a name with a zero": {"name": "a\0b"},
    "a long name": {"name": "a" * 5_000},
    "a name as a number": {"name": 7},
    "a part that climbs": {"joins": "../x"},
    "a member that climbs": {"unpack": {"x.json": "../../x.json"}},
    "a member from the root": {"unpack": {"x.json": "/tmp/x.json"}},
    "members as a list": {"unpack": ["x"]},
    "sets as a word": {"sets": "webshop-small"},
    "an unknown field": {"surprise": 1},
}

TEXTS = {
    "nothing": b"",
    "no TOML": b"[[file]\n",
    "no text": b"\xff\xfe\x00",
    "no sets": b"[[file]]\nname = 'x'\n",
    "sets as a list": b"set = []\nfile = []\n",
    "files as a table": b"[set]\n[file]\n",
    "a nest": b"file = " + b"[" * 5_000 + b"]" * 5_000,
    "a long number": b"[[file]]\nsize = " + b"9" * 10_000 + b"\n",
    "a set of numbers": b"file = []\n[set]\nwebshop-small = 7\n",
}

NAMES = ("../../../evil", "/tmp/evil", "..", ".", "a/b", "a\\b", "", "x" * 300, "a\nb")


def refused(here, *words):
    code, out, err = here.run(*words)
    assert (code, out, len(err)) == (2, "", 1), (code, out, err)
    assert len(err[0]) < 1_000
    assert here.outside() == ["sources.toml"]
    return err[0]


@pytest.mark.parametrize("change", CHANGED)
def test_a_field_is_wrong(change, here):
    here.file(NAME).update(CHANGED[change])
    refused(here, "data", "download", "webshop-small")
    assert not here.data.exists() or not list(here.data.iterdir())


@pytest.mark.parametrize("field", ["sets", "name", "urls", "check"])
def test_a_field_is_missing(field, here):
    del here.file(NAME)[field]
    refused(here, "data", "download", "webshop-small")


@pytest.mark.parametrize("text", TEXTS)
def test_a_list_is_none(text, here):
    here.table = None
    here.path.write_bytes(TEXTS[text])
    refused(here, "data", "download", "webshop-small")


def test_a_name_comes_twice(here):
    """Two files of one name in one set: the second would stand where the first was."""
    here.table["file"].append({**here.file("items_shuffle_1000.json"), "name": NAME})
    refused(here, "data", "download", "webshop-small")


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_set_leads_nowhere(name, here):
    """It becomes the name of a folder, of which everything is removed at the end."""
    here.table["set"][name] = here.table["set"]["webshop-small"]
    here.file(NAME)["sets"] = [name]
    refused(here, "data", "download", name)


@pytest.mark.parametrize("folder", ["../../evil", "/tmp/evil", "a/../../b"])
def test_the_folder_of_a_corpus_leads_nowhere(folder, here):
    here.table["set"]["hotpotqa-fullwiki"]["folder"] = folder
    refused(here, "index", "download", "hotpotqa-fullwiki")


def test_a_set_without_files(here):
    here.file(NAME)["sets"] = []
    here.file("items_shuffle_1000.json")["sets"] = []
    here.file("items_human_ins.json")["sets"] = ["webshop"]
    refused(here, "data", "download", "webshop-small")


def test_a_name_that_nobody_has_names_the_nearest(here):
    assert "webshop-small" in refused(here, "data", "download", "webshop-smal")
