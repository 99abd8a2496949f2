"""SOTOPIA's official files: counts, digests, ids, and what each side is shown of the other."""

import json
from collections import Counter
from importlib.resources import files

import pytest

from agentgym import UsageError
from agentgym.envs.sotopia.data import folders
from agentgym.envs.sotopia.data.folders import digests
from agentgym.envs.sotopia.data.importer import open_profiles
from agentgym.envs.sotopia.source import open_tasks
from agentgym.envs.sotopia.views import judge_view, view


@pytest.fixture(scope="module")
def official():
    return open_profiles("sotopia/official")


@pytest.mark.assets
def test_the_official_sets_are_as_published(official):
    assert (len(official.environments), len(official.characters)) == (90, 40)
    everything, hard = official.scenarios("all"), official.scenarios("hard")
    assert (len(everything), len(hard)) == (450, 70)
    assert set(Counter(scenario.text for scenario in everything).values()) == {5}
    assert sorted(Counter(scenario.text for scenario in hard).values()) == [5] * 14
    assert set(hard) <= set(everything)
    assert Counter(scenario.relationship for scenario in everything) == {0: 125, 1: 20, 2: 50, 3: 230, 4: 25}
    with pytest.raises(UsageError, match="repeats a scenario that SOTOPIA evaluates on"):
        official.scenarios("train")


@pytest.mark.assets
def test_the_digests_are_those_of_the_official_environments(official):
    table = json.loads(files(folders.__package__).joinpath("evaluation.json").read_text())
    assert table == [[one.id, *digests(one)] for one in official.environments.values()]


@pytest.mark.assets
def test_no_official_view_holds_what_the_other_side_keeps_to_itself(official):
    for scenario in official.scenarios("all"):
        told = judge_view(scenario)
        for side, detail in ((0, "default"), (1, "default"), (0, "lite"), (1, "lite")):
            shown = view(scenario, side, detail)
            other = scenario.characters[1 - side]
            assert f"{other.name}'s goal: Unknown" in shown
            assert f"{scenario.characters[side].name}'s goal: Unknown" not in shown
            if other.secret:
                assert other.secret not in shown
            assert f"{other.first_name}'s secrets" not in shown
            assert "<" not in shown
            assert f"{other.first_name}'s secrets: {other.secret}" in told


@pytest.mark.assets
def test_official_tasks_are_found_by_their_combination():
    for split, count in (("all", 900), ("hard", 140)):
        tasks = open_tasks("sotopia/official", split, "partner")
        assert len(tasks) == len(set(tasks.ids)) == count
        assert tasks.find(tasks[7].source_id).id == tasks[7].id
        tasks.verify()
    hard, everything = (
        set(open_tasks("sotopia/official", split, "partner").ids) for split in ("hard", "all")
    )
    assert hard < everything
