"""What every test runs under: deterministic examples, and no silent skip where nothing may be skipped."""

import gc
import os
import signal
from collections.abc import Generator
from importlib.util import find_spec
from shutil import which

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

IN_CI = os.environ.get("CI") == "true"
HAS_ASSETS = "AGENTGYM_DATA" in os.environ
HAS_CHROMIUM = which("chromium") is not None
HAS_DOCS = find_spec("furo") is not None
HAS_NPM = which("npm") is not None and "AGENTGYM_NO_NPM" not in os.environ
HAS_VLLM = find_spec("vllm") is not None
HAS_INSPECT = find_spec("inspect_ai") is not None

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
    """Say where the official data is, and which tests are left out for want of what."""
    data = os.environ.get("AGENTGYM_DATA", "AGENTGYM_DATA is not set: tests marked `assets` are deselected")
    vllm = "installed" if HAS_VLLM else "not installed: tests marked `vllm` are deselected"
    chromium = which("chromium") or "not installed: tests marked `browser` are deselected"
    npm = which("npm") if HAS_NPM else "not installed, or fetches nothing: tests marked `npm` are deselected"
    return [f"official data: {data}", f"Chromium: {chromium}", f"npm: {npm}", f"vLLM: {vllm}"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that need official data or programs that are not here."""
    needs = (
        ("assets", HAS_ASSETS),
        ("browser", HAS_CHROMIUM),
        ("docs", HAS_DOCS),
        ("inspect", HAS_INSPECT),
        ("npm", HAS_NPM),
        ("vllm", HAS_VLLM),
    )
    absent = [name for name, there in needs if not there]
    deselected = [item for item in items if any(item.get_closest_marker(name) for name in absent)]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if not any(item.get_closest_marker(name) for name in absent)]


def pytest_collection_finish() -> None:
    """Spare the collector of garbage what stays for good: modules and tests."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


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
