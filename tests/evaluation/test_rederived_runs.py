"""Runs whose counts of invalid actions are derived anew from their actions; `benchmarks.rederive`."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.errors import UsageError
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.packed import pack_run
from benchmarks.rederive import rederive
from tests.evaluation.making import write_complete


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """Return a run's folder, which a test may change."""
    shutil.copytree(finished, tmp_path / "root")
    (found,) = (tmp_path / "root" / "results").rglob("random-*/")
    return found


def test_counts_are_derived_anew_and_nothing_else_changes(folder: Path, tmp_path: Path) -> None:
    before = pack_run(open_run(folder), tmp_path / "before").read_bytes()
    run, episodes = read_run(folder), read_episodes(folder)
    counted = [replace(each, invalid_count=each.invalid_count + (each.env == "Ice")) for each in episodes]
    other = write_complete(folder, run, counted)
    path = pack_run(open_run(folder), tmp_path / "root" / "packed")
    with pytest.raises(UsageError, match="comes out otherwise than it says"):
        open_run(path)
    found = rederive(path)
    assert found.changed == {"Ice"}
    assert (found.before.result_id, found.after.result_id) == (other.result_id, run.result_id)
    assert other.result_id != run.result_id
    assert path.read_bytes() == before
    assert rederive(path).changed == set()
    assert path.read_bytes() == before


def test_a_run_that_differs_in_anything_else_is_refused(folder: Path, tmp_path: Path) -> None:
    run, episodes = read_run(folder), read_episodes(folder)
    claimed = [replace(each, score=each.score + 1, invalid_count=each.invalid_count + 1) for each in episodes]
    write_complete(folder, run, claimed)
    path = pack_run(open_run(folder), tmp_path / "root" / "packed")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="more than its counts of invalid actions"):
        rederive(path)
    assert path.read_bytes() == before
