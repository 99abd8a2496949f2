"""Numerics that a run watches: gaps by token, entropy by phase, and the warnings."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from agentgym.cli import main
from agentgym.core.types import Completion
from agentgym.history.numerics import CHECKS, WINDOW, numerics_warning, watched
from agentgym.history.run import read_metrics
from agentgym.history.trend import Trend
from agentgym.training.config import TINY
from agentgym.training.learner.gradients import _EDGES, _gaps, _percentile
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup
from agentgym.training.track.iteration_stats import entropy_by_phase

CURVES = Path(__file__).parents[2] / "benchmarks" / "curves"


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    """An iteration of a tiny run."""
    sizes = {"rollout.tasks": 2, "rollout.group_size": 2, "evaluation.every": 0, "learner.minibatches": 1}
    config = TINY.config("grpo", "agentgym/EZPoints-v0", sizes, model="tiny:0.1m")
    setup = TrainingSetup.open(resolve(config))
    trainer = Trainer(setup, tmp_path_factory.mktemp("run"))
    yield trainer.iterate()
    trainer.close()
    setup.close()


def test_an_iteration_has_the_gaps_by_token_and_the_entropy_by_phase(metrics):
    assert metrics.logp_diff_wide == 0
    assert metrics.logp_diff / 10 < metrics.logp_diff_p999 < metrics.logp_diff * 1.26
    phases = metrics.diagnostics["entropy"]
    assert set(phases) <= {"early", "middle", "late"}
    assert min(phases.values()) <= 2 * metrics.entropy
    assert "diagnostics/entropy/early" in metrics.scalars()


def test_a_percentile_is_the_upper_edge_of_its_bin():
    bins = np.zeros(len(_EDGES) + 1)
    assert _percentile(bins, 0.999) is None
    bins[10], bins[40] = 998, 2
    assert _percentile(bins, 0.5) == pytest.approx(5e-8)
    assert _percentile(bins, 0.999) == pytest.approx(5e-5)
    bins[-1] = 10  # above the last edge
    assert _percentile(bins, 0.999) == pytest.approx(50)


def test_gaps_of_fresh_tokens_are_counted_by_bin():
    changes, stale = torch.tensor([0.0, 0.5, 0.51, 7.0, 1e9]), torch.tensor([0, 0, 0, 1, 0]).bool()
    assert _gaps(torch.tensor([torch.nan, torch.inf]), None)[2][-1] == 2
    (total, fresh, drift, old), largest, bins = _gaps(changes, stale)
    assert (fresh, drift, old, largest) == (4, 7, 1, 1e9)
    assert total == pytest.approx(1e9)
    assert (bins[:81].sum(), bins[81:].sum(), bins[-1]) == (2, 2, 1)  # up to half a nat, and above


def test_entropy_by_phase_is_the_mean_surprise():
    def episode(*turns):
        steps = [SimpleNamespace(completion=Completion("look", logprobs=logprobs)) for logprobs in turns]
        return SimpleNamespace(steps=steps)

    group = SimpleNamespace(
        trajectories=[episode((-1.0, -3.0), (-0.5,), (0.0, -0.1)), episode((-2.0,)), episode((), ())]
    )
    assert entropy_by_phase([]) == {}
    assert entropy_by_phase([group]) == {
        "entropy": {"early": pytest.approx(2.0), "middle": pytest.approx(0.5), "late": pytest.approx(0.05)}
    }


def warned(metrics, **changes):
    return numerics_warning([watched(replace(metrics, **changes))] * WINDOW, grouped=True)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"grad_norm": 0.0, "loss": -0.1}, "the gradient is exactly 0 in 100% of the iterations"),
        ({"grad_norm": 0.0, "loss": 0.0, "entropy": 0.0}, "the weights have run away"),
        ({"grad_norm": 0.0, "loss": 0.0}, ""),
        ({"logp_diff_wide": 0.02}, "2.0% of the tokens differ by more than half a nat"),
        ({"clip_fraction": 0.4}, "40% of the terms are clipped"),
        ({"truncated": 0.2}, "20% of the importance weights are capped"),
        ({"kl": 3.5}, "moves the policy by 3.5 nats a token"),
        ({"usable_fraction": 0.01}, "99% of the groups have no signal"),
        ({"usable_fraction": 0.01, "success": 0.95}, ""),
        ({"truncated": None, "logp_diff_wide": None}, ""),
    ],
)
def test_a_warning_names_the_number_and_the_setting(metrics, changes, line):
    sound = replace(metrics, usable_fraction=0.5, success=0.3, clip_fraction=0.1, kl=0.01)
    found = warned(sound, **changes)
    assert (line in found) if line else not found
    assert not found or "set " in found or "lower " in found


def test_the_gravest_comes_first_and_algorithms_without_groups_have_none(metrics):
    sound = replace(metrics, usable_fraction=0.0, success=0.3, clip_fraction=0.9, kl=9.0, logp_diff_wide=0.5)
    assert "disagree" in warned(sound)
    alone = replace(sound, clip_fraction=0.0, kl=0.0, logp_diff_wide=0.0)
    assert numerics_warning([watched(alone)] * WINDOW, grouped=False) == ""
    assert len(watched(alone)) == len(CHECKS)


def test_a_trend_warns_once_and_after_a_window(metrics):
    sound = replace(metrics, usable_fraction=0.5, success=0.3, clip_fraction=0.1, kl=0.01)
    trend, lines = Trend(), []
    for number in range(2 * WINDOW):
        lines.append(trend.follow(replace(sound, iteration=number + 1, truncated=0.5)))
    assert [bool(line) for line in lines] == [number == WINDOW - 1 for number in range(2 * WINDOW)]
    assert trend.warning == lines[WINDOW - 1]
    for number in range(WINDOW):
        trend.follow(replace(sound, iteration=20 + number))
    assert trend.warning == ""


@pytest.mark.parametrize("rate", ["1e6", "1e-3"])
def test_a_run_whose_weights_run_away_says_so_in_one_line(rate, tmp_path, capsys):
    words = ["train", "grpo", "--env", "agentgym/EZPoints-v0", "--model", "tiny:0.1m", "--seed", "1"]
    words += ["--set", f"learner.learning_rate={rate}", "--set", "evaluation.every=0", "--iterations", "4"]
    assert main([*words, "--log", "jsonl", "--out", str(tmp_path / "run")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("numerics:")]
    assert len(lines) == (rate == "1e6")
    assert all("lower learner.learning_rate" in line for line in lines)


@pytest.mark.parametrize("curve", sorted(path.parent.name for path in CURVES.glob("*/metrics.jsonl")))
def test_the_committed_curves_have_no_warning_of_weights_that_run_away(curve):
    trend = Trend()
    for metrics in read_metrics(CURVES / curve):
        assert "exactly 0" not in trend.follow(metrics)


def test_numbers_of_a_run_that_began_with_an_earlier_version_are_left_out(metrics):
    numbers = watched(metrics)
    assert Trend(numbers=(numbers[:-1], numbers)).numbers == (numbers,)
