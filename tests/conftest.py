"""What every test runs under: deterministic examples, and no silent skip where nothing may be skipped."""

import ctypes
import faulthandler
import gc
import os
import resource
import signal
from collections.abc import Generator
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import settings

from tests.needs import absent, marks, may_have

IN_CI = os.environ.get("CI") == "true"
ABSENT = absent() | {
    mark
    for mark, there in {
        "assets": "AGENTGYM_DATA" in os.environ,
        "browser": which("chromium") is not None,
        "npm": which("npm") is not None and "AGENTGYM_NO_NPM" not in os.environ,
    }.items()
    if not there
}
"""Marks of what is not here, whose tests are left out."""

PEAKS: list[int] = []
"""Most memory of each worker that has ended, in MB."""
RELEASE = getattr(ctypes.CDLL(None), "malloc_trim", None)

# Programs of their own, which import more than all tests together.
collect_ignore = ["bridges/grpo_steps.py", "sft_step.py"]

# One thread for each process: the tests start worker processes, and share two cores with them.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell that starts the tests in its background has Ctrl-C ignored, by the programs they interrupt too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: how long an example takes says more about the machine than about the code. The examples of CI
# are the same every time, those of a developer are others, and `make test-all` draws many more.
settings.register_profile("local", deadline=None, max_examples=15)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("local"), max_examples=400)
settings.load_profile("ci" if IN_CI else "local")


def pytest_report_header() -> list[str]:
    """Name the marks whose tests are left out, since what they need is not here."""
    return [
        f"official data: {os.environ.get('AGENTGYM_DATA')}",
        f"not here: {', '.join(sorted(ABSENT)) or '-'}",
    ]


class _Files:
    """Leaves out files, of the package and docs too, that need what is not here or ``-m`` never wants."""

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        if collection_path.suffix not in (".py", ".md") and not collection_path.is_dir():
            return None
        if not ABSENT.isdisjoint(marks(collection_path)):
            return True
        return not may_have(collection_path, config.option.markexpr) or None


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Files())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests by what they need, and leave out those that need what is not here."""
    for item in items:
        for mark in marks(item.path, getattr(item, "originalname", item.name)):
            item.add_marker(mark)
    deselected = [item for item in items if any(item.get_closest_marker(name) for name in ABSENT)]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        gone = set(map(id, deselected))
        items[:] = [item for item in items if id(item) not in gone]


def pytest_collection_finish() -> None:
    """Spare the collector of garbage what stays for good: modules and tests."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Limit the time of a failed test again: pytest no longer does, and its fixtures have yet to end."""
    seconds = float(node.config.getini("faulthandler_timeout"))
    if isinstance(node, pytest.Item) and seconds > 0:
        stderr = node.config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(seconds, file=stderr, exit=True)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Return to the system, after each file, what its tests held: glibc would keep it."""
    if RELEASE is not None and (nextitem is None or nextitem.path != item.path):
        RELEASE(0)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell, as a worker, how much memory this process had at most, in MB."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker tells at its end."""
    PEAKS.append(getattr(node, "workeroutput", {}).get("peak", 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how large the largest worker was."""
    if PEAKS:
        terminalreporter.write_line(f"largest worker: {max(PEAKS):,} MB")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in docstrings of the package only: those of tests have none."""
    return [collector for collector in (yield) if not isinstance(collector, DoctestModule)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped `assets` or `peer` test into a failed one in CI, where both are at hand."""
    report = yield
    if IN_CI and report.skipped:
        required = [name for name in ("assets", "peer") if item.get_closest_marker(name)]
        if required:
            report.outcome = "failed"
            report.longrepr = f"skipped in CI, where `{required[0]}` tests must run: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a module that skips itself into a failure in CI: its tests' markers are never seen."""
    report = yield
    if IN_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report
