"""Hostile messages to the environment server: a part of what `benchmarks.bridges.server_fuzz` sends."""

from benchmarks.bridges.server_fuzz import fuzz
from benchmarks.bridges.server_parity import compare


def test_hostile_messages_are_refused_and_harm_nobody():
    found = fuzz("agentgym/Sokoban-v0", 2_000, seed=1)
    assert (found["exceptions"], found["problems"]) == (0, [])
    assert found["statuses"]["200"] > 200
    assert found["statuses"]["422"] > 800
    assert not {"500", "502"} & found["statuses"].keys()


def test_recorded_episodes_are_played_alike_by_remote():
    (row,) = compare("agentgym/EZPoints-v0", 10, None)
    assert (row.client, row.differences, row.won) == ("Remote-v0", 0, 5)
