"""Hostile actions in every suite: a sample of what ``make fuzz`` sends."""

import pytest

from agentgym.registration import ENVIRONMENTS
from benchmarks.fuzz.actions import MOMENT, run_actions, shares
from benchmarks.fuzz.hostile import MAX_TEXT_LENGTH, HostileActions


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_hostile_actions_are_refused_or_taken_as_the_contract_says(env_id: str) -> None:
    tally = run_actions(env_id, 250, seed=1)
    assert tally.violations == []
    assert tally.wrong == 0
    assert tally.actions == 250
    assert min(tally.valid, tally.refused, tally.vector) > 0
    assert 0.0 < tally.slowest <= MOMENT


def test_actions_come_in_every_shape_and_length() -> None:
    hostile = HostileActions(seed=0)
    drawn = [hostile.draw(("search[<query>]", "click[a]")) for _ in range(6_000)]
    again = HostileActions(seed=0)
    repeated = [again.draw(("search[<query>]", "click[a]")) for _ in range(6_000)]
    assert repr(repeated) == repr(drawn)  # nan among them is equal to no nan
    assert len({sent.shape for sent in drawn}) == 11
    assert max(len(sent.action) for sent in drawn if isinstance(sent.action, str)) > MAX_TEXT_LENGTH // 2
    assert len({type(sent.action) for sent in drawn}) > 10


def test_every_environment_gets_its_share() -> None:
    found = shares(1_000_000)
    assert found.keys() == ENVIRONMENTS.keys()
    assert abs(sum(found.values()) - 1_000_000) < len(found)
