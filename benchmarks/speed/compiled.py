"""What compiling the hottest modules would buy: ``python -m benchmarks.speed.compiled``.

A copy of the package is made, mypyc compiles `MODULES` there, and both play in turn, each in a process of
its own. Nothing of it is shipped.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from functools import partial
from pathlib import Path

from agentgym.core.hashing import canonical
from benchmarks.speed.report import machine
from benchmarks.speed.vector import record, single

ROOT = Path(__file__).parents[2]
OUT = Path(__file__).with_suffix(".json")
MODULES = ("agentgym/core/hashing.py", "agentgym/envs/alfworld/engine/game.py")
ROUNDS = 5
NESTED = ("alfworld", 1, ("a", "b", 3, (True, None)), b"x" * 60)
SETUP = """from mypyc.build import mypycify
from setuptools import setup
setup(name="compiled", packages=[], ext_modules=mypycify({modules!r}))
"""


def speeds() -> dict[str, float]:
    """Measure in this process, of whichever package it imports."""
    run = single("ALFWorld", record("ALFWorld"))
    run(0.3)
    found = {"ALFWorld, warm": max(run(0.5) for _ in range(5))}
    for name, value in (("canonical, nested", NESTED), ("canonical, bytes", b"x" * 60)):
        seconds = min(timeit.repeat(partial(canonical, value), number=20_000, repeat=7))
        found[name] = 20_000 / seconds
    return found


def compiled(folder: Path) -> float:
    """Copy the project to a folder and compile it there; return the seconds that compiling took."""
    for name in ("agentgym", "benchmarks"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "runs", "*.xz")
        )
    (folder / "setup.py").write_text(SETUP.format(modules=list(MODULES)))
    began = time.perf_counter()
    build = [sys.executable, "setup.py", "build_ext", "--inplace"]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - began


def _measured(folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.speed.compiled", "--measure"]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> int:
    """Compile, measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true", help="only print the speeds of this process")
    if parser.parse_args().measure:
        print(json.dumps(speeds()))
        return 0
    with tempfile.TemporaryDirectory() as name:
        seconds = compiled(Path(name))
        pairs = [(_measured(Path(name)), _measured(ROOT)) for _ in range(ROUNDS)]
    ratios = {key: statistics.median(ours[key] / pure[key] for ours, pure in pairs) for key in pairs[0][0]}
    found = {
        "machine": machine("mypy"),
        "modules": MODULES,
        "compiling, seconds": seconds,
        "faster by": ratios,
    }
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    print(OUT.read_text())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
