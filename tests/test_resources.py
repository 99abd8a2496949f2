"""Full disks, limits and folders that cannot be written: one line with the path and what helps."""

import errno
import os
import platform
import resource
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agentgym import UsageError
from agentgym.cli import main
from agentgym.data.recordfile import RecordWriter
from agentgym.envs.webshop.engine.taggers import TextMemo
from agentgym.io.files import Journal, make_folder, replace_file, sole_writer, trouble, writing
from agentgym.io.paths import cache_directory
from agentgym.io.provenance import SALT_BYTES, SALT_FILE, host_digest
from agentgym.retrieval.engines.bm25 import build_bm25
from tests.suite_texts import env_table, suite_text

DOCUMENTS = [(f"d{i}", " ".join(f"word{i * j % 997}" for j in range(200))) for i in range(2_000)]

SUITE = suite_text(
    "mini", *(env_table(f"agentgym/{name}-v0", 2) for name in ("EZPoints", "WebShop")), seed=1, attempts=1
)

LIMITED = """
import resource, sys
resource.setrlimit(resource.{limit}, ({size}, {size}))
from agentgym.cli import main
sys.exit(main(sys.argv[1:]))
"""


def run_limited(limit, size, *words, **variables):
    """Run a command line under a limit; None takes a variable away."""
    environment = {**os.environ, **{k: v for k, v in variables.items() if v is not None}}
    for name in (name for name, value in variables.items() if value is None):
        environment.pop(name, None)
    code = LIMITED.format(limit=limit, size=size)
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, env=environment, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.strip()


