"""What holds of the rule-based baseline of every suite."""

from dataclasses import replace

import pytest

from agentgym.agents import make_agent
from agentgym.agents.rules import RULES_VERSION
from agentgym.errors import UnsupportedEnvError, UsageError
from agentgym.registration import ENVIRONMENTS, open_vector, suite_spec
from agentgym.rollout.worker import RolloutWorker
from tests.corridor import CorridorVectorEnv


class Fair:
    """Takes from requests what a player does not see: touching it fails."""

    def __init__(self, policy):
        self.policy = policy

    def act(self, requests):
        return self.policy.act([replace(request, snapshot=forbidden, task_type="") for request in requests])


def forbidden():
    raise AssertionError("the rules look at the snapshot")


def episodes(env_id, num_envs, wrap=Fair, **options):
    envs = open_vector(env_id, num_envs, split="train", options=options)
    worker = RolloutWorker(envs, wrap(make_agent("rules", envs)), env_id=env_id)
    return [
        (trajectory.won, [step.action for step in trajectory.steps])
        for group in worker.collect(envs.tasks.ids[:12], group_size=2, seed=3)
        for trajectory in group.trajectories
    ]


@pytest.mark.parametrize("env_id", [env_id for env_id in ENVIRONMENTS if suite_spec(env_id).rules])
def test_rules_see_no_snapshot_and_do_not_depend_on_the_batch(env_id):
    alone, together = episodes(env_id, 1), episodes(env_id, 5)
    assert alone == together == episodes(env_id, 5, wrap=lambda policy: policy)
    assert any(won for won, _ in alone)


def test_an_observation_with_a_picture_is_read_by_its_text():
    assert all(won for won, _ in episodes("agentgym/EZPoints-v0", 4, observation="image"))


def test_a_suite_without_rules_is_not_played_at_random():
    envs = CorridorVectorEnv(1, autoreset_mode="Disabled")
    with pytest.raises(UnsupportedEnvError, match=r"^the suite 'corridor' has no rules: [^\n]+$"):
        make_agent("rules", envs)


def test_rules_of_another_version_are_refused():
    envs = open_vector("agentgym/EZPoints-v0", 1)
    make_agent("rules", envs, version=RULES_VERSION)
    with pytest.raises(UsageError, match=f"the agent 'rules' is of version {RULES_VERSION} here, not 1"):
        make_agent("rules", envs, version=1)
