"""Runs are verified by the version of state hashes that they state, which need not be the newest."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.errors import UsageError
from agentgym.evaluation.log.results import RUN_FILE, EvalLog, reopened
from agentgym.evaluation.log.runfiles import parse_run, read_run, write_run
from agentgym.evaluation.log.stored_run import read_stored_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites import suite_file_of_run
from agentgym.evaluation.verify.packed import pack_run
from agentgym.evaluation.verify.verification import verify_run
from tests.evaluation.corridor import CorridorEnv


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Give the environment a second version, which still knows the first."""
    monkeypatch.setattr(CorridorEnv, "state_schema", 2)
    monkeypatch.setattr(CorridorEnv, "past_schemas", (1,))
    return monkeypatch


def of_format_4(run: EvalLog) -> EvalLog:
    """Return a run's record as it was written before it stated versions."""
    old = replace(run, schema=4, state_schemas={})
    return replace(old, record_id=old.record_digest)


def test_a_run_states_its_versions(run_folder: Path) -> None:
    assert set(read_run(run_folder).state_schemas.values()) == {1}
    table = json.loads((run_folder / RUN_FILE).read_text())
    assert table["schema"] == 5


@pytest.mark.parametrize("old", [False, True])
def test_an_older_run_is_verified_by_its_own_version(
    run_folder: Path, newer: pytest.MonkeyPatch, old: bool
) -> None:
    if old:
        write_run(run_folder, of_format_4(read_run(run_folder)))
        assert "state_schemas" not in (run_folder / RUN_FILE).read_text()
    verdict = verify_run(run_folder)
    assert (verdict.problems, verdict.badge) == ((), "re-run")
    newer.setattr(CorridorEnv, "past_schemas", ())
    (problem, *_) = verify_run(run_folder, rerun=False).problems
    assert problem.kind == "environment"
    assert "version 1 that there is not" in str(problem)


def test_a_run_that_states_another_version_is_rejected(run_folder: Path, newer: pytest.MonkeyPatch) -> None:
    run = read_run(run_folder)
    other = replace(run, state_schemas=dict.fromkeys(run.state_schemas, 2))
    write_run(run_folder, replace(other, record_id=other.record_digest))
    assert {problem.kind for problem in verify_run(run_folder, rerun=False).problems} == {"replay"}


def test_an_older_run_is_packed_and_unpacked(
    run_folder: Path, tmp_path: Path, newer: pytest.MonkeyPatch
) -> None:
    write_run(run_folder, of_format_4(read_run(run_folder)))
    packed = pack_run(read_stored_run(run_folder), run_folder.parent.parent)
    assert verify_run(packed, suite=suite_file_of_run(run_folder, "small")).ok


def test_a_run_of_an_older_version_is_not_continued(run_folder: Path, newer: pytest.MonkeyPatch) -> None:
    write_run(run_folder, reopened(read_run(run_folder)))
    suite = suite_file_of_run(run_folder, "small")
    with pytest.raises(UsageError, match="has other state hashes; remove the folder and run again"):
        run_bench(suite, run_folder.parents[1], num_envs=5)


def test_versions_make_no_other_request(run_folder: Path) -> None:
    run = read_run(run_folder)
    assert replace(run, state_schemas={"A": 9}).request == run.request
    assert parse_run(json.loads(run.text), "run.json") == run
