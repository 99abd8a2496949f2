"""Imports are whole or not at all."""

import errno
import json
import os

import pytest

from agentgym.data import importing
from agentgym.data.importing import find_damage, import_data, importer_of, read_manifest
from agentgym.envs.sokoban.data.boxoban import check_file
from agentgym.errors import MissingDataError, UsageError
from agentgym.registration import data_source, data_sources

BOARD = """\
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


def quiet(done, total):
    pass


@pytest.fixture
def upstream(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
    for name in ("unfiltered/test/000.txt", "medium/train/000.txt", "medium/train/001.txt"):
        path = tmp_path / "upstream" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"; 0\n{BOARD}\n; 1\n{BOARD}")
    return tmp_path / "upstream"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data" / "sokoban"


def contents(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_every_source_has_a_reader_and_a_folder_of_its_own():
    sources = list(data_sources())
    assert {source.name for source in sources} >= {"alfworld", "boxoban", "webshop"}
    assert len({source.folder for source in sources}) == len(sources)
    for source in sources:
        assert callable(importer_of(source).find_files)


def test_import_copies_and_writes_a_manifest(upstream, folder):
    seen = []
    entries = import_data(
        data_source("boxoban"), upstream, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert {key: entry.records for key, entry in entries.items()} == {
        "unfiltered/test/000.txt": 2,
        "medium/train/000.txt": 2,
        "medium/train/001.txt": 2,
    }
    copied = contents(folder)
    assert copied.pop("manifest.json")
    assert copied == contents(upstream)
    assert read_manifest(data_source("boxoban")) == entries
    assert list(find_damage(data_source("boxoban"), progress=quiet)) == []
    assert os.listdir(folder.parent) == ["sokoban"]


def test_a_second_import_replaces_the_first(upstream, folder):
    import_data(data_source("boxoban"), upstream, progress=quiet)
    (upstream / "medium/train/001.txt").unlink()
    import_data(data_source("boxoban"), upstream, progress=quiet)
    assert sorted(contents(folder)) == ["manifest.json", "medium/train/000.txt", "unfiltered/test/000.txt"]
    assert os.listdir(folder.parent) == ["sokoban"]


def test_data_that_no_import_put_there_stay(upstream, folder):
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="was not imported by agentgym: move it away"):
        import_data(data_source("boxoban"), upstream, progress=quiet)
    assert contents(folder) == {"mine.txt": b"mine"}


def test_a_failed_import_leaves_what_was_there(upstream, folder):
    import_data(data_source("boxoban"), upstream, progress=quiet)
    before = contents(folder)
    (upstream / "unfiltered/test/000.txt").write_text("; 0\nnot a level\n")
    with pytest.raises(UsageError, match=r"000\.txt, line 2: a level is 10 lines"):
        import_data(data_source("boxoban"), upstream, progress=quiet)
    assert contents(folder) == before
    assert os.listdir(folder.parent) == ["sokoban"]


def test_a_full_disk_leaves_nothing(upstream, folder, monkeypatch):
    def full(fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(importing.os, "fsync", full)
    with pytest.raises(UsageError, match="sokoban: No space left on device; free space"):
        import_data(data_source("boxoban"), upstream, progress=quiet)
    assert os.listdir(folder.parent) == []


def test_a_failed_swap_puts_the_old_folder_back(upstream, folder, monkeypatch):
    import_data(data_source("boxoban"), upstream, progress=quiet)
    before = contents(folder)
    rename = type(folder).rename

    def fail_on_draft(self, target):
        if self.suffix == ".tmp":
            raise OSError(errno.EIO, "broken")
        return rename(self, target)

    monkeypatch.setattr(type(folder), "rename", fail_on_draft)
    with pytest.raises(UsageError, match="broken"):
        import_data(data_source("boxoban"), upstream, progress=quiet)
    assert contents(folder) == before
    assert os.listdir(folder.parent) == ["sokoban"]


def test_damage_is_found(upstream, folder):
    import_data(data_source("boxoban"), upstream, progress=quiet)
    (folder / "medium/train/000.txt").unlink()
    (folder / "medium/train/001.txt").write_text("; 0\n")
    (folder / "medium/train/002.txt").write_text("; 0\n")
    damage = list(find_damage(data_source("boxoban"), progress=quiet))
    assert [line.removeprefix(f"{folder}/") for line in damage] == [
        "medium/train/000.txt is missing",
        "medium/train/001.txt is not what was imported",
        "medium/train/002.txt was not imported",
    ]


def test_data_without_a_manifest_are_checked_for_their_format(upstream, monkeypatch, tmp_path):
    (tmp_path / "data").mkdir()
    upstream.rename(tmp_path / "data" / "sokoban")
    assert read_manifest(data_source("boxoban")) is None
    assert list(find_damage(data_source("boxoban"), progress=quiet)) == []
    (tmp_path / "data/sokoban/medium/train/000.txt").write_text("; 0\n####\n")
    (damage,) = find_damage(data_source("boxoban"), progress=quiet)
    assert "000.txt, line 2: a level is 10 lines of 10 symbols" in damage


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 1}', '{"schema": 1, "files": {"a": {"x": 1}}}'])
def test_a_damaged_manifest_is_an_error(upstream, folder, text):
    import_data(data_source("boxoban"), upstream, progress=quiet)
    (folder / "manifest.json").write_text(text)
    with pytest.raises(UsageError, match=r"manifest\.json is damaged .*: import the data again"):
        read_manifest(data_source("boxoban"))


def test_a_manifest_of_another_schema_is_an_error(upstream, folder):
    import_data(data_source("boxoban"), upstream, progress=quiet)
    (folder / "manifest.json").write_text('{"schema": 3, "files": {}}')
    with pytest.raises(UsageError, match="has schema 3, expected 2"):
        read_manifest(data_source("boxoban"))


def test_a_manifest_of_the_first_schema_is_read(upstream, folder):
    entries = import_data(data_source("boxoban"), upstream, progress=quiet)
    table = json.loads((folder / "manifest.json").read_text())
    assert (table["schema"], table.pop("generation")) == (2, "")
    (folder / "manifest.json").write_text(json.dumps({**table, "schema": 1}))
    assert read_manifest(data_source("boxoban")) == entries


def test_nothing_to_import(upstream, tmp_path):
    with pytest.raises(UsageError, match=r"holds none of unfiltered/, medium/, hard/: name a copy of https"):
        import_data(data_source("boxoban"), tmp_path / "elsewhere", progress=quiet)
    with pytest.raises(UsageError, match="unknown data set 'boxobann'"):
        import_data(data_source("boxobann"), upstream, progress=quiet)
    with pytest.raises(MissingDataError):
        read_manifest(data_source("boxoban"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no level"),
        ("\n\n", "holds no level"),
        (BOARD, r"line 1: expected '; NUMBER', got '##########'"),
        (f"; 0\n{BOARD}#\n", "line 12: expected '; NUMBER'"),
        (f"; 0\n{BOARD[:-11]}", "line 2: a level is 10 lines of 10 symbols"),
        (f"; 0\n{BOARD.replace('@', 'P')}", "line 2: a level is 10 lines of 10 symbols"),
        (f"; 0\n{BOARD.replace('@', 'é')}", "line 2: a level is 10 lines of 10 symbols"),
        (f"; 0\n{BOARD.replace('#@', '#@@', 1)}", "line 2: a level is 10 lines of 10 symbols"),
        (
            f"; 0\n{BOARD.replace('@', ' ')}",
            "expected 4 boxes, 4 targets and 1 player, got 4 boxes, 4 targets and 0",
        ),
        (f"; 0\n{BOARD.replace('$', ' ', 1)}", "got 3 boxes, 4 targets and 1 players"),
        (f"; 0\n{BOARD.replace('.', ' ', 1)}", "got 4 boxes, 3 targets and 1 players"),
    ],
)
def test_files_that_are_no_levels(tmp_path, text, message):
    path = tmp_path / "000.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        check_file(path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_levels_are_counted(tmp_path, end):
    path = tmp_path / "000.txt"
    text = f"; 0\n{BOARD}\n; 1\n{BOARD.replace('$', '*', 1).replace('.', ' ', 1)}\n\n"
    path.write_bytes(text.replace("\n", end).encode())
    assert check_file(path) == 2


@pytest.mark.assets
def test_the_real_levels_are_whole():
    assert list(find_damage(data_source("boxoban"), progress=quiet)) == []
