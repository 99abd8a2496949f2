"""Processes beside a benchmark: a contestant that answers lines, and work that is measured alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentgym.errors import UsageError


class Peer:
    """A contestant in a process of its own, with another Python: a line asks, a line of JSON answers."""

    def __init__(self, python: Path, script: Path, arguments: Sequence[str], log: Path):
        """Start it; its first answer is the versions of its packages.

        Args:
            python: the interpreter that has what it needs.
            script: what it runs.
            arguments: of the script.
            log: file for what it says beside its answers.
        """
        self._name = script.stem
        self._log = log.open("wb")
        self._process = subprocess.Popen(
            [str(python.absolute()), str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.versions: dict[str, str] = self._answer()

    def ask(self, line: str) -> Any:
        """Return the answer to a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        """Let the process end."""
        self._process.communicate()
        self._log.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            text = Path(self._log.name).read_text(encoding="utf-8", errors="replace").strip()
            raise UsageError(f"{self._name} has ended with code {code}: {text.rpartition(chr(10))[2][:200]}")
        return json.loads(line)


def status(field: str, process: int | str = "self") -> int:
    """Return a figure of a process in bytes, such as VmHWM: the most memory that it has had.

    `resource.getrusage` is no substitute: its peak begins with that of the process that started this one.
    """
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def alone(module: str, *arguments: str) -> Any:
    """Run a module in a process of its own; return the JSON of the last line that it prints."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])
