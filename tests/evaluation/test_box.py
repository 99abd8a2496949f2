"""Boxes: what the files of a stranger ask for ends in one line, within limits."""

import fcntl
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gymnasium
import pytest
from rich.console import Console

from agentgym.cli import main
from agentgym.errors import MissingDataError, UsageError
from agentgym.evaluation.log.results import Excluded
from agentgym.evaluation.log.runfiles import read_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.evaluation.verify.box import LimitError, Limits, boxed
from agentgym.evaluation.verify.submissions import Submission, Unranked, verify_below
from agentgym.site.build import build_site
from tests.evaluation.making import write_complete

FEW = Limits(memory=1.0, processor=20.0, wall=240.0, files=64)

# --- a job ------------------------------------------------------------------------------------------


def in_box(call, *arguments, files=(), **named):  # type: ignore[no-untyped-def]
    return boxed(call, *arguments, files=files, limits=FEW, **named)


def fill(gib: float, *, allow: object, console: object) -> int:
    return len(bytearray(int(gib * 2**30)))


def process(*, allow: object, console: object) -> int:
    return os.getpid()


def spin(*, allow: object, console: object) -> None:
    while True:
        pass


def wait(*, allow: object, console: object) -> None:
    threading.Event().wait()


def leave(*, allow: object, console: object) -> None:
    os._exit(7)


def fail(*, allow: object, console: object) -> None:
    raise MissingDataError("of the job")


def read(path: str, *, allow: object, console: object) -> bytes:
    return Path(path).read_bytes()


def write(path: str, *, allow: object, console: object) -> None:
    Path(path).write_text("written")


def many(path: str, *, allow: object, console: object) -> int:
    return len([open(path) for _ in range(100)])


def names(path: str, *, allow: object, console: object) -> list[str]:
    return [entry.name for entry in os.scandir(path)] + os.listdir(path)


def query(path: str, *, allow: object, console: object) -> None:
    sqlite3.connect(f"file:{path}?mode=ro", uri=True).execute("select 1")


def remove(path: str, *, allow: object, console: object) -> None:
    os.remove(path)


def connect(port: int, *, allow: object, console: object) -> None:
    socket.create_connection(("127.0.0.1", port)).close()


def resolve(name: str, *, allow: object, console: object) -> None:
    socket.getaddrinfo(name, 80)


def registered(name: str, *, allow: object, console: object) -> bool:
    return name in gymnasium.registry


def long(size: int, *, allow: object, console: object) -> bytes:
    return bytes(size)


def hold(path: str, *, allow: object, console: object) -> None:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("held")
        file.flush()
        threading.Event().wait()


def told(*, allow: object, console: Console | None) -> object:
    return allow, None if console is None else console.stderr


def test_a_job_has_its_value_or_its_error() -> None:
    assert in_box(told, allow=["some:code"]) == (["some:code"], None)
    assert in_box(told, console=Console(force_terminal=True)) == ((), True)
    with pytest.raises(MissingDataError, match=r"^of the job$"):
        in_box(fail)


def test_a_box_does_one_job_after_another() -> None:
    assert in_box(process) == in_box(process) != os.getpid()


def test_memory_has_a_limit_and_what_came_before_does_not_count() -> None:
    with pytest.raises(LimitError, match=r"^it takes more than 1 GiB of memory: raise .* --bound memory="):
        in_box(fill, 1.5)
    assert in_box(fill, 0.4) == int(0.4 * 2**30)
    before = in_box(process)
    assert in_box(fill, 0.6) == int(0.6 * 2**30)  # more than half: the next job gets a new process
    in_box(process)
    assert in_box(process) != before


def test_processor_time_has_a_limit() -> None:
    with pytest.raises(LimitError, match=r"^it takes more than 0\.5 seconds of processor time: "):
        boxed(spin, files=(), limits=replace(FEW, processor=0.5))


def test_a_job_that_waits_is_ended() -> None:
    assert in_box(process)
    with pytest.raises(LimitError, match=r"^it takes more than 0\.1 seconds: .* --bound wall=NUMBER"):
        boxed(wait, files=(), limits=replace(FEW, wall=0.1))


def test_a_limit_may_be_longer_than_the_system_waits() -> None:
    assert boxed(process, limits=replace(FEW, wall=9e8))


def test_an_answer_has_a_limit() -> None:
    with pytest.raises(LimitError, match=r"^it takes more than 0\.125 GiB of memory for what was found: "):
        in_box(long, (1 << 27) + 1)


SCRIPT = """\
from pathlib import Path
from agentgym.evaluation.verify.box import boxed
from tests.evaluation.test_box import {call}
print(boxed({call}{arguments}))
"""


@pytest.mark.parametrize("place", ["file", "-"])
def test_a_plain_script_may_use_boxes(place: str, tmp_path: Path) -> None:
    script = SCRIPT.format(call="told", arguments="")
    (tmp_path / "file").write_text(script)
    found = _python(str(tmp_path / "file") if place == "file" else "-")
    out, _ = found.communicate(script, timeout=240)
    assert (found.returncode, out) == (0, "((), None)\n")


