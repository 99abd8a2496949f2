"""Archives that are wrong in ways that no digest shows: one line each, and nothing outside is written."""

import gzip
import io
import json
import stat
import tarfile
import zipfile

import pytest

from agentgym.registration import data_source
from tests.official.copies import BOXOBAN_COMMIT, WIKI_18_MEMBER
from tests.official.packing import tarred, zipped
from tests.official.tables import tree_digest

pytestmark = pytest.mark.assets

TWOWIKI, BOXOBAN = "data_ids_april7.zip", f"boxoban-levels-{BOXOBAN_COMMIT}.tar.gz"
TOP = f"boxoban-levels-{BOXOBAN_COMMIT}"
LEVEL = b"; 0\n" + b"\n".join([b"##########"] * 3 + [b"#@$.$.$.$.#"[:10]] + [b"##########"] * 6) + b"\n\n"


def members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        return {item.filename: opened.read(item) for item in opened.infolist() if not item.is_dir()}


def with_entry(content, name, body=b"x", *, mode=0):
    """Append an entry to a zip."""
    out = io.BytesIO(content)
    with zipfile.ZipFile(out, "a") as opened:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        opened.writestr(info, body)
    return out.getvalue()


def encrypted(content):
    """Set the flag of encryption on every entry, as a zip with a password has it."""
    changed = bytearray(content)
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = changed.find(mark)
        while place >= 0:
            changed[place + at] |= 1
            place = changed.find(mark, place + 4)
    return bytes(changed)


def bomb(content):
    """Let the last member unpack to 160 MiB of zeros."""
    files = members(content)
    return zipped({**files, "data_ids_april7/dev.json": bytes(160 << 20)})


def understated(content):
    """Say in the directory of a bomb that the member is small."""
    changed = bytearray(bomb(content))
    for mark, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        place = changed.find(mark)
        while place >= 0:
            if changed[place + at : place + at + 4] == (160 << 20).to_bytes(4, "little"):
                changed[place + at : place + at + 4] = (100).to_bytes(4, "little")
            place = changed.find(mark, place + 4)
    return bytes(changed)


