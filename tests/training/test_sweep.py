"""The sweep over algorithms: games, statistics, runs that are done once, and the report."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from agentgym import check_agent_env
from agentgym.algos.table import ALGORITHMS
from agentgym.errors import UsageError
from agentgym.registration import open_vector
from agentgym.rollout import RolloutWorker
from benchmarks.algorithms import comparison, games, plan, report, runs
from benchmarks.algorithms.studies import STUDIES

IDS = tuple(f"{games.__name__}:{name}" for name in (games.ERRANDS, games.NOISY_EZPOINTS))


@pytest.mark.parametrize("env_id", IDS)
def test_games_keep_the_contract(env_id):
    check_agent_env(env_id)


def test_noise_is_of_every_episode_and_the_errands_oracle_wins():
    with closing(open_vector(IDS[1], 4, split="train", options={"slips": 0.5})) as envs:
        worker = RolloutWorker(envs, envs.oracle(), env_id=IDS[1])
        (group,) = worker.collect(envs.tasks.ids[:1], group_size=4, seed=0)
        assert len({episode.state_hashes for episode in group.trajectories}) > 1
    with closing(open_vector(IDS[0], 4, split="valid")) as envs:
        worker = RolloutWorker(envs, envs.oracle(), env_id=IDS[0])
        groups = worker.collect(envs.tasks.ids[:4], group_size=1, seed=0)
        assert all(group.trajectories[0].won for group in groups)


def test_statistics():
    rng = np.random.default_rng(0)
    values = np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 1.0]])
    estimate = comparison.hierarchical_mean(values, rng)
    assert estimate.value == pytest.approx(2 / 3)
    assert estimate.low < estimate.value < estimate.high
    # six differences of one sign: of 64 patterns two are as extreme
    assert comparison.paired_p(np.full((3, 2), 0.5), rng) == pytest.approx(2 / 64)
    assert comparison.ema([1.0, 1.0, 0.0], decay=0.5).round(3).tolist() == [1.0, 1.0, 0.429]
    assert comparison.first_above([0.0] * 5 + [1.0] * 5, 0.6) == 8
    assert comparison.first_above([0.5] * 9, 0.6) is None


def test_studies_cover_what_they_say():
    cells = runs.keys_of(STUDIES["main"])
    assert len(cells) == len(ALGORITHMS) * 3 * 3
    for study in STUDIES.values():
        labels = [arm.label for arm in study.arms]
        assert len(set(labels)) == len(labels)
        assert study.baseline in labels


def test_a_finished_run_is_not_trained_again(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "FOLDER", tmp_path / "runs")
    small = replace(plan.ENVIRONMENTS["ezpoints"], demonstrations=20, epochs=1, held_out=4, attempts=2)
    monkeypatch.setitem(plan.ENVIRONMENTS, "ezpoints", small)
    keys = runs.keys_of(STUDIES["main"], only=["grpo"], environments=["ezpoints"], seeds=[0], budget=60)
    before = runs.warm_start(plan.ENVIRONMENTS["ezpoints"])
    assert np.shape(before.won) == (4, 2)
    run = runs.train(keys[0])
    assert run.env_steps[-1] >= 60
    assert run.end == "budget"
    monkeypatch.setattr(runs, "_learn", None)
    assert runs.train(keys[0]) == run
    assert runs.warm_start(plan.ENVIRONMENTS["ezpoints"]) == before
    report.write_report(STUDIES["main"], keys, tmp_path)
    page = (tmp_path / "report.md").read_text()
    assert "1 of 1 runs have finished" in page
    assert "| GRPO | 1 |" in page
    assert (tmp_path / "curves" / "ezpoints.png").exists() is False  # GRPO alone has no panel


def test_an_arm_that_cannot_be_trained_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(plan, "FOLDER", tmp_path)
    arm = plan.Arm("wrong", "grpo", {"switches.wrong": 1})
    with pytest.raises(UsageError, match="wrong"):
        arm.config(plan.ENVIRONMENTS["errands"], 0)
