"""Runs of models behind endpoints: ledger, cache, budgets, keys, probes, kills and resumes."""

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentgym.cli import main
from agentgym.endpoint import BudgetSpentError, CacheMissError, EndpointBudget, read_ledger
from agentgym.evaluation.log.endpoint_runs import CALLS_FILE, EndpointSettings
from agentgym.evaluation.log.results import EPISODES_FILE, latest, reopened
from agentgym.evaluation.log.runfiles import read_episodes, read_run, write_run
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.evaluation.verify.verification import verify_run
from tests.evaluation.chat_server import KEY, ChatServer, serving
from tests.evaluation.judged import REFERENCE
from tests.suite_texts import ORACLE, RANDOM, env_table, suite_text, write_suite

SUITE = suite_text("asked", env_table("tests/Corridor-v0", 10), seed=3, attempts=1)


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with serving() as server:
        yield server


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(tmp_path, SUITE)


Play = Callable[..., Path]


@pytest.fixture
def play(server: ChatServer, suite: Path, tmp_path: Path) -> Play:
    """Run an agent over the suite; returns the run's folder."""

    def run(out: str = "results", kind: str = "react", *, options=None, **settings) -> Path:
        options = {"endpoint": server.url, "model": "tiny", **(options or {})}
        agent = SuiteAgent("asker", kind, options=options)
        (folder,) = run_bench(
            suite,
            tmp_path / out,
            agents=["asker"],
            further=[agent],
            endpoints=EndpointSettings(**{"probe": False, **settings}),
        )
        return folder

    return run


def test_a_run_is_verified_and_leaves_a_ledger(play: Play, server: ChatServer) -> None:
    folder = play()
    run, episodes = read_run(folder), read_episodes(folder)
    assert {(e.url, e.model, e.asked_by) for e in run.endpoints} == {(server.url, "tiny", ("agent",))}
    rows = list(read_ledger(folder / CALLS_FILE))
    assert len(rows) == sum(e.length for e in episodes) > 30
    for name in ("prompt_tokens", "completion_tokens"):
        assert sum(getattr(row, name) for row in rows) == sum(getattr(e, name) for e in episodes) > 0
    verdict = verify_run(folder)
    assert (verdict.problems, verdict.badge) == ((), "replayed")


def probes(server: ChatServer) -> int:
    return sum("You are at" not in str(body["messages"]) for body in server.bodies)


def cut(folder: Path, episodes: int) -> None:
    """Leave a run as if it had been killed after so many episodes."""
    lines = (folder / EPISODES_FILE).read_bytes().splitlines(keepends=True)
    (folder / EPISODES_FILE).write_bytes(b"".join(lines[:episodes]))
    write_run(folder, reopened(read_run(folder)))


def test_a_probe_is_kept_and_made_once(play: Play, server: ChatServer) -> None:
    before = probes(server)
    folder = play(probe=True)
    (endpoint,) = read_run(folder).endpoints
    assert endpoint.probe["repeatable"] is True
    assert endpoint.probe["logprobs"] == "ignored"
    made = probes(server)
    assert 5 < made - before < 25
    cut(folder, 4)
    assert play(probe=True) == folder
    assert probes(server) == made
    assert read_run(folder).endpoints == (endpoint,)


def test_a_cache_alone_plays_the_same(play: Play, tmp_path: Path, server: ChatServer) -> None:
    cache = tmp_path / "answers.sqlite"
    first = play("first", cache=cache, mode="write", probe=True)
    before = len(server.bodies)
    again = play("again", cache=cache, mode="replay-only", probe=True)
    assert len(server.bodies) == before
    assert read_run(again).result_id == read_run(first).result_id
    assert read_run(again).endpoints == read_run(first).endpoints
    lines = [sorted((run / TRANSCRIPTS_FILE).read_bytes().splitlines()) for run in (first, again)]
    assert lines[0] == lines[1]
    with pytest.raises(CacheMissError, match=r"corridor .* no answer|no answer .* corridor"):
        play("other", options={"temperature": 0.7}, cache=cache, mode="replay-only")


