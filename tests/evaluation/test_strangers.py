"""Runs of strangers: each is one line, whatever it holds, and the others are ranked."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.cli import main
from agentgym.evaluation.log.results import Excluded
from agentgym.evaluation.log.runfiles import read_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.evaluation.verify.box import LimitError, Limits, boxed
from agentgym.evaluation.verify.submissions import Submission, Unranked, verify_below
from agentgym.site.build import build_site
from tests.evaluation.making import write_complete
from tests.suite_texts import env_table, suite_text, write_suite

FEW = Limits(memory=1.0, processor=20.0, wall=240.0, files=64)

SUITE = suite_text(
    "own",
    env_table("agentgym/EZPoints-v0", 2),
    env_table("agentgym/Sokoban-v0", 1, kwargs={"dataset": "builtin"}),
    seed=7,
)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder of a stranger, with an honest suite and its runs."""
    run_bench(write_suite(tmp_path, SUITE), tmp_path / "results")
    return tmp_path / "results"


def folder_of(runs: Path, agent: str) -> Path:
    (folder,) = (runs / "own").glob(f"{agent}-*")
    return folder


def reasons(runs: Path, limits: Limits = FEW) -> dict[str, str]:
    """Return what came of each run, by its name: nothing where it is ranked."""
    found = verify_below(runs, limits=limits)
    return {
        each.name if isinstance(each, Unranked) else each.run.agent.name: (
            each.reason if isinstance(each, Unranked) else ""
        )
        for each in found
        if isinstance(each, Submission | Unranked)
    }


def test_honest_runs_are_ranked(runs: Path) -> None:
    assert reasons(runs) == {"oracle": "", "random": ""}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("scripted", {"path": "/dev/zero"}),
        ("scripted", {"path": "PIPE"}),
        ("model", {"path": "/dev/zero"}),
        ("react", {"endpoint": "http://127.0.0.1:9", "model": "m"}),
    ],
)
def test_no_agent_is_made_of_a_runs_options(runs: Path, kind: str, options: dict[str, str]) -> None:
    folder = folder_of(runs, "random")
    pipe = runs / "pipe"
    os.mkfifo(pipe)
    options = {name: value.replace("PIPE", str(pipe)) for name, value in options.items()}
    run = read_run(folder)
    kept = [line for line in (folder / "episodes.jsonl").read_text().splitlines() if '"Sokoban"' not in line]
    run = replace(run, agent=SuiteAgent("evil", kind, options), left_out=(Excluded("Sokoban", "no"),))
    write_complete(folder, run, _episodes(folder, kept))
    assert reasons(runs) == {
        "oracle": "",
        "evil": "refused: environment: Sokoban: left out, though the agent plays it",
    }


def _episodes(folder: Path, lines: list[str]):  # type: ignore[no-untyped-def]
    from agentgym.evaluation.log.runfiles import read_episodes

    return read_episodes(folder)[: len(lines)]


@pytest.mark.parametrize("place", ["/", "/etc", "/dev"])
def test_a_suite_names_no_place_on_the_disk(runs: Path, place: str) -> None:
    suite = runs.parent / "suites" / "own.toml"
    run_bench(suite, runs)
    suite.write_text(SUITE.replace('dataset = "builtin"', f'dataset = "{place}"'))
    _as_of(suite, runs)
    for reason in reasons(runs).values():
        assert reason.startswith(("refused: ", "claimed: "))
        assert "opens nothing there unless --allow names the folder" in reason
        assert "X11" not in reason


def test_a_folder_of_suites_that_is_a_link_opens_nothing(runs: Path) -> None:
    suites = runs.parent / "suites"
    suites.rename(runs.parent / "elsewhere")
    suites.symlink_to("/")
    (runs / "own" / "suites").mkdir()
    (runs / "own" / "suites" / "own.toml").write_text(SUITE.replace('"builtin"', '"/etc"'))
    _as_of(runs / "own" / "suites" / "own.toml", runs)
    for reason in reasons(runs).values():
        assert "opens nothing there unless --allow names the folder" in reason


def test_the_site_plays_runs_within_limits(runs: Path, tmp_path: Path) -> None:
    suite = runs.parent / "suites" / "own.toml"
    suite.write_text(SUITE.replace('"builtin"', '"/etc"'))
    _as_of(suite, runs)
    for folder in (runs / "own").iterdir():  # refused before anything is opened
        text = (folder / "run.json").read_text()
        (folder / "run.json").write_text(text.replace(read_run(folder).record_id or "", "0" * 64))
    built = build_site(runs, tmp_path / "site", limits=FEW)
    assert [run.reason for run in built.unranked] == [
        "refused: record: run.json: record_id does not follow from the rest of the file"
    ] * 2
    pages = [page.read_text() for page in (tmp_path / "site").glob("run-*.html")]
    assert len(pages) == 2
    assert all("opens nothing there unless --allow names the folder" in page for page in pages)
    assert not any("X11" in page for page in pages)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("tasks = 2\n", "tasks = 200000\n"), "2 of 200,000 episodes are in the file"),
        (("seed = 7\n", "seed = 7\nattempts = 1000\n"), "2 of 2,000 episodes are in the file"),
    ],
)
def test_lines_are_counted_before_anything_is_opened(
    runs: Path, change: tuple[str, str], reason: str
) -> None:
    suite = runs.parent / "suites" / "own.toml"
    suite.write_text(SUITE.replace(*change).replace('dataset = "builtin"', 'dataset = "/"'))
    _as_of(suite, runs)
    assert [said.split(" (and")[0] for said in reasons(runs).values()] == [
        f"refused: missing: EZPoints: {reason}"
    ] * 2


