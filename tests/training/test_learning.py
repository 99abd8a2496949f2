"""Algorithms learn: from next to nothing to much of EZPoints. `make learning-report` goes on to most."""

import pytest

from benchmarks.learning import CPU_SECONDS, FLOOR, learn

GOAL = 0.4
"""Success is there soon after it begins to rise, and far from what a run without credit ever has."""
ITERATIONS = 25
ALGORITHMS = [
    ("grpo", 0),
    pytest.param("gigpo", 1, marks=pytest.mark.slow),
    pytest.param("steppo", 1, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("algorithm", "seed"), ALGORITHMS)
def test_an_algorithm_learns(tmp_path, algorithm, seed):
    run = learn(algorithm, seed, stop_at=GOAL, iterations=ITERATIONS, folder=tmp_path)
    assert run.first < FLOOR
    assert run.last >= GOAL, f"{run.last:.1%} after {run.cpu_seconds[-1]:.0f} of {CPU_SECONDS:.0f} seconds"


def test_with_shuffled_credit_nothing_is_learned(tmp_path):
    """In as many iterations as the algorithm needs with its own."""
    run = learn("grpo", 0, control=True, iterations=14, folder=tmp_path)
    assert max(run.success) < FLOOR
