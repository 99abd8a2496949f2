"""Tests that depend on the pace of the machine: found by what they use, and run often beside other work.

``python -m tests.fragile`` runs the tests that it finds ten times, each time beside
eight processes that compute without end, and fails where a test failed once. Tests that wait for a condition
(`tests.waiting`) or count spins (`tests.pace`) are among them: they have to pass on any machine.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.needs import ROOT

PACE = {
    "time": ("sleep", "time", "monotonic", "perf_counter", "thread_time", "process_time"),
    "threading": ("active_count", "enumerate", "Timer"),
    "os": ("getloadavg",),
}
"""What sleeps, reads a clock, or counts threads."""

PATIENT = ("tests.waiting", "tests.pace")
"""Modules that do so in the place of tests."""

WAITS = ("wait", "join", "result", "acquire", "settimeout")
"""Methods whose first argument is a timeout."""

MIN_TIMEOUT = 60
"""Seconds; less may be too short for a busy machine."""

REASONS = {
    "tests/endpoint/test_faults.py::test_an_endpoint_that_never_answers_is_given_up": "no answer",
    "tests/endpoint/test_limits.py::test_a_thousand_in_flight_take_little_memory_and_no_threads": "a limit",
    "tests/endpoint/test_loop.py::endpoint_threads": "is waited for",
    "tests/endpoint/test_sockets.py::test_a_stream_of_single_bytes_has_the_time_of_one_answer": "has no end",
    "tests/evaluation/chat_server.py::_Handler": "a slow server",
    "tests/evaluation/corridor.py::CorridorEnv": "a slow environment",
    "tests/evaluation/test_bench.py::test_kill_loses_no_finished_episode": "kills at any moment",
    "tests/evaluation/test_endpoint_runs.py::"
    "test_killed_at_random_points_and_resumed_the_result_is_the_same": "kills at any moment",
    "tests/fragile.py::main": "says how long it took",
    "tests/pace.py::spin": "counts spins",
    "tests/pace.py::within": "counts spins",
    "tests/serving/test_gateway_env.py::"
    "test_thirty_deaths_lose_nothing_that_was_acknowledged": "kills at any moment",
    "tests/test_async_rollout.py::Conductor": "looks again and again",
    "tests/test_async_rollout.py::test_waiting_costs_no_processor_time": "a wait to be measured, in spins",
    "tests/training/pooled_runs.py::kill_at_random": "kills at any moment",
    "tests/training/stub_vllm_server.py::StubServer": "looks again and again",
    "tests/training/test_async_training.py::Disordered": "answers at any moment",
    "tests/training/test_engine_contract.py::"
    "test_weights_come_within_the_responses_of_vllm_serve": "sends at any moment",
    "tests/waiting.py::wait_until": "waits for a condition",
}
"""Why a function of a file may do so, or a class."""


class Use(NamedTuple):
    """A place of a file that depends on the pace of the machine."""

    function: str
    """Outermost function or class; empty for the module."""
    line: int
    what: str


def uses(path: Path) -> list[Use]:
    """Return the places of a file that sleep, read a clock, count threads or wait for less than a minute."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = _names(tree, PACE)
    found = []
    for top in tree.body:
        function = getattr(top, "name", "")
        for node in ast.walk(top):
            what = _named(node, names) or _short_timeout(node)
            if what:
                found.append(Use(function, node.lineno, what))
    return found


def fragile_tests(path: Path) -> list[str]:
    """Return the tests of a file that depend on the pace of the machine, directly or by what they mention."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    patient = _names(tree, dict.fromkeys(PATIENT))
    fragile = {use.function for use in uses(path)} | set(patient)
    mentioned = {
        node.name: {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        | {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
        | {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    while more := {name for name, others in mentioned.items() if others & fragile} - fragile:
        fragile |= more
    return [name for name in mentioned if name.startswith("test_") and name in fragile]


def _names(tree: ast.Module, wanted: dict[str, tuple[str, ...] | None]) -> dict[str, str]:
    """Return the names under which a file knows members of modules; None for all of a module's."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if members := wanted.get(alias.name):
                    name = alias.asname or alias.name
                    names |= {f"{name}.{member}": f"{alias.name}.{member}" for member in members}
        elif isinstance(node, ast.ImportFrom) and node.module in wanted:
            members = wanted[node.module]
            for alias in node.names:
                if members is None or alias.name.removesuffix("_ns") in members:
                    names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _named(node: ast.AST, names: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return names.get(f"{node.value.id}.{node.attr.removesuffix('_ns')}", "")
    return ""


def _short_timeout(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    given = [each.value for each in node.keywords if each.arg and each.arg.endswith("timeout")]
    if isinstance(node.func, ast.Attribute) and node.func.attr in WAITS:
        given += node.args[:1]
    for each in given:
        seconds = each.value if isinstance(each, ast.Constant) else None
        if isinstance(seconds, int | float) and 0 < seconds < MIN_TIMEOUT and seconds is not True:
            return f"a timeout of {seconds} s"
    return ""


BURNER = "import os; os.nice(5); own = os.getppid()\nwhile os.getppid() == own: sum(range(100_000))"
"""Computes for as long as the process lives that has started it; whoever else works here goes first."""


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Let so many processes compute until the block ends."""
    with ExitStack() as stack:
        for _ in range(processes):
            burner = stack.enter_context(subprocess.Popen([sys.executable, "-c", BURNER]))
            stack.callback(burner.kill)
        yield


def main() -> None:
    """Run the tests that are found, as often as asked, and report which ones failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, default=sorted((ROOT / "tests").rglob("test_*.py")))
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--busy", type=int, default=8, help="processes that compute beside the tests")
    parser.add_argument("--marks", default="not slow and not gpu and not java and not vllm")
    parser.add_argument("--list", action="store_true", help="name the tests, and run none")
    args = parser.parse_args()
    tests = [f"{os.path.relpath(path)}::{name}" for path in args.files for name in fragile_tests(path)]
    if args.list:
        sys.stdout.write("\n".join(tests) + "\n")
        return
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--durations=10", "-m", args.marks, *tests]
    failed = 0
    for turn in range(1, args.times + 1):
        began = time.monotonic()
        with busy(args.busy):
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            failed += 1
            sys.stdout.write(done.stdout)
        last = done.stdout.strip().rpartition("\n")[2]
        sys.stdout.write(f"turn {turn}, {time.monotonic() - began:.0f} s: {last}\n")
        sys.stdout.flush()
    sys.exit(f"{failed} of {args.times} turns failed" if failed else 0)


if __name__ == "__main__":
    main()