def test_a_spent_budget_stops_and_nothing_is_lost(play: Play, tmp_path: Path) -> None:
    whole = play("whole")
    kept = {"cache": tmp_path / "answers.sqlite", "mode": "write"}
    complaints: list[str] = []
    folder = None
    while folder is None:
        try:
            folder = play(budget=EndpointBudget(requests=4), **kept)
        except BudgetSpentError as error:
            complaints.append(str(error))
    assert all(each.startswith("the budget of 4 requests is spent: 4 so far") for each in complaints)
    assert 2 <= len(complaints) <= 20
    assert read_run(folder).result_id == read_run(whole).result_id
    assert all(e.attempt == 1 for e in read_episodes(folder))


def test_a_refused_key_stops_in_one_line(suite: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("MARKER_API_KEY", KEY)
    with serving(key="another") as server:
        words = ["bench", suite, "--out", tmp_path / "results", "--endpoint", server.url, "--model", "tiny"]
        words += ["--agent", "react", "--key-env", "MARKER_API_KEY"]
        assert main([str(word) for word in words]) == 2
        complaint = capsys.readouterr().err.splitlines()[-1]
        assert complaint.startswith("agentgym: ")
        assert "MARKER_API_KEY" in complaint
        server.key = KEY
        assert main([str(word) for word in words]) == 0
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


def hard(url: str) -> str:
    """Return a suite whose agent asks an endpoint, as does a judge."""
    judge = {"endpoint": url, "model": "judge", "temperature": 0.7}
    asker = {"endpoint": url, "model": "tiny", "temperature": 0.6}
    return suite_text(
        "hard",
        env_table("tests/Corridor-v0", 6),
        env_table(REFERENCE, 6, label="Speech", metric="score", bounds=[0.0, 100.0], kwargs={"judge": judge}),
        agents=(RANDOM, ORACLE, {"name": "asker", "kind": "reflexion", "options": asker}),
        seed=3,
        attempts=2,
    )


SUBPROCESS = """\
import sys
from pathlib import Path
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.log.endpoint_runs import EndpointSettings
from tests.evaluation import corridor, judged

corridor.register()
suite, out = map(Path, sys.argv[1:])
run_bench(suite, out, agents=["asker"], num_envs=5, endpoints=EndpointSettings(probe=False))
"""


def start(suite: Path, out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SUBPROCESS, str(suite), str(out)],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> None:
    """Wait for a run that must come to its end."""
    _, complaint = process.communicate(timeout=300)
    assert process.returncode == 0, complaint


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_random_points_and_resumed_the_result_is_the_same(kills: int, tmp_path: Path) -> None:
    """A memory of attempts, a judge that samples, and no cache: what counts is in the run's own files."""
    rng = random.Random(7)
    with serving(delay=0.01) as server:
        suite = tmp_path / "hard.toml"
        suite.write_text(hard(server.url))
        whole = start(suite, tmp_path / "whole")
        started = time.monotonic()
        ended(whole)
        took = time.monotonic() - started
        (expected,) = (tmp_path / "whole").glob("*/asker-*")
        (tmp_path / "cut").mkdir()
        landed = 0
        while landed < kills:
            folder = next(iter((tmp_path / "cut").glob("*/asker-*")), None)
            if folder is not None and read_run(folder).result_id is not None:
                assert read_run(folder).result_id == read_run(expected).result_id
                shutil.rmtree(tmp_path / "cut")
                (tmp_path / "cut").mkdir()
            process = start(suite, tmp_path / "cut")
            time.sleep(rng.uniform(0.3, 1.0) * took)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                landed += 1
            process.communicate(timeout=300)
        ended(start(suite, tmp_path / "cut"))
    (folder,) = (tmp_path / "cut").glob("*/asker-*")
    assert read_run(folder).result_id == read_run(expected).result_id
    assert len(latest(read_episodes(folder))) == 24
    verdict = verify_run(folder, suite=suite, allow=[REFERENCE, "tests/Corridor-v0"])
    assert verdict.problems == ()
    assert verdict.earned == "replayed, answers recorded"
