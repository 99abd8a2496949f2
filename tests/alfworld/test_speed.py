import json
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.assets
def test_the_speed_benchmark_holds_its_floors(tmp_path):
    command = [sys.executable, "-m", "benchmarks.speed.alfworld", "--rounds", "2", "--seconds", "0.2"]
    done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "alfworld.json").read_text())
    ratios = {(row["discipline"], row["contestant"]): row["ratio"] for row in record["rows"]}
    assert ratios["step, admissible commands, state hash", "TextWorld"] >= 5_000
    assert ratios["reset to a loaded game", "TextWorld"] >= 5_000
    assert ratios["load a game", "TextWorld"] >= 10
    assert ratios["new games: load and 50 steps", "TextWorld"] >= 400
    assert ratios["16 new games, 8 attempts each", "TextWorld"] >= 1_500
    ours, *_ = record["memory_bytes"].values()
    assert ours <= 600e6
    table = (tmp_path / "alfworld.md").read_text()
    assert all(row["discipline"] in table and row["contestant"] in table for row in record["rows"])
