"""Language agents over endpoints: images and calls on the wire, replays without a network, full contexts."""

import json
from hashlib import sha256

import httpx2
import pytest

from agentgym.agents import make_agent
from agentgym.agents.language.words import scaffold_words
from agentgym.endpoint import CacheMissError, EndpointSession
from agentgym.endpoint.client import without_network
from agentgym.evaluation.log.redaction import Redactor
from agentgym.evaluation.log.transcripts import transcript_of
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from tests.agents.chat_models import think
from tests.corridor import CorridorVectorEnv
from tests.endpoint.fake import FakeEndpoint, completion, refusal

OPTIONS = {"endpoint": "http://endpoint.test/v1", "model": "tiny", "request": {"attempts": 1}}
ASK = scaffold_words("reflexion")["ask"]


def closed_network():
    def refuse(request):
        raise httpx2.ConnectError("the network is closed")

    return httpx2.MockTransport(refuse)


def chosen(body):
    """Return a choice among the possible actions that depends on all that was asked."""
    text = body["messages"][-1]["content"]
    text = text if isinstance(text, str) else text[0]["text"]
    actions = text.rpartition("Possible actions:\n")[2].replace(", ", "\n").split("\n")
    draw = int(sha256(json.dumps(body, sort_keys=True).encode()).hexdigest(), 16)
    return actions[draw % len(actions)]


def says(kind):
    def answer(body):
        if str(body["messages"][-1]["content"]).endswith(ASK):
            return completion("I should have gone elsewhere.")
        return completion(chosen(body) if kind == "prompting" else think(chosen(body)))

    return answer


def transcripts(env_id, kind, **options):
    """Play every task twice, one attempt after the other; return what transcripts hold."""
    envs = open_vector(env_id, 4, split="test", options={"max_steps": 4})
    worker = RolloutWorker(envs, make_agent(kind, envs, **{**OPTIONS, **options}), env_id=env_id)
    played = [
        trajectory
        for rollout in range(2)
        for trajectory in worker.run(EpisodeSpec(task, 0, rollout) for task in envs.tasks.ids[:3])
    ]
    return sorted(transcript_of(each, "label", 1, Redactor()).line for each in played)


@pytest.mark.parametrize("kind", ["prompting", "react", "reflexion"])
@pytest.mark.parametrize("env_id", ["agentgym/VisualSokoban-v0", "agentgym/WebShop-v0"])
def test_the_cache_alone_gives_the_same_transcripts(tmp_path, env_id, kind):
    cache = tmp_path / "answers.sqlite"
    fake = FakeEndpoint(otherwise=says(kind))
    options = {"temperature": 0.5, "shots": 1}
    with without_network(fake.transport), EndpointSession(cache=cache, mode="write"):
        recorded = transcripts(env_id, kind, **options)
    asked = len(fake.bodies)
    with without_network(closed_network), EndpointSession(cache=cache, mode="replay-only"):
        assert transcripts(env_id, kind, **options) == recorded
        with pytest.raises(CacheMissError, match=r"(sokoban|webshop) [0-9a-f]{32} rollout 0 turn 0"):
            transcripts(env_id, kind, **options, system="Another prompt.")
    assert len(fake.bodies) == asked >= 9


def test_pictures_are_sent_beside_their_text():
    fake = FakeEndpoint(otherwise=says("react"))
    with without_network(fake.transport), EndpointSession():
        transcripts("agentgym/VisualSokoban-v0", "react")
    text, image = fake.bodies[0]["messages"][0]["content"]
    assert "You are playing Sokoban" in text["text"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,iVBOR")


def test_native_tools_are_sent_and_calls_are_told_again():
    call = {"id": "c1", "type": "function", "function": {"name": "act", "arguments": '{"action":"right"}'}}
    fake = FakeEndpoint(otherwise=lambda body: completion("", "tool_calls", tool_calls=[call]))
    envs = CorridorVectorEnv(1, autoreset_mode="Disabled")
    with without_network(fake.transport), EndpointSession():
        policy = make_agent("react", envs, **OPTIONS, answer="tool-calls", native_tools=True)
        (group,) = RolloutWorker(envs, policy, env_id="x").collect(envs.tasks.ids[1:2], group_size=1, seed=0)
    assert group.trajectories[0].won
    first, second = fake.bodies
    assert first["tools"][0]["function"]["name"] == "act"
    _, said, result = second["messages"]
    assert said["tool_calls"][0]["id"] == result["tool_call_id"]
    assert result["role"] == "tool"


def test_a_full_context_is_asked_again_with_less_from_where_the_refusal_arrives():
    def answer(body):
        if len(body["messages"]) > 5:
            return refusal(400, "too long", code="context_length_exceeded")
        return completion(think("right"))

    envs = CorridorVectorEnv(1, autoreset_mode="Disabled")
    with without_network(FakeEndpoint(otherwise=answer).transport), EndpointSession():
        policy = make_agent("react", envs, **OPTIONS)
        (group,) = RolloutWorker(envs, policy, env_id="x").collect(envs.tasks.ids[4:5], group_size=1, seed=0)
    assert group.trajectories[0].won


def test_reflexion_asks_twice_in_a_row():
    fake = FakeEndpoint(otherwise=lambda body: completion(think("fall")))
    envs = CorridorVectorEnv(1, autoreset_mode="Disabled")
    with without_network(fake.transport), EndpointSession():
        policy = make_agent("reflexion", envs, **OPTIONS)
        (group,) = RolloutWorker(envs, policy, env_id="x").collect(envs.tasks.ids[:1], group_size=3, seed=0)
    assert [body["messages"][-1]["content"].endswith(ASK) for body in fake.bodies] == [0, 1, 0, 1, 0]
    assert [each.completions[0].prompt_tokens for each in group.trajectories] == [10, 20, 20]
