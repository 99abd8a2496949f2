import pytest

from agentgym.agents import make_agent
from agentgym.envs.sokoban.vector import SokobanVectorEnv
from agentgym.errors import UsageError
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from tests.corridor import CorridorVectorEnv


def play(*tasks):
    envs = CorridorVectorEnv(2, autoreset_mode="Disabled")
    worker = RolloutWorker(envs, make_agent("walkthrough", envs), env_id="test/Corridor-v0")
    return list(worker.run([EpisodeSpec(task, 0, 0) for task in tasks]))


def test_it_plays_what_was_recorded():
    episodes = play("corridor3", "corridor5", "corridor1")
    assert sorted(len(episode.steps) for episode in episodes) == [1, 3, 5]
    assert all(episode.won for episode in episodes)


def test_a_task_without_a_walkthrough_is_an_error():
    with pytest.raises(UsageError, match=r"\(corridor8\) has no walkthrough; use the agent 'oracle'"):
        play("corridor8")


def test_an_environment_without_walkthroughs_is_an_error():
    with pytest.raises(UsageError, match="SokobanEnv has no recorded walkthroughs; use the agent 'oracle'"):
        make_agent("walkthrough", SokobanVectorEnv(1))
