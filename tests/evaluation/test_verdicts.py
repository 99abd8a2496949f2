"""Verdicts are kept on the machine that found them, and end with what they are about."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.cli import main
from agentgym.evaluation.log.results import EPISODES_FILE, VERIFY_FILE
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.verify import verdicts
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.packed import pack_run
from agentgym.evaluation.verify.verdicts import StoredVerdict, Verdict
from agentgym.evaluation.verify.verification import verify_run
from tests.suite_texts import RANDOM, env_table, suite_text, write_suite

CARDS = suite_text("cards", env_table("agentgym/EZPoints-v0", 3), seed=7)


def found(folder: Path) -> Verdict | None:
    return StoredVerdict(open_run(folder)).read()


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a run's folder; nothing has been verified on this machine."""
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    path = write_suite(tmp_path, CARDS)
    (folder,) = run_bench(path, tmp_path / "results", agents=["oracle"])
    return folder


def test_a_verdict_ends_with_the_files_the_suite_and_the_code(
    cards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cards
    assert found(folder) is None
    verdict = verify_run(folder)
    assert found(folder) == verdict
    run = open_run(folder)
    assert StoredVerdict(run.against(replace(run.suite, version="2"))).read() is None
    with monkeypatch.context() as patch:
        patch.setattr("agentgym.evaluation.verify.verdicts.suite_code_sha256", lambda *_: "0" * 64)
        assert found(folder) is None
    with (folder / EPISODES_FILE).open("a") as file:
        file.write("\n")
    assert found(folder) is None


def test_what_a_verdict_depends_on_is_computed_once(cards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = []
    for name in ("_data_state", "suite_code_sha256"):
        real = getattr(verdicts, name)
        monkeypatch.setattr(
            verdicts, name, lambda *of, name=name, real=real: computed.append(name) or real(*of)
        )
    assert verify_run(cards).ok
    assert sorted(computed) == ["_data_state", "suite_code_sha256"]


LEVELS = suite_text(
    "levels",
    env_table("agentgym/Sokoban-v0", 1, kwargs={"max_optimal": 4, "max_steps": 2}),
    agents=(RANDOM,),
    seed=7,
    floor="",
    oracle="",
)


def test_a_verdict_ends_with_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
    data = tmp_path / "data" / "sokoban" / "medium" / "000.txt"
    data.parent.mkdir(parents=True)
    data.write_text("one")
    path = write_suite(tmp_path, LEVELS)
    (folder,) = run_bench(path, tmp_path / "results")
    verdict = verify_run(folder)
    assert found(folder) == verdict
    data.write_text("two")
    assert found(folder) is None
    assert verify_run(folder).ok
    assert found(folder) is not None
    data.with_name("001.txt").touch()
    assert found(folder) is None
    run = open_run(folder)
    elsewhere = replace(run.suite.env[0], kwargs={"dataset": str(tmp_path)})
    verify_run(folder)
    assert StoredVerdict(run.against(replace(run.suite, env=(elsewhere,)))).read() is None


def test_a_verdict_that_comes_with_a_run_is_not_read(cards: Path, tmp_path: Path) -> None:
    folder = cards
    verify_run(folder)
    shutil.rmtree(tmp_path / "cache")
    assert json.loads((folder / VERIFY_FILE).read_text())["ok"]
    assert found(folder) is None


def test_a_better_badge_stays(cards: Path) -> None:
    folder = cards
    for rerun, badge in ((False, "replayed"), (None, "re-run"), (False, "re-run")):
        verify_run(folder, rerun=rerun)
        kept = found(folder)
        assert kept is not None
        assert kept.badge == badge


def test_nothing_is_kept_of_environments_of_others(run_folder: Path) -> None:
    verify_run(run_folder)
    assert found(run_folder) is None


@pytest.mark.parametrize("taken", ["home", "home/cache/verdicts"])
def test_a_run_is_ranked_where_no_verdict_can_be_kept(
    cards: Path,
    taken: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = cards.parents[1]
    run_bench(tmp_path / "suites" / "cards.toml", results, agents=["random"])
    for folder in (results / "cards").iterdir():
        pack_run(open_run(folder), tmp_path / "packed")
    shutil.rmtree(tmp_path / "cache")
    cache = tmp_path / "home" / "cache"
    (tmp_path / taken).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / taken).write_text("a file is where a folder should be")
    monkeypatch.setenv("AGENTGYM_CACHE", str(cache))
    for runs in (results, tmp_path / "packed"):
        assert main(["leaderboard", "build", str(runs)]) == 0
        (board,) = json.loads((runs / "LEADERBOARD.json").read_text())["boards"]
        assert [row["name"] for row in board["rows"]] == ["oracle", "random"]
    assert main(["verify", str(cards)]) == 0
    said = capsys.readouterr().err
    assert said.count("AGENTGYM_CACHE") == said.count("\n") == (taken == "home")
    assert verify_run(cards).ok
    assert found(cards) is None
