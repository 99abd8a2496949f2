"""`transformers serve` as a child process: offline, on one core, and gone with its parent.

Example:
    A model directory is asked by its name::

        with ModelServer(Path("models/tiny"), log=Path("server.log")) as server:
            print(server.url)  # http://127.0.0.1:40123/v1
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Self

from agentgym.errors import UsageError

_READY = re.compile(r"running on (http://127\.0\.0\.1:\d+)")
_BATCHING = ["--continuous-batching", "--cb-num-blocks", "64", "--cb-block-size", "256"]
"""With room for 16,384 tokens; the default is a share of the machine's memory."""


class ModelServer:
    """A server of a model, or of all models of a folder, running within a ``with`` statement."""

    def __init__(
        self,
        directory: Path,
        *,
        log: Path,
        batching: bool = False,
    ):
        """Name what is served.

        Args:
            directory: of a model, which is loaded at once and is the only one; or of models, which are loaded
                when they are first asked. Their directories' names are their names.
            log: file for what the server says.
            batching: whether requests are answered side by side; else one after the other.
        """
        self.directory = directory.resolve()
        self.log = log
        self.url = ""
        """What clients take as base URL, once it runs."""
        self._command = ["serve", "--host", "127.0.0.1", "--port", "0"]
        self._command += ["--device", "cpu", "--dtype", "auto"]
        self._command += _BATCHING if batching else []
        self._folder = self.directory
        if (self.directory / "config.json").is_file():
            self._command.append(self.directory.name)
            self._folder = self.directory.parent
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start the server and wait until it is ready.

        Raises:
            UsageError: it ended.
        """
        from tests.waiting import wait_until  # not above: as a program this file has no tests on its path

        home = self.log.with_suffix(".home").resolve()
        (home / "hub").mkdir(parents=True, exist_ok=True)  # else listing the models fails
        environment = os.environ | {
            "HF_HOME": str(home),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).resolve()), *self._command],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self.url = wait_until(partial(self._address, self._process))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End the server."""
        self.close()

    def close(self) -> None:
        """End the server; nothing of it is left."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process = None

    def _address(self, process: subprocess.Popen[bytes]) -> str:
        """Return the address that the server has said, "" before that."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        if found := _READY.search(text):
            return f"{found[1]}/v1"
        if process.poll() is not None:
            last = next(iter(text.strip().splitlines()[-1:]), "no message")
            raise UsageError(f"transformers serve ended with {process.returncode}, see {self.log}: {last}")
        return ""


def _end_with_parent() -> None:
    """Wait until standard input ends, which the parent holds open while it lives, and end this process."""
    os.read(0, 1)  # not of sys.stdin, whose lock would be held where the interpreter shuts down
    os._exit(1)


def main() -> None:
    """Be `transformers serve`, as long as the parent lives."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from transformers.cli.transformers import main as transformers

    sys.argv[0] = "transformers"
    transformers()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
