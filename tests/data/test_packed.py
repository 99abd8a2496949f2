"""Packed files are read as what they are, whatever their names say; hostile ones end in one line."""

import bz2
import gzip
import io
import json
import lzma
import random
import tarfile
import zipfile
from contextlib import suppress

import pytest

from agentgym.cli import main
from agentgym.data import packed
from agentgym.data.archives import read_members
from agentgym.data.jsonstream import read_records
from agentgym.data.packed import CORPUS, members_of, open_packed, stored_size, unpack
from agentgym.errors import UsageError
from agentgym.retrieval.corpus.corpora import CorpusFile, CorpusSpec, build_corpus
from agentgym.retrieval.corpus.passages import PASSAGES, adopt_passages

LINES = "".join(
    json.dumps({"id": str(n), "contents": f'"Title {n}"\nThe text of {n}.'}) + "\n" for n in range(40)
)
DATA = LINES.encode()
MEMBER = "data00/jiajie_jin/flashrag_indexes/wiki_dpr_100w/wiki_dump.jsonl"
PACKERS = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}
ONE_LINE = r"^[^\n]{5,400}$"


def tarred(members, kind=tarfile.REGTYPE, target=""):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            info.size = len(data) if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(data))
    return raw.getvalue()


def zipped(members, method=zipfile.ZIP_DEFLATED):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return raw.getvalue()


def encrypted():
    """Return a zip archive whose member says that it is encrypted."""
    raw = bytearray(zipped([("a.jsonl", DATA)]))
    raw[6] |= 1
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    return bytes(raw)


def linked():
    raw = io.BytesIO()
    info = zipfile.ZipInfo("a.jsonl")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    return raw.getvalue()


FORMS = {
    "plain": DATA,
    **{name: pack(DATA) for name, pack in PACKERS.items()},
    "tar": tarred([(MEMBER, DATA)]),
    "tar.gz": gzip.compress(tarred([(MEMBER, DATA)])),
    "tar of macOS": tarred([("._" + CORPUS, b"\0\5"), ("README.md", b"#"), (f"./a/{CORPUS}", DATA)]),
    "zip": zipped([("data/", b""), (f"data/{CORPUS}", DATA), (f"__MACOSX/data/._{CORPUS}", b"\0\5")]),
    "zip of BEIR": zipped(
        [("h/corpus.jsonl", DATA), ("h/queries.jsonl", b"{}"), ("h/qrels/test.tsv", b"a\tb")]
    ),
    "stored zip": zipped([("a.json", DATA)], zipfile.ZIP_STORED),
}


