"""``agentgym data pool`` through the command line."""

import json
import os
import sqlite3
import struct
from contextlib import closing

import pytest

from agentgym.errors import UsageError
from agentgym.rollout.datapool import DataPool
from agentgym.rollout.stored_episode import read_episodes
from tests.pooled import ENV, episode, fill


@pytest.fixture
def folder(tmp_path):
    with DataPool(tmp_path / "pool") as pool:
        fill(pool, "a", "b")
        pool.add(episode(0, task="c", version=3), group="c", size=2, trainable=False)
    return tmp_path / "pool"


DEEP = "[" * 5_000
CHANGED = """UPDATE episodes SET trajectory = replace(trajectory, '"{}":"', '"{}":"{}')"""
ROWS = {
    "no JSON": "UPDATE episodes SET trajectory = 'x'",
    "deep": f"UPDATE episodes SET trajectory = '{DEEP}'",
    "a number": "UPDATE episodes SET trajectory = 7",
    "a list": "UPDATE episodes SET trajectory = '[]'",
    "no steps": "UPDATE episodes SET trajectory = '{}'",
    "no base64": CHANGED.format("prompt_ids", "prompt_ids", "!"),
    "half a number": CHANGED.format("logprobs", "logprobs", "AAAA"),
    "a late text": "UPDATE episodes SET late_reward = 'much'",
}
"""What a stranger's file may have in its episodes, which `ls` does not read."""
GROUPS = {
    "labels of another kind": "UPDATE groups SET labels = '7'",
    "labels that are no JSON": "UPDATE groups SET labels = '['",
    "deep labels": f"UPDATE groups SET labels = '{DEEP}'",
    "a size in words": "UPDATE groups SET size = 'two'",
    "a version in words": "UPDATE groups SET newest = 'new'",
    "a text that steers the terminal": "UPDATE groups SET task_id = char(27) || '[2J'",
    "a blob": "UPDATE groups SET task_id = x'00ff'",
    "a view without end": "ALTER TABLE groups RENAME TO g; CREATE VIEW groups AS WITH RECURSIVE r(number) AS "
    "(SELECT 1 UNION ALL SELECT number + 1 FROM r) SELECT g.* FROM g, r",
    "a trigger": "CREATE TRIGGER t AFTER UPDATE ON groups BEGIN DELETE FROM episodes; END",
    "another table": "CREATE TABLE mine (x)",
    "a time in words": "UPDATE groups SET last_added = 'x'",
    "a place in words": "UPDATE groups SET run = 'run', batch = 1, place = 'x'",
    "an update that is a blob": "UPDATE groups SET batch = x'01'",
    "no key but its name": "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, "
    "'INTEGER PRIMARY KEY', 'INTEGER' || char(160) || 'PRIMARY' || char(160) || 'KEY') WHERE name = 'groups'",
    "a schema that is no text": "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = "
    "CAST(sql || x'ff' AS TEXT) WHERE name = 'leases'",
}


@pytest.mark.parametrize("name", [*ROWS, *GROUPS])
def test_a_stranger_s_pool_is_refused_in_one_line(refused, folder, name, tmp_path):
    with closing(sqlite3.connect(folder / "pool.sqlite")) as table:
        table.executescript({**ROWS, **GROUPS}[name])
    commands = [("show", folder, "b"), ("export", folder, "--out", tmp_path / "out.jsonl")]
    for words in commands + [("ls", folder)] * (name in GROUPS):
        complaint = refused("data", "pool", *words)
        assert "pool.sqlite" in complaint
        assert "\x1b" not in complaint
        assert "Error" not in complaint.partition("is not an episode")[0]
    assert not (tmp_path / "out.jsonl").exists()


LATE = {
    "an infinite reward": "UPDATE episodes SET late_reward = 9e999",
    "an infinite score": "UPDATE episodes SET late_reward = 1.0, score = 9e999",
}
OTHERS = {
    "another task": """UPDATE episodes SET trajectory = replace(trajectory, '"task_id":"bb', '"task_id":"cc')
        WHERE rollout = 1""",
    "no episodes": "DELETE FROM episodes",
}


@pytest.mark.parametrize("name", [*LATE, *OTHERS])
def test_what_no_pool_writes_is_never_leased(folder, name, tmp_path):
    with closing(sqlite3.connect(folder / "pool.sqlite")) as table:
        table.executescript({**LATE, **OTHERS}[name])
    with DataPool(folder) as pool:
        with pytest.raises(UsageError, match=r"^[^\n]+$"):
            pool.lease("run", 1, 2, oldest_version=None)
        if name in LATE:
            with pytest.raises(UsageError, match="a reward that is not a number"):
                pool.export(tmp_path / "out.jsonl")


def closed_file(folder):
    """Return a pool's file with nothing beside it."""
    with closing(sqlite3.connect(folder / "pool.sqlite")) as table:
        table.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        table.execute("PRAGMA journal_mode = DELETE")
    return folder / "pool.sqlite"


