"""``agentgym plot``: pictures of learning curves."""

import json
import os
import re
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest

from agentgym.cli.plot import XS
from agentgym.history import curves
from agentgym.history.run import CONFIG_FILE, METRICS_FILE
from agentgym.history.style import FORMATS
from tests.iterations import make_metrics, make_run, write_run

HEADING = re.compile(r"<!-- (.*?) -->")


@pytest.fixture
def runs(tmp_path):
    """Return the folders of three seeds of two algorithms."""
    return [
        write_run(
            tmp_path / f"{name}-{seed}",
            make_run(20 + seed, every=5, kl=0.001 * (seed + 1), tokens_out=1000 + 100 * seed),
            algorithm=name,
            seed=seed,
        )
        for name in ("gigpo", "grpo")
        for seed in range(3)
    ]


@pytest.fixture
def texts(cli, tmp_path):
    """Return a function that draws an SVG and returns the texts in it."""

    def draw(*words):
        out = tmp_path / "picture.svg"
        code, _, err = cli("plot", *words, "--out", out)
        assert code == 0, err
        return HEADING.findall(out.read_text())

    return draw


def size_of(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", data[16:24])


def test_a_picture(cli, runs, tmp_path):
    code, out, err = cli("plot", *runs, "--out", tmp_path / "curves.png")
    assert (code, out) == (0, f"written to {tmp_path / 'curves.png'}\n")
    assert err.splitlines() == [
        f"{name} is drawn to iteration 20, where {tmp_path / name}-0 ends; {tmp_path / name}-2 has 22"
        for name in ("gigpo", "grpo")
    ]
    width, height = size_of(tmp_path / "curves.png")
    assert width == 1280
    assert 700 < height < 1000


def test_a_name_of_its_own(cli, runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli("plot", runs[0])[0] == 0
    size_of(runs[0] / "curves.png")
    assert not (tmp_path / "curves.png").exists()
    assert cli("plot", *runs[:2])[0] == 0
    size_of(tmp_path / "curves.png")


def test_what_a_picture_says(texts, runs, tmp_path):
    said = texts(*runs)
    assert "Sokoban-v0, starting from model tiny" in said
    assert "GiGPO (mean of 3 seeds, min to max)" in said
    assert "GRPO (mean of 3 seeds, min to max)" in said
    assert "Episodes won in training" in said
    assert {"evaluation", "iteration", "0%", "100%"} <= set(said)
    assert said.count("evaluation") == 1

    more = [write_run(tmp_path / f"more-{seed}", make_run(20), seed=seed) for seed in range(3, 5)]
    said = texts(*runs[3:], *more)
    assert "GRPO on Sokoban-v0, starting from model tiny" in said
    assert "mean of 5 seeds, 95% interval" in said
    assert "evaluation" not in said

    said = texts(runs[1], "--title", "A run", "--smooth", 3, "--x", "tokens")
    assert {
        "A run",
        "seed 1",
        "tokens sampled",
        "Training values are means of the last 3 iterations.",
    } <= set(said)


def test_where_each_line_reaches_a_threshold(cli, runs, tmp_path):
    words = ("plot", *runs, "--smooth", 0.95, "--threshold", 0.1, "--metric", "success", "--metric", "kl")
    code, out, _ = cli(*words, "--out", tmp_path / "curves.png")
    assert code == 0
    assert out.splitlines()[1:] == [
        "gigpo: success is 0.1 or more: iteration 17",
        "grpo: success is 0.1 or more: iteration 17",
        "gigpo: kl is 0.1 or more: never",
        "grpo: kl is 0.1 or more: never",
    ]


def test_means_over_different_settings_are_called_so(cli, tmp_path):
    runs = [write_run(tmp_path / f"run-{seed}", make_run(3), seed=seed) for seed in range(3)]
    config = json.loads((runs[1] / CONFIG_FILE).read_text())
    for run, made, settings in (
        (runs[1], 1, {"learner": {"rate": 0.1, "epochs": 2}}),
        (runs[2], 2, {"learner": {"rate": 0.2, "epochs": 2}}),
    ):
        seed = json.loads((run / CONFIG_FILE).read_text())["seed"]
        (run / CONFIG_FILE).write_text(json.dumps({**config, **settings, "made_with": made, "seed": seed}))
    _, _, err = cli("plot", *runs[1:], "--out", tmp_path / "x.png")
    assert err == (
        "grpo averages runs that differ in more than the seed: learner.rate; --each draws each of them\n"
    )
    _, _, err = cli("plot", *runs[:2], "--out", tmp_path / "x.png")
    assert "learner.rate, learner.epochs;" in err
    assert cli("plot", *runs, "--each", "--out", tmp_path / "x.png")[2] == ""


def test_a_panel_for_every_metric(texts, runs):
    metrics = ("eval", "kl", "seconds/update", "eval", "env_steps")
    said = texts(*runs, *(word for metric in metrics for word in ("--metric", metric)))
    assert said.count("iteration") == 4
    assert {"Episodes won in evaluation", "Seconds: update", "Env steps"} <= set(said)
    assert sum("GRPO" in text for text in said) == 1


def test_evaluations_are_drawn_once_and_in_their_colour(cli, texts, runs, tmp_path):
    assert "evaluation" in texts(runs[0])
    assert "evaluation" not in texts(runs[0], "--metric", "success", "--metric", "eval")
    blue = "fill: #0072b2"  # lines have a stroke and no filling
    for folders, coloured in ((runs[:1], True), (runs, False)):
        cli("plot", *folders, "--out", tmp_path / "x.svg")
        legend = (tmp_path / "x.svg").read_text().partition('id="legend_1"')[2]
        assert (blue in legend) == coloured


def test_a_line_for_every_run(texts, runs, tmp_path):
    other = write_run(tmp_path / "other" / "grpo-0", make_run(3), seed=0)
    assert {"grpo-0 (seed 0)", "grpo-1 (seed 1)"} <= set(texts(*runs[3:], "--each"))
    said = texts(runs[3], other, "--each")
    assert {f"{runs[3]} (seed 0)", f"{other} (seed 0)"} <= set(said)


def test_labels_tell_runs_apart(texts, runs, tmp_path):
    models = [
        write_run(tmp_path / f"model-{name}", make_run(3), model=f"/{name}/checkpoint", env_id=f"{name}/X-v0")
        for name in ("a", "b")
    ]
    said = texts(*models)
    assert "GRPO" in said
    assert {f"{name}/X-v0, /{name}/checkpoint (seed 0)" for name in ("a", "b")} <= set(said)
    said = texts(models[0], runs[0])
    assert {"GRPO, X-v0, checkpoint (seed 0)", "GiGPO, Sokoban-v0, tiny (seed 0)"} <= set(said)


@pytest.mark.parametrize("x", XS)
def test_over_everything(texts, runs, x):
    names = {
        "iteration": "iteration",
        "episodes": "training episodes",
        "env_steps": "environment steps",
        "tokens": "tokens sampled",
        "seconds": "seconds",
    }
    assert names[x] in texts(*runs, "--x", x)
    assert XS == curves.XS


@pytest.mark.parametrize(("total", "unit"), [(9.0, "seconds"), (40.0, "minutes"), (900.0, "hours")])
def test_times_have_a_fitting_unit(texts, tmp_path, total, unit):
    seconds = replace(make_metrics(1).seconds, total=total)
    assert unit in texts(write_run(tmp_path / "run", make_run(10, seconds=seconds)), "--x", "seconds")


def test_constant_and_tiny_values(texts, tmp_path):
    run = write_run(tmp_path / "run", make_run(30, kl=0.0, entropy=-0.1))
    said = texts(run, "--metric", "kl", "--metric", "entropy", "--metric", "logp_diff", "--smooth", 7)
    assert "-0.1" in [text.replace("\N{MINUS SIGN}", "-") for text in said]
    assert any("logp" in text or "log-prob" in text for text in said)


def test_equal_runs_give_equal_bytes(cli, runs, tmp_path):
    words = ["plot", *map(str, runs), "--metric", "success", "--metric", "kl"]
    here, there = ([str(tmp_path / f"{place}{end}") for end in FORMATS] for place in ("here", "there"))
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "svg.hashsalt": "other"}):
        for out in here:
            assert cli(*words, "--out", out)[0] == 0
    code = f"""
import sys
sys.modules["torch"] = None
from agentgym.cli import main
for out in {there}:
    assert main([*{words}, "--out", out]) == 0
assert not any(name.startswith("matplotlib.pyplot") for name in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    pairs = [(Path(a).read_bytes(), Path(b).read_bytes()) for a, b in zip(here, there, strict=True)]
    assert all(one == other for one, other in pairs)
    path = runs[0] / METRICS_FILE
    path.write_text(path.read_text().replace('"success": 0.05', '"success": 0.95'))
    for out, (picture, _) in zip(there, pairs, strict=True):
        assert cli(*words, "--out", out)[0] == 0
        assert Path(out).read_bytes() != picture


def test_bad_input(refused, runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "name the folder of a training run" in refused("plot")
    assert "none/metrics.jsonl: No such file" in refused("plot", tmp_path / "none")
    assert "name the folder of a training run" in refused("plot", tmp_path)
    assert "did you mean 'success'?" in refused("plot", runs[0], "--metric", "sucess")
    assert "invalid choice: 'token'" in refused("plot", runs[0], "--x", "token")
    for value in (0, -1, 1.5):
        assert f"--smooth is a number of iterations or a decay between 0 and 1, got {value}" in refused(
            "plot", runs[0], "--smooth", value
        )
    assert "invalid float value" in refused("plot", runs[0], "--smooth", "x")
    assert "has no 'value_loss'" in refused("plot", runs[0], "--metric", "value_loss")
    assert "seed: leave one out" in refused("plot", runs[0], runs[0])
    assert "cannot draw .jpg: name one in .png or .svg" in refused("plot", runs[0], "--out", "x.jpg")
    assert "cannot draw a file without a suffix" in refused("plot", runs[0], "--out", "x")
    silent = write_run(tmp_path / "silent", make_run(3))
    assert "silent was never evaluated" in refused("plot", silent, "--metric", "eval")
    complaint = refused("plot", runs[0], "--out", "none/x.png")
    assert "cannot write none/x.png: No such file or directory; make its folder first" in complaint
    (runs[0] / METRICS_FILE).write_text("{}\n")
    assert f"{METRICS_FILE}, line 1: key 'iteration' is missing" in refused("plot", runs[0])
    assert [path for path in tmp_path.iterdir() if path.suffix] == []


def test_without_matplotlib_the_extra_is_named(refused, runs, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    complaint = refused("plot", runs[0])
    assert complaint == "agentgym: drawing curves needs matplotlib: pip install 'matplotlib<4,>=3.11'\n"
    assert not Path("curves.png").exists()
