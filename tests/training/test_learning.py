"""Algorithms learn: from next to nothing to most of EZPoints, within 90 seconds of one processor."""

import pytest

from benchmarks.learning import CPU_SECONDS, FLOOR, GOAL, learn


@pytest.mark.parametrize("algorithm", ["grpo", "gigpo", "steppo"])
def test_an_algorithm_learns(tmp_path, algorithm):
    run = learn(algorithm, 0, stop_at_goal=True, folder=tmp_path)
    assert run.first < FLOOR
    assert run.last >= GOAL, f"{run.last:.1%} after {run.cpu_seconds[-1]:.0f} of {CPU_SECONDS:.0f} seconds"


def test_with_shuffled_credit_nothing_is_learned(tmp_path):
    run = learn("grpo", 0, control=True, iterations=40, folder=tmp_path)
    assert run.first < FLOOR
    assert run.last < FLOOR
