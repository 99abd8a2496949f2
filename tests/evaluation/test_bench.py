"""Runs: resume, crashes, full disks and bad input."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress, TaskID

import agentgym.evaluation.log.bench_run as bench_run
import agentgym.evaluation.play.bench as bench
from agentgym.core.types import Completion, EndReason, Policy, Request, Trajectory
from agentgym.errors import MissingDataError, UsageError
from agentgym.evaluation.log.results import (
    ABORTED,
    EPISODES_FILE,
    RUN_FILE,
    EvalSample,
    chained,
    episode_lines,
    latest,
    record_of,
    reopened,
)
from agentgym.evaluation.log.runfiles import read_episodes, read_run, write_run
from agentgym.evaluation.log.transcripts import read_transcripts
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import SuiteAgent, load_suite
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.verification import verify_run
from agentgym.io.files import SYNC_SECONDS, Journal, sole_writer
from tests.evaluation import corridor
from tests.waiting import wait_until

SUBPROCESS = """\
import sys
from pathlib import Path
from agentgym.evaluation.play.bench import run_bench
from agentgym.errors import UsageError
from tests.evaluation import corridor

corridor.register()
try:
    run_bench(Path(sys.argv[1]), Path(sys.argv[2]), agents=["oracle"], num_envs=3)
