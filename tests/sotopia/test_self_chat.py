"""One policy on both sides: what it is told on one side is nothing of the other's."""

from concurrent.futures import Future

import pytest

from agentgym.agents.language.making import language_agent
from agentgym.agents.language.settings import (
    PROMPTING,
    REACT,
    REFLEXION,
    ChatAgentSettings,
    ReflexionSettings,
)
from agentgym.core.types import Completion
from agentgym.endpoint.chat import ChatReply
from agentgym.envs.sotopia.env import SotopiaVectorEnv
from agentgym.errors import UnsupportedEnvError
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker

THOUGHT = "my own thought number"
TASKS = 32
"""The first ones, of all relationships."""


class Thinker:
    """A chat model with a thought of its own every time; keeps what it was asked."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []

    def submit(self, request):
        said = f"speak[Line {len(self.requests)}.]"
        if self.answer == "think-action":
            said = f"<think>{THOUGHT} {len(self.requests)}</think><action>{said}</action>"
        self.requests.append(request)
        future = Future()
        future.set_result(ChatReply(said))
        return future


class Listener:
    """A policy that keeps the requests."""

    def __init__(self):
        self.requests = []

    def act(self, requests):
        self.requests += requests
        return [Completion("speak[Well.]", text=THOUGHT) for _ in requests]


def opened(**options):
    return SotopiaVectorEnv(
        TASKS, split="test", mode="self-chat", max_turns=6, autoreset_mode="Disabled", **options
    )


def play(envs, policy):
    specs = [EpisodeSpec(task, 0, 0) for task in envs.tasks.ids[:TASKS]]
    return list(RolloutWorker(envs, policy, env_id="agentgym/Sotopia-v0").run(specs))


@pytest.mark.parametrize("order", ["round-robin", "simultaneous", "random"])
def test_a_policy_is_given_the_steps_of_the_side_to_act(order):
    envs, policy = opened(order=order), Listener()
    played = play(envs, policy)
    scenarios = {envs.tasks[n].id: envs.tasks[n].content.scenario for n in range(TASKS)}
    assert {scenario.relationship for scenario in scenarios.values()} == set(range(6))
    shared = 0
    for request in policy.requests:
        side = request.extra["side"]
        assert len(request.history) == request.own_steps == request.turn - request.others
        assert {step.side for step in request.history} <= {side}
        shared += request.others
        scenario = scenarios[request.task_id]
        for text in (request.observation, *(step.observation for step in request.history)):
            assert scenario.goals[side] in text
            assert scenario.goals[1 - side] not in text
            assert scenario.characters[1 - side].secret not in text
    assert shared > 0
    assert all({step.side for step in trajectory.steps} == {0, 1} for trajectory in played)


@pytest.mark.parametrize(("scaffold", "history"), [(REACT, None), (PROMPTING, 3)])
@pytest.mark.parametrize("view", ["default", "lite"])
def test_no_chat_holds_what_the_other_side_was_shown_or_thought(scaffold, history, view):
    envs, model = opened(view=view), Thinker(scaffold.answer)
    settings = ChatAgentSettings(endpoint="http://127.0.0.1:9/v1", model="m", history=history)
    play(envs, language_agent(envs, model, scaffold, settings))
    scenarios = {envs.tasks[n].id: envs.tasks[n].content.scenario for n in range(TASKS)}
    thinking = {}
    for number, request in enumerate(model.requests):
        text = "\n".join(message.text for message in request.messages)
        (scenario,) = (found for task, found in scenarios.items() if task in request.label)
        side = int(request.label.rpartition(" ")[2]) % 2  # round-robin
        assert scenario.goals[side] in text
        assert scenario.goals[1 - side] not in text
        assert scenario.characters[1 - side].secret not in text
        own = thinking.setdefault((scenario.id, side), [])
        if scaffold is REACT:
            assert text.count(THOUGHT) == len(own) == text.count("<think>my")
            assert all(f"{THOUGHT} {earlier}<" in text for earlier in own)
        own.append(number)
    assert all(len(own) == 3 for own in thinking.values())


def test_one_memory_for_both_sides_is_refused():
    settings = ReflexionSettings(endpoint="http://127.0.0.1:9/v1", model="m")
    with pytest.raises(UnsupportedEnvError, match="name the agent 'react', or mode='partner'"):
        language_agent(opened(), Thinker("think-action"), REFLEXION, settings)
