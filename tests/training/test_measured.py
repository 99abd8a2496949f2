"""What an iteration measures beside its losses."""

import copy
import dataclasses
import json

import numpy as np
import pytest

from agentgym.core import stopwatch
from agentgym.core.stopwatch import measured, stage
from agentgym.history.metrics import IterationMetrics
from agentgym.history.run import read_metrics
from agentgym.training.config import TrainConfig, override
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.update import Learner
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import Machine, resolve
from agentgym.training.run import start
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages import Scores, Stateless
from agentgym.training.track.iteration_stats import response_lengths, utilisation
from tests.iterations import make_metrics
from tests.training.batches import OBJECTIVES, some_batch, some_rows

SMALL = {
    "iterations": 2,
    "rollout.tasks": 2,
    "rollout.group_size": 2,
    "rollout.num_envs": 4,
    "evaluation.every": 0,
    "objective.kl_coefficient": 0.1,
}


def config(algorithm, **changes):
    plain = TrainConfig(algorithm=algorithm, env_id="agentgym/EZPoints-v0", model="tiny:0.1m")
    return override(plain, SMALL | {key.replace("__", "."): value for key, value in changes.items()})


def test_an_iteration_says_where_its_time_went_and_what_was_read(tmp_path):
    start(config("steppo", algorithm_options__whiten=True), tmp_path, logs=["jsonl"])
    for line in read_metrics(tmp_path):
        seconds = line.seconds
        assert min(seconds.actor, seconds.critic, seconds.reference, seconds.advantage) > 0
        assert seconds.old_log_probs == 0  # the engine's serve in float32
        assert seconds.actor <= seconds.update
        parts = (seconds.advantage, seconds.reference, seconds.grouping, seconds.critic, seconds.actor)
        assert sum(parts) <= seconds.credit + seconds.update + 1e-3
        assert line.learner_tokens > 0
        assert line.critic_grad_norm is not None
        assert 0 < line.logp_diff_mean <= line.logp_diff
        assert line.response_length >= 1
        assert (line.response_cut, line.policy_drift, line.mfu, line.peak_memory) == (None, None, None, None)


def test_graphs_and_groups_are_a_stage_of_their_own(tmp_path):
    start(config("graphgpo", iterations=1), tmp_path, logs=["jsonl"])
    (line,) = read_metrics(tmp_path)
    assert 0 < line.seconds.grouping < line.seconds.credit


def test_stale_responses_drift_and_leave_the_engines_gap_alone(tmp_path):
    class Taught(Stateless):  # random play wins nothing, from which nothing would be learned
        def score(self, rollouts):
            return Scores(np.cos(np.arange(len(rollouts.steps))), "step")

    settings = config("grpo", iterations=4, rollout__max_staleness=1, rollout__overlap=False)
    settings = override(settings, {"learner.learning_rate": 1e-2, "rollout.num_envs": 3})
    setup = TrainingSetup.open(resolve(settings))
    trainer = Trainer(setup, tmp_path, scorer=Taught())
    lines = [trainer.iterate() for _ in range(4)]
    trainer.close()
    setup.close()
    stale = [line for line in lines if line.policy_drift is not None]
    assert stale
    assert max(line.policy_drift for line in stale) > 1e-4
    assert all(line.logp_diff < 1e-5 for line in lines)


def test_the_gap_is_that_of_fresh_tokens(language_model):
    rows = some_rows()
    model = language_model.model
    batch = some_batch(model, rows, mask=None)
    learner = Learner(copy.deepcopy(model), OBJECTIVES["token"], LearnerConfig(token_budget=30))
    now = learner.log_probs(rows)
    stale = np.arange(len(now)) % 3 == 0
    sampled = now + np.where(stale, 0.5, 0.01)
    batch = dataclasses.replace(batch, old_log_probs=sampled, stale=stale, ref_log_probs=None)
    metrics = learner.update(rows, batch, seed=0)
    assert metrics.logp_diff == pytest.approx(0.01, abs=1e-4)
    assert metrics.logp_diff_mean == pytest.approx(0.01, abs=1e-4)
    assert metrics.policy_drift == pytest.approx(0.5, abs=1e-4)


def test_lines_of_older_runs_are_read(tmp_path):
    table = make_metrics(1).to_json()
    new = ("logp_diff_mean", "policy_drift", "critic_grad_norm", "response_length", "response_cut")
    for name in (*new, "learner_tokens", "mfu", "peak_memory"):
        del table[name]
    for name in ("old_log_probs", "reference", "grouping", "advantage", "critic", "actor"):
        del table["seconds"][name]
    (tmp_path / "metrics.jsonl").write_text(json.dumps(table) + "\n")
    (line,) = read_metrics(tmp_path)
    assert isinstance(line, IterationMetrics)
    assert line.seconds.actor is None


def test_a_free_response_is_cut_where_it_does_not_stop():
    class Said:
        def __init__(self, *ids):
            self.completion = type("Completion", (), {"response_ids": ids})

    member = type("Member", (), {"steps": (Said(1, 9), Said(1, 2, 3), Said(), Said(9))})
    group = type("Group", (), {"trajectories": (member,)})
    found = response_lengths([group], (9,))
    assert found == {"response_length": 2.0, "response_cut": pytest.approx(1 / 3)}
    assert response_lengths([group], None)["response_cut"] is None


def test_utilisation_is_known_where_the_peak_is():
    h100 = Machine("cuda", "NVIDIA H100 80GB HBM3", 80 << 30)
    assert h100.peak_flops == 989e12
    assert Machine("cuda", "NVIDIA H100 PCIe", 80 << 30).peak_flops == 756e12
    assert Machine("cuda", "Some Card", 1).peak_flops is None
    assert Machine("cpu", "CPU", 1).peak_flops is None
    half = utilisation(10**9, 989_000 // 6, 2.0, peak_flops=989e12, ranks=1)
    assert half == pytest.approx(0.5, rel=1e-5)
    assert utilisation(1, 1, 1.0, peak_flops=None, ranks=1) is None


def test_a_stage_within_another_is_taken_out_of_it(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(stopwatch, "perf_counter", lambda: clock[0])

    def pass_(seconds):
        clock[0] += seconds

    with stage("unmeasured"):
        pass
    with measured() as watch:
        with stage("outer"):
            pass_(2.0)
            with stage("inner"):
                pass_(5.0)
            with stage("inner"):
                pass_(1.0)
        with stage("after"):
            pass
    assert watch.seconds == {"outer": 2.0, "inner": 6.0, "after": 0.0}
