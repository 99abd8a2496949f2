import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_speed_benchmark_compares_the_engine_with_transformers(tmp_path):
    command = [sys.executable, "-m", "benchmarks.speed.engine", "--rounds", "1", "--seconds", "0.01"]
    done = subprocess.run(
        [*command, "--size", "0.1m", "--out", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "engine.json").read_text())["rows"]
    assert len(rows) == 9
    for row in rows:
        assert row["median"] > 0
        assert (row["ratio"] is None) == (row["contestant"] == "agentgym")
    table = (tmp_path / "engine.md").read_text()
    assert all(f"| {row['discipline']} | {row['contestant']} |" in table for row in rows)
