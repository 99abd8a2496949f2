import json
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.peer
def test_the_speed_benchmark_writes_every_discipline(tmp_path):
    command = [sys.executable, "-m", "benchmarks.speed.sokoban", "--rounds", "2", "--seconds", "0.01"]
    done = subprocess.run([*command, "--out", str(tmp_path / "results.json")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "results.json").read_text())
    disciplines = {row["discipline"] for row in record["rows"]}
    for name in ("single environment", "full contract, N = 64", "arrays, N = 1024", "snapshot and restore"):
        assert name in disciplines
    for row in record["rows"]:
        assert row["median"] > 0
        assert (row["ratio"] is None) == (row["contestant"] == "agentgym")
    assert record["memory_bytes"]["agentgym"] * 1023 <= 20e6
    table = (tmp_path / "results.md").read_text()
    assert all(name in table for name in disciplines)
