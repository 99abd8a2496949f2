"""Adding an algorithm is a module, a line and a test: done in a copy of the checkout, whose tests pass."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("agentgym", "benchmarks", "docs", "tests", "tools", "trainers")
FILES = ("Makefile", "README.md", "pyproject.toml")

MODULE = '''"""OPO: on-policy RL with an optimal reward baseline (Hao et al., 2025, arXiv:2505.23585).

    A_i = R_i - sum_j l_j R_j / sum_j l_j                                                  (8)

The baseline that leaves the gradient the least variance is the group's mean outcome, weighted by the
lengths l of the episodes' responses. Every step of episode i has its advantage.
"""

from __future__ import annotations

import numpy as np

from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.objective import Objective
from agentgym.algos.tokens import token_counts
from agentgym.core.arrays import Floats


def advantage(batch: StepBatch) -> Floats:
    """Compare each episode's outcome with its group's, weighted by length; (n,) advantages."""
    length = token_counts(batch).astype(np.float64)
    group = np.unique(batch.group, return_inverse=True)[1]
    total = np.bincount(group, length * batch.outcome)[group]
    return batch.outcome - total / np.maximum(np.bincount(group, length)[group], 1.0)


ALGORITHM = Algorithm(
    title="OPO",
    paper="Hao et al. 2025, arXiv:2505.23585",
    advantage=advantage,
    objective=Objective(),
    credit="episode",
)
'''

TEST = """from agentgym.algos import opo
from agentgym.algos.batch import StepBatch


def test_long_responses_weigh_more_in_the_baseline():
    batch = StepBatch.of(group=[0, 0], trajectory=[0, 1], state="AA", reward=[4.0, 0.0], tokens=[1, 3])
    assert opo.advantage(batch).tolist() == [3.0, -1.0]
"""

CHECKS = (
    "tests/algos/test_opo.py",
    "tests/algos/test_table.py::test_every_algorithm_gives_finite_advantages_of_the_shape_it_promises[opo]",
    "tests/algos/test_permutation.py::test_permuting_trajectories_permutes_advantages[opo]",
    "tests/algos/test_table.py::test_modules_of_algorithms_are_short",
    "tests/algos/test_table.py::test_the_table_on_the_pages_is_up_to_date",
    "tests/recipes/test_presets.py::test_the_tiny_preset_goes_on_exploring[opo]",
    "tests/recipes/test_lines.py::test_a_recipe_is_of_an_algorithm",
    "tests/recipes/test_lines.py::test_pages_of_algorithms_list_each_recipe",
    "tests/training/test_loop.py::test_every_algorithm_trains_and_saves_a_policy[opo]",
)
"""What runs over the table, the folders of the checkout and the pages, and is about a new algorithm."""


@pytest.fixture
def copy(tmp_path):
    for folder in FOLDERS:
        ignored = shutil.ignore_patterns("results")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for file in FILES:
        shutil.copy(ROOT / file, tmp_path)
    return tmp_path


def test_an_algorithm_is_a_module_a_line_and_a_test(copy):
    table = copy / "agentgym" / "algos" / "table.py"
    before = table.read_text(encoding="utf-8")
    line = '    "opo": "opo:ALGORITHM",\n'
    anchor = '    "gspo": "gspo:ALGORITHM",\n'
    assert before.count(anchor) == 1
    table.write_text(before.replace(anchor, anchor + line), encoding="utf-8")
    (copy / "agentgym" / "algos" / "opo.py").write_text(MODULE, encoding="utf-8")
    (copy / "tests" / "algos" / "test_opo.py").write_text(TEST, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1", "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *CHECKS],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    command = [sys.executable, "-m", "agentgym", "train", "opo", "--help"]
    shown = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=True)
    assert "Train a model by OPO" in shown.stdout
