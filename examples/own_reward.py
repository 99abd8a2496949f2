"""A reward of one's own, without a change of the package: Sokoban that pays for boxes on targets alone.

python examples/own_reward.py
agentgym train gigpo --env examples.own_reward:examples/SokobanBoxes-v0 --model tiny:0.1m --iterations 2
"""

from __future__ import annotations

import gymnasium

from agentgym import Outcome, check_agent_env
from agentgym.envs.sokoban.env import SokobanEnv
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker

ENV_ID = "examples/SokobanBoxes-v0"


class SokobanBoxes(SokobanEnv):
    """Sokoban whose step pays the change of the share of boxes on targets."""

    def _apply(self, action: str) -> Outcome:
        before = self._status().progress
        outcome = super()._apply(action)
        return outcome._replace(reward=self._status().progress - before)


gymnasium.register(ENV_ID, entry_point=f"{__name__}:SokobanBoxes")

if __name__ == "__main__":
    check_agent_env(ENV_ID)
    envs = open_vector(ENV_ID, num_envs=1, split="test", options={"num_boxes": 2})
    worker = RolloutWorker(envs, envs.oracle(), env_id=ENV_ID)
    (group,) = worker.collect(envs.tasks.ids[:1], group_size=1, seed=0)
    (episode,) = group.trajectories
    print("the contract holds; the oracle earns", [step.reward for step in episode.steps])
