"""A server of an environment in a process of its own, and what it takes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Usage(NamedTuple):
    """What a process has taken so far, or holds now."""

    seconds: float
    """Of processor time."""
    mib: float
    """Resident."""
    descriptors: int
    threads: int


class Served(NamedTuple):
    """A server that runs."""

    url: str
    pid: int

    def usage(self) -> Usage:
        """Return what the process takes."""
        return usage(self.pid)


def usage(pid: int) -> Usage:
    """Return what a process takes; OSError where it is gone."""
    place = Path(f"/proc/{pid}")
    fields = (place / "stat").read_text().rpartition(")")[2].split()
    status = (place / "status").read_text()
    found = dict(re.findall(r"^(\w+):\s+(\d+)", status, re.MULTILINE))
    if "VmRSS" not in found:
        raise ProcessLookupError(f"process {pid} has ended")
    return Usage(
        (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        int(found["VmRSS"]) / 1024,
        len(os.listdir(place / "fd")),
        int(found["Threads"]),
    )


@contextmanager
def running(command: Sequence[str], core: int | None = None) -> Iterator[Served]:
    """Run a server until the block ends, on one core if one is named; its first line names its address."""
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    with subprocess.Popen([*pinned, *command], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://[\d.:]+", line)
            if found is None:
                raise RuntimeError(f"{' '.join(command)} says no address: {line!r}")
            yield Served(found[0], process.pid)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def serve_env(env_id: str, *words: str) -> list[str]:
    """Return the command that serves an environment at any free port."""
    return [sys.executable, "-m", "agentgym", "serve", "env", env_id, "--port", "0", *words]