def test_a_journal_that_names_another_file_deletes_nothing(refused, folder, tmp_path):
    victim, file = tmp_path / "victim.txt", closed_file(folder)
    victim.write_text("precious")
    data, magic = file.read_bytes(), bytes.fromhex("d9d505f920a163d7")
    (size,) = struct.unpack(">H", data[16:18])
    head = (magic + struct.pack(">IIIII", 0, 0, len(data) // size, 512, size)).ljust(512, b"\0")
    name = str(victim).encode()
    tail = struct.pack(">I", 0x40000000 // size + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
    (folder / "pool.sqlite-journal").write_bytes(head + tail)
    assert "names another file to delete" in refused("data", "pool", "ls", folder)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("end", ["", "-journal", "-wal", "-shm"])
def test_pipes_and_links_are_not_opened(refused, folder, tmp_path, end):
    file, elsewhere = closed_file(folder), tmp_path / "elsewhere.sqlite"
    place = file.with_name(file.name + end)
    for make in (os.mkfifo, lambda path: path.symlink_to(elsewhere)):
        place.unlink(missing_ok=True)
        make(place)
        complaint = refused("data", "pool", "ls", folder)
        assert "is not a regular file" in complaint or "is not a data pool" in complaint
        with pytest.raises(UsageError, match="is not a regular file"):
            DataPool(folder)
    assert not elsewhere.exists()


def test_pages_that_lead_to_one_another_have_an_end(refused, folder):
    """Thirteen pages, each with 300 ways to the next: more rows than anything could count."""
    file = closed_file(folder)
    with closing(sqlite3.connect(file)) as table:
        (root,) = table.execute("SELECT rootpage FROM sqlite_master WHERE name = 'groups'").fetchone()
    data = bytearray(file.read_bytes())
    (size,) = struct.unpack(">H", data[16:18])
    child, begin = len(data) // size + 1, (root - 1) * size
    pages = [bytes(data[begin : begin + size])]
    for _ in range(13):
        page, first = bytearray(size), size - 300 * 5
        page[0], page[3:7], page[8:12] = 5, struct.pack(">HH", 300, first), struct.pack(">I", child)
        for number in range(300):
            cell = first + 5 * number
            page[cell : cell + 5] = struct.pack(">IB", child, 1)
            page[12 + 2 * number : 14 + 2 * number] = struct.pack(">H", cell)
        pages.append(bytes(page))
        child += 1
    data[begin : begin + size] = pages.pop()
    data += b"".join(pages)
    data[28:32] = struct.pack(">I", len(data) // size)
    file.write_bytes(data)
    assert "cannot use" in refused("data", "pool", "ls", folder)


def listed(cli, folder, *words):
    return json.loads(cli("data", "pool", "ls", folder, "--json", *words)[1])


def test_ls_lists_groups(cli, folder):
    code, out, _ = cli("data", "pool", "ls", folder)
    first, *_, last = out.splitlines()
    assert code == 0
    assert first.split() == ["group", "task", "state", "members", "versions", "score", "labels", "run"]
    assert last.split() == ["c", "c" * 32, "open", "1", "of", "2", "3", "to", "3", "0", "(untrainable)"]
    assert listed(cli, folder, "--state", "complete")[0] == {
        "name": "a",
        "env_id": ENV,
        "task_id": "a" * 32,
        "state": "complete",
        "size": 2,
        "members": 2,
        "oldest": 0,
        "newest": 0,
        "labels": [],
        "trainable": True,
        "score": 1 / 6,
        "run": "",
        "update": 0,
    }


def test_tag_untag_drop_and_release(cli, folder):
    assert cli("data", "pool", "tag", folder, "a", "good", "short", "--untrainable")[0] == 0
    (group,) = listed(cli, folder, "--label", "good")
    assert (group["labels"], group["trainable"]) == (["good", "short"], False)
    cli("data", "pool", "untag", folder, "a", "short", "--untrainable")
    (group,) = listed(cli, folder, "--label", "good")
    assert (group["labels"], group["trainable"]) == (["good"], True)
    with DataPool(folder) as pool:
        pool.lease("run", 1, 2, oldest_version=None)
    cli("data", "pool", "drop", folder, "b")
    assert "run, update 1" in cli("data", "pool", "ls", folder)[1]
    cli("data", "pool", "release", folder, "run")
    assert [each["state"] for each in listed(cli, folder)] == ["complete", "dropped", "open"]


def test_show_shows_every_turn(cli, folder):
    _, out, _ = cli("data", "pool", "show", folder, "a")
    assert out.startswith(f"group a: {ENV}, task {'a' * 32}, complete, 2 of 2\n")
    assert out.count("rollout ") == 2
    turn = "-- turn 1: reward 0.1, invalid, version 0, 3 + 2 tokens\nroom 1\n\n> <action>gö 1</action>\n"
    assert out.count(turn) == 2


def test_what_is_exported_is_read(cli, folder, tmp_path):
    with DataPool(folder) as pool:
        (name, _), _ = pool.episodes("a")
        pool.reward(name, 2.0, won=True)
        pool.tag("a", "good")
        pool.drop("b")
        expected = [played for _, played in pool.episodes("a")]
    out = tmp_path / "episodes.jsonl"
    assert cli("data", "pool", "export", folder, "--out", out)[1].startswith(
        f"{out}: 3 episodes; read them by"
    )
    first, second, third = read_episodes(out)
    assert [first.trajectory, second.trajectory] == expected
    assert (first.labels, first.trainable, third.trainable) == (("good",), True, False)
    assert cli("data", "pool", "export", folder, "b", "--out", out)[0] == 0
    assert [each.group for each in read_episodes(out)] == ["b", "b"]
    assert [path.name for path in tmp_path.glob("*episodes*")] == ["episodes.jsonl"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ls", "{tmp}"), "is not a data pool: name a folder that holds pool.sqlite"),
        (("show", "{pool}", "x"), "has no group 'x'"),
        (("tag", "{pool}", "a"), "give labels, or --untrainable"),
        (("tag", "{pool}", "a", "\n"), "1 to 200 printable characters"),
        (("drop", "{pool}", "a", "x"), "has no group 'x'"),
        (("export", "{pool}", "--out", "{tmp}/none/x.jsonl"), "make its folder first"),
    ],
)
def test_bad_input_is_one_line(refused, cli, folder, tmp_path, words, message):
    given = [word.format(tmp=tmp_path, pool=folder) for word in words]
    assert message in refused("data", "pool", *given)
    assert [each["state"] for each in listed(cli, folder)] == ["complete", "complete", "open"]
