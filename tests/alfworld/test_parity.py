"""A sample of the parity run, for as long as a test may take: ``make parity`` does all of it."""

import json
import subprocess
import sys

import numpy as np
import pytest

from agentgym.envs.alfworld.builtin.tasks import builtin_tasks
from agentgym.envs.alfworld.engine.game import Game
from agentgym.envs.alfworld.engine.pddl import parse_domain, parse_problem
from agentgym.envs.alfworld.env import ALFWorldEnv
from benchmarks.parity.alfworld import COMPARED, SPLITS, read, summary, units
from benchmarks.parity.alfworld_walks import harder


def compare(tmp_path, seconds, games):
    """Compare a few games in a process of its own; return the report."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.parity.alfworld",
        "--seconds",
        str(seconds),
        "--games",
        str(games),
    ]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "report"), "--done", str(tmp_path / "done.jsonl")],
        capture_output=True,
        text=True,
    )
    report = json.loads((tmp_path / "report.json").read_text())
    assert done.returncode == 0, (report["examples"], done.stderr)
    return report


@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.assets
def test_nothing_differs_from_textworld(tmp_path):
    report = compare(tmp_path, seconds=25, games=60)
    assert report["mismatches"] == dict.fromkeys(COMPARED, 0)
    assert report["remembering"] == {"states": 9, "mismatches": 0}
    assert report["states"] >= 150
    assert set(report["states by walk"]) == {"random", "covering", "expert", "adversarial"}
    assert all(report["states by walk"].values())
    assert report["walks won"]["expert"] >= 1
    assert "published" in (tmp_path / "report.md").read_text()


@pytest.mark.slow
@pytest.mark.peer
def test_a_run_is_taken_up_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.delenv("AGENTGYM_DATA", raising=False)
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "nothing"))
    first = compare(tmp_path, seconds=600, games=1)
    done = (tmp_path / "done.jsonl").read_text()
    second = compare(tmp_path, seconds=0, games=3)
    assert second == first
    (tmp_path / "done.jsonl").write_text(done + done[:100])  # a run that was cut short
    assert len(list(read(tmp_path / "done.jsonl"))) == 1


@pytest.mark.slow
@pytest.mark.peer
def test_a_mismatch_counts(tmp_path):
    path = tmp_path / "done.jsonl"
    row = {
        "unit": {"dataset": "builtin", "split": "train", "number": 0, "dialect": "game", "changed": False},
        "game": "a",
        "id": "b",
        "states": {"random": 3},
        "won": {"random": 1},
        "mismatches": {"facts": 2},
        "examples": [["facts", "look", "x", "y"]],
    }
    path.write_text(json.dumps(row) + "\n")
    report = summary(read(path))
    assert (report["states"], report["games"], report["published games"]) == (3, 1, 0)
    assert report["mismatches"] == {"facts": 2}
    assert report["examples"] == [["facts", "look", "x", "y"]]


def test_units_begin_with_every_split_and_both_dialects():
    sets = {key: builtin_tasks("train")[:40] for key in SPLITS}
    found = units(sets)
    first = found[: 2 * len(SPLITS)]
    assert {(unit.dataset, unit.split) for unit in first} == set(SPLITS)
    assert {unit.dialect for unit in first} == {"game", "current"}
    assert len(set(found)) == len(found)
    published = [unit for unit in found if unit.dataset == "official"]
    games = {(unit.split, unit.number) for unit in published}
    assert len(published) == 2 * len(games) == 2 * 4 * 40
    assert any(unit.changed for unit in published)


@pytest.mark.assets
def test_a_harder_game_is_another_start_of_the_same_game():
    text = ALFWorldEnv(dataset="official", split="valid_seen").tasks[0].content.read()
    changed = harder(text, np.random.default_rng(1))
    one, other = (parse_problem(t.problem, parse_domain(t.domain)) for t in (text, changed))
    assert one.goal == other.goal
    assert one.objects == other.objects
    assert {"ishot", "iscool", "isclean", "opened"} <= {fact[0] for fact in other.init - one.init}
    assert Game(changed.domain, changed.grammar, changed.problem).initial
