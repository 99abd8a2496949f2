import json
import subprocess
import sys

import numpy as np
import pytest

from agentgym.training.learner.packing import StepRow
from benchmarks.speed import collectors, grpo_step, packing
from benchmarks.speed.stage_times import StageTimes
from tests.training.batches import all_log_probs


@pytest.mark.slow
def test_the_speed_benchmark_compares_the_engine_with_transformers(tmp_path):
    command = [sys.executable, "-m", "benchmarks.speed.engine", "--rounds", "1", "--seconds", "0.01"]
    done = subprocess.run(
        [*command, "--size", "0.1m", "--out", str(tmp_path / "engine.json")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "engine.json").read_text())["rows"]
    assert len(rows) == 19
    for row in rows:
        assert row["median"] > 0
        assert (row["ratio"] is None) == (row["contestant"] == "agentgym")
    table = (tmp_path / "engine.md").read_text()
    assert all(f"| {row['discipline']} | {row['contestant']} |" in table for row in rows)


def test_the_packing_benchmark_compares_the_same_numbers(language_model):
    draws = np.random.default_rng(0)
    rows = []
    for size in (3, 30, 12, 12, 7):
        prompt, response = (tuple(draws.integers(0, 200, count).tolist()) for count in (size, size // 3 + 1))
        rows.append(StepRow(prompt, response, tuple(tuple({token, 1, 2}) for token in response)))
    rows.append(StepRow(rows[1].prompt_ids, (5,), ((5, 6),)))
    work = packing.Work("rows", language_model, rows)
    padded = [
        (row, log_probs)
        for batch in packing.batches(rows)
        for row, log_probs in zip(
            batch,
            packing.padded_log_probs(language_model, batch).split([len(row.response_ids) for row in batch]),
            strict=True,
        )
    ]
    assert len(padded) == len(rows)
    for row, log_probs in padded:
        expected = all_log_probs(language_model.model, [row], token_budget=100)
        assert np.abs(log_probs.detach().numpy() - expected).max() < 1e-5
    read = packing.read(work)
    assert read["agentgym"] == read["rows end to end"] - 30
    assert read["rows end to end"] == sum(map(len, rows)) < read["padded rows"]


@pytest.mark.slow
def test_the_packing_benchmark_compares_trees_rows_and_padding(tmp_path):
    command = [sys.executable, "-m", "benchmarks.speed.packing", "--rounds", "1", "--seconds", "0.01"]
    done = subprocess.run(
        [*command, "--size", "0.1m", "--steps", "3", "--out", str(tmp_path / "packing.json")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "packing.json").read_text())
    assert len(record["rows"]) == 3 * len(record["tokens"]) == 15
    assert all(row["median"] > 0 for row in record["rows"])
    for read in record["tokens"].values():
        assert read["agentgym"] < read["rows end to end"] <= read["padded rows"]
    table = (tmp_path / "packing.md").read_text()
    assert all(f"| {row['discipline']} | {row['contestant']} |" in table for row in record["rows"])


def test_stages_count_their_own_seconds(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("benchmarks.speed.stage_times.time.process_time", lambda: clock[0])

    class Work:
        def inner(self):
            clock[0] += 2

        def outer(self, name):
            self.inner()
            clock[0] += 5

    times = StageTimes()
    times.watch(Work, "inner", "inside")
    times.watch(Work, "outer", lambda work, name: name)
    Work().outer("around")
    assert times.seconds == {"inside": 2, "around": 5}
    assert times.open == []


@pytest.mark.parametrize("benchmark", [grpo_step, collectors])
def test_committed_reports_are_those_of_their_records(benchmark):
    record = json.loads(benchmark.OUT.read_text())
    assert benchmark.markdown(record) == benchmark.OUT.with_suffix(".md").read_text()


def test_stages_add_up_to_a_step():
    for row in json.loads(grpo_step.OUT.read_text())["rows"]:
        for side, stages in row["stages"].items():
            assert sorted(stages) == sorted(grpo_step.STAGES)
            assert min(stages.values()) > -1
            assert sum(stages.values()) == pytest.approx(
                np.median(row["microseconds_per_token"][side]), rel=0.2
            )