except UsageError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
"""


def start(suite: Path, out: Path, *, limit_bytes: int | None = None) -> subprocess.Popen[str]:
    prelude = ""
    if limit_bytes is not None:
        prelude = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit_bytes},) * 2)\n"
    return subprocess.Popen(
        [sys.executable, "-c", prelude + SUBPROCESS, str(suite), str(out)],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_episode_is_written_once_and_the_run_at_its_ends(
    suite_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, records = [], []
    line, write = EvalSample.line.fget, bench_run.write_run
    monkeypatch.setattr(EvalSample, "line", property(lambda each: lines.append(each.id) or line(each)))
    monkeypatch.setattr(bench_run, "write_run", lambda *run: records.append(run[1]) or write(*run))
    (folder,) = run_bench(suite_file, tmp_path / "results", agents=["oracle"])
    monkeypatch.undo()
    assert lines == [episode.id for episode in read_episodes(folder)]
    assert [record.result_id for record in records] == [None, read_run(folder).result_id]


def oracle_folder(finished: Path) -> Path:
    (folder,) = (finished / "results" / "small").glob("oracle-*")
    return folder


def test_results_do_not_depend_on_the_number_of_slots(
    finished: Path, suite_file: Path, tmp_path: Path
) -> None:
    folders = run_bench(suite_file, tmp_path / "out", num_envs=64)
    for folder in folders:
        twin = finished / "results" / "small" / folder.name
        assert read_run(folder).result_id == read_run(twin).result_id


def test_a_finished_run_is_left_alone(finished: Path, run_folder: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in run_folder.iterdir()}
    suite = run_folder.parents[2] / "suites" / "small.toml"
    assert run_bench(suite, run_folder.parents[1], agents=["oracle"]) == [run_folder]
    assert {path.name: path.stat().st_mtime_ns for path in run_folder.iterdir()} == before


def test_a_suite_is_copied_unless_verification_finds_the_file_itself(
    suite_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "results"
    copy = out / "suites" / "small.toml"
    run_bench(suite_file, out, agents=["random"])
    assert not copy.exists()
    (elsewhere := tmp_path / "elsewhere.toml").write_text(suite_file.read_text())
    run_bench(elsewhere, out, agents=["random"])
    assert load_suite(copy) == load_suite(suite_file)
    copy.write_text(copy.read_text().replace("seed = ", "seed = 1"))  # an old one, and nearer
    (folder,) = run_bench(suite_file, out, agents=["random"])
    assert verify_run(folder).problems == ()


def test_resume_plays_only_what_is_missing(finished: Path, run_folder: Path) -> None:
    lines = (run_folder / EPISODES_FILE).read_bytes().splitlines(keepends=True)
    (run_folder / EPISODES_FILE).write_bytes(b"".join(lines[:30]) + lines[30][:50])
    write_run(run_folder, reopened(read_run(run_folder)))
    suite = run_folder.parents[2] / "suites" / "small.toml"
    run_bench(suite, run_folder.parents[1], agents=["oracle"])
    again = (run_folder / EPISODES_FILE).read_bytes().splitlines(keepends=True)
    assert again[:30] == lines[:30]
    assert len(again) == len(lines)
    assert read_run(run_folder).result_id == read_run(oracle_folder(finished)).result_id
    assert verify_run(run_folder).ok


def test_resume_from_another_place_adds_to_the_provenance(run_folder: Path) -> None:
    run = read_run(run_folder)
    write_run(run_folder, reopened(replace(run, provenance=(replace(run.provenance[0], commit="0" * 40),))))
    data = (run_folder / EPISODES_FILE).read_bytes()
    (run_folder / EPISODES_FILE).write_bytes(data[:-10])
    suite = run_folder.parents[2] / "suites" / "small.toml"
    run_bench(suite, run_folder.parents[1], agents=["oracle"])
    commits = [stretch.commit for stretch in read_run(run_folder).provenance]
    assert len(commits) == 2
    assert commits[0] == "0" * 40


def test_resume_refuses_another_request(run_folder: Path) -> None:
    suite = run_folder.parents[2] / "suites" / "small.toml"
    run = read_run(run_folder)
    for other in (
        replace(run, request_id="0" * 64),
        replace(run, suite_sha256="0" * 64),
        replace(run, agent=replace(run.agent, options={"x": 1})),
    ):
        write_run(run_folder, other)
        with pytest.raises(UsageError, match="holds the run of another request"):
            run_bench(suite, run_folder.parents[1], agents=["oracle"])


def test_resume_refuses_episodes_that_nobody_asked_for(run_folder: Path) -> None:
    suite = run_folder.parents[2] / "suites" / "small.toml"
    episodes = read_episodes(run_folder)
    for extra, message in (
        (episodes[0], "played again, though it ended"),
        (replace(episodes[0], rollout=9), "does not ask for"),
    ):
        lines = chained(read_run(run_folder).request_id, [*episodes, extra])
        (run_folder / EPISODES_FILE).write_bytes(episode_lines(lines))
        write_run(run_folder, reopened(read_run(run_folder)))
        with pytest.raises(UsageError, match=message):
            run_bench(suite, run_folder.parents[1], agents=["oracle"])


class Flaky:
    """Fails on some tasks, as an endpoint does."""

    def __init__(self, fails: bool):
        self.fails = fails

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        return [
            Completion("right", error="agent_error" if self.fails and int(r.task_id, 16) % 3 == 0 else None)
            for r in requests
        ]


def test_a_journal_that_is_closed_while_it_syncs_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "journal")
    clear = journal._unsynced.clear

    def clear_late() -> None:
        """Clear what `Journal.close` sets at this very moment."""
        journal._closing.set()
        journal._unsynced.set()
        clear()

    monkeypatch.setattr(journal._unsynced, "clear", clear_late)
    journal.append("line")
    journal._syncer.join(timeout=300)
    ended = not journal._syncer.is_alive()
    journal._unsynced.set()
    journal.close()
    assert ended


def test_errors_count_as_zero_and_are_retried(
    suite_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flaky: list[Policy] = [Flaky(True)]
    monkeypatch.setattr(bench, "make_agent", lambda kind, envs, **options: flaky[0])
    (folder,) = run_bench(suite_file, tmp_path / "out", agents=["oracle"])
    first = read_episodes(folder)
    failed = [episode for episode in first if episode.end_reason == "agent_error"]
    assert len(failed) == 16
    assert len(first) == 44
    assert all((episode.score, episode.won, episode.progress) == (0.0, False, 0.0) for episode in failed)
    assert verify_run(folder, rerun=False).ok
    flaky[0] = Flaky(False)
    run_bench(suite_file, tmp_path / "out", agents=["oracle"])
    second = read_episodes(folder)
    assert second[:44] == first, "earlier attempts stay"
    assert {e.key for e in second[44:]} == {e.key for e in failed}
    assert {e.attempt for e in second[44:]} == {2}
    assert len(latest(second)) == 44
    assert not any(episode.end_reason == "agent_error" for episode in latest(second))
    assert verify_run(folder, rerun=False).ok
    lost, kept = second[: first.index(failed[0])], second[first.index(failed[0]) + 1 :]
    (folder / EPISODES_FILE).write_bytes(episode_lines([*lost, *kept]))
    assert "chain" in {problem.kind for problem in verify_run(folder, rerun=False).problems}
    with pytest.raises(UsageError, match=r"episodes\.jsonl was changed after the run was complete"):
        run_bench(suite_file, tmp_path / "out", agents=["oracle"])


def test_every_attempt_has_its_own_transcript(
    suite_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flaky: list[Policy] = [Flaky(True)]
    monkeypatch.setattr(bench, "make_agent", lambda kind, envs, **options: flaky[0])
    (folder,) = run_bench(suite_file, tmp_path / "out", agents=["oracle"], transcripts=True)
    first = read_transcripts(folder)
    flaky[0] = Flaky(False)
    run_bench(suite_file, tmp_path / "out", agents=["oracle"], transcripts=True)
    records = read_transcripts(folder)
    assert records[:44] == first
    assert len(records) == 60
    assert {record.attempt for record in records[44:]} == {2}
    assert [record.sha256 for record in records] == [e.transcript for e in read_episodes(folder)]
    assert verify_run(folder, rerun=False).ok


def test_a_line_that_was_removed_from_an_unfinished_run_is_missed(run_folder: Path) -> None:
    write_run(run_folder, reopened(read_run(run_folder)))
    episodes = read_episodes(run_folder)
    (run_folder / EPISODES_FILE).write_bytes(episode_lines([*episodes[:3], *episodes[4:]]))
    suite = run_folder.parents[2] / "suites" / "small.toml"
    with pytest.raises(UsageError, match=r"line 4: does not follow on the line before, .* remove the folder"):
        run_bench(suite, run_folder.parents[1], agents=["oracle"])


@pytest.mark.parametrize("reason", ABORTED)
def test_an_error_takes_away_what_was_reached(suite_file: Path, reason: EndReason) -> None:
    env = load_suite(suite_file).env[0]
    trajectory = Trajectory(env.id, "t", "", 0, 0, "0" * 32, (), "", True, 0.7, 0.9, reason)
    record = record_of(trajectory, env)
    assert (record.score, record.won, record.progress, record.end_reason) == (0.0, False, 0.0, reason)


def test_an_answer_that_failed_was_paid_for(suite_file: Path) -> None:
    env = load_suite(suite_file).env[0]
    failed = Completion("", prompt_tokens=7, completion_tokens=3, cost=0.5, error="parse_error")
    trajectory = Trajectory(
        env.id, "t", "", 0, 0, "0" * 32, (), "", False, 0.0, 0.0, "parse_error", unplayed=failed
    )
    record = record_of(trajectory, env)
    assert (record.prompt_tokens, record.completion_tokens, record.cost, record.length) == (7, 3, 0.5, 0)


def test_kill_loses_no_finished_episode(finished: Path, suite_file: Path, tmp_path: Path) -> None:
    """Kill -9 at random moments until the run completes; what was finished stays, byte for byte."""
    suite_file.write_text(suite_file.read_text().replace("max_steps = 6 }", "max_steps = 6, delay = 0.02 }"))
    out, kept, kills = tmp_path / "out", b"", 0
    moments = random.Random(0)
    while True:
        process = start(suite_file, out)
        wait_until(lambda: process.poll() is not None or len(_episodes(out)) > len(kept))  # noqa: B023
        time.sleep(moments.random() * 0.6)
        process.kill()
        process.communicate()
        data = _episodes(out)
        whole = data[: data.rfind(b"\n") + 1]
        assert whole.startswith(kept)
        kept = whole
        if process.returncode != -signal.SIGKILL:
            break
        kills += 1
    assert process.returncode == 0
    assert kills >= 2
    (folder,) = (out / "small").iterdir()
    whole_run = run_bench(suite_file, tmp_path / "uninterrupted", agents=["oracle"])[0]
    assert read_run(folder).result_id == read_run(whole_run).result_id
    assert verify_run(folder).ok


def _episodes(out: Path) -> bytes:
    paths = list(out.glob("small/*/episodes.jsonl"))
    return paths[0].read_bytes() if paths else b""


@pytest.mark.parametrize("limit", [0, 1500, 5000, 9001])
def test_full_disk(finished: Path, suite_file: Path, tmp_path: Path, limit: int) -> None:
    """No file may grow past a limit: as ENOSPC, one line, exit 2, and no half line or half file."""
    out = tmp_path / "out"
    process = start(suite_file, out, limit_bytes=limit)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 2
    assert len(errors.splitlines()) == 1
    assert "cannot write" in errors
    assert "free" in errors
    for path in out.rglob("*"):
        assert path.is_dir() or path.name in (RUN_FILE, EPISODES_FILE, "small.toml")
        if path.name == EPISODES_FILE:
            data = path.read_bytes()
            assert not data or data.endswith(b"\n")
            assert all(json.loads(line) for line in data.splitlines())
        if path.name == RUN_FILE:
            read_run(path.parent)
    if limit == 9001:
        assert _episodes(out)
    (folder,) = run_bench(suite_file, out, agents=["oracle"])
    assert read_run(folder).result_id == read_run(oracle_folder(finished)).result_id


def test_one_writer_at_a_time(run_folder: Path) -> None:
    suite = run_folder.parents[2] / "suites" / "small.toml"
    with sole_writer(run_folder), pytest.raises(UsageError, match="another process is writing"):
        run_bench(suite, run_folder.parents[1], agents=["oracle"])


def test_journal_trims_half_a_line_however_long(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    for whole in (b"", b"one\n", b"one\ntwo\n"):
        path.write_bytes(whole + b"x" * 200_000)
        with Journal(path) as journal:
            journal.append("next")
        assert path.read_bytes() == whole + b"next\n"


def test_journal_syncs_while_it_is_open_and_lets_lines_gather(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, fsync, waits = threading.Event(), os.fsync, []
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.set(), fsync(fd))[1])
    with Journal(tmp_path / "lines") as journal:
        wait = journal._closing.wait
        monkeypatch.setattr(
            journal._closing, "wait", lambda seconds: (waits.append(seconds), wait(seconds))[1]
        )
        for _ in range(100):
            journal.append("line")
        assert synced.wait(60)
    assert set(waits) == {SYNC_SECONDS / 2}
    assert SYNC_SECONDS <= 1.0


def test_journal_reports_a_failing_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(28, "No space left on device")

    journal = Journal(tmp_path / "lines")
    journal.append("line")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UsageError, match="No space left on device"):
        journal.close()


@pytest.fixture
def bad_suite(suite_file: Path) -> Iterator[Path]:
    yield suite_file
    assert not (suite_file.parents[1] / "out").exists(), "bad input must leave nothing behind"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tests/Corridor-v0", "agentgym/Sokobn-v0", "did you mean 'agentgym/Sokoban-v0'"),
        ("slip = 0.6", "slipp = 0.6", "unknown option 'slipp' .did you mean 'slip'"),
        ('kind = "oracle"', 'kind = "orcale"', "did you mean 'oracle'"),
        ('kind = "oracle"', 'kind = "oracle"\noptions = { depth = 3 }', "no option 'depth'"),
        ("tasks = 12", "tasks = 1200", "has 40 tasks, the suite asks for 1200"),
        ("max_steps = 6", "max_steps = 0", "max_steps must be"),
    ],
)
def test_bad_suites_are_usage_errors(bad_suite: Path, old: str, new: str, message: str) -> None:
    bad_suite.write_text(bad_suite.read_text().replace(old, new))
    with pytest.raises(UsageError, match=message):
        run_bench(bad_suite, bad_suite.parents[1] / "out")


def test_an_unknown_agent_is_a_usage_error(bad_suite: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown agent 'orakle' \(did you mean 'oracle'"):
        run_bench(bad_suite, bad_suite.parents[1] / "out", agents=["orakle"])
    with pytest.raises(UsageError, match="num_envs must be at least 1"):
        run_bench(bad_suite, bad_suite.parents[1] / "out", num_envs=0)


def test_missing_data_is_left_out_and_said(suite_file: Path, tmp_path: Path) -> None:
    text = suite_file.read_text()
    suite_file.write_text(text.replace("slip = 0.6", 'dataset = "official"'))
    (folder,) = run_bench(suite_file, tmp_path / "out", agents=["oracle"])
    run = read_run(folder)
    assert [(gap.label, "agentgym data import" in gap.reason) for gap in run.left_out] == [("Ice", True)]
    assert verify_run(folder, suite=suite_file).ok


def test_no_data_at_all_is_an_error(bad_suite: Path) -> None:
    text = bad_suite.read_text().replace("slip = 0.6", 'dataset = "official"')
    bad_suite.write_text(text.replace("by_type = true", 'kwargs = { dataset = "official" }'))
    with pytest.raises(MissingDataError, match="no environment can be played: no data 'official': run"):
        run_bench(bad_suite, bad_suite.parents[1] / "out")


def test_an_episode_is_found_by_its_name(run_folder: Path) -> None:
    episodes = read_episodes(run_folder)
    run = open_run(run_folder)
    env, episode = run.sample(episodes[4].id)
    assert episode == episodes[4]
    assert env.label == episode.env
    assert run.log == read_run(run_folder)
    assert run.sample(f"Corridor/{3:032x}/1")[1].key == ("Corridor", f"{3:032x}", 1)
    assert run.sample(f"{11:x}/1")[1].key == ("Corridor", f"{11:032x}", 1)
    assert run.sample("5")[1] == episodes[4]
    with pytest.raises(UsageError, match="no episode '45'"):
        run.sample("45")
    with pytest.raises(UsageError, match="episodes match '/1'; name one"):
        run.sample("/1")
    with pytest.raises(UsageError, match="no episode 'Corridor/x'"):
        run.sample("Corridor/x")


def test_the_bar_moves_with_every_step(
    suite_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[float, str]] = []
    update = Progress.update

    def record(bars: Progress, task: TaskID, *, completed: float, note: str) -> None:
        shown.append((completed, note))
        update(bars, task, completed=completed, note=note)

    monkeypatch.setattr(Progress, "update", record)
    console = Console(file=StringIO())
    label = load_suite(suite_file).env[0].label
    (folder,) = run_bench(suite_file, tmp_path, agents=["oracle"], envs=[label], num_envs=2, console=console)
    episodes = read_episodes(folder)
    assert next(note for done, note in shown if done).startswith(f"0/{len(episodes)} episodes, 2 steps")
    steps = sum(episode.length for episode in episodes)
    assert shown[-1][1] == f"{len(episodes)}/{len(episodes)} episodes, {steps} steps, 100 % won"
    assert [done for done, _ in shown] == sorted(done for done, _ in shown)


def test_who_listens_how_episodes_end_plays_attempt_by_attempt(suite_file: Path, tmp_path: Path) -> None:
    agent = SuiteAgent("listener", f"{corridor.__name__}:Listener")
    run_bench(suite_file, tmp_path, agents=["listener"], envs=["Corridor"], further=[agent], num_envs=5)
    assert corridor.Listener.ends == [0] * 12 + [1] * 12
