"""The speed benchmark runs, and holds what does not depend on the machine."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_speed_benchmark_compares_everything(tmp_path):
    command = [sys.executable, "-m", "benchmarks.speed.webshop", "--rounds", "2", "--seconds", "0.05"]
    command += ["--products", "500", "--out", str(tmp_path / "webshop.json")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "webshop.json").read_text())
    found = {(row["discipline"], row["contestant"]): row for row in record["rows"]}
    for name in ("single environment", "vector environment, N = 128", "vector environment, N = 1,024"):
        assert found[f"{name}, searches cached", "agentgym"]["median"] > 0
    for words in ("six words", "an instruction"):
        name = f"single environment, 500 products, a new search for {words} every three steps"
        assert found[name, "agentgym"]["median"] > 0
    one, many, neither = record["memory_bytes"].values()
    assert many <= 1.2 * one
    assert neither < one
    table = (tmp_path / "webshop.md").read_text()
    assert all(row["discipline"] in table for row in record["rows"])
