"""The runs behind the committed boards: each is there, small, and says one line where its data are not."""

import json
import lzma
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym.evaluation.verify.packed import SUFFIX

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RUNS = sorted((BENCHMARKS / "runs").rglob(f"*{SUFFIX}"))


def test_every_committed_row_has_its_runs() -> None:
    boards = json.loads((BENCHMARKS / "LEADERBOARD.json").read_text())["boards"]
    shown = {
        (board["suite"]["name"], run) for board in boards for row in board["rows"] for run in row["runs"]
    }
    packed = {(path.parent.name, path.name.removesuffix(SUFFIX).rpartition("-")[2]) for path in RUNS}
    assert {(suite, run[:12]) for suite, run in shown} == packed
    assert len(shown) == len(RUNS) > 15
    assert sum(path.stat().st_size for path in RUNS) < 6 << 20


def test_no_page_shows_a_path_of_a_machine() -> None:
    for path in BENCHMARKS.glob("LEADERBOARD.*"):
        text = path.read_text()
        for folder in ("/home/", "/root/", "/work/", "/tmp/", "/Users/", "AGENTGYM_DATA"):
            assert folder not in text, path


def datasets_of(head: str) -> list[str]:
    """Return the data sets that a packed run's environments name."""
    envs = json.loads(head)["run"]["envs"]
    return [env["env"]["kwargs"].get("dataset", "builtin") for env in envs]


def test_no_committed_action_spells_out_what_may_be_text_of_the_data() -> None:
    for path in RUNS:
        head, *lines = lzma.decompress(path.read_bytes()).decode().splitlines()
        if set(datasets_of(head)) == {"builtin"}:
            continue  # built-in content is the project's own, and so is what a model says about it
        for line in lines:
            for action in json.loads(json.loads(line)["actions"]):
                for piece in action if isinstance(action, list) else ():
                    # a few words at most, such as the random agent throws together
                    assert not isinstance(piece, str) or len(piece.split()) <= 5, path


@pytest.mark.parametrize("suite", ["official-sokoban", "official-webshop-small"])
def test_without_the_data_nothing_is_written(suite: str, tmp_path: Path) -> None:
    """In a process of its own: one that has read the data before has it still."""
    away = {"AGENTGYM_DATA": str(tmp_path / "nothing"), "AGENTGYM_CACHE": str(tmp_path / "cache")}
    shutil.copytree(BENCHMARKS / "runs" / suite, tmp_path / "runs" / suite)
    words = ["leaderboard", "build", str(tmp_path / "runs"), "--out", str(tmp_path / "page.md"), "--strict"]
    command = [sys.executable, "-m", "agentgym", *words]
    built = subprocess.run(command, capture_output=True, text=True, env=os.environ | away)
    assert built.returncode == 2
    line = built.stderr.strip().splitlines()[-1]  # after the progress of unpacking
    assert "nothing is written: run oracle-" in line
    assert "claimed: " in line
    assert "agentgym data import" in line
    assert not (tmp_path / "page.md").exists()
