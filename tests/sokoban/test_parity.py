import pytest

from benchmarks.parity.sokoban import ROOMS, compare


@pytest.mark.slow
@pytest.mark.peer
def test_nothing_differs_from_gym_sokoban():
    report = compare(4_000, seed=1)
    assert report.mismatches == dict.fromkeys(("room", "reward", "done", "flags", "picture", "arrays"), 0)
    assert report.steps >= 4_000
    assert len(report.steps_by_room) == len(ROOMS)
    assert report.solved > 0
    assert report.starts_on_target > 0
