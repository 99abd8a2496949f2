"""Machines that start from nothing: a home and a data directory of their own, and commands on them."""

import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

State = Mapping[str, str]
"""Digests of files, by their path."""


@dataclass
class Machine:
    """A folder that is all a process knows: home, data and cache."""

    folder: Path
    table: Path
    """List of downloads."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Further variables of the environment."""

    def __post_init__(self) -> None:
        """Make the home."""
        (self.folder / "home").mkdir(parents=True, exist_ok=True)

    @property
    def data(self) -> Path:
        """The data directory, which the commands make."""
        return self.folder / "data"

    def start(self, *words: str, place: str = "") -> "subprocess.Popen[str]":
        """Start a command, which kills itself at a ``place``, as the runner describes it."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        environment = {
            **kept,
            "HOME": str(self.folder / "home"),
            "AGENTGYM_DATA": str(self.data),
            "AGENTGYM_CACHE": str(self.folder / "cache"),
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            **self.more,
        }
        return subprocess.Popen(
            [
                sys.executable,
                "-B",
                "-m",
                "tests.official.runner",
                str(self.table),
                place,
                *words,
            ],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, place: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        process = self.start(*words, place=place)
        out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def imported(self, folder: str) -> State:
        """Return what a set's folder holds; nothing where it is not there."""
        return state_of(self.data / folder)

    def left(self) -> list[str]:
        """Return hidden files and folders of the data directory: parts, drafts and locks."""
        found = self.data.rglob(".*") if self.data.is_dir() else ()
        return sorted(path.relative_to(self.data).as_posix() for path in found)


def state_of(folder: Path) -> State:
    """Return the digests of the files below a folder, hidden ones left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") for part in parts):
            found["/".join(parts)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def counted(done: "subprocess.CompletedProcess[str]") -> tuple[int, int]:
    """Return how many changes of files and renames a command made that ran at the place ``0``."""
    found = re.fullmatch(r"(\d+) changes, (\d+) renames", done.stderr.rstrip().rpartition("\n")[2])
    assert found is not None, done.stderr
    return int(found[1]), int(found[2])


def errors(done: "subprocess.CompletedProcess[str]") -> list[str]:
    """Return the lines of errors on stderr."""
    return [line for line in done.stderr.splitlines() if line.startswith("agentgym: ")]


def kill(process: "subprocess.Popen[str]") -> int:
    """Kill a process as `kill -9` does; return its exit code."""
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode
