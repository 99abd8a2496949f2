"""The bridge to inspect_ai, with what stands in for inspect_ai: its tasks' solvers, tools and scorer.

`test_inspect_ai.py` evaluates with the real package, where it is installed.
"""

import asyncio
from types import SimpleNamespace

import pytest

from agentgym.agents import make_agent
from agentgym.core.tools import call_of
from agentgym.errors import UsageError
from agentgym.evaluation.imports.inspect import LISTED, STORE
from agentgym.registration import make, open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from tests.bridges.inspect_stand_in import Store, ToolError, standing_in

EZPOINTS = "agentgym/EZPoints-v0"


@pytest.fixture(params=["agentgym/", ""], ids=["installed", "editable"])
def bridge(request):
    """Import the bridge over stand-ins for inspect_ai, which names tasks with a package or not."""
    with standing_in(request.param) as bridge:
        yield bridge


def begun(bridge, task, *, epoch=1):
    """Return the state of the first sample after the setup."""
    bridge.tools.store = Store()
    state = SimpleNamespace(
        sample_id=task.dataset[0].id, epoch=epoch, store=bridge.tools.store, completed=False
    )
    return asyncio.run(task.setup(state, None))


def play(task, state, calls):
    """Let a model make calls, one a response, None for none; return how often it was asked."""
    said = iter(calls)

    async def generate(state, tool_calls, parallel_tool_calls):
        assert tool_calls == "none"
        call = next(said)
        message = SimpleNamespace(role="assistant", tool_calls=[call] if call else None)
        state.messages.append(message)
        state.output = SimpleNamespace(message=message)
        return state

    asyncio.run(task.solver(state, generate))
    return sum(each.role == "assistant" for each in state.messages)


def scored(task, state):
    return asyncio.run(task.scorer(state, None))


def test_every_suite_of_text_is_a_task(bridge):
    assert {"webshop", "sokoban", "ezpoints"} <= set(bridge.module.TASKS)
    assert not [name for name in bridge.module.TASKS if name.startswith("visual")]
    (names,) = {
        tuple(each.about["name"].rpartition("/")[0] for each in bridge.module.TASKS.values()),
    }
    assert set(names) == ({""} if bridge.installed else {"agentgym"})


def test_a_task_has_samples_of_a_split_and_says_what_it_plays(bridge):
    task = bridge.module.TASKS["sokoban"](split="test", tasks=3, seed=5, options={"num_boxes": 1})
    tasks = make("agentgym/Sokoban-v0", num_boxes=1, split="test").tasks
    assert [sample.id for sample in task.dataset] == [each.id for each in tasks[:3]]
    assert [sample.input for sample in task.dataset] == [each.source_id or each.id for each in tasks[:3]]
    assert task.metadata == {
        "env": "agentgym/Sokoban-v0",
        "split": "test",
        "options": {"num_boxes": 1},
        "seed": 5,
    }
    assert bridge.module.TASKS["sokoban"](tasks=1).metadata["options"] == {}
    with pytest.raises(UsageError, match="tasks must be at least 1, got 0"):
        bridge.module.TASKS["sokoban"](tasks=0)


@pytest.mark.parametrize("epoch", [1, 2])
def test_an_epoch_begins_with_its_rollout_of_the_seed(bridge, epoch):
    task = bridge.module.TASKS["webshop"](split="test", tasks=1, seed=4, options={"noise": 1.0})
    state = begun(bridge, task, epoch=epoch)
    env = make("agentgym/WebShop-v0", noise=1.0, split="test")
    options = {"task": task.dataset[0].id, "rollout": epoch - 1}
    observation, info = env.reset(seed=4, options=options)
    system, user = state.messages
    assert (system.role, system.content) == ("system", bridge.module.SYSTEM)
    assert user.content == observation + LISTED + "; ".join(info["admissible_actions"])
    game, _ = bridge.module._restored(env, state.store[STORE])
    assert (game.rollout, game.snapshot()) == (epoch - 1, env.snapshot())
    assert {**state.store[STORE], "snapshot": ""} == {
        "actions": [],
        "rewards": [],
        "snapshot": "",
        "over": False,
    }
    assert [tool.name for tool in state.tools] == [tool.name for tool in env.suite_spec.tools]
    for shown, tool in zip(state.tools, env.suite_spec.tools, strict=True):
        schema = tool.schema()["function"]["parameters"]
        assert (shown.description, shown.max_output) == (tool.description, 0)
        assert shown.parameters.required == schema["required"]
        assert set(shown.parameters.properties) == set(schema["properties"])
        assert all(each.description for each in shown.parameters.properties.values())


