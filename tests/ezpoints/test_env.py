"""The single environment: rewards, rejections, the two forms of observation, hashes, the oracle."""

import re

import numpy as np
import pytest

from agentgym import UsageError
from agentgym.checking import check_agent_env
from agentgym.envs.ezpoints.cards import SPLITS, every_deal, pair_of
from agentgym.envs.ezpoints.env import EZPointsEnv
from agentgym.envs.ezpoints.formula import positions
from tests.policy_requests import request_of


def play(actions, task="KS 2H", **options):
    """Play a task of the training split; return the last step and the sum of rewards."""
    env = EZPointsEnv(**options)
    env.reset(options={"task": task})
    total = 0.0
    for action in actions.split():
        *last, info = env.step(action)
        total += last[1]
    return (*last, info), total


@pytest.mark.parametrize(
    ("actions", "verl_agent", "gym_cards", "won"),
    [
        ("10 + 2 =", 10.0, 10.0, True),
        ("2 + 10 =", 10.0, 10.0, True),
        ("2 3 + 10 =", 10.0, 9.0, True),
        ("2 2 2 + 10 =", 10.0, 8.0, True),
        ("10 * 2 =", 0.0, -1.0, False),
        ("10 2 =", 0.0, -1.0, False),
        ("=", 0.0, -1.0, False),
        ("10 =", 0.0, -1.0, False),
        ("+ + + + + 2 =", 0.0, -2.0, False),
    ],
)
def test_rewards(actions, verl_agent, gym_cards, won):
    (_, _, terminated, truncated, info), total = play(actions)
    assert (total, terminated, truncated) == (verl_agent, True, False)
    assert (info["won"], info["score"], info["progress"]) == (won, float(won), float(won))
    _, total = play(actions, rewards="gym-cards")
    assert total == gym_cards


def test_the_text():
    env = EZPointsEnv()
    observation, info = env.reset(options={"task": "KS 2H"})
    assert observation == (
        "Make 12 from both cards; J, Q and K count 10.\nCards: K of spades, 2 of hearts\nFormula: (empty)"
    )
    assert info["admissible_actions"] == ("2", "10", "+", "*", "=")
    assert env.step("10")[0].endswith("\nFormula: 10")
    assert env.step("+")[0].endswith("\nFormula: 10 +")
    assert env.step("3")[0].endswith("\nFormula: 10 +\nThe last action was not accepted.")
    assert env.step("2")[0].endswith("\nFormula: 10 + 2")
    assert env.step("=")[0].endswith("\nFormula: 10 + 2 =")


def test_a_rejected_number_costs_a_step_and_never_loops():
    env = EZPointsEnv(rewards="gym-cards")
    _, start = env.reset(options={"task": "KS 2H"})
    rewards = []
    while True:
        _, reward, terminated, truncated, info = env.step("1")
        rewards.append(reward)
        assert not info["action_is_valid"]
        assert info["state_hash"] == start["state_hash"]
        if truncated:
            break
    assert not terminated
    assert rewards == [-1.0] * 15
    assert info["turn"] == 15


def test_image_observations():
    text, image = EZPointsEnv(), EZPointsEnv(observation="image", render_mode="rgb_array")
    for env in (text, image):
        env.reset(seed=4)
    for action in ("2", "8", "+", "no such action"):
        plain, rich = text.step(action), image.step(action)
        assert rich[0]["text"] == plain[0]
        assert rich[0]["image"].shape == (196, 224, 3)
        assert rich[0]["image"].dtype == np.uint8
        assert np.array_equal(rich[0]["image"], image.render())
        assert rich[1:] == plain[1:], "only the observation may depend on the form of observation"


def test_render():
    env = EZPointsEnv(render_mode="ansi")
    observation, _ = env.reset(seed=0)
    assert env.render() == observation


def test_state_hashes_name_states():
    """Over every position of every deal: one hash each, and none twice."""
    env, seen, count = EZPointsEnv(), set(), 0
    known = {pair_of(deal): list(positions(pair_of(deal))) for deal in every_deal()}
    for split in SPLITS:
        for task in EZPointsEnv(split=split).tasks:
            env._begin(task)
            for tokens in known[pair_of(task.content)]:
                env._set_state(tokens)
                env._terminated = tokens[-1:] == ("=",)
                seen.add(env.state_hash())
                count += 1
    assert len(seen) == count == 322_464


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "tests"}, "did you mean 'test'"),
        ({"dataset": "boxoban"}, "unknown dataset 'boxoban'; choose one of builtin"),
        ({"rewards": "gymcards"}, "did you mean 'gym-cards'"),
        ({"rewards": None}, "unknown rewards None"),
        ({"observation": "picture"}, "choose one of text, image"),
        ({"render_mode": "web"}, "unknown render_mode"),
        ({"max_steps": 0}, "max_steps"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        EZPointsEnv(**options)


@pytest.mark.parametrize("split", SPLITS)
def test_the_oracle_wins_every_task(split):
    env = EZPointsEnv(split=split)
    oracle = env.oracle()
    for number, task in enumerate(env.tasks):
        observation, info = env.reset(options={"task": task.id})
        done = False
        while not done:
            asked = request_of(env, info, episode=number, observation=observation)
            observation, _, done, _, info = env.step(oracle.act([asked])[0].action)
        assert info["won"]
        assert info["turn"] == 4


def test_the_oracle_gives_a_lost_position_up():
    env = EZPointsEnv()
    _, info = env.reset(options={"task": "KS 2H"})
    for action in ("*", "*"):
        _, _, _, _, info = env.step(action)
    assert env.oracle().act([request_of(env, info, admissible_actions=())])[0].action == "="


@pytest.mark.parametrize(
    "options", [{}, {"rewards": "gym-cards"}, {"observation": "image"}, {"split": "unseen_pairs"}]
)
def test_keeps_the_contract(options):
    check_agent_env(lambda **more: EZPointsEnv(**{**options, **more}))