def test_a_suite_of_a_million_products_is_a_line(runs: Path) -> None:
    suite = runs.parent / "suites" / "own.toml"
    suite.write_text(
        SUITE.replace("agentgym/Sokoban-v0", "agentgym/WebShop-v0").replace('"builtin"', '"builtin:1000000"')
    )
    _as_of(suite, runs)
    (folder_of(runs, "oracle") / "run.json").unlink()
    (reason,) = reasons(runs, replace(FEW, processor=4.0)).values()
    assert reason.startswith("refused: it takes more than 4 seconds of processor time")


def _as_of(suite_path: Path, runs: Path) -> None:
    """Make the runs those of a suite, digests and all."""
    from agentgym.core.hashing import sha256_json
    from agentgym.evaluation.log.results import RunEnv
    from agentgym.evaluation.log.runfiles import read_episodes
    from agentgym.evaluation.suites.suite import load_suite

    suite = load_suite(suite_path)
    for folder in (found.parent for found in (runs / "own").glob("*/run.json")):
        run = read_run(folder)
        envs = tuple(
            RunEnv(env.played, env.spec, old.manifest_sha256, old.answers)
            for env, old in zip(suite.env, run.envs, strict=True)
        )
        log = replace(run, envs=envs, suite_sha256=suite.sha256)
        log = replace(log, suite=replace(log.suite, attempts=suite.attempts))
        write_complete(folder, replace(log, request_id=sha256_json(log.request)), read_episodes(folder))


@pytest.fixture
def deep(runs: Path) -> Iterator[Path]:
    """Return the runs beside folders within one another, deeper than Python's recursion goes."""
    here = os.getcwd()
    try:
        os.chdir(runs)
        for _ in range(1_500):
            os.mkdir("d")
            os.chdir("d")
        os.chdir(here)
        yield runs
        os.chdir(runs / "/".join(["d"] * 1_500))
        for _ in range(1_500):  # pytest would remove them by recursion
            os.chdir("..")
            os.rmdir("d")
    finally:
        os.chdir(here)


def test_folders_lie_within_one_another_as_deep_as_they_like(deep: Path) -> None:
    assert {name for name, reason in reasons(deep).items() if not reason} == {"oracle", "random"}


def test_a_path_may_be_as_long_as_it_likes(runs: Path) -> None:
    here, left, top = os.getcwd(), 4_090 - len(str(runs)), runs / ("d" * 250)
    try:
        os.chdir(runs)
        while left > 251:
            os.mkdir("d" * 250)
            os.chdir("d" * 250)
            left -= 251
        os.makedirs(f"{'d' * (left - 1)}/f")
        os.chdir(f"{'d' * (left - 1)}/f")  # its own path is short enough, that of suites beside it is not
        shutil.copy(folder_of(runs, "oracle") / "run.json", "run.json")
        os.chdir(here)
        assert {name for name, reason in reasons(runs).items() if not reason} == {"oracle", "random"}
    finally:
        os.chdir(here)
        shutil.rmtree(top)


def test_a_run_that_cannot_be_verified_keeps_no_other_from_it(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, evil = folder_of(runs, "oracle"), runs.parent / "evil"
    assert main(["submit", "pack", str(honest), "--out", str(runs / "archives"), *CARD]) == 0
    (archive,) = (runs / "archives").rglob("*.zip")
    shutil.copytree(runs, evil / "results")
    (evil / "suites").mkdir()
    (evil / "suites" / "own.toml").write_text(SUITE.replace('"builtin"', '"/etc"'))
    _as_of(evil / "suites" / "own.toml", evil / "results")
    capsys.readouterr()
    refused = folder_of(evil / "results", "oracle")
    assert main(["verify", str(refused), str(honest)]) == 2
    out, err = capsys.readouterr()
    assert out.startswith(f"re-run: {honest}")
    assert "opens nothing there unless --allow names the folder" in err

    def limited(call: object, path: Path, *arguments: object, **named: object) -> object:
        if path == archive:
            raise LimitError("it takes more")
        return boxed(call, path, *arguments, **named)  # type: ignore[arg-type]

    copy = shutil.copy(archive, archive.with_name(f"copy-{archive.name}"))
    monkeypatch.setattr("agentgym.evaluation.verify.box.boxed", limited)
    assert main(["submit", "check", str(archive), str(copy)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{archive}: cannot be checked here: it takes more",
        f"{copy}: re-run (3 episodes)",
    ]


CARD = ("--contact", "a@b.example", "--licence", "none", "--training-data", "none")


def test_limits_are_options_of_the_commands(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(folder_of(runs, "random"))
    assert main(["verify", folder]) == 0
    assert main(["verify", folder, "--bound", "wall=0.0001"]) == 2
    assert "it takes more than 0.0001 seconds: raise that with --bound wall=NUMBER" in capsys.readouterr().err
    assert main(["verify", folder, "--bound", "weight=3"]) == 2
    assert "weight" in capsys.readouterr().err
