"""`import agentgym` is light: little slower than gymnasium, and nothing heavy comes along."""

import json
import os
import subprocess
import sys
from pathlib import Path

HEAVY = {
    "faiss",
    "java",
    "jnius",
    "jpype",
    "matplotlib",
    "httpx",
    "httpx2",
    "numba",
    "openai",
    "pandas",
    "rich",
    "scipy",
    "torch",
    "transformers",
}


def run_python(code: str, env: dict[str, str] | None = None) -> str:
    """Run ``code`` in a fresh interpreter and return what it printed."""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert result.returncode == 0, result.stderr
    return result.stdout


def loaded_modules(code: str) -> set[str]:
    """Return the names in ``sys.modules`` after a fresh interpreter ran ``code``."""
    return set(json.loads(run_python(f"{code}\nimport json, sys\nprint(json.dumps(list(sys.modules)))")))


def test_import_loads_nothing_heavy():
    assert {name.partition(".")[0] for name in loaded_modules("import agentgym")} & HEAVY == set()


def test_import_loads_no_environment():
    loaded = loaded_modules("import agentgym")
    assert {name for name in loaded if name.startswith("agentgym.envs.")} == set()


def test_environments_need_nothing_heavy():
    code = """
import gymnasium
from agentgym.registration import ARRAY_ENVIRONMENTS, ENVIRONMENTS
for env_id in ENVIRONMENTS | ARRAY_ENVIRONMENTS:
    gymnasium.make(env_id).reset(seed=0)
"""
    loaded = {name.partition(".")[0] for name in loaded_modules(code)}
    assert loaded & (HEAVY - {"rich"}) == set()


def import_seconds(module: str, env: dict[str, str]) -> float:
    """Return the processor time that a fresh interpreter takes to import ``module``.

    Processor time, since the clock on the wall also counts what else the machine is doing.
    """
    code = f"import time; start = time.process_time(); import {module}; print(time.process_time() - start)"
    return float(run_python(code, env))


def test_import_is_little_slower_than_gymnasium(tmp_path: Path):
    env = os.environ | {"PYTHONPYCACHEPREFIX": str(tmp_path)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    run_python("import agentgym", env)  # writes the bytecode of both
    ours = theirs = 60.0
    for pair in range(30):  # a busy machine only adds
        ours = min(ours, import_seconds("agentgym", env))
        theirs = min(theirs, import_seconds("gymnasium", env))
        if pair >= 6 and ours <= 1.4 * theirs:
            return
    assert ours <= 1.5 * theirs, f"agentgym {ours:.3f} s, gymnasium {theirs:.3f} s"
