"""A new environment is one folder and one line: the tests over the registry ask for nothing else."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
NEEDED = (
    "agentgym",
    "benchmarks",
    "docs",
    "examples",
    "tests",
    "tools",
    "trainers",
    "README.md",
    "pyproject.toml",
)
OVER_THE_REGISTRY = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "tests").rglob("test_*.py")
    if re.search(r"import .*\bENVIRONMENTS\b", path.read_text())
    and path.parent.name != "training"  # those need torch
    and path != Path(__file__)
)
"""Files of tests that read the list of environments."""

CHOSEN = "NumberLine or (every and not v0 and not process and not listed)"
"""Of these, the tests of the new id, and those about all ids at once that are quick."""

SUITE = '''"""Number line as the rest of the package sees it."""

from agentgym.core.suite_spec import SuiteSpec

SUITE = SuiteSpec(name="number-line")
'''

VECTOR = '''
NumberLineVectorEnv = partial(SerialVectorEnv, env_class=NumberLine)
"""N episodes in one process."""
'''

LINE = """    "agentgym/NumberLine-v0": EnvEntry(
        "agentgym.envs.number_line.env:NumberLine", "agentgym.envs.number_line.env:NumberLineVectorEnv"
    ),
"""


FIRST = '    "agentgym/Sokoban-v0": EnvEntry(\n'
"""The line of `ENVIRONMENTS` that the new one goes before."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a copy of the checkout, with the environment of the examples as one of the package's own."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("results"))
        else:
            shutil.copy(source, copy / name)
    folder = copy / "agentgym" / "envs" / "number_line"
    folder.mkdir()
    (folder / "__init__.py").write_text('"""Number line."""\n')
    (folder / "suite.py").write_text(SUITE)
    (folder / "env.py").write_text(_moved((ROOT / "examples" / "own_env.py").read_text()))
    registration = copy / "agentgym" / "registration.py"
    registration.write_text(
        _replaced(registration.read_text(), FIRST, LINE + FIRST),
    )
    return copy


def _moved(example):
    """Return the example as the module of a folder, with a vector form and without its last lines."""
    game = example.partition("gymnasium.register(")[0].rstrip() + "\n\n" + VECTOR
    game = _replaced(game, '= "number-line"\n', "= SUITE.name\n    suite_spec = SUITE\n")
    imports = (
        "from functools import partial\n"
        "from agentgym.envs.number_line.suite import SUITE\n"
        "from agentgym.vector.serial import SerialVectorEnv\n"
    )
    return _replaced(game, "import gymnasium\n", imports)


def _replaced(text, old, new):
    assert text.count(old) == 1
    return text.replace(old, new)


def in_checkout(checkout, *words):
    """Run a module in the copy; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=checkout,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(checkout)},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    return done.stdout


def test_the_registrys_tests_hold_for_it(checkout):
    """Those of the new id, and those that are about all of them at once."""
    assert {"tests/test_registry.py", "tests/test_rollout.py"} < set(OVER_THE_REGISTRY)
    shown = in_checkout(checkout, "pytest", "-q", *OVER_THE_REGISTRY, "-k", CHOSEN)
    assert "failed" not in shown
    assert int(shown.rpartition(" passed")[0].split()[-1]) >= 25


def test_its_golden_episodes_are_recorded_as_contributing_says(checkout):
    (snippet,) = re.findall(r"^```\n(CASES = .*?)^```$", CONTRIBUTING.read_text(), re.MULTILINE | re.DOTALL)
    test = checkout / "tests" / "number_line" / "test_golden.py"
    test.parent.mkdir()
    imports = (
        "import pytest\n\n"
        "from agentgym.envs.number_line.env import NumberLine\n"
        "from tests.golden import Golden, record_random\n\n"
    )
    test.write_text(imports + snippet)
    in_checkout(checkout, "tests.golden", "number_line")
    assert "2 passed" in in_checkout(checkout, "pytest", "-q", str(test))
