"""The agent that shops by rule."""

import pytest

from agentgym.agents.random import RandomPolicy
from agentgym.agents.table import make_agent
from agentgym.envs.ezpoints.env import EZPointsEnv
from agentgym.envs.webshop.env import WebShopEnv
from agentgym.envs.webshop.rules import ShopperPolicy
from agentgym.errors import UnsupportedEnvError
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.vector.serial import SerialVectorEnv
from tests.policy_requests import request


def played(policy, envs, count=30):
    specs = [EpisodeSpec(task.id, number, 0) for number, task in enumerate(envs.tasks[:count])]
    return list(RolloutWorker(envs, policy, env_id="shop").run(specs))


@pytest.mark.parametrize("mode", ["text", "text_rich", "gigpo"])
def test_it_reads_every_mode_alike_and_scores_far_above_random(mode):
    envs = SerialVectorEnv(8, env_class=WebShopEnv, autoreset_mode="Disabled", split="test", observation=mode)
    shops = played(ShopperPolicy(), envs)
    plain = SerialVectorEnv(8, env_class=WebShopEnv, autoreset_mode="Disabled", split="test")
    assert sorted(_actions(shops)) == sorted(_actions(played(ShopperPolicy(), plain)))
    assert not any(episode.invalid_count for episode in shops)
    assert all(episode.end_reason in ("success", "failure") for episode in shops)
    lucky = played(RandomPolicy("template"), envs)
    assert sum(episode.score for episode in shops) > 4 * sum(episode.score for episode in lucky)


def _actions(episodes):
    return [tuple(step.action for step in episode.steps) for episode in episodes]


def asking(observation, *clicks, goal="a red [new] lamp"):
    actions = ("search[<query>]", *(f"click[{text}]" for text in clicks))
    return request(observation=observation, admissible_actions=actions, seed=0, extra={"goal": goal})


@pytest.mark.parametrize(
    ("asked", "action"),
    [
        (asking("WebShop"), "search[a red new lamp]"),
        (asking("", "back to search", "next >", "b01", "b02"), "click[b01]"),
        (asking("", "back to search", "< prev", "next >"), "search[a red]"),
        (asking("", "back to search", "< prev"), "click[< prev]"),
        (asking("color [SEP] red [SEP] new [SEP] A", "buy now", "red", "new"), "click[red]"),
        (asking("color [SEP] reddish [SEP] A", "buy now", "reddish"), "click[buy now]"),
        (asking("a [SEP] b [SEP] b1 [SEP] red [SEP] A", "buy now", "b1", "red"), "click[red]"),
    ],
)
def test_each_page_has_its_rule(asked, action):
    assert [answer.action for answer in ShopperPolicy().act([asked])] == [action]


def test_elsewhere_there_is_no_shopping():
    envs = SerialVectorEnv(1, env_class=EZPointsEnv)
    with pytest.raises(UnsupportedEnvError, match="the agent 'shopper' plays WebShop, not EZPointsEnv"):
        make_agent("shopper", envs)
    shop = SerialVectorEnv(1, env_class=WebShopEnv)
    assert isinstance(make_agent("rules", shop), ShopperPolicy)
    assert isinstance(make_agent("shopper", shop), ShopperPolicy)
