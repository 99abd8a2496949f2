"""Files of strangers end in one line: whatever their nesting, digits and sizes."""

import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.agents.scripted import load_script
from agentgym.data import archives
from agentgym.data.archives import read_members
from agentgym.data.jsonstream import read_records
from agentgym.data.recordfile import RecordFile
from agentgym.endpoint.ledger import read_ledger
from agentgym.envs.alfworld.data.trials import GAME, Harvest, read_trials
from agentgym.errors import UsageError
from agentgym.io.records import read_toml
from agentgym.io.untrusted import (
    MAX_DEPTH,
    loads_json,
    loads_toml,
    read_json,
    read_json_records,
    read_lines,
    read_text,
    read_toml_table,
)
from agentgym.prompts.wording import read_file as read_wording
from agentgym.retrieval.corpus.passages import adopt_passages
from tests.pace import within

DIGITS = "7" * 5_000
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**38), 10**38) | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(st.text(max_size=4), each, max_size=4),
)  # fmt: skip


@given(values, st.sampled_from([None, 1]), st.booleans())
def test_json_means_what_it_means_elsewhere(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert loads_json(text, "x") == loads_json(text, "x", repeated_keys=True) == value


@pytest.mark.parametrize("repeated_keys", [False, True])
def test_halves_of_characters_are_refused_replaced_or_kept(repeated_keys):
    text = r'["a\ud800", "\ud83d\ude00", "\\ud800"]'
    load = partial(loads_json, text, "x", repeated_keys=repeated_keys)
    with pytest.raises(UsageError, match="half of a surrogate pair"):
        load()
    assert load(half_characters="replaced") == ["a\ufffd", "\U0001f600", r"\ud800"]
    assert load(half_characters="kept") == ["a\ud800", "\U0001f600", r"\ud800"]


HOSTILE_JSON = (
    "[" * 200_000,
    '{"a":' * 200_000,
    '{"a":[' * (MAX_DEPTH // 2 + 1),
    DIGITS,
    f"[1, -{DIGITS}]",
    f'"\\"{"[" * 99}", {DIGITS}',
    "1." + "0" * 50,
    "NaN",
    "[-Infinity]",
    "1e999",
    '{"a": 1, "a": 2}',
    "[1,",
    "",
    "\ufeff{}",
    '"' + "\\" * 100_001,
    '["' * 100_000,
)


@pytest.mark.parametrize("text", HOSTILE_JSON, ids=range(len(HOSTILE_JSON)))
def test_hostile_json_is_refused_in_one_line(text, tmp_path):
    for given_as in (text, text.encode()):
        with pytest.raises(UsageError, match=r"^\[x\]: [^\n]{5,150}$"):
            loads_json(given_as, "[x]")
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"a\.json: "):
        read_json(path)


def test_brackets_and_digits_in_texts_are_no_nesting():
    value = ["[" * 999 + DIGITS + '\\"{', "]" * 99]
    assert loads_json(json.dumps(value), "x") == value
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert loads_json(deep, "x")
    assert loads_toml(f"a = '''{'[' * 999}''' # {'[' * 999}\nb = \"\\\"[[[{DIGITS}\"\nc = {deep}", "x")["c"]


def test_large_files_are_refused_before_they_are_read(tmp_path):
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole
    with pytest.raises(UsageError, match="is larger than the 1,000 bytes"):
        read_json(path, largest=1_000)


@dataclass(frozen=True)
class Settings:
    a: int = 0


HOSTILE_TOML = (
    "a = " + "[" * 3_000,
    "a = " + "{b = " * 3_000,
    "a = " + DIGITS,
    "a = -1_" + DIGITS,
    "a = 0x" + "f" * 5_000,
    "a = 0b" + "1" * 5_000,
    "a" + ".a" * 50_000 + " = 1",
    "a" + ' . "a"' * 100 + " = 1",
    "[" + "a." * 3_000 + "a]",
    "a = 1\n" * 400_000,
    '"' * 100_000,
    "'" * 100_001,
    "a = [" + "1.5, " * 100_000,
)


@pytest.mark.parametrize("text", HOSTILE_TOML, ids=range(len(HOSTILE_TOML)))
def test_hostile_toml_is_refused_in_one_line(text, tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(text)
    within(2_000, refused, path)


def refused(path):
    with pytest.raises(UsageError, match=r"^[^\n]{5,300}$"):
        read_toml(Settings, path)


@pytest.mark.parametrize("record", ["[" * 200_000, '{"a": ' * 5_000, f'{{"a": {DIGITS}}}'])
def test_hostile_records_are_refused(record, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"a": {record}\n')
    with pytest.raises(UsageError, match=r"a\.jsonl:1: [^\n]*$"):
        list(read_records(path))


# ---- archives ----------------------------------------------------------------------------------------


def tarball(path, members, mode="w:xz", **options):
    with tarfile.open(path, mode, **options) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def test_nested_members_are_named_and_left_out(tmp_path):
    folder = "valid_seen/pick_and_place_simple-Mug-None-Shelf-3/trial_{}"
    hostile = [b"[" * 200_000, DIGITS.encode(), b'{"pddl_domain":' * 9_000, b"\xff", b'{"grammar": NaN}']
    members = [(f"{folder.format(i)}/{GAME}", data) for i, data in enumerate(hostile)]
    members += [(f"any{i}/t/traj_data.json", data) for i, data in enumerate(hostile)]
    for path in (tarball(tmp_path / "a.tar.xz", members), tmp_path / "a.zip"):
        if path.suffix == ".zip":
            with zipfile.ZipFile(path, "w") as archive:
                for name, data in members:
                    archive.writestr(name, data)
        harvest = Harvest()
        assert list(read_trials([path], harvest, progress=lambda done, total: None)) == []
        assert len(harvest.failures) == len(members)
        assert all("\n" not in failure.reason for failure in harvest.failures)


def test_a_large_member_is_refused_unread(tmp_path):
    path = tarball(tmp_path / "a.tar.xz", [(f"x/{GAME}", bytes(archives.MAX_MEMBER_SIZE + 1))])
    with pytest.raises(UsageError, match="more than any game"):
        list(read_members(path, [GAME]))


def test_an_archive_of_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_TOTAL", 1_000)
    members = [(f"{i}/skipped", bytes(300)) for i in range(4)]
    path = tarball(tmp_path / "a.tar.gz", members, "w:gz")
    with pytest.raises(UsageError, match="unpacks to more than 1,000 bytes"):
        list(read_members(path, [GAME]))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, data in members:
            archive.writestr(name, data)
    with pytest.raises(UsageError, match="unpacks to more than 1,000 bytes"):
        list(read_members(tmp_path / "a.zip", [GAME]))


def bomb_of_a_name(path):
    """Write a tar archive whose first member's name has a gigabyte."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    with lzma.open(path, "wb", preset=0) as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        for _ in range(1 << 6):
            file.write(bytes(1 << 20))


def test_bombs_need_little_memory(tmp_path):
    bomb_of_a_name(tmp_path / "name.tar.xz")
    tarball(tmp_path / "size.tar.xz", [(f"x/{GAME}", bytes(300 << 20))], preset=0)
    tarball(tmp_path / "lists.tar.xz", [(f"x/{GAME}", b"[" + b"[]," * (1 << 20) + b"[]]")])
    program = (
        "import resource, sys; from agentgym.cli import main; before = resource.getrusage(0).ru_maxrss\n"
        "codes = [main(['data', 'import', 'alfworld', path]) for path in sys.argv[1:]]\n"
        "print(codes, (resource.getrusage(0).ru_maxrss - before) // 1024)"
    )
    paths = sorted(map(str, tmp_path.glob("*.xz")))
    done = subprocess.run(
        [sys.executable, "-c", program, *paths], capture_output=True, text=True, check=True,
        env={"PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path), "AGENTGYM_DATA": str(tmp_path / "data")},
    )  # fmt: skip
    codes, megabytes = done.stdout.rsplit("]", 1)
    assert (codes + "]").endswith("[2, 2, 2]"), done
    assert "Traceback" not in done.stderr
    assert int(megabytes) < 400, done


def test_records_are_an_array_or_lines_with_their_places(tmp_path):
    lines, array = tmp_path / "lines.jsonl", tmp_path / "array.json"
    lines.write_text('{"a": 1}\n\n {"a": "\u2028"}\r\n5')
    array.write_text(' [{"a": 1},\n 5]')
    assert read_json_records(lines) == [
        (f"{lines}:1", {"a": 1}),
        (f"{lines}:3", {"a": "\u2028"}),
        (f"{lines}:4", 5),
    ]
    assert read_json_records(array) == [(f"{array}[0]", {"a": 1}), (f"{array}[1]", 5)]


@pytest.mark.parametrize("text", ['{"a": 1}\n{"a": 2}', '[{"a": 1}, {"a": 2}]'])
def test_a_byte_order_mark_is_no_part_of_a_file(text, tmp_path):
    path = tmp_path / "a"
    path.write_text(text, encoding="utf-8-sig")
    assert [value for _, value in read_json_records(path)] == [{"a": 1}, {"a": 2}]
    assert [value for _, value in read_records(path)] == [{"a": 1}, {"a": 2}]
    assert read_text(path) == text
    assert b"".join(read_lines(path, "")).decode() == text
    path.write_text("a = 1", encoding="utf-8-sig")
    assert read_toml_table(path) == {"a": 1}
    assert load_script(path) == {"": ["a = 1"]}


@pytest.mark.parametrize("text", ['{"a": 1}\n{"a": NaN}', '{"a": 1}\n{"a": 1', '{"a": 1}\n' + "[" * 99])
def test_records_that_are_none_name_their_line(tmp_path, text):
    path = tmp_path / "lines.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"lines\.jsonl:2"):
        read_json_records(path)
    with pytest.raises(UsageError, match="larger than the 4 bytes"):
        read_json_records(path, largest=4)


@pytest.mark.parametrize(
    "read",
    [
        RecordFile,
        read_ledger,
        load_script,
        lambda path: list(read_members(path, ["pipe"])),
        lambda path: read_wording(path, "wording.toml"),
        lambda path: adopt_passages(path.with_name("positions"), path, corpus="own"),
    ],
)
def test_no_reader_of_foreign_files_waits_for_a_pipe(read: Callable[[Path], Any], tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(UsageError, match=r"^[^\n]*pipe is not a regular file; put the file itself there$"):
        read(path)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(UsageError, match=r"pipe is not a regular file; put the file itself there$"):
        read(path)
