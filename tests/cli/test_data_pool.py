"""``agentgym data pool`` through the command line."""

import json
import sqlite3
from contextlib import closing

import pytest

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
        assert "Error" not in complaint.partition("is no episode")[0]
    assert not (tmp_path / "out.jsonl").exists()


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
        (("ls", "{tmp}"), "is no data pool: name a folder that holds pool.sqlite"),
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
