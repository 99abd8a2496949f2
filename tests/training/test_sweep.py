"""The sweep over algorithms: games, statistics, runs that are done once, and the report."""

import json
import shutil
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from agentgym import check_agent_env
from agentgym.algos.table import ALGORITHMS
from agentgym.errors import UsageError
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker
from benchmarks.algorithms import comparison, games, plan, report, runs
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
    assert len(cells) == (len(ALGORITHMS) - len(plan.CEILINGS)) * 3 * 10
    assert not set(STUDIES["main"].seeds) & set(plan.SEEDS)  # on which settings were chosen
    for study in STUDIES.values():
        labels = [arm.label for arm in study.arms]
        beside = [arm.label for arm in study.beside]
        assert len({*labels, *beside}) == len(labels) + len(beside)
        assert study.baseline in (*labels, *beside)


def test_true_credit_stands_beside_the_committed_runs_of_all_algorithms():
    study = STUDIES["ceilings"]
    beside = report.runs_beside(study)
    assert {run.seed for label, run in beside if label == "GiGPO"} == {*study.seeds}
    cells = runs.keys_of(study)
    again = {(key.arm.label, key.seed) for key in cells if key.arm in study.beside}
    assert again == {(label, seed) for label in ("GRPO", "GiGPO", "PPO") for seed in study.held_back}
    assert {label for label, _ in beside} == {arm.label for arm in study.beside}
    games_of = {key.arm.label: set() for key in cells}
    for key in cells:
        games_of[key.arm.label].add(key.environment)
    assert games_of["Exact"] == {"ezpoints", "errands"}
    assert games_of["VinePPO, equal steps"] == set(study.environments)
    lines = report._lines(study, "ezpoints", [*beside, *(("Exact", r) for r in _runs(0.5, 0.6))])
    price = "\n".join(report._price(study, lines))
    assert "| GRPO |" in price
    assert "not counted" in price
    assert "| PPO |" not in price


def test_a_study_beside_committed_runs_needs_the_same_warm_start(monkeypatch):
    monkeypatch.setattr(report, "digest_of", lambda key: "another")
    with pytest.raises(UsageError, match="its committed run began with other weights or settings"):
        report._check_beside(STUDIES["ceilings"], report.runs_beside(STUDIES["ceilings"]))
    assert report.runs_beside(STUDIES["main"]) == []


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


def test_a_committed_run_of_an_unfinished_study_is_not_trained_again(tmp_path, monkeypatch):
    run = _runs(0.5)[0]
    fields = {**asdict(run), "arm": "GRPO"}
    for name, part in (("sweep-a.json", "unfinished"), ("sweep-b.json", "runs")):
        (tmp_path / name).write_text(json.dumps({part: [{**fields, "digest": name}]}))
    assert list(runs.committed(tmp_path)) == ["sweep-a.json"]
    assert runs.committed(tmp_path)["sweep-a.json"] == replace(run, digest="sweep-a.json")


def test_an_arm_that_cannot_be_trained_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(plan, "FOLDER", tmp_path)
    arm = plan.Arm("wrong", "grpo", {"algorithm_options.wrong": 1})
    with pytest.raises(UsageError, match="wrong"):
        arm.config(plan.ENVIRONMENTS["errands"], 0)


PAGES = Path(report.__file__).parent


@pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))
def test_committed_pages_follow_from_their_numbers(study, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "draw", lambda environment, done, folder, name: f"curves/{name}.png")
    name = report.page_name(study)
    shutil.copy(PAGES / f"{name}.json", tmp_path)
    report.write_page(study, tmp_path)
    assert (tmp_path / f"{name}.md").read_text() == (PAGES / f"{name}.md").read_text()


CLAIM = Claim("GiGPO", "GRPO", "")


@pytest.mark.parametrize(
    ("gain", "confirmed", "p", "verdict"),
    [
        (0.1, 0.1, 0.04, "holds"),
        (0.1, 0.1, 0.06, "open"),
        (0.1, -0.1, 0.04, "not confirmed"),
        (-0.1, -0.1, 0.04, "reversed"),
        (-0.1, 0.1, 0.04, "not confirmed"),
    ],
)
def test_a_verdict_needs_the_adjusted_test_and_the_seeds_held_back(gain, confirmed, p, verdict):
    spread = np.linspace(-0.01, 0.01, 10)
    cell = report._Cell(spread + gain, spread + confirmed)
    assert cell.verdict(p) == verdict
    assert cell.p == pytest.approx(2 / 2**10)


def test_no_ordering_is_told_before_all_runs_are_there(monkeypatch):
    study = replace(
        STUDIES["orderings"], environments=("ezpoints",), declared=(CLAIM,), seeds=(0, 1, 2), held_back=(3, 4)
    )
    rng = np.random.default_rng(0)
    done = [
        (label, replace(run, seed=seed))
        for label, base in (("GiGPO", 0.6), ("GRPO", 0.5))
        for seed, run in enumerate(_runs(*(base + rng.uniform(0, 0.05, 5))))
    ]
    record = {
        "planned": len(done),
        "environments": {"ezpoints": {"before": {"won": [[0, 1]], "steps_per_episode": 4.0}}},
    }
    hidden = "\n".join(report._page(study, record, done[:-1], {}))
    assert "Results are hidden until all 10 runs are there" in hidden
    assert "GiGPO >" not in hidden
    page = "\n".join(report._page(study, record, done, {}))
    assert "| GiGPO > GRPO |" in page
    assert "open: +" in page  # three seeds cannot reach .05
    assert "In all: 0 holds, 1 open, 0 not confirmed, 0 reversed." in page
    lines = report._lines(study, "ezpoints", done)
    assert [len(line.runs) for line in lines] == [3, 3]


def test_runs_of_declared_orderings_are_kept_apart_until_all_are_there():
    study = replace(STUDIES["orderings"], seeds=(0,), held_back=(1,))
    cells = [{"seed": 0}, {"seed": 1}]
    assert report._runs(study, cells, 3) == {"runs": [], "unfinished": cells}
    assert report._runs(study, cells, 2) == {"runs": cells[:1], "held_back": cells[1:]}
    assert report._runs(STUDIES["main"], cells, 3) == {"runs": cells}


def test_declared_seeds_are_their_own():
    study = STUDIES["orderings"]
    assert len(set(study.seeds)) == 40
    assert len(set(study.held_back)) == 10
    assert not {*study.seeds, *study.held_back} & {*plan.SEEDS, *plan.MAIN_SEEDS}
    assert not {*study.seeds} & {*study.held_back}
    assert len(runs.keys_of(study)) == len(study.arms) * 3 * 50
    labels = {arm.label for arm in study.arms}
    assert {claim.better for claim in study.declared} | {claim.worse for claim in study.declared} == labels


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
