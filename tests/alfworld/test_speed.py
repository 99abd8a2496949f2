import json
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.assets
def test_the_speed_benchmark_writes_every_discipline(tmp_path):
    command = [sys.executable, "-m", "benchmarks.speed.alfworld", "--rounds", "1", "--seconds", "0.1"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "alfworld.json")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "alfworld.json").read_text())
    ratios = {(row["discipline"], row["contestant"]): row["ratio"] for row in record["rows"]}
    measured = {"step, admissible commands, state hash", "new games: load and 50 steps", "load a game"}
    assert all(ratios[discipline, "TextWorld"] > 1 for discipline in measured)
    table = (tmp_path / "alfworld.md").read_text()
    assert all(row["discipline"] in table and row["contestant"] in table for row in record["rows"])