ZIPS = {
    "cut off": lambda good: good[: len(good) // 2],
    "cut at its end": lambda good: good[:-30],
    "empty": lambda good: b"",
    "no archive": lambda good: b"[" + b"{}," * 200 + b"{}]",
    "without members": lambda good: zipped({}),
    "other members": lambda good: zipped({"readme.txt": b"x"}),
    "gzip alone": lambda good: gzip.compress(good),
    "damaged inside": lambda good: good[:200] + bytes(200) + good[400:],
    "encrypted": encrypted,
    "a bomb": bomb,
    "a bomb that says otherwise": understated,
    "a link": lambda good: with_entry(
        zipped({name: body for name, body in members(good).items() if not name.endswith("dev.json")}),
        "data_ids_april7/dev.json",
        b"/etc/passwd",
        mode=stat.S_IFLNK | 0o777,
    ),
    "records of another kind": lambda good: zipped(
        {**members(good), "data_ids_april7/dev.json": json.dumps([{"a": 1}]).encode()}
    ),
    "half a record": lambda good: zipped(
        {name: body[: len(body) // 2] for name, body in members(good).items()}
    ),
}

HARMLESS = {
    "a member missing": lambda good: zipped(
        {name: body for name, body in members(good).items() if not name.endswith("dev.json")}
    ),
    "a tar": lambda good: tarred(members(good)),
    "a member that climbs": lambda good: with_entry(good, "../../../../evil.json"),
    "a member from the root": lambda good: with_entry(good, "/tmp/evil.json"),
    "a member named by backslashes": lambda good: with_entry(good, "..\\..\\evil.json"),
    "a member that is not asked for": lambda good: with_entry(good, "data_ids_april7/evil.json"),
}
"""Changes that need not be refused."""


@pytest.mark.parametrize("change", ZIPS)
def test_a_zip_is_wrong(change, here, copies):
    good = copies.twowiki()
    here.replace(TWOWIKI, ZIPS[change](good))
    code, out, err = here.run("data", "download", "twowiki")
    assert (code, len(err)) == (2, 1), (code, out, err)
    assert here.outside() == ["sources.toml"]
    assert not (here.data / "twowiki").exists()


@pytest.mark.parametrize("change", HARMLESS)
def test_a_zip_has_more(change, here, copies):
    here.replace(TWOWIKI, HARMLESS[change](copies.twowiki()))
    code, _, err = here.run("data", "download", "twowiki")
    assert (code, len(err)) in ((0, 0), (2, 1))
    assert here.outside() == ["sources.toml"]
    assert not list(here.folder.rglob("evil*"))


def tar_of(*items):
    """Return a tar.gz of levels, and of further items: a name and its type, with where it leads."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, kind, leads in (
            (f"{TOP}/unfiltered/test/000.txt", tarfile.REGTYPE, ""),
            *items,
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, leads
            info.size = len(LEVEL) if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(LEVEL))
    return out.getvalue()


TARS = {
    "a link out": tar_of((f"{TOP}/medium", tarfile.SYMTYPE, "/etc")),
    "a link and a file through it": tar_of(
        (f"{TOP}/medium", tarfile.SYMTYPE, "../../../../.."),
        (f"{TOP}/medium/evil.txt", tarfile.REGTYPE, ""),
    ),
    "a hard link": tar_of((f"{TOP}/medium/train/000.txt", tarfile.LNKTYPE, "/etc/passwd")),
    "a pipe": tar_of((f"{TOP}/medium/train/000.txt", tarfile.FIFOTYPE, "")),
    "a device": tar_of((f"{TOP}/medium/train/000.txt", tarfile.CHRTYPE, "")),
    "a member that climbs": tar_of((f"{TOP}/../../../evil.txt", tarfile.REGTYPE, "")),
    "a member from the root": tar_of(("/tmp/evil.txt", tarfile.REGTYPE, "")),
    "two folders at the top": tar_of(("other/medium/train/000.txt", tarfile.REGTYPE, "")),
    "no folder at the top": tar_of(("evil.txt", tarfile.REGTYPE, "")),
    "cut off": tar_of()[:-40],
    "no archive": b"<levels>",
    "a zip": zipped({f"{TOP}/unfiltered/test/000.txt": LEVEL}),
    "without files": tarred({}),
}


@pytest.mark.parametrize("change", TARS)
def test_a_tar_is_wrong(change, here):
    """Whatever the digest of the tree says, it is refused, or the odd member is left out."""
    here.replace(BOXOBAN, TARS[change])
    try:
        here.table["set"]["boxoban"]["tree_sha256"] = tree_digest(TARS[change])
    except (tarfile.TarError, EOFError, AssertionError, KeyError):
        here.table["set"]["boxoban"]["tree_sha256"] = "0" * 64
    code, out, err = here.run("data", "download", "boxoban")
    assert code in (0, 2), (code, out, err)
    assert len(err) == (code != 0)
    assert here.outside() == ["sources.toml"]
    assert not list(here.folder.rglob("evil*"))
    target = here.data / data_source("boxoban").folder
    assert not any(path.is_symlink() or path.is_fifo() for path in here.folder.rglob("*"))
    if code:
        assert not target.exists()


def linked(content):
    """Return a tar whose only member leads elsewhere."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo(WIKI_18_MEMBER)
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    return out.getvalue()


CORPORA = {
    "a bomb": ("hotpotqa", lambda good: zipped({"hotpotqa/corpus.jsonl": bytes(160 << 20)})),
    "no corpus": ("hotpotqa", lambda good: zipped({"hotpotqa/readme.txt": b"x"})),
    "cut off": ("hotpotqa", lambda good: good[: len(good) // 2]),
    "a packed bomb": ("wiki-18", lambda good: gzip.compress(bytes(160 << 20))),
    "a bomb in a tar": ("wiki-18", lambda good: tarred({WIKI_18_MEMBER: bytes(160 << 20)})),
    "a link": ("wiki-18", linked),
    "a cut tar": ("wiki-18", lambda good: good[:-200]),
    "a page": ("wiki-18", lambda good: tarred({WIKI_18_MEMBER: b"<html></html>\n"})),
}


@pytest.mark.parametrize("change", CORPORA)
def test_a_corpus_is_wrong(change, here, copies):
    name, make = CORPORA[change]
    wiki = name == "wiki-18"
    file, good = ("wiki-18.jsonl.gz", copies.wiki_18) if wiki else ("hotpotqa.zip", copies.hotpotqa_fullwiki)
    here.replace(file, make(good()))
    code, out, err = here.run("index", "download", name if wiki else "hotpotqa-fullwiki")
    assert (code, len(err)) == (2, 1), (code, out, here.said)
    assert here.outside() == ["sources.toml"]
    assert not list(here.data.rglob("passages.records"))
