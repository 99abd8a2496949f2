"""Environments of messages: the chats of benches, answers of every form, snapshots, budgets, vectors."""

from contextlib import closing
from types import MappingProxyType, SimpleNamespace

import pytest
from gymnasium.utils.env_checker import check_env

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
    assert env.step(MappingProxyType(message))[4]["action"] == "search[Rome]"
    assert env.step("Rome?")[4]["action"] == ""


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (3, "choices\\[0\\].message of a completion, got int"),
        (None, "got NoneType"),
        (b"up", "got bytes"),
        (["up"], "got list"),
        ({}, "got dict"),
        (SimpleNamespace(content="up", model_dump=3), "got SimpleNamespace"),
        ({"choices": [{"message": {"role": "assistant", "content": "up"}}]}, "got dict"),
        (SimpleNamespace(model_dump=lambda: {"id": "1", "choices": []}), "got SimpleNamespace"),
        ({"content": 3}, "but its content is of another type than str"),
        ({"content": ["up"]}, "but a part of its content is no object"),
        ({"tool_calls": [{"function": {"name": None}}]}, "but a tool call has no name"),
    ],
)
def test_an_answer_of_another_kind_is_refused_and_plays_nothing(wrong, line):
    env = agentgym.chat("agentgym/Sokoban-v0")
    env.reset(seed=0)
    with pytest.raises(UsageError, match=f"^an answer is the model's text or its message, .*{line}$"):
        env.step(wrong)
    assert env.step("up")[4]["turn"] == 1


@pytest.mark.parametrize("text", ["left " * 2_000_000, "\ud800", "up\x00", "<tool_call>" * 900_000])
def test_an_odd_text_is_a_turn_that_the_environment_rejects(text):
    env = agentgym.chat("agentgym/Sokoban-v0")
    env.reset(seed=0)
    messages, *_, info = env.step(text)
    assert (info["action_is_valid"], info["turn"]) == (False, 1)
    assert len(messages[0]["content"].encode()) < 2_000


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


def test_a_snapshot_of_another_kind_or_environment_is_refused():
    env = agentgym.chat("agentgym/Sokoban-v0")
    messages, _ = env.reset(seed=0)
    for wrong in (None, {}, env.unwrapped.snapshot()):
        with pytest.raises(UsageError, match="restore takes a ChatSnapshot, as snapshot"):
            env.restore(wrong)
    other = agentgym.chat("agentgym/EZPoints-v0")
    other.reset(seed=0)
    with pytest.raises(UsageError, match="cannot restore a snapshot of suite 'ezpoints'"):
        env.restore(other.snapshot())
    assert env.restore(env.snapshot())[0] == messages
    fresh = agentgym.chat("agentgym/Sokoban-v0")
    assert fresh.restore(env.snapshot())[0] == messages  # no reset was needed
    assert fresh.step("up")[4]["turn"] == 1


def test_a_side_sees_no_turn_of_the_other():
    env = agentgym.chat("agentgym/Sotopia-v0", mode="self-chat", agent="react")
    shown = [env.reset(seed=0)]
    for words in ("one", "two", "three"):
        shown.append(env.step(f"<think>{words} alone</think><action>speak[{words}]</action>")[::4])
    assert [info["side"] for _, info in shown] == [0, 1, 0, 1]
    assert [len(messages) for messages, _ in shown] == [1, 1, 3, 3]
    thoughts = ["one alone", "two alone", "three alone"]
    assert [[each in str(messages) for each in thoughts] for messages, _ in shown] == [
        [False, False, False],
        [False, False, False],
        [True, False, False],
        [False, True, False],
    ]
    start = env.snapshot()
    env.step("<action>none</action>")
    assert env.restore(start)[0] == shown[-1][0]


def test_gymnasium_checks_the_environment_and_makes_it_again():
    env = agentgym.chat("agentgym/Sokoban-v0", split="test", agent="react", max_steps=3)
    with pytest.warns(UserWarning, match="different from the unwrapped version"):
        check_env(env)
    again = env.spec.make()
    assert again.reset(seed=7)[0] == env.reset(seed=7)[0]
    assert again.env is again.unwrapped
    assert repr(env.observation_space) == "ChatSpace()"


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


def test_the_end_of_an_episode_needs_no_budget():
    sizes = iter([10, 11])
    env = agentgym.chat("agentgym/Sokoban-v0", max_steps=1, budget=10, count_tokens=lambda _: next(sizes, 11))
    env.reset(seed=0)
    assert env.step("up")[3]
    assert "No action is possible any more." in env.restore(env.snapshot())[0][-1]["content"]


def test_a_counter_that_fails_leaves_the_turn_played():
    sizes = iter([10, OSError("no tokenizer"), 10])

    def count(messages):
        size = next(sizes)
        if isinstance(size, OSError):
            raise size
        return size

    env = agentgym.chat("agentgym/Sokoban-v0", budget=10, count_tokens=count)
    env.reset(seed=0)
    with pytest.raises(OSError, match="no tokenizer"):
        env.step("up")
    assert env.step("up")[4]["turn"] == 2


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_slot_that_was_reset_has_a_prompt_without_past_turns(mode):
    envs = agentgym.chat_vec("agentgym/EZPoints-v0", 2, agent="react", max_steps=2, autoreset_mode=mode)
    envs.reset(seed=0)
    lengths = []
    for _ in range(4):
        chats, _, _, over, infos = envs.step([think("+"), think("+")])
        lengths.append([len(chats[0]), bool(over[0])])
    if mode == "NextStep":
        assert lengths == [[3, False], [5, True], [1, False], [3, False]]
    else:
        assert lengths == [[3, False], [1, True], [3, False], [1, True]]
        assert len(infos["final_obs"][0]) == 5
        assert infos["final_info"]["action"].tolist() == ["+", "+"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"num_envs": 0}, "num_envs must be at least 1 and whole, got 0"),
        ({"autoreset_mode": "Never"}, "unknown autoreset_mode 'Never'"),
    ],
)
def test_wrong_settings_of_a_vector_are_refused(options, line):
    with pytest.raises(UsageError, match=line):
        agentgym.chat_vec("agentgym/EZPoints-v0", **options)


@pytest.mark.parametrize(("answers", "given"), [(["+"], "1"), (["+"] * 3, "3"), ("++", "one text")])
def test_a_vector_takes_as_many_answers_as_it_has_slots(answers, given):
    envs = agentgym.chat_vec("agentgym/EZPoints-v0", 2)
    envs.reset(seed=0)
    with pytest.raises(UsageError, match=f"a list of 2 answers, one for each slot, got {given}$"):
        envs.step(answers)
    assert len(envs.step(["+", "+"])[0]) == 2


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
        (
            {"budget": 0, "count_tokens": len},
            "budget is a whole number of at least 1 and count_tokens a function",
        ),
        ({"budget": 9, "count_tokens": 3}, "got 9 and 3"),
        ({"prompt": ["history"]}, "prompt: expected a table, got"),
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
