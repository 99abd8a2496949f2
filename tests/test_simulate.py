"""The simulated clock: what its ways of sampling come to where that can be counted by hand."""

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulate import PAGE, SETTINGS, Rates, Turn, apart, lock_step, own_pace

RATES = Rates(step=0.01, row=0.001, token=0.0001, update=5.0)

TURNS = st.builds(Turn, st.integers(0, 50), st.integers(1, 40))
EPISODES = st.lists(st.lists(TURNS, min_size=1, max_size=6), min_size=1, max_size=8)


@given(EPISODES)
def test_no_episode_waits_at_its_own_pace(episodes):
    whole, own = lock_step(episodes, RATES), own_pace(episodes, RATES)
    read = RATES.token * sum(turn.fresh for episode in episodes for turn in episode)
    drawn = sum(turn.drawn for episode in episodes for turn in episode)
    longest = max(sum(turn.drawn for turn in episode) for episode in episodes)
    assert own == pytest.approx(read + RATES.step * longest + RATES.row * drawn)
    assert own <= whole + 1e-9


def test_equal_episodes_gain_nothing():
    episodes = [[Turn(100, 20), Turn(10, 30)]] * 4
    expected = 50 * (0.01 + 0.004) + 440 * 0.0001
    assert lock_step(episodes, RATES) == pytest.approx(expected)
    assert own_pace(episodes, RATES) == pytest.approx(expected)


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_devices_apart(staleness):
    episodes = [[Turn(0, 100)]] * 2
    sampling = own_pace(episodes * 3, RATES)

    def draw(number):
        return [[Turn(0, 100)] for _ in range(number)]

    found = apart(draw, 3, 2, RATES, staleness)
    assert found["age"] <= staleness
    if staleness == 0:  # one waits for the other
        assert found["apart"] == pytest.approx(sampling + RATES.update)
    else:  # the update hides the sampling
        assert found["apart"] < sampling + RATES.update
        assert found["learner busy"] > 0.7


def test_the_page_of_scale_has_the_forecasts_of_the_report():
    from benchmarks.simulate import page

    settings = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))
    tables = [line for line in page(settings, ()).splitlines() if line.startswith("|")]
    assert all(line in PAGE.read_text(encoding="utf-8").splitlines() for line in tables)
    half, most = (
        next(line for line in tables if line.startswith(f"| {share} |")) for share in ("50%", "90%")
    )
    bands = [
        f"{float(low):.0f} to {float(high):.0f}" for low, high in re.findall(r"([\d.]+) to ([\d.]+)", half)
    ]
    text = (Path(__file__).resolve().parents[1] / "docs" / "scale.md").read_text(encoding="utf-8")
    for way, band in zip(("lock-step", "every episode", "a device"), bands[2:5], strict=True):
        assert re.search(rf"^\| {way}.*\| {band} \|$", text, re.MULTILINE), (way, band)
    assert "67 to 106 s" in text
    assert "| 67 to 106 |" in most
