"""Copies of the checkout to run tests in: each has a process that imports the libraries once, and forks."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.mutations.operators import Mutant

ROOT = Path(__file__).parents[2]

LIMIT = 60
"""Seconds of processor time for the tests of a mutant."""

WAIT = 300.0
"""Seconds of any kind: for tests that wait for ever."""

LIBRARIES = ("numpy", "gymnasium", "scipy.stats", "torch", "transformers")
"""Imported once by each process."""

PYTEST = (
    "-x", "-q", "--tb=line", "-p", "no:cacheprovider", "-m", "not slow and not gpu and not java", "-W",
    "ignore:Module already imported:pytest.PytestAssertRewriteWarning", "--hypothesis-profile=mutations",
)  # fmt: skip

ENDS = {0: "survived", None: "timed out", -signal.SIGXCPU: "timed out", -signal.SIGKILL: "timed out"}


def serve() -> None:
    """Run the tests that come in, a line of JSON each, in forks; write a line for each."""
    for library in LIBRARIES:
        importlib.import_module(library)
    for line in sys.stdin:
        begun, child = time.monotonic(), os.fork()
        if child == 0:
            _run_tests(json.loads(line))
        code, used = None, 0.0
        while code is None and time.monotonic() - begun < WAIT:
            time.sleep(0.02)
            done, status, spent = os.wait4(child, os.WNOHANG)
            if done:
                code, used = os.waitstatus_to_exitcode(status), spent.ru_utime + spent.ru_stime
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # and what the tests left running
        if code is None:
            os.waitpid(child, 0)
        print(json.dumps({"code": code, "seconds": round(used, 1)}), flush=True)


def _run_tests(arguments: list[str]) -> None:
    """Be a process that runs tests, and end."""
    import pytest
    from hypothesis import Phase, settings

    settings.register_profile(
        "mutations", max_examples=40, phases=(Phase.explicit, Phase.generate), derandomize=True, deadline=None
    )
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
    log = os.open("mutant.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 70
    try:
        code = int(pytest.main([*PYTEST, *arguments]))
    except BaseException:  # noqa: BLE001 (written to the log: nothing may go on in this process)
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def failed_test(log: str) -> str:
    """Return the name of the test that failed, "" where pytest's summary names none."""
    summary = log.partition("short test summary info")[2]  # logs of the tests have lines of ERROR, too
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", summary, re.MULTILINE)
    return failed[1] if failed else ""


class Copy:
    """A copy of the checkout, and its process."""

    def __init__(self, folder: Path):
        """Copy the files that git knows, and start."""
        self.folder = folder
        self._passes: dict[str, bool] = {}
        listed = ["git", "ls-files", "-z", "-c", "-o", "--exclude-standard"]
        for name in subprocess.check_output(listed, cwd=ROOT, text=True).split("\0"):
            if name and (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
        environment.pop("AGENTGYM_DATA", None)
        command = [sys.executable, "-m", "benchmarks.mutations", "--serve"]
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def try_out(self, mutant: Mutant, tests: list[str]) -> dict[str, Any]:
        """Run tests with a mutant in place; the one that fails must pass without it.

        Raises:
            RuntimeError: it does not, or the tests could not be run.
        """
        path = self.folder / mutant.path
        source, stamp = path.read_bytes(), path.stat()
        text = source[: mutant.start] + mutant.after.encode() + source[mutant.stop :]
        compile(text, mutant.path, "exec")
        path.write_bytes(text)
        try:
            code, seconds = self._run(tests)
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # compiled code is told apart by it
            Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
        by = ""
        if code not in ENDS:
            log = (self.folder / "mutant.log").read_text(errors="replace")
            by = failed_test(log) or tests[0]
            if by not in self._passes:
                self._passes[by] = self._run([by] if "::" in by else ["--collect-only", by])[0] == 0
            if not self._passes[by]:
                raise RuntimeError(f"{by} fails without a mutant too:\n{log[-2_000:]}")
        return {**asdict(mutant), "end": ENDS.get(code, "killed"), "seconds": seconds, "by": by}

    def _run(self, arguments: list[str]) -> tuple[int | None, float]:
        """Return pytest's status, None where it does not end, and seconds of processor time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        result = json.loads(self._process.stdout.readline())
        return result["code"], result["seconds"]
