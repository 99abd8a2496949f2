"""Boxes: what the files of a stranger ask for ends in one line, within limits."""

import fcntl
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import gymnasium
import pytest
from rich.console import Console

from agentgym.errors import MissingDataError, UsageError
from agentgym.evaluation.verify.box import LimitError, Limits, boxed
from agentgym.io.paths import cache_directory
from tests.waiting import wait_until

KEPT: list[bytearray] = []
"""Of a box."""

FEW = Limits(memory=1.0, processor=20.0, wall=240.0, files=64)

# --- a job ------------------------------------------------------------------------------------------


def in_box(call, *arguments, files=(), **named):  # type: ignore[no-untyped-def]
    return boxed(call, *arguments, files=files, limits=FEW, **named)


def fill(gib: float, *, allow: object, console: object) -> int:
    return len(bytearray(int(gib * 2**30)))


def keep(gib: float, *, allow: object, console: object) -> int:
    KEPT.append(bytearray(int(gib * 2**30)))
    return len(KEPT[-1])


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
    assert in_box(keep, 0.6) == int(0.6 * 2**30)  # more than half: the next job gets a new process
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
    wait_until(lambda: parent.poll() is not None or (path.exists() and path.read_text()))
    assert parent.poll() is None
    parent.kill()
    parent.communicate(timeout=240)
    with path.open() as file:
        wait_until(lambda: _locks(file))


def _locks(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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


def test_the_cache_need_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "disk", target_is_directory=True)
    (tmp_path / "disk").mkdir()
    for cache in (tmp_path / "home" / ".cache" / "agentgym", tmp_path / "link"):
        monkeypatch.setenv("AGENTGYM_CACHE", str(cache))
        in_box(write, f"{cache}/file")
        assert in_box(read, f"{cache.resolve()}/file") == b"written"


def test_of_pythons_folders_only_libraries_are_opened() -> None:
    for path in (f"{sys.prefix}/pyvenv.cfg", f"{sys.base_prefix}/bin/python3"):
        with pytest.raises(PermissionError, match="opens nothing there"):
            in_box(read, path)
    assert in_box(read, f"{Path(pytest.__file__).parent}/py.typed") == b""


def temporary(*, allow: object, console: object) -> str:
    with tempfile.NamedTemporaryFile() as file:
        return file.name


def test_temporary_files_are_in_the_cache() -> None:
    assert Path(in_box(temporary)).parent == cache_directory()


def test_nothing_may_be_read_and_written() -> None:
    assert in_box(read, os.devnull) == b""
    in_box(write, os.devnull)


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermissionError, match="not a regular file"):
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


def test_modules_of_the_current_folder_are_read_where_one_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("text")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each not in ("", str(tmp_path))])
    assert in_box(read, f"{tmp_path}/mine.py", allow=["mine:NAME"]) == b"text"
    with pytest.raises(PermissionError, match="opens nothing there"):
        in_box(read, f"{tmp_path}/mine.py")
