"""Sets of files: fetched, checked, unpacked and handed on, or not at all."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest

from agentgym.data import download as module
from agentgym.data import sources
from agentgym.data.download import download, place, sizes_in
from agentgym.data.fetching import Fetcher
from agentgym.errors import UsageError
from tests.data import mirror
from tests.waiting import wait_until

FILES = {"a.json": b'["a"]' * 50_000, "deep/b.json": b'["b"]' * 30_000, "c.json": b'["c"]' * 100}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "SOURCES", tmp_path / "sources.toml")
    return tmp_path


def describe(home, files, url="https://127.0.0.1:1", **facts):
    """Write a list of one set with these files, each a name, its bytes, and what else there is to say."""
    tables = [
        {"sets": ["toys"], "name": name, "urls": [f"{url}/{name}"], "check": "V"}
        | ({"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} if known else {})
        | more
        for name, data, known, more in files
    ]
    table = {"licence": "MIT", "revision": "1", "source": "toys", **facts}
    mirror.write_sources(home / "sources.toml", {"toys": table}, tables)


class Target:
    """What a set is imported into: one folder."""

    def __init__(self, home, *, fails=False):
        self.folder, self.fails = home / "data" / "toys", fails

    def finish(self, copy):
        if self.fails:
            raise UsageError("these are no toys")
        return place(copy, self.folder)

    def run(self, url, *, keep=False, **settings):
        fetcher = Fetcher(mirror=url, only_mirror=True, sleep=lambda seconds: None, **settings)
        return download("toys", fetcher, self.finish, lambda: sizes_in(self.folder), keep=keep)


def known(files):
    return [(name, data, True, {}) for name, data in files.items()]


def left(home):
    return sizes_in(home / "cache" / "downloads" / "toys")


def test_a_set_is_fetched_once(home):
    describe(home, known(FILES))
    target = Target(home)
    with mirror.serving({f"toys/{name}": data for name, data in FILES.items()}) as (url, handler):
        assert target.run(url)
        assert {name: (target.folder / name).read_bytes() for name in FILES} == FILES
        assert not left(home)
        handler.seen.clear()
        assert not target.run(url)
        assert not handler.seen
        (target.folder / "a.json").unlink()
        assert target.run(url, keep=True)
        assert set(left(home)) == {f"copy-0/{name}" for name in FILES}


def test_what_was_fetched_stays_until_the_set_is_finished(home):
    describe(home, known(FILES))
    with mirror.serving({f"toys/{name}": data for name, data in FILES.items()}) as (url, handler):
        with pytest.raises(UsageError, match="no toys"):
            Target(home, fails=True).run(url)
        assert not (home / "data").exists()
        handler.seen.clear()
        assert Target(home).run(url)
        assert not handler.seen


def test_a_file_without_a_digest_is_recorded_and_compared(home):
    describe(home, [("a.json", b"one" * 100, False, {})])
    target = Target(home)
    with mirror.serving({"toys/a.json": b"one" * 100}) as (url, handler):
        assert target.run(url)
        (target.folder / "a.json").unlink()
        handler.files["/toys/a.json"] = b"two" * 100
        with pytest.raises(UsageError, match=r"its sha256 is .*toys\.json has what came first: delete it"):
            target.run(url)
        handler.files["/toys/a.json"] = b"one" * 100
        assert target.run(url)


def test_other_files_stand_in_for_one_that_cannot_be_had(home):
    describe(
        home,
        [
            ("all.zip", b"x", True, {}),
            ("a.json", FILES["a.json"], True, {"option": 1}),
            ("c.json", FILES["c.json"], True, {"option": 1}),
        ],
    )
    lines = []
    with mirror.serving({f"toys/{name}": data for name, data in FILES.items()}) as (url, _):
        assert Target(home).run(url, say=lines.append)
    assert sorted(sizes_in(home / "data" / "toys")) == ["a.json", "c.json"]
    assert "HTTP 404" in lines[0]


def test_parts_are_joined(home):
    parts = {"part_a": b"first" * 1000, "part_b": b"second" * 1000}
    describe(home, [(name, data, True, {"joins": "whole"}) for name, data in parts.items()])
    with mirror.serving({f"toys/{name}": data for name, data in parts.items()}) as (url, handler):
        handler.faults["/toys/part_b"] = [mirror.cut_after(100)]
        assert Target(home).run(url)
    assert (home / "data" / "toys" / "whole").read_bytes() == b"".join(parts.values())


def tree_of(files):
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def tar_of(files, **infos):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in infos.get(name.rpartition("/")[2].partition(".")[0], {}).items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(data))
    return packed.getvalue()


LEVELS = {"hard/000.txt": b"one", "medium/train/000.txt": b"two"}


def archive(files):
    return tar_of({"levels-1/README.md": b"#"} | {f"levels-1/{name}": data for name, data in files.items()})


def test_an_archive_is_checked_file_by_file(home):
    describe(home, [("l.tar.gz", b"", False, {"unpacked": 10_000})], tree_sha256=tree_of(LEVELS))
    with mirror.serving({"toys/l.tar.gz": archive(LEVELS | {"hard/000.txt": b"another"})}) as (url, handler):
        with pytest.raises(UsageError, match="the files of toys come to"):
            Target(home).run(url)
        for _ in range(2):  # other bytes of an archive with the same files are as good
            handler.files["/toys/l.tar.gz"] = archive(LEVELS)
            assert Target(home).run(url)
            assert sorted(sizes_in(home / "data" / "toys")) == sorted(LEVELS)
            (home / "data" / "toys" / "hard" / "000.txt").unlink()


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("bomb", tar_of({"top/a.txt": bytes(30_000)})),
        ("traversal", tar_of({"top/../../../a.txt": b"x"})),
        ("link", tar_of({"top/a.txt": b""}, a={"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"})),
        ("header", tar_of({f"top/{'d' * 70_000}/a.txt": b"x"})),
        ("half", archive(LEVELS)[:100]),
        ("other", b"no archive at all"),
        ("empty", b""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # a packed file holds the time
)
def test_a_hostile_archive_is_one_line(home, name, packed):
    describe(home, [("l.tar.gz", b"", False, {"unpacked": 10_000})], tree_sha256=tree_of(LEVELS))
    with mirror.serving({"toys/l.tar.gz": packed}) as (url, _), pytest.raises(UsageError) as caught:
        Target(home).run(url)
    assert "\n" not in str(caught.value)
    assert not (home / "data").exists()
    assert not (home / "cache" / "a.txt").exists()


def test_a_full_disk_is_named_before_anything_is_fetched(home):
    describe(home, [("a.json", b"x", False, {"size": 1 << 60})])
    with mirror.serving({"toys/a.json": b"x"}) as (url, handler):
        with pytest.raises(UsageError, match=r"toys needs [\d,.]+ GB, and .* GB free: free space"):
            Target(home).run(url)
        assert not handler.seen


def test_a_second_process_waits_and_finds_it_done(home):
    describe(home, known(FILES))
    begun, go_on = threading.Event(), threading.Event()

    def slowly(handler, data):
        begun.set()
        go_on.wait()
        mirror.whole(handler, data)

    lines, ends = [], []
    with mirror.serving({f"toys/{name}": data for name, data in FILES.items()}) as (url, handler):
        handler.faults["/toys/a.json"] = [slowly]
        first = threading.Thread(target=lambda: ends.append(Target(home).run(url)))
        first.start()
        begun.wait()
        second = threading.Thread(target=lambda: ends.append(Target(home).run(url, say=lines.append)))
        second.start()
        wait_until(lambda: lines)
        assert "another process is writing" in lines[0]
        go_on.set()
        first.join()
        second.join()
    assert ends == [True, False]
    assert len(handler.seen) == len(FILES)


CHILD = """
import sys
from pathlib import Path
from agentgym.data import sources
from agentgym.data.download import download, place, sizes_in
from agentgym.data.fetching import Fetcher
home, url = Path(sys.argv[1]), sys.argv[2]
sources.SOURCES = home / "sources.toml"
folder = home / "data" / "toys"
fetcher = Fetcher(mirror=url, only_mirror=True, sleep=lambda seconds: None)
download("toys", fetcher, lambda copy: place(copy, folder), lambda: sizes_in(folder))
"""


@pytest.mark.parametrize("after", [1, 249_999])
def test_a_killed_download_goes_on(home, after):
    describe(home, known(FILES))
    with mirror.serving({f"toys/{name}": data for name, data in FILES.items()}) as (url, handler):
        process = []

        def kill(handler, data):
            handler.begin(200, len(data), ETag=mirror.tag_of(data))
            handler.wfile.write(data[:after])
            handler.wfile.flush()
            process[0].kill()
            process[0].wait()
            handler.close_connection = True

        handler.faults["/toys/a.json"] = [kill]
        process.append(subprocess.Popen([sys.executable, "-c", CHILD, home, url], env=os.environ))
        assert process[0].wait() < 0
        assert not (home / "data").exists()
        subprocess.run([sys.executable, "-c", CHILD, home, url], env=os.environ, check=True)
    assert {name: (home / "data" / "toys" / name).read_bytes() for name in FILES} == FILES
    assert json.loads((home / "cache" / "downloads" / "toys.json").read_text())["result"]


def test_placing_survives_a_disk_without_links(home, monkeypatch):
    def refuse(*paths):
        raise OSError("no links")

    monkeypatch.setattr(module.os, "link", refuse)
    (home / "copy").mkdir()
    (home / "copy" / "a").write_bytes(b"one")
    assert place(home / "copy", home / "data") == {"a": 3}
    assert sizes_in(home / "data") == {"a": 3}


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"name": "../../x"}, "leads out of its folder"),
        ({"name": "/etc/x"}, "leads out of its folder"),
        ({"joins": "../x"}, "leads out of its folder"),
        ({"urls": ["ftp://host/x"]}, "is not an address"),
        ({"urls": []}, "has no address"),
        ({"sise": 3}, "unknown key 'sise'"),
        ({"size": "3"}, "size: expected an integer"),
    ],
)
def test_a_wrong_entry_is_one_line(home, table, complaint):
    entry = {"sets": ["toys"], "name": "a", "urls": ["https://host/a"], "check": "V", **table}
    toys = {"licence": "MIT", "revision": "1"}
    mirror.write_sources(Path(sources.SOURCES), {"toys": toys}, [entry])
    with pytest.raises(UsageError, match=complaint):
        sources.source_list()