@pytest.fixture
def small_files():
    """No file may grow beyond 64 kB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def assert_names(path, caught):
    message = str(caught.value)
    assert str(path) in message
    assert "free space" in message
    assert "\n" not in message


def test_an_index_in_memory_needs_no_file(small_files):
    """Once, its pairs went through a temporary file: '681219 requested and 383968 written'."""
    assert build_bm25(DOCUMENTS, corpus="words").manifest.count == len(DOCUMENTS)


def test_an_index_that_does_not_fit_is_named(small_files, tmp_path):
    with pytest.raises(UsageError, match="cannot write") as caught:
        build_bm25(DOCUMENTS, corpus="words", folder=tmp_path / "index")
    assert_names(tmp_path, caught)
    assert not list(tmp_path.iterdir())


def test_files_that_do_not_fit_are_named(small_files, tmp_path):
    for write in (
        lambda path: replace_file(path, "x" * 100_000),
        lambda path: _write_records(path),
        lambda path: TextMemo(path, lambda text: (text * 100_000,))("word"),
    ):
        path = tmp_path / "file"
        with pytest.raises(UsageError, match="cannot") as caught:
            write(path)
        assert_names(path, caught)
        path.unlink(missing_ok=True)
    assert not [left for left in tmp_path.iterdir() if left.suffix == ".tmp"]
    with Journal(tmp_path / "journal") as journal:
        journal.append("first")
        with pytest.raises(UsageError, match=r"journal: .*; free some space") as caught:
            journal.append("x" * 100_000)
    assert (tmp_path / "journal").read_text() == "first\n"


def _write_records(path):
    with RecordWriter(path) as writer:
        starts = [writer.add(bytes(1_000)) for _ in range(100)]
        writer.finish({"starts": np.array(starts)}, {})


def test_what_helps_depends_on_the_error():
    for number, remedy in (
        (errno.ENOSPC, "free space"),
        (errno.EFBIG, "ulimit -f"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EROFS, "choose a folder that can be written"),
        (errno.ENOTDIR, "a file is where a folder should be"),
    ):
        assert remedy in trouble(OSError(number, os.strerror(number)))
    assert "ulimit -f" in trouble(OSError("681219 requested and 383968 written"))
    with (
        pytest.raises(UsageError, match="cannot write here: No space left on device; free space"),
        writing("here"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_in_a_folder_s_place_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for call in (
        lambda: make_folder(tmp_path / "file" / "sub"),
        lambda: make_folder(tmp_path / "file"),
        lambda: Journal(tmp_path / "file" / "journal"),
        lambda: build_bm25(DOCUMENTS[:2], corpus="words", folder=tmp_path / "file" / "sub" / "index"),
        lambda: RecordWriter(tmp_path / "file" / "records"),
        lambda: TextMemo(tmp_path / "file" / "memo", lambda text: ()),
    ):
        with pytest.raises(UsageError, match="a file is where a folder should be: remove it") as caught:
            call()
        assert str(tmp_path / "file") in str(caught.value)
    with pytest.raises(UsageError, match=r"cannot write .*nowhere"), sole_writer(tmp_path / "nowhere"):
        pass


def test_a_run_under_a_limit_of_file_sizes(tmp_path):
    """Big enough for the run itself, which once failed on an index of the shop."""
    (tmp_path / "mini.toml").write_text(SUITE)
    words = ["bench", str(tmp_path / "mini.toml"), "--agent", "random", "--out", str(tmp_path / "run")]
    code, message = run_limited("RLIMIT_FSIZE", 200_000, *words)
    assert (code, message) == (0, message)
    code, message = run_limited("RLIMIT_FSIZE", 300, *words[:-1], str(tmp_path / "other"))
    assert code == 2
    assert message.count("\n") == 0, message
    assert str(tmp_path / "other") in message


def test_few_open_files(tmp_path):
    (tmp_path / "mini.toml").write_text(SUITE)
    code, message = run_limited("RLIMIT_NOFILE", 6, "bench", str(tmp_path / "mini.toml"), "--agent", "random")
    assert code == 2
    assert message.count("\n") == 0, message
    assert "Too many open files; raise the limit of open files (`ulimit -n`)" in message


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_a_cache_that_is_a_file(tmp_path, where):
    (tmp_path / "file").write_text("")
    words = ["play", "agentgym/Sokoban-v0", "--agent", "random", "--option", "dim_room=[6,7]"]
    code, message = run_limited("RLIMIT_NOFILE", 1_000, *words, AGENTGYM_CACHE=str(tmp_path / where))
    assert code == 2
    assert message.count("\n") == 0, message
    assert "a file is where a folder should be" in message
    assert "AGENTGYM_CACHE" in message


def test_no_home_folder(monkeypatch):
    monkeypatch.delenv("AGENTGYM_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(UsageError, match="no home folder is known: set AGENTGYM_CACHE"):
        cache_directory()
    monkeypatch.setenv("AGENTGYM_CACHE", "relative")
    assert cache_directory() == Path("relative")


# ---- what is told of the machine ---------------------------------------------------------------

MARK = "m4rked"


def test_the_host_s_digest_is_the_user_s_own(tmp_path, monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: MARK)
    seen = set()
    for user in ("one", "two"):
        monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / user))
        digest = host_digest()
        assert digest == host_digest()
        assert len(digest) == 8
        assert (tmp_path / user / SALT_FILE).stat().st_mode & 0o777 == 0o600
        assert [path.name for path in (tmp_path / user).iterdir()] == [SALT_FILE]
        seen.add(digest)
        monkeypatch.setattr(platform, "node", lambda: "another")
        assert host_digest() != digest
        monkeypatch.setattr(platform, "node", lambda: MARK)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "file"))
    seen.add(host_digest())
    assert host_digest() in seen, "of this process, where none can be kept"
    (tmp_path / "two" / SALT_FILE).write_bytes(bytes(SALT_BYTES - 1))
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "two"))
    assert host_digest() in seen, "a damaged salt counts for nothing"
    assert len(seen) == 3


def test_no_file_names_user_or_machine(tmp_path, monkeypatch):
    home = tmp_path / f"{MARK}-home"
    home.mkdir()
    for name, value in (("HOME", str(home)), ("USER", f"{MARK}-user"), ("LOGNAME", f"{MARK}-user")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AGENTGYM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    for module, name in ((platform, "node"), (socket, "gethostname")):
        monkeypatch.setattr(module, name, lambda: f"{MARK}-host")
    (home / "mini.toml").write_text(SUITE)
    out = tmp_path / "runs"
    monkeypatch.chdir(home)
    for agent in ("random", "oracle"):
        assert main(["bench", "mini.toml", "--agent", agent, "--out", str(out / agent)]) == 0
    written = [path for path in out.rglob("*") if path.is_file()]
    assert written
    for path in written:
        assert MARK.encode() not in path.read_bytes().replace(str(out).encode(), b""), path


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(timeout=120)
    names = {
        f".file.{ended.pid}.tmp": False,
        f".file.{os.getppid()}.tmp": True,  # it lives
        ".file.words.tmp": True,
        f".other.{ended.pid}.tmp": True,
    }
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "part").touch()
        os.utime(tmp_path / name, (0, 0))
    replace_file(tmp_path / "file", "whole")
    assert {name: (tmp_path / name).exists() for name in names} == names
    (tmp_path / f".file.{ended.pid}.tmp").touch()  # of today: perhaps another machine's
    replace_file(tmp_path / "file", "whole")
    assert (tmp_path / f".file.{ended.pid}.tmp").exists()
    assert (tmp_path / "file").read_text() == "whole"
