"""SOTOPIA as a PettingZoo environment."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from pettingzoo.test import api_test, parallel_api_test
from pettingzoo.utils import aec_to_parallel, turn_based_aec_to_parallel

from agentgym import UsageError
from agentgym.envs.sotopia.actions import ACTION_TYPES
from agentgym.envs.sotopia.builtin.judge import rate
from agentgym.envs.sotopia.pettingzoo import MAX_ARGUMENT_LENGTH, SotopiaAec
from agentgym.envs.sotopia.ratings import Ratings
from tests.sotopia.files import write_copy

OF_ARRAYS = (
    "Observation is not a NumPy array",
    "Observation space for each agent probably should be",
    "Action space for each agent probably should be",
)
"""What PettingZoo warns of where observations and actions are texts."""


@pytest.fixture(autouse=True)
def _texts():
    with warnings.catch_warnings():
        for message in OF_ARRAYS:
            warnings.filterwarnings("ignore", message=message)
        yield


@pytest.mark.parametrize("order", ["round-robin", "simultaneous", "random"])
def test_it_keeps_to_pettingzoos_contract(order, capsys):
    api_test(SotopiaAec("builtin", "test", order=order), num_cycles=60)
    assert "Passed API test" in capsys.readouterr().out


def test_simultaneous_turns_are_parallel(capsys):
    parallel_api_test(aec_to_parallel(SotopiaAec("builtin", "test", order="simultaneous")), num_cycles=60)
    assert "Passed Parallel API test" in capsys.readouterr().out
    with pytest.raises(AssertionError):
        aec_to_parallel(SotopiaAec("builtin", "test"))


def test_other_orders_are_turn_based():
    env = turn_based_aec_to_parallel(SotopiaAec("builtin", "test"))
    _, infos = env.reset(seed=0)
    for turn in range(4):
        acting, waiting = f"side_{turn % 2}", f"side_{1 - turn % 2}"
        assert infos[acting]["legal_action_types"] == ACTION_TYPES
        assert infos[waiting]["legal_action_types"] == ("none",)
        observations, _, _, _, infos = env.step({acting: "speak[Hm.]", waiting: "none"})
        assert all(each["text"].endswith('said: "Hm."') for each in observations.values())


def played(env, *actions, seed=0, task=None):
    """Reset, let whoever is to act do something, and return what each is given in the end."""
    env.reset(seed=seed, options=None if task is None else {"task": task})
    for action in actions:
        env.step(action)
    return env


def test_what_one_says_both_are_shown_and_goals_stay_private():
    env = played(SotopiaAec("builtin", "test", render_mode="ansi"), "speak[Hello!]")
    first, second = (env.observe(agent)["text"] for agent in env.agents)
    assert first.splitlines()[-1] == second.splitlines()[-1]
    assert env.agent_selection == "side_1"
    goals = env._scenario.goals
    assert goals[0] in first
    assert goals[1] in second
    assert goals[0] not in second
    assert goals[1] not in first
    assert goals[0] in env.render()
    assert goals[1] in env.render()
    assert SotopiaAec("builtin", "test").render() is None


def test_the_rules_pay_the_goal_when_it_is_over():
    env = played(SotopiaAec("builtin", "test"), "speak[Hello!]", "leave")
    expected = rate(env._scenario, env._state)
    assert env.terminations == {"side_0": True, "side_1": True}
    assert env.truncations == {"side_0": False, "side_1": False}
    assert list(env.rewards.values()) == [ratings.goal / 10 for ratings in expected]
    for agent, ratings in zip(env.agents, expected, strict=True):
        assert env.infos[agent]["ratings"] == ratings._asdict()
        assert (env.infos[agent]["ending"], env.infos[agent]["legal_action_types"]) == ("left", ())
    env.step(None)
    env.step(None)
    assert env.agents == []


def test_a_new_conversation_begins_without_rewards():
    env = played(SotopiaAec("builtin", "test", judge=lambda *_: (Ratings(9, 2, 4, 0, 0, 0, 6),) * 2), "leave")
    assert set(env.rewards.values()) == {0.6}
    env.reset(seed=1)
    assert set(env.rewards.values()) == {env.last()[1]} == {0.0}


def test_the_last_turn_truncates_and_is_rated():
    env = played(SotopiaAec("builtin", "test", max_turns=3), *["speak[Hm.]"] * 3)
    assert env.truncations == {"side_0": True, "side_1": True}
    assert env.infos["side_0"]["ending"] == "turns"
    assert "ratings" in env.infos["side_1"]


@pytest.mark.parametrize(
    ("action", "shown"),
    [
        ("action[nods]", "[action] nods"),
        ('{"action_type": "speak", "argument": "Hi"}', 'said: "Hi"'),
        ({"action_type": 2, "argument": "waves"}, "[non-verbal communication] waves"),
        ({"action_type": np.int64(1), "argument": "Hi"}, 'said: "Hi"'),
        ({"action_type": "speak", "argument": "Hi"}, 'said: "Hi"'),
        ({"action_type": 0, "argument": "whatever"}, "did nothing"),
    ],
)
def test_actions_are_strings_or_sotopias_fields(action, shown):
    env = played(SotopiaAec("builtin", "test"), action)
    assert env.observe("side_1")["text"].endswith(shown)
    assert env.infos["side_0"]["action_is_valid"]


@pytest.mark.parametrize(
    "action",
    [
        "shout[Hi]",
        "speak[" + "x" * 9_000 + "]",
        {"action_type": 9, "argument": "x"},
        {"action_type": 1, "argument": " "},
        {"action_type": 1},
        {"action_type": [1], "argument": "x"},
        7,
    ],
)
def test_what_cannot_be_read_is_nothing_and_invalid(action):
    env = played(SotopiaAec("builtin", "test"), action)
    assert env.observe("side_1")["text"].endswith("did nothing")
    assert not env.infos["side_0"]["action_is_valid"]
    assert env.infos["side_1"]["action_is_valid"]


@pytest.mark.parametrize("length", [MAX_ARGUMENT_LENGTH, MAX_ARGUMENT_LENGTH + 1])
def test_the_longest_argument_is_read(length):
    env = played(SotopiaAec("builtin", "test"), {"action_type": "speak", "argument": "x" * length})
    assert env.infos["side_0"]["action_is_valid"] is (length == MAX_ARGUMENT_LENGTH)


def test_a_seed_draws_the_scenario_and_the_order():
    env = SotopiaAec("builtin", "test", order="random")
    seen = []
    for seed in (1, 2, 1):
        played(env, seed=seed)
        order = []
        while not any(env.truncations.values()):
            order.append(env.agent_selection)
            env.step("speak[Hm.]")
        seen.append((env.infos["side_0"]["task_id"], order))
    assert seen[0] == seen[2] != seen[1]
    assert {*seen[0][1], *seen[1][1]} == {"side_0", "side_1"}


def test_a_judge_is_handed_in_for_other_scenarios(tmp_path):
    folder = str(write_copy(tmp_path))
    with pytest.raises(UsageError, match="pass a judge"):
        SotopiaAec(folder, "all")
    ratings = (Ratings(9, 2, 4, 0, 0, 0, 6), Ratings(9, -1, 4, 0, -2, 0, 8))
    env = SotopiaAec(folder, "all", judge=lambda scenario, state: ratings, reward="overall")
    played(env, "leave", task="C2")
    assert env.rewards == {"side_0": 3.0, "side_1": 18 / 7}
    with pytest.raises(UsageError, match="no task"):
        env.reset(options={"task": "C9"})
    with pytest.raises(UsageError, match="unknown reward 'goals'"):
        SotopiaAec(folder, "all", judge=rate, reward="goals")
    with pytest.raises(UsageError, match="unknown order"):
        SotopiaAec("builtin", "test", order="robin")


def test_nothing_else_needs_pettingzoo():
    code = (
        "import sys; sys.modules['pettingzoo'] = None\n"
        "import agentgym.envs.sotopia.source, agentgym.envs.sotopia.views, agentgym.envs.sotopia.game\n"
        "try:\n"
        "    import agentgym.envs.sotopia.pettingzoo\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(
        "MissingPackageError the PettingZoo environment of SOTOPIA needs pettingzoo: pip install"
    )
