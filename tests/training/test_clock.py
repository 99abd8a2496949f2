"""The stages that an iteration's time is split into."""

from agentgym.training.track import iteration_stats


def test_laps_of_a_stage_add_up(monkeypatch):
    times = iter([100.0, 101.0, 103.0, 106.5])
    monkeypatch.setattr(iteration_stats, "perf_counter", lambda: next(times))
    clock = iteration_stats.StageClock()
    for stage in ("env", "credit", "env"):
        clock.lap(stage)
    assert [clock.lapped(stage) for stage in ("env", "credit", "update", "other")] == [4.5, 2.0, 0.0, 0.0]
