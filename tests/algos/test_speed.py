import json

import pytest

from agentgym.algos.table import ALGORITHMS
from benchmarks.speed import algos, loops


def test_the_benchmark_writes_its_results(tmp_path, capsys):
    out = tmp_path / "algos.json"
    algos.main(["--groups", "2", "--seconds", "0", "--out", str(out)])
    results = json.loads(out.read_text())["results"]
    assert [r["algorithm"] for r in results] == [name for name in ALGORITHMS if hasattr(loops, name)]
    assert {r["steps"] for r in results} == {2 * algos.GROUP_SIZE * algos.STEPS}
    assert all(r["arrays"] > 0 and r["loops"] > 0 for r in results)
    table = out.with_suffix(".md").read_text()
    graphs = json.loads(out.read_text())["graphs"]
    assert table.count("\n| ") == len(results) + 1 + len(graphs) + 1
    assert "graphgpo" in capsys.readouterr().out


def test_nothing_is_timed_where_the_numbers_differ(tmp_path, monkeypatch):
    monkeypatch.setattr(loops, "grpo", lambda batch: [1.0] * len(batch))
    with pytest.raises(RuntimeError, match="grpo: the estimator and its loops differ"):
        algos.main(["--groups", "2", "--seconds", "0", "--out", str(tmp_path / "algos.json")])
