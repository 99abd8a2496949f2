"""`make train-demo`: where it writes, and what it says at its end."""

import os
from pathlib import Path

import pytest

from agentgym.evaluation.suites import suite_file
from benchmarks import demo
from tools import pictures

ROOT = Path(__file__).resolve().parents[2]

SMALL = (
    "rollout.tasks=2",
    "rollout.group_size=2",
    "learner.entropy_coefficient=0.1",
    "evaluation.tasks=2",
    "evaluation.every=1",
)


def snapshot(folder):
    """Return the files below a folder and what they hold."""
    return {
        path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Run the demo in a folder that looks like a checkout, with fewer levels and iterations."""
    text = suite_file("demo").read_text().replace("tasks = 215", "tasks = 3").replace('"demo"', '"small"')
    (tmp_path / "small.toml").write_text(text)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "LEADERBOARD.md").write_text("the committed one")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "SUITE", "small.toml")
    monkeypatch.setattr(demo, "LEARNING", SMALL)
    monkeypatch.setattr(demo, "ITERATIONS", 1)
    return tmp_path


def test_the_demo_writes_to_a_folder_that_git_ignores(checkout, capsys):
    before = snapshot(checkout)
    variables = dict(os.environ)
    assert demo.main() == 0
    assert dict(os.environ) == variables
    after = snapshot(checkout)
    written = {path for path, data in after.items() if before.get(path) != data}
    assert written
    assert all(path.is_relative_to(demo.FOLDER) for path in written)
    assert "/runs/" in (ROOT / ".gitignore").read_text().splitlines()
    assert {demo.CURVE, demo.BOARD} <= written
    assert f"curves/{demo.RUN.name}.png" in demo.BOARD.read_text()
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("unseen levels won: ")
    assert last.count("[") == 3
    assert " -> " in last


def test_pictures_takes_the_demos_curve_over(tmp_path):
    drawn, shown = tmp_path / "drawn", tmp_path / "shown"
    shown.mkdir()
    (shown / "old.png").write_bytes(b"old")
    pictures.take_curves(drawn, shown)
    assert snapshot(shown) == {Path("old.png"): b"old"}  # no demo here: the committed one stays
    drawn.mkdir()
    (drawn / "new.png").write_bytes(b"new")
    pictures.take_curves(drawn, shown)
    assert snapshot(shown) == {Path("new.png"): b"new"}