def test_a_box_ends_with_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "held"
    parent = _python(
        "-c", SCRIPT.format(call="hold", arguments=f", {str(path)!r}, writes=[{str(tmp_path)!r}]")
    )
    end = time.monotonic() + 240
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < end
        assert parent.poll() is None
        time.sleep(0.05)
    parent.kill()
    parent.communicate(timeout=240)
    with path.open() as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                assert time.monotonic() < end
                time.sleep(0.05)


def _python(*arguments: str) -> subprocess.Popen[str]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    command, pipe = [sys.executable, *arguments], subprocess.PIPE
    environ = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environ)


def test_environments_that_a_session_defines_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = type("Session", (), {"__module__": "__main__"})
    monkeypatch.setattr(sys.modules["__main__"], "Session", entry, raising=False)
    for name, entry_point in (("session/Own-v0", entry), ("package/Own-v0", "package:Own")):
        spec = gymnasium.envs.registration.EnvSpec(name, entry_point)
        monkeypatch.setitem(gymnasium.registry, name, spec)
    assert in_box(registered, "package/Own-v0")
    assert not in_box(registered, "session/Own-v0")


def test_a_process_that_ends_is_an_error() -> None:
    with pytest.raises(LimitError, match=r"ended with code 7$"):
        in_box(leave)


def test_only_what_is_named_is_opened(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other):
        folder.mkdir()
        (folder / "file").write_text("text")
    (mine / "link").symlink_to(other / "file")
    (mine / "within").symlink_to(mine / "file")
    assert in_box(read, f"{mine}/file", files=[mine]) == b"text"
    assert in_box(read, f"{mine}/within", files=[mine]) == b"text"
    assert sorted(in_box(names, str(mine), files=[mine])) == sorted(os.listdir(mine) * 2)
    for path in (f"{other}/file", f"{mine}/link", f"{mine}/../other/file", "/etc/hosts", "/dev/zero"):
        with pytest.raises(PermissionError, match="opens nothing there unless --allow names the folder"):
            in_box(read, path, files=[mine])
    for call in (names, query, remove, write):
        with pytest.raises(PermissionError, match="opens nothing there"):
            in_box(call, str(other), files=[mine])
    assert in_box(read, f"{other}/file", files=[mine], allow=[str(other)]) == b"text"
    with pytest.raises(PermissionError, match="opens nothing there"):
        in_box(write, f"{other}/file", files=[mine], allow=[str(other)])
    with pytest.raises(PermissionError, match="opens nothing there"):
        in_box(write, f"{mine}/new", files=[mine])
    in_box(write, f"{mine}/new", writes=[mine])
    assert (mine / "new").read_text() == "written"


def test_links_of_the_users_folders_are_followed_and_of_strangers_not(tmp_path: Path) -> None:
    own, other, mine = tmp_path / "own", tmp_path / "other", tmp_path / "own" / "mine"
    for folder in (own, other, mine):
        folder.mkdir()
    (other / "file").write_text("text")
    for folder in (own, mine):
        (folder / "link").symlink_to(other / "file")
    (tmp_path / "again").symlink_to(own)
    assert in_box(read, f"{own}/link", trusted=[own]) == b"text"
    assert in_box(read, f"{own}/link", allow=[str(own)]) == b"text"
    assert in_box(names, str(own), trusted=[tmp_path / "again"])  # a program may resolve a link first
    with pytest.raises(PermissionError, match="opens nothing there"):
        in_box(read, f"{mine}/link", files=[mine], trusted=[own])


def test_of_pythons_folders_only_libraries_are_opened() -> None:
    for path in (f"{sys.prefix}/pyvenv.cfg", f"{sys.base_prefix}/bin/python3"):
        with pytest.raises(PermissionError, match="opens nothing there"):
            in_box(read, path)
    assert in_box(read, f"{Path(pytest.__file__).parent}/py.typed") == b""


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermissionError, match="no regular file"):
        in_box(read, f"{tmp_path}/pipe", files=[tmp_path])


def test_files_and_connections_have_limits(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Too many open files"):
        in_box(many, f"{tmp_path}/file", files=[tmp_path])
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(PermissionError):
        in_box(connect, server.getsockname()[1])
    with pytest.raises(PermissionError):
        in_box(resolve, "localhost")


@pytest.mark.parametrize("value", [0, -1, 1e9, "many", True])
def test_limits_are_numbers_above_0(value: object) -> None:
    with pytest.raises(UsageError, match=r"^the limit memory is a number above 0, got "):
        Limits(memory=value)  # type: ignore[arg-type]


# --- runs of strangers --------------------------------------------------------------------------------

SUITE = """\
name = "own"
version = "1"
seed = 7

[[env]]
id = "agentgym/EZPoints-v0"
label = "EZPoints"
split = "test"
tasks = 2

[[env]]
id = "agentgym/Sokoban-v0"
label = "Sokoban"
split = "test"
tasks = 1
kwargs = { dataset = "builtin" }

[[agent]]
name = "random"
kind = "random"

[[agent]]
name = "oracle"
kind = "oracle"
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder of a stranger, with an honest suite and its runs."""
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "own.toml").write_text(SUITE)
    run_bench(tmp_path / "suites" / "own.toml", tmp_path / "results")
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
