"""Runs of earlier versions stay verifiable: every action gives the same states, rewards and scores."""

import tarfile
from pathlib import Path

import pytest

from agentgym.evaluation.runfiles import read_episodes
from agentgym.evaluation.verify import verify_run

RUNS = Path(__file__).with_name("runs")
"""Suites and results, as version 0.1.0 wrote them at commit 8e1067a."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(RUNS / "before-redesign.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return sorted((folder / "results" / "before-redesign").iterdir())


def test_a_run_made_before_the_redesign_verifies(runs: list[Path]) -> None:
    assert [run.name.rpartition("-")[0] for run in runs] == ["oracle", "random", "random-strings"]
    for run in runs:
        for rerun, badge in ((False, "replayed"), (None, "re-run")):
            verdict = verify_run(run, rerun=rerun)
            assert verdict.problems == ()
            assert verdict.badge == badge
        assert verdict.episodes == len(read_episodes(run)) > 50
