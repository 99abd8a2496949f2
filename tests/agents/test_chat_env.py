"""Environments of messages: the chats of benches, answers of every form, snapshots, budgets, vectors."""

from contextlib import closing
from types import SimpleNamespace

import pytest

import agentgym
from agentgym import UsageError
from agentgym.endpoint.wire import message_table
from agentgym.prompts.fitting import PromptTooLongError
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from tests.agents.chat_models import FakeChatModel, agent, think

SUITES = {
    "agentgym/Sokoban-v0": ("up", "left", "no such move", "right"),
    "agentgym/ALFWorld-v0": ("look", "inventory", "", "look"),
    "agentgym/WebShop-v0": ("search[red shoes]", "click[back to search]", "search[shoes]", "click[buy now]"),
    "agentgym/EZPoints-v0": ("+", "+", "=", "="),
}


@pytest.mark.parametrize("scaffold", ["prompting", "react"])
@pytest.mark.parametrize("env_id", SUITES)
def test_the_messages_are_those_of_the_agents_in_benches(env_id, scaffold):
    answers = [think(action) if scaffold == "react" else action for action in SUITES[env_id]]
    model = FakeChatModel(lambda request: answers[len(model.requests) - 1])
    with closing(open_vector(env_id, 1, options={"max_steps": 4})) as envs:
        task = envs.tasks.ids[0]
        worker = RolloutWorker(envs, agent(envs, model, scaffold, history=2), env_id=env_id)
        (played,) = worker.run([EpisodeSpec(task, 0, 0)])
    env = agentgym.chat(env_id, agent=scaffold, prompt={"history": 2}, max_steps=4)
    messages, _ = env.reset(options={"task": task})
    for request, answer, step in zip(model.requests, answers, played.steps, strict=False):
        assert messages == [message_table(each) for each in request.messages]
        messages, reward, terminated, truncated, info = env.step(answer)
        assert (info["action"], reward, terminated, truncated) == (
            step.action,
            step.reward,
            step.terminated,
            step.truncated,
        )
        assert (info["format_error"] == "") == (step.completion.format_error == "")
    assert terminated or truncated


def test_an_answer_is_a_text_or_a_message_with_calls():
    settings = {"answer": "tool-calls", "native_tools": True}
    env = agentgym.chat("agentgym/HotpotQA-v0", prompt=settings)
    assert [tool["function"]["name"] for tool in env.tools] == ["search", "answer"]
    env.reset(seed=0)
    call = {"id": "c", "type": "function", "function": {"name": "search", "arguments": '{"query": "Rome"}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    for answer in (message, SimpleNamespace(model_dump=lambda: message)):
        messages, *_, info = env.step(answer)
        assert (info["action"], info["format_error"]) == ("search[Rome]", "")
        assert messages[-1]["role"] == "user"  # a turn has a prompt of its own
    for wrong in (3, None, ["search"], {"content": 3}):
        with pytest.raises(UsageError, match="an answer is the model's text or its message, but it"):
            env.step(wrong)
    assert env.step("Rome?")[4]["action"] == ""


def test_a_restored_chat_goes_on_as_it_was():
    env = agentgym.chat("agentgym/Sokoban-v0", split="test", agent="react")
    env.reset(seed=3)
    env.step(think("up"))
    start, seen = env.snapshot(), env.state_hash()
    first = env.step(think("left"))
    env.step(think("down"))
    messages, info = env.restore(start)
    assert (env.state_hash(), info["state_hash"], len(messages)) == (seen, seen, 3)
    assert env.step(think("left"))[:4] == first[:4]
    assert env.admissible_actions() == ("up", "down", "left", "right")


def test_the_oldest_turns_are_left_out_of_a_budget():
    def count(messages):
        return sum(len(message["content"]) for message in messages)

    env = agentgym.chat("agentgym/Sokoban-v0", agent="react", budget=1_700, count_tokens=count)
    messages, _ = env.reset(seed=0)
    lengths = []
    for _ in range(8):
        messages, *_ = env.step(think("up"))
        assert count(messages) <= 1_700
        lengths.append(len(messages))
    assert lengths[0] == 3
    assert len(set(lengths[4:])) == 1
    assert "left out" in messages[0]["content"]
    tight = agentgym.chat("agentgym/Sokoban-v0", budget=10, count_tokens=count)
    with pytest.raises(PromptTooLongError, match="turn 0 alone has more than 10 tokens: raise budget"):
        tight.reset(seed=0)


def test_slots_of_a_vector_share_their_tasks():
    envs = agentgym.chat_vec("agentgym/EZPoints-v0", 3, split="test", agent="react")
    chats, infos = envs.reset(seed=5)
    single = agentgym.chat("agentgym/EZPoints-v0", split="test", agent="react")
    assert [chats[slot] for slot in range(3)] == [single.reset(seed=5 + slot)[0] for slot in range(3)]
    assert len({id(env.unwrapped.tasks) for env in envs.envs}) == 1
    chats, _rewards, *_, infos = envs.step([think("+"), "?", think("=")])
    assert [len(chat) for chat in chats] == [3, 3, 3]
    assert infos["action"].tolist() == ["+", "", "="]
    assert chats in envs.observation_space
    assert [{"role": "user"}] in envs.single_observation_space
    assert "text" not in envs.single_observation_space
    assert envs.single_observation_space.sample() in envs.single_observation_space


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"agent": "reflexion"}, "unknown agent 'reflexion'; choose one of prompting, react"),
        ({"budget": 10}, "budget and count_tokens go together: give both, or neither"),
        ({"prompt": {"histroy": 2}}, "prompt: unknown key 'histroy'"),
        ({"prompt": {"native_tools": True}}, "native_tools goes with answer"),
        ({"dim": 3}, "option"),
    ],
)
def test_wrong_settings_are_refused_in_a_line(options, line):
    with pytest.raises(UsageError, match=line) as caught:
        agentgym.chat("agentgym/Sokoban-v0", **options)
    assert "\n" not in str(caught.value)


def test_a_step_needs_a_reset():
    env = agentgym.chat("agentgym/Sokoban-v0")
    with pytest.raises(agentgym.env.ResetNeeded, match="call reset"):
        env.step("up")
