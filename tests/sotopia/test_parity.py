"""Ours beside what SOTOPIA 0.1.4 did: recorded by ``make parity-sotopia``."""

import json
from collections import Counter

import pytest

from agentgym.envs.sotopia.actions import ACTION_TYPES
from benchmarks.parity import sotopia
from benchmarks.parity.sotopia_episodes import DETAILS, ORDERS


@pytest.fixture(scope="module")
def kept():
    return sotopia.recorded()


def test_ours_is_the_original_in_every_recorded_episode(kept):
    assert list(sotopia.differences(*kept)) == []


def test_the_recordings_are_of_everything(kept):
    episodes, outcomes = kept
    assert len(episodes) == sotopia.KEPT >= 100
    seen = Counter((each["relationship"], each["order"], each["detail"]) for each in episodes)
    assert len(seen) == 6 * len(ORDERS) * len(DETAILS)
    assert {kind for each in episodes for pair in each["actions"] for kind, _ in pair} == set(ACTION_TYPES)
    text = str(episodes)
    for tag in ("extra_info", "clarification_hint", "strategy_hint", "p"):
        assert f"<{tag}>" in text
    for viewer in ("agent_0", "agent_1", "environment"):
        assert f"viewer='{viewer}'" in text
    ends = " ".join(outcome["steps"][-1]["why"] for outcome in outcomes)
    for reason in ("too long", "Agent 1 is leaving", "Agent 2 is leaving", "stales for too long"):
        assert reason in ends
    assert any(reward for outcome in outcomes for reward in outcome["steps"][-1]["rewards"])


@pytest.mark.parametrize("place", ["shown", "rewards", "over", "why"])
def test_another_outcome_is_a_difference(kept, place):
    episodes, outcomes = kept
    last = outcomes[0]["steps"][-1]
    changed = {**outcomes[0], "steps": [*outcomes[0]["steps"][:-1], {**last, place: last[place][:-1]}]}
    if place == "shown":
        (text, turn, kinds), second = last["shown"]
        changed["steps"][-1]["shown"] = [[text + " ", turn, kinds], second]
    assert len(list(sotopia.differences(episodes[:1], [changed]))) == 1


def test_a_turn_that_is_missing_and_another_transcript_are_differences(kept):
    episodes, outcomes = kept
    shorter = {**outcomes[0], "steps": outcomes[0]["steps"][:-1], "history": None}
    found = {each.what for each in sotopia.differences(episodes[:1], [shorter])}
    assert found == {"turns", "transcript of the judge"}


def test_the_committed_report_has_no_difference():
    kept = json.loads(sotopia.OUT.read_text("utf-8"))
    parts = kept["parts"]
    assert (parts["invented"]["episodes"], parts["official"]["episodes"]) == (1_080, 450)
    for name in ("invented", "official"):
        assert parts[name]["differences"] == dict.fromkeys(sotopia.COMPARED, 0)
    assert kept["speed"]["the game"]["ratio"] >= 50
    text = sotopia.report(parts, kept["speed"], kept["about"])
    assert sotopia.OUT.with_suffix(".md").read_text("utf-8") == text