def solved():
    """Return the oracle's solution of EZPoints' first task as calls, actions, rewards and values."""
    slots = open_vector(EZPOINTS, 1)
    worker = RolloutWorker(slots, make_agent("oracle", slots), env_id=EZPOINTS)
    (played,) = worker.run([EpisodeSpec(slots.prototype.tasks[0].id, 0, 0)])
    env, actions, rewards = make(EZPOINTS), [step.completion.action for step in played.steps], []
    env.reset(seed=0, options={"task": env.tasks[0].id})
    for action in actions:
        _, reward, _, _, info = env.step(action)
        rewards.append(float(reward))
    values = {"score": info["score"], "success": float(info["won"]), **env.measures()}
    return [call_of(env.suite_spec.tools, action) for action in actions], actions, rewards, values


def test_a_model_plays_to_the_end_and_is_scored(bridge):
    task = bridge.module.TASKS["ezpoints"](tasks=1)
    calls, actions, rewards, values = solved()
    state = begun(bridge, task)
    assert play(task, state, [*calls, calls[0]]) == len(calls)
    saved = state.store[STORE]
    assert (saved["actions"], saved["rewards"], saved["over"]) == (actions, rewards, True)
    assert state.messages[-1].text.endswith(f"{LISTED}none. The episode has ended.")
    score = scored(task, state)
    assert (score.value, score.answer) == (values, actions[-1])
    with pytest.raises(ToolError, match=r"The episode has ended\."):
        bridge.module._step(make(EZPOINTS), actions[0])
    (about,) = {str(each.about) for each in bridge.made if "metrics" in each.about}
    assert "{'*': ['mean', 'stderr']}" in about


def test_three_responses_without_a_call_in_a_row_end_a_sample(bridge):
    task = bridge.module.TASKS["ezpoints"](tasks=1)
    calls, actions, _, _ = solved()
    state = begun(bridge, task)
    assert play(task, state, [None, None, calls[0], None, None, None, calls[1]]) == 6
    assert state.messages[-1].content == "Call one of the tools."
    assert state.store[STORE]["actions"] == actions[:1]
    score = scored(task, state)
    assert (score.value["score"], score.value["success"], score.answer) == (0.0, 0.0, actions[0])
    env = make(EZPOINTS)
    env.reset(seed=0, options={"task": env.tasks[0].id})
    env.step(actions[0])
    assert {name: score.value[name] for name in env.measures()} == env.suite_spec.counted(
        env.measures(), aborted=True
    )
    none = begun(bridge, task)
    assert play(task, none, [None] * 9) == 3
    assert scored(task, none).answer == ""
    ended = begun(bridge, task)
    ended.completed = True
    assert play(task, ended, []) == 0


def test_a_call_that_does_not_fit_is_an_error_and_no_action(bridge):
    task = bridge.module.TASKS["ezpoints"](tasks=1)
    calls, actions, _, _ = solved()
    state = begun(bridge, task)
    wrong = SimpleNamespace(name=calls[0].name, arguments=dict.fromkeys(dict(calls[0].arguments), "@"))
    play(task, state, [wrong, calls[0], None, None, None])
    errors = [each.text for each in state.messages if each.role == "tool"]
    assert "is not one of" in errors[0]
    assert not errors[1].startswith("error")
    assert state.store[STORE]["actions"] == actions[:1]
