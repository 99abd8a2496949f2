"""The sweep over algorithms: games, statistics, runs that are done once, and the report."""

import json
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agentgym import check_agent_env
from agentgym.algos.table import ALGORITHMS
from agentgym.errors import UsageError
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.config import TINY, TrainConfig
from benchmarks import state_hash
from benchmarks.algorithms import comparison, coverage, games, plan, report, runs
from benchmarks.algorithms.claims import Claim
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
    # six differences of one sign: of 64 patterns two are as extreme
    assert comparison.paired_p(np.full(6, 0.5), rng) == pytest.approx(2 / 64)
    assert comparison.ema([1.0, 1.0, 0.0], decay=0.5).round(3).tolist() == [1.0, 1.0, 0.429]
    assert comparison.first_above([0.0] * 5 + [1.0] * 5, 0.6) == 8
    assert comparison.first_above([0.5] * 9, 0.6) is None


def test_studies_cover_what_they_say():
    cells = runs.keys_of(STUDIES["main"])
    assert len(cells) == len(ALGORITHMS) * 3 * 10
    assert not set(STUDIES["main"].seeds) & set(plan.SEEDS)  # on which settings were chosen
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
    arm = plan.Arm("wrong", "grpo", {"algorithm_options.wrong": 1})
    with pytest.raises(UsageError, match="wrong"):
        arm.config(plan.ENVIRONMENTS["errands"], 0)


def test_what_an_arm_does_not_set_is_the_algorithms_default():
    arms = {arm.label: arm for arm in STUDIES["spo3-ablations"].arms}
    published = arms["the published constants"].config(plan.ENVIRONMENTS["errands"], 0)
    assert (
        published.algorithm_options
        == TrainConfig(algorithm="spo3", env_id=published.env_id).algorithm_options
    )
    assert (
        arms["3SPO"].config(plan.ENVIRONMENTS["errands"], 0).algorithm_options != published.algorithm_options
    )
    assert TINY.config("spo3", published.env_id).algorithm_options != published.algorithm_options


PAGES = Path(report.__file__).parent


@pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))
def test_committed_pages_follow_from_their_numbers(study, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "draw", lambda environment, done, folder, name: f"curves/{name}.png")
    name = report.page_name(study)
    shutil.copy(PAGES / f"{name}.json", tmp_path)
    report.write_page(study, tmp_path)
    assert (tmp_path / f"{name}.md").read_text() == (PAGES / f"{name}.md").read_text()


def test_the_page_of_state_hashes_follows_from_its_numbers():
    root = PAGES.parents[1]
    found = json.loads((root / state_hash.FOUND).read_text())
    assert {each["case"] for each in found} == {case.name for case in state_hash.CASES}
    page = (root / state_hash.PAGE).read_text(encoding="utf-8")
    assert state_hash.BEGIN + state_hash.table(found) + state_hash.END in page
    trained = json.loads((root / state_hash.TRAINED).read_text(encoding="utf-8"))
    assert state_hash.TRAINED_BEGIN + state_hash.trained_table(trained) + state_hash.TRAINED_END in page


def test_texts_merge_and_split_the_states_that_they_do():
    states, texts = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 2, 2, 2])
    assert state_hash.mixed(states, texts) == {"groups": 2, "share": 0.5, "steps": 0.4}  # 0 is split
    assert state_hash.mixed(texts, states) == {"groups": 1, "share": 1.0, "steps": 0.6}  # 1 and 2 are merged


def test_intervals_of_students_t_hold_the_mean_as_often_as_they_say():
    rng = np.random.default_rng(0)
    t, bootstrap = coverage.coverage(rng.normal(0.5, 0.1, 40), rng)
    assert 0.93 <= t <= 0.97
    assert bootstrap < 0.93  # which the tables had with three seeds


@pytest.mark.parametrize(
    ("rival", "verdict"),
    [((0.2, 0.6, 0.4), "open"), ((0.1, 0.12, 0.11), "appears"), ((0.9, 0.9, 0.89), "reversed")],
)
def test_an_ordering_appears_where_the_interval_of_the_difference_excludes_0(rival, verdict):
    lines = [report.Line("GiGPO", _runs(0.5, 0.45, 0.55)), report.Line("GRPO", _runs(*rival))]
    assert report._verdict(Claim("GiGPO", "GRPO", ""), lines)[0] == verdict


def _runs(*successes):
    return tuple(
        runs.SweepRun(
            environment="ezpoints",
            algorithm="",
            seed=seed,
            digest="",
            budget=1,
            end="budget",
            env_steps=(1,),
            success=(0.0,),
            episodes=1,
            cpu_seconds=0.0,
            won=(tuple(int(place < round(success * 100)) for place in range(100)),),
            steps_per_episode=1.0,
        )
        for seed, success in enumerate(successes)
    )
