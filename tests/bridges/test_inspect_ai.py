"""The bridge to inspect_ai, on the real package: evaluations by a scripted model, their logs imported."""

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from agentgym.agents import make_agent
from agentgym.cli import main
from agentgym.core.tools import call_of
from agentgym.evaluation.imports.inspect import LISTED, STORE
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker

pytestmark = [pytest.mark.inspect, pytest.mark.filterwarnings("ignore::ResourceWarning", "default")]

SUITES = {
    "sokoban": "Sokoban",
    "ezpoints": "EZPoints",
    "alfworld": "ALFWorld",
    "webshop": "WebShop",
    "hotpotqa": "HotpotQA",
    "papersearch": "PaperSearch",
    "sotopia": "Sotopia",
}

COUNTER = """
import sys, types, tiktoken
# the mock model counts tokens with a vocabulary that tiktoken would fetch
tiktoken.get_encoding = lambda name: types.SimpleNamespace(encode=lambda text, **_: text.split())
from inspect_ai._cli.main import main
main()
"""


def calls_of(tools, action):
    return [action] if call_of(tools, action) else action.split("\n")


def scripted(env_id, tasks, epochs):
    """Return a model that plays as the oracle does, and what comes of it by task and epoch."""
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    slots = open_vector(env_id, 1)
    worker = RolloutWorker(slots, make_agent("oracle", slots), env_id=env_id)
    game, tools = slots.prototype.spawn(), slots.prototype.suite_spec.tools
    plans, expected = {}, {}
    for each in slots.prototype.tasks[:tasks]:
        for epoch in range(1, epochs + 1):
            (played,) = worker.run([EpisodeSpec(each.id, 0, epoch - 1)])
            first, _ = game.reset(seed=0, options={"task": each.id, "rollout": epoch - 1})
            # calls that the environment takes in one action are made one after the other
            actions = [call for step in played.steps for call in calls_of(tools, step.completion.action)]
            rewards = []
            for action in actions:
                _, reward, terminated, truncated, info = game.step(action)
                rewards.append(reward)
            assert terminated or truncated
            values = {"score": info["score"], "success": float(info["won"]), **game.measures()}
            plans[first], expected[each.id, epoch] = actions, (rewards, values)

    def answer(messages, offered, choice, config):
        first = next(message.text for message in messages if message.role == "user")
        turn = sum(message.role == "assistant" for message in messages)
        action = plans[first.partition(LISTED)[0]][turn]
        call = call_of(tools, action)
        assert call.name in {tool.name for tool in offered}
        output = ModelOutput.for_tool_call("mockllm/model", call.name, dict(call.arguments))
        output.usage = ModelUsage()
        return output

    return get_model("mockllm/model", custom_outputs=answer), expected


@pytest.mark.parametrize("name", SUITES)
def test_a_real_evaluation_scores_as_the_environment_and_its_log_comes_back(
    name, tmp_path, monkeypatch, capsys
):
    from inspect_ai import eval as evaluate

    env_id = f"agentgym/{SUITES[name]}-v0"
    epochs = 2 if name == "webshop" else 1
    model, expected = scripted(env_id, 3, epochs)
    settings = {"log_format": "json", "log_dir": str(tmp_path / "logs"), "display": "none"}
    (log,) = evaluate(f"agentgym/{name}", model=model, task_args={"tasks": 3}, epochs=epochs, **settings)
    assert (log.status, len(log.samples)) == ("success", len(expected)), log.error
    for sample in log.samples:
        rewards, values = expected[sample.id, sample.epoch]
        assert sample.scores[STORE].value == values
        assert sample.store[STORE]["rewards"] == rewards
    (path,) = (tmp_path / "logs").glob("*.json")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    words = [
        "import",
        str(path),
        "--dialect",
        "inspect",
        "--agent",
        "mock",
        "--out",
        str(tmp_path / "results"),
    ]
    assert main([*words, "--env", env_id, "--split", log.eval.metadata["split"]]) == 0, capsys.readouterr()
    (report,) = (json.loads(each.read_text()) for each in (tmp_path / "results").rglob("*.import.json"))
    steps = sum(len(rewards) for rewards, _ in expected.values())
    assert report["compared"] == {
        "observation": steps + len(expected),
        "reward": steps,
        "score": len(expected),
    }
    assert report["mismatches"] == []
    assert main(["verify", report["folder"]]) == 0
    text = json.loads(path.read_text())
    text["samples"][1]["store"][STORE]["rewards"][-1] += 1
    path.write_text(json.dumps(text))
    assert main([*words, "--env", env_id, "--split", log.eval.metadata["split"]]) == 1
    assert (
        f"sample 2, step {len(text['samples'][1]['store'][STORE]['rewards'])}: reward"
        in capsys.readouterr().out
    )


def test_the_command_line_finds_the_tasks(tmp_path):
    assert "agentgym" in {entry.name for entry in entry_points(group="inspect_ai")}
    words = ["eval", "agentgym/sokoban", "--model", "mockllm/model", "-T", "tasks=2", "-T", "split=test"]
    words += [
        "-T",
        'options={"num_boxes": 2}',
        "--epochs",
        "2",
        "--log-format",
        "json",
        "--log-dir",
        str(tmp_path),
    ]
    command = [sys.executable, "-W", "ignore", "-c", COUNTER, *words, "--display", "plain"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    (path,) = Path(tmp_path).glob("*.json")
    log = json.loads(path.read_text())
    assert (log["status"], len(log["samples"])) == ("success", 4)
    assert log["eval"]["metadata"]["options"] == {"num_boxes": 2}
    for sample in log["samples"]:  # a model without calls is asked three times, and plays nothing
        assert sum(message["role"] == "assistant" for message in sample["messages"]) == 3
        assert sample["scores"][STORE]["value"]["score"] == 0.0
        assert sample["store"][STORE]["actions"] == []


def test_calls_that_do_not_fit_are_no_actions_and_none_follows_the_end(tmp_path):
    from inspect_ai import eval as evaluate
    from inspect_ai.model import (
        ChatCompletionChoice,
        ChatMessageAssistant,
        ModelOutput,
        ModelUsage,
        get_model,
    )
    from inspect_ai.tool import ToolCall

    slots = open_vector("agentgym/EZPoints-v0", 1)
    worker = RolloutWorker(slots, make_agent("oracle", slots), env_id="agentgym/EZPoints-v0")
    (played,) = worker.run([EpisodeSpec(slots.prototype.tasks[0].id, 0, 0)])
    tokens = ["@", *(step.completion.action for step in played.steps), "="]
    calls = [
        ToolCall(id=str(n), function="write", arguments={"token": token}) for n, token in enumerate(tokens)
    ]
    message = ChatMessageAssistant(content="all at once", tool_calls=calls, source="generate")
    output = ModelOutput(model="mockllm", choices=[ChatCompletionChoice(message=message)], usage=ModelUsage())
    model = get_model("mockllm/model", custom_outputs=[output])
    settings = {"log_dir": str(tmp_path), "log_format": "json", "display": "none"}
    (log,) = evaluate("agentgym/ezpoints", model=model, task_args={"tasks": 1}, **settings)
    (sample,) = log.samples
    results = [message for message in sample.messages if message.role == "tool"]
    assert [message.error is not None for message in results] == [True, *[False] * len(played.steps), True]
    assert "is not one of" in results[0].error.message
    assert results[-1].error.message == "The episode has ended."
    assert sample.scores[STORE].value["success"] == 1.0
