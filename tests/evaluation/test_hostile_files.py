"""Whatever the files of one run are, it is one line; others are ranked, and pages written all or none."""

import os
import re
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.cli import main
from agentgym.errors import UsageError
from agentgym.evaluation.board.leaderboard import build_leaderboard
from agentgym.evaluation.log.runfiles import RUN_FILES, read_episodes, read_run
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.evaluation.verify import submissions
from agentgym.evaluation.verify.packed import SUFFIX
from agentgym.io.files import replace_files
from agentgym.io.untrusted import loads_json, read_file
from agentgym.site.build import build_site
from tests.evaluation.making import write_complete


def pipe(path: Path) -> None:
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        here = Path.cwd()
        os.chdir(path.parent)  # its path is longer than a socket's may be
        bound.bind(path.name)
        os.chdir(here)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


KINDS: tuple[Callable[[Path], None], ...] = (pipe, bound_socket, device, Path.mkdir, dangling, loop)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_no_regular_file_is_refused(tmp_path: Path, kind: Callable[[Path], None]) -> None:
    path = tmp_path / "run.json"
    kind(path)
    with pytest.raises(UsageError, match=r"run\.json") as caught:
        read_file(path)
    assert "\n" not in str(caught.value)


@pytest.fixture
def results(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy" / "results"


def ranked(results: Path, page: Path) -> list[tuple[str, str]]:
    """Build a board; return which runs are not on it, and why. Both honest runs must be."""
    built = build_leaderboard(results, page)
    (board,) = built.boards
    assert [row.name for row in board.rows] == ["oracle", "random"]
    assert [row.rank for row in board.rows] == [1, 2]
    unranked = [*board.unranked, *built.unranked]
    text = page.read_text(encoding="utf-8")
    assert text.count("Not ranked: ") == len(unranked)
    return [(run.name, run.reason) for run in unranked]


def test_one_run_that_cannot_be_read_stops_no_board(results: Path, tmp_path: Path) -> None:
    (oracle,) = results.glob("small/oracle-*")
    for name in ("run.json", "episodes.jsonl"):
        for kind in KINDS:
            folder = results / "bad" / f"{name}-{kind.__name__}"
            shutil.copytree(oracle, folder)
            (folder / name).unlink()
            kind(folder / name)
    names = (b"\xff\xfe", b"a\nb", b"\x1b[31m", b"| x |", b"-rf", b"\xed\xa0\x80", b"n" * 255)
    for number, name in enumerate(names):
        folder = Path(os.fsdecode(os.path.join(os.fsencode(results), b"odd", name)))
        folder.mkdir(parents=True)
        (folder / "run.json").write_bytes((b"", b"\xff", b"[" * 99_999, b'"\\ud800"')[number % 4])
    for name in ("pipe", "folder", "empty"):
        packed = results / f"{name}{SUFFIX}"
        {"pipe": pipe, "folder": Path.mkdir, "empty": Path.touch}[name](packed)
    pipe(results / "pipe.submission.zip")
    found = ranked(results, tmp_path / "page.md")
    assert len(found) == 2 * len(KINDS) + 7 + 4
    assert {reason.partition(":")[0] for _, reason in found} <= {"refused", "claimed"}
    assert "\\udcff\\udcfe" in dict(found)


def test_a_board_and_a_site_end_whole_beside_them(results: Path, tmp_path: Path, capsys) -> None:
    """By the command line, whose output is text too."""
    odd = Path(os.fsdecode(os.fsencode(results) + b"/\xff\xfe"))
    shutil.copytree(next(results.glob("small/oracle-*")), odd)
    (odd / "answers.jsonl").write_text('{"env":"Corridor","key":"k","kind":"\\ud800","value":0}\n')
    pipe(results / "small" / f"x{SUFFIX}")
    allow = ["--allow", "tests/Corridor-v0"]
    assert main(["leaderboard", "build", str(results), "--out", str(tmp_path / "page.md"), *allow]) == 0
    assert main(["site", "build", str(results), "--out", str(tmp_path / "site"), *allow]) == 0
    assert capsys.readouterr().out.count("not ranked: ") == 4
    assert (tmp_path / "site" / "index.html").exists()
    assert main(["verify", str(odd)]) == 1
    assert "answers.jsonl" in capsys.readouterr().out


@pytest.mark.parametrize("kind", [pipe, device], ids=lambda kind: kind.__name__)
def test_a_copy_without_episodes_that_can_be_read_stops_no_site(
    results: Path, tmp_path: Path, kind: Callable[[Path], None]
) -> None:
    """It shares its request's id with an honest run, so that its page needs another name."""
    copy = results / "aaa"
    shutil.copytree(next(results.glob("small/oracle-*")), copy)
    (copy / "episodes.jsonl").unlink()
    kind(copy / "episodes.jsonl")
    built = build_site(results, tmp_path / "site")
    assert [run.name for board in built.boards for run in board.unranked] == ["oracle"]
    assert len(list((tmp_path / "site").glob("run-*.html"))) == 3


def test_where_runs_lie_does_not_decide_whose_page_has_the_name_of_a_request(
    results: Path, tmp_path: Path
) -> None:
    """Two good runs of one request: both orders of their folders give the same pages."""
    (random,) = results.glob("small/random-*")
    found = read_run(random)
    agent = SuiteAgent("twin", "scripted", {"path": "moves.jsonl"})
    run = replace(found, agent=agent)
    pages = []
    for first, second in (("a", "b"), ("b", "a")):
        episodes = read_episodes(random)
        for place, each in ((first, episodes), (second, [replace(e, cost=1.0) for e in episodes])):
            shutil.rmtree(results / place, ignore_errors=True)
            (results / place).mkdir()
            write_complete(results / place, run, each)
        build_site(results, tmp_path / "site")
        pages.append({p.name: p.read_text() for p in (tmp_path / "site").glob("run-*.html")})
        (tmp_path / "site").rename(tmp_path / first)
    assert len(pages[0]) == 4
    assert {name: record_ids(text) for name, text in pages[0].items()} == {
        name: record_ids(text) for name, text in pages[1].items()
    }


def record_ids(page: str) -> list[str]:
    return re.findall(r"\b[0-9a-f]{64}\b", page)


def test_an_error_of_this_package_is_one_line_too(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unboxed: None
) -> None:
    real = submissions.open_run

    def fails(path: Path, *arguments, **options):  # type: ignore[no-untyped-def]
        if path.name == "third":
            raise ZeroDivisionError("of ours")
        return real(path, *arguments, **options)

    shutil.copytree(next(results.glob("small/oracle-*")), results / "small" / "third")
    monkeypatch.setattr(submissions, "open_run", fails)
    found = ranked(results, tmp_path / "page.md")
    assert found == [("third", "failed: ZeroDivisionError: of ours; report it, with the run")]
    with pytest.raises(UsageError, match="nothing is written: run third: failed: "):
        build_leaderboard(results, tmp_path / "strict.md", strict=True)
    assert not list(tmp_path.glob("strict.*"))


def test_a_folder_that_cannot_be_opened_is_a_line(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    def closed(path):  # type: ignore[no-untyped-def]  # whoever is root may open any
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    (results / "closed").mkdir()
    monkeypatch.setattr(os, "scandir", closed)
    ((name, reason),) = ranked(results, tmp_path / "page.md")
    assert (name, reason.rpartition("/")[2]) == ("closed", "closed: Permission denied")


def test_pages_are_written_all_or_none(results: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("old")
    (tmp_path / "page.tex").mkdir()  # the last of the four
    with pytest.raises(UsageError, match=r"cannot write .*page\.tex"):
        build_leaderboard(results, page)
    assert page.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "page.md", "page.tex"]
    with pytest.raises(UnicodeEncodeError):
        replace_files({page: "new", tmp_path / "other": "\ud800"})
    assert page.read_text() == "old"


def test_half_a_surrogate_in_json_is_refused_and_a_whole_pair_is_not() -> None:
    halves = (
        '"\\ud800"',
        '{"a":["\\uDFFF"]}',
        '{"\\ud800":1}',
        '"\\ud800\\ud800\\udc00"',
        b'"\\udc00\\ud800"',
    )
    for text in halves:
        with pytest.raises(UsageError, match=r"^x: half of a surrogate pair in '.*\\ud\w{3}', no "):
            loads_json(text, "x")
        assert loads_json(text, "x", half_characters="kept")
    assert loads_json('["\\ud83d\\ude00", "\\\\ud800"]', "x") == ["\U0001f600", "\\ud800"]


def test_every_file_of_a_run_is_in_the_list(results: Path) -> None:
    """What is in the list is fuzzed; whatever a module of the package calls its file must be in it."""
    import importlib
    import pkgutil

    import agentgym.evaluation as package

    named = set()
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if name.endswith("_FILE") and isinstance(value, str):
                named.add(value)
    assert named == set(RUN_FILES)
