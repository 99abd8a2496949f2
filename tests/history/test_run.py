"""Reading what a training run left behind."""

import json
import math
import subprocess
import sys

import pytest

from agentgym.errors import UsageError
from agentgym.history.run import METRICS_FILE, read_history, read_metrics
from tests.iterations import make_metrics, make_run, write_run


def test_what_is_written_is_read(tmp_path):
    records = make_run(4, every=2)
    history = read_history(write_run(tmp_path / "run", records, algorithm="gigpo", seed=7))
    assert history.iterations == tuple(records)
    assert (history.algorithm, history.env_id, history.model, history.seed) == (
        "gigpo",
        "agentgym/Sokoban-v0",
        "tiny",
        7,
    )


def test_numbers_that_json_lacks_are_read(tmp_path):
    folder = write_run(tmp_path / "run", [make_metrics(1, kl=math.nan, grad_norm=math.inf)])
    (metrics,) = read_metrics(folder)
    assert math.isnan(metrics.kl)
    assert metrics.grad_norm == math.inf


def test_numbers_by_name():
    metrics = make_run(1, every=1)[0]
    assert {name: metrics.number(name) for name in metrics.scalars()} == metrics.scalars()
    assert metrics.number("step_groups/2") == 10
    for missing in ("ref_kl", "step_groups/17+", "nothing", "seconds/nothing", "seconds"[:-1] + "/x"):
        assert math.isnan(metrics.number(missing))


def test_a_line_being_written_is_left_out(tmp_path):
    folder = write_run(tmp_path / "run", make_run(3))
    with (folder / METRICS_FILE).open("a") as file:
        file.write('{"iteration": 4, "ver')
    assert len(read_metrics(folder)) == 3


def _changed(**changes):
    return json.dumps(make_metrics(2).to_json() | changes)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: not JSON"),
        ("\udc80", "line 2: not JSON"),
        ("", "line 2: not JSON"),
        ("[1]", "line 2: expected a table"),
        (_changed(sucess=0.5), "line 2: unknown key 'sucess' (did you mean 'success'?)"),
        (_changed(success="high"), "line 2: success: expected a number, got 'high'"),
        (_changed(seconds={"model": 1.0}), "line 2: seconds: key 'env' is missing"),
        (_changed(iteration=3), "line 2: this is iteration 3, expected 2"),
        (_changed(iteration=1), "line 2: this is iteration 1, expected 2"),
    ],
)
def test_malformed_lines_are_named(tmp_path, line, complaint):
    folder = write_run(tmp_path / "run", make_run(3))
    lines = (folder / METRICS_FILE).read_text().splitlines()
    lines[1] = line
    text = "\n".join(lines) + "\n"
    (folder / METRICS_FILE).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError) as caught:
        read_metrics(folder)
    assert str(caught.value).startswith(f"{folder / METRICS_FILE}, {complaint}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ("{", "is not JSON"),
        ("[]", "has no 'algorithm'"),
        ('{"algorithm": "grpo", "env_id": "x", "model": "tiny"}', "has no 'seed'"),
        ('{"algorithm": "grpo", "env_id": "x", "model": "tiny", "seed": true}', "has no 'seed'"),
        (None, "No such file"),
    ],
)
def test_bad_configurations(tmp_path, config, complaint):
    folder = write_run(tmp_path / "run", make_run(1))
    (folder / "config.json").unlink()
    if config is not None:
        (folder / "config.json").write_text(config)
    with pytest.raises(UsageError, match=complaint):
        read_history(folder)


def test_folders_without_metrics(tmp_path):
    with pytest.raises(UsageError, match=r"metrics\.jsonl: No such file .*name the folder of a training run"):
        read_history(tmp_path)
    with pytest.raises(UsageError, match="no iteration of this run has ended yet"):
        read_history(write_run(tmp_path / "run", []))


def test_neither_torch_nor_matplotlib_is_imported():
    code = """
import pkgutil, sys
import agentgym.history
for module in pkgutil.iter_modules(agentgym.history.__path__):
    __import__(f"agentgym.history.{module.name}")
print({"torch", "matplotlib"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "set()\n"), done.stderr
