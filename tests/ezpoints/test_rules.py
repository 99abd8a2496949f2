import pytest

from agentgym.envs.ezpoints.cards import SPLITS
from agentgym.envs.ezpoints.rules import CalculatorPolicy
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from tests.policy_requests import request


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("observation", ["text", "image"])
def test_every_deal_is_won_in_four_tokens(split, observation):
    envs = open_vector("agentgym/EZPoints-v0", 32, split=split, options={"observation": observation})
    worker = RolloutWorker(envs, CalculatorPolicy(), env_id="agentgym/EZPoints-v0")
    for trajectory in worker.run(EpisodeSpec(task, 0, 0) for task in envs.tasks.ids):
        assert trajectory.won
        assert len(trajectory.steps) == 4


@pytest.mark.parametrize(
    ("formula", "token"),
    [("(empty)", "10"), ("2", "+"), ("10 +", "2"), ("2 + 10", "="), ("+", "="), ("2 *", "=")],
)
def test_a_formula_is_gone_on_with_and_a_lost_one_is_ended(formula, token):
    text = (
        f"Make 12 from both cards; J, Q and K count 10.\nCards: Q of clubs, 2 of spades\nFormula: {formula}\n"
    )
    asked = request(observation=text, admissible_actions=("2", "10", "+", "*", "="))
    assert CalculatorPolicy().act([asked])[0].action == token
