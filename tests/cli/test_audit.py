"""Audits through the command line: lines, committed runs, runs that differ."""

import json
import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "benchmarks" / "runs" / "demo"
RANDOM, TRAINED = RUNS / "random-65e5d599f8e1.run.xz", RUNS / "sokoban-graphgpo-seed0-893bdd7a2cb8.run.xz"


def test_two_lines(cli):
    code, out, _ = cli("audit", "GRPO=77.6,n=128,seeds=3", "GiGPO=90.8,n=128,seeds=3,best-of=30", "PPO=50")
    assert code == 0
    assert "GiGPO wins 7.0 points more [2.6, 11.8] once what choosing adds is taken off." in out
    assert (
        "Choosing the best of 30 checkpoints on 128 tasks alone gives 6.2, less than the difference." in out
    )
    assert out.count("neither says: environment, split, ") == 2


def test_two_runs(cli):
    code, out, _ = cli("audit", RANDOM, TRAINED, "--json")
    assert code == 0
    [found] = json.loads(out)
    assert found["paired"]
    assert found["shared"] == 215
    assert found["facts"]["task ids"] == found["facts"]["limit"] == found["facts"]["options"] == "same"
    assert found["first"]["facts"]["met in training"] == "0 of 215"
    assert found["interval"]["low"] < found["difference"] < found["interval"]["high"]
    assert found["verdict"].startswith("These were played on the same 215 tasks.")


def test_a_run_s_own_facts_are_not_to_be_stated(refused):
    assert "a run has its tasks and seeds itself" in refused("audit", f"{RANDOM},n=3", "A=50")
    assert "two results or more" in refused("audit", "A=50")
    assert "has no environment 'Maze'" in refused("audit", RANDOM, "A=50", "--env", "Maze")


def test_an_incomplete_run_is_refused(cli, refused, suite, tmp_path):
    assert cli("bench", suite, "--agent", "random", "--out", tmp_path / "out")[0] == 0
    path = next((tmp_path / "out").glob("toys/random-*/run.json"))
    assert cli("audit", path.parent, "A=50", "--json")[0] == 0
    run = json.loads(path.read_text())
    path.write_text(json.dumps(run | {"result_id": None}))
    assert "is incomplete" in refused("audit", path.parent, "A=50")


def test_the_page_shows_what_its_commands_print(cli, monkeypatch):
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "reading_a_result.md").read_text(encoding="utf-8")
    found = re.findall(r"^```\nagentgym (.*(?:\\\n.*)*)\n```\n\n```text\n((?:.|\n)*?)```", page, re.MULTILINE)
    assert len(found) == 3
    for command, shown in found:
        if "knowagent" not in command:  # those runs are of published games
            code, out, _ = cli(*shlex.split(command.replace("\\\n", " ")))
            # the page breaks lines that are longer than its column
            assert (code, " ".join(out.split()).endswith(" ".join(shown.split()))) == (0, True)
