"""No test sleeps, reads a clock or counts threads but for a reason, and one that hangs fails."""

import subprocess
import sys

import pytest

from tests.fragile import REASONS, fragile_tests, uses
from tests.needs import ROOT


def test_who_depends_on_the_pace_of_the_machine_has_a_reason():
    files = sorted((ROOT / "tests").rglob("*.py"))
    found = [(f"{path.relative_to(ROOT)}::{use.function}", use) for path in files for use in uses(path)]
    without = [f"{name}, line {use.line}: {use.what}" for name, use in found if name not in REASONS]
    assert without == [], "wait by tests.waiting, count by tests.pace, or give a reason in tests.fragile"
    assert REASONS.keys() <= {name for name, _ in found}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("import time; time.sleep(1)", "time.sleep"),
        ("from time import monotonic as now; now()", "time.monotonic"),
        ("import time; began = time.perf_counter_ns()", "time.perf_counter"),
        ("import threading; len(threading.enumerate())", "threading.enumerate"),
        ("from os import getloadavg; getloadavg()", "os.getloadavg"),
        ("from threading import Barrier; Barrier(2, timeout=20)", "a timeout of 20 s"),
        ("import threading; threading.Event().wait(0.5)", "a timeout of 0.5 s"),
        ("subprocess.run([], timeout=5)", "a timeout of 5 s"),
        ("future.result(300)", None),
        ("', '.join(words)", None),
        ("time.sleep(1)", None),
    ],
)
def test_what_depends_on_it_is_found(tmp_path, line, what):
    path = tmp_path / "test_of_it.py"
    path.write_text(f"{line}\n", encoding="utf-8")
    assert [use.what for use in uses(path)] == ([] if what is None else [what])


def test_tests_that_use_it_by_others_are_found(tmp_path):
    path = tmp_path / "test_of_it.py"
    path.write_text(
        "import time\nfrom tests.waiting import wait_until\n"
        "def paused(): time.sleep(1)\ndef again(): paused()\ndef fixture(): again()\n"
        "def test_a(): again()\ndef test_b(fixture): pass\ndef test_c(): wait_until(bool)\n"
        "def test_d(): pass\n",
        encoding="utf-8",
    )
    assert fragile_tests(path) == ["test_a", "test_b", "test_c"]


HANGING = """
import threading
import pytest
from tests.conftest import pytest_exception_interact

@pytest.fixture
def held():
    yield
    threading.Event().wait()

def test_hangs(): threading.Event().wait()
def test_fails_and_hangs(held): assert False
def test_ends(): pass
"""


def test_a_test_that_hangs_fails_with_its_stack_and_the_others_go_on(tmp_path):
    (tmp_path / "conftest.py").write_text(HANGING.partition("\n@pytest")[0], encoding="utf-8")
    (tmp_path / "test_of_it.py").write_text(HANGING, encoding="utf-8")
    options = [
        "-q",
        "-n",
        "1",
        "-c",
        str(ROOT / "pyproject.toml"),
        "-o",
        "faulthandler_timeout=5",
        "-p",
        "no:cacheprovider",
    ]
    command = [sys.executable, "-m", "pytest", *options, f"--rootdir={tmp_path}", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "in test_hangs" in done.stderr  # its stack
    assert "in held" in done.stderr
    assert "3 failed, 1 passed" in done.stdout  # one of them twice, since it had failed before it hung