@pytest.mark.parametrize("name", ["wiki-18.jsonl.gz", "wiki-18.jsonl", "x.zip"])
@pytest.mark.parametrize("form", FORMS)
def test_content_tells_what_a_file_is(form, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(FORMS[form])
    assert [record["id"] for _, record in read_records(path)] == [str(n) for n in range(40)]
    assert next(read_records(path))[0] == f"{path}:1"  # left early, and closed
    plain = unpack(path, tmp_path / "plain")
    assert plain == (path if form == "plain" else tmp_path / "plain")
    assert plain.read_bytes() == DATA
    store = adopt_passages(tmp_path / PASSAGES, path, corpus="wiki")
    assert (len(store), store[7].title) == (40, "Title 7")
    spec = CorpusSpec("w", "", "", "", "documents", "", 40, files=(CorpusFile("n.jsonl", archive=name),))
    assert build_corpus(spec, tmp_path / "built", tmp_path).sha256 == store.sha256
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_tar_called_gz_is_built_by_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    for form, name in (("tar.gz", "wiki-18.jsonl.gz"), ("zip of BEIR", "hotpotqa.zip")):
        (tmp_path / name).write_bytes(FORMS[form])
        assert main(["index", "build", str(tmp_path / name)]) == 0
        assert "40 passages" in capsys.readouterr().out


def test_the_name_that_is_described_is_read(tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(zipped([("x/one.jsonl", DATA), ("x/two.jsonl", b"{}"), ("x/README", b"")]))
    with open_packed(path, "one.jsonl") as file:
        assert file.read() == DATA
    assert [member.name for member in members_of(path)] == ["one.jsonl", "two.jsonl"]
    first = path / "x" / "one.jsonl"
    assert stored_size(first) == len(DATA)
    assert len(list(read_records(first))) == 40
    with pytest.raises(UsageError, match=r"a\.zip has no file 'x/three\.jsonl'"):
        list(read_records(path / "x" / "three.jsonl"))


HOSTILE = {
    "several": zipped([("a.jsonl", DATA), ("b.jsonl", DATA)]),
    "several in a tar": tarred([("a.jsonl", DATA), ("b.jsonl", DATA)]),
    "one twice": zipped([("a.jsonl", DATA), ("b/a.jsonl", DATA)]),
    "none": zipped([("README.md", DATA)]),
    "empty": zipped([]),
    "empty tar": gzip.compress(bytes(10_240)),
    "none in a tar": tarred([("README.md", DATA)]),
    "a zip in a zip": zipped([("inner.zip", zipped([("a.jsonl", DATA)]))]),
    "a zip called JSON": zipped([("a.jsonl", zipped([("a.jsonl", DATA)]))]),
    "a way out": zipped([("../a.jsonl", DATA)]),
    "a way out of a tar": tarred([("../../a.jsonl", DATA)]),
    "the root": tarred([("/etc/a.jsonl", DATA)]),
    "a link": linked(),
    "a link of a tar": tarred([("a.jsonl", b"")], tarfile.SYMTYPE, "/etc/passwd"),
    "a hard link": tarred([("a.jsonl", b"")], tarfile.LNKTYPE, "b"),
    "a pipe": tarred([("a.jsonl", b"")], tarfile.FIFOTYPE),
    "encrypted": encrypted(),
    "cut zip": zipped([("a.jsonl", DATA)])[:-30],
    "cut gz": gzip.compress(DATA)[:-20],
    "cut tar": tarred([("a.jsonl", DATA)])[:1500],
    "cut tar.gz": gzip.compress(tarred([("a.jsonl", DATA)]))[:-40],
    "twice gz": gzip.compress(gzip.compress(DATA)),
    "a page of HTML": b"<!DOCTYPE html><html>Sign in</html>",
}


@pytest.mark.parametrize("form", HOSTILE)
def test_what_cannot_be_read_ends_in_one_line(form, tmp_path):
    path = tmp_path / "wiki-18.jsonl.gz"
    path.write_bytes(HOSTILE[form])
    with pytest.raises(UsageError, match=ONE_LINE) as caught:
        list(read_records(path))
    assert str(path) in str(caught.value)
    with pytest.raises(UsageError, match=ONE_LINE):
        adopt_passages(tmp_path / PASSAGES, path, corpus="wiki")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("pack", ["gz", "xz", "bz2", "tar.gz", "zip"])
def test_a_bomb_is_no_text(pack, tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "UNBOUNDED", 1 << 16)
    blank = b" " * (4 << 20)
    bombs = {
        "tar.gz": lambda data: gzip.compress(tarred([("a.jsonl", data)])),
        "zip": lambda data: zipped([("a.jsonl", data)]),
        **PACKERS,
    }
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(bombs[pack](blank))
    with pytest.raises(UsageError, match=r"a\.jsonl\.gz unpacks to over 250 times its size"):
        list(read_records(path))


@pytest.mark.parametrize("form", ["tar", "tar.gz", "zip", "gz", "xz", "bz2"])
def test_damage_anywhere_is_no_traceback(form, tmp_path):
    path = tmp_path / "a"
    draws = random.Random(form)
    for _ in range(150):
        raw = bytearray(FORMS[form])
        for _ in range(draws.choice((1, 1, 3, 30))):
            place = draws.randrange(len(raw)) if draws.random() < 0.5 else draws.randrange(-200, 512)
            raw[place % len(raw)] = draws.randrange(256)
        path.write_bytes(raw[: draws.choice((len(raw), len(raw), draws.randrange(len(raw))))])
        for read in (read_records, members_of):
            with suppress(UsageError):
                list(read(path))


@pytest.mark.parametrize("ending", ["tar.xz", "tar.gz", "tar"])
def test_tar_archives_are_decompressed_before_tarfile_reads_them(tmp_path, monkeypatch, ending):
    """What tarfile decompresses itself, it copies at every read: minutes for 3,553 small files."""
    path, kinds = tmp_path / f"data.{ending}", []
    with tarfile.open(path, f"w:{ending[4:]}") as archive:
        for number in range(3):
            item = tarfile.TarInfo(f"{number}/game.json")
            item.size = 4
            archive.addfile(item, io.BytesIO(b"%04d" % number))
    begin = tarfile._Stream.__init__

    def begun(self, name, mode, comptype, *rest):
        kinds.append(comptype)
        begin(self, name, mode, comptype, *rest)

    monkeypatch.setattr(tarfile._Stream, "__init__", begun)
    assert [member.data for member in read_members(path, ["game.json"])] == [b"0000", b"0001", b"0002"]
    assert kinds == ["tar"]
