"""Demonstrations: what is in the files, what is refused, and that TRL trains on them as they are."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.agents import demos
from agentgym.agents.demos import DemoConfig, write_demos
from agentgym.cli import main
from agentgym.core.tools import Tool, ToolCall, action_of, tool_schemas
from agentgym.core.types import Completion
from agentgym.errors import UnsupportedEnvError, UsageError
from agentgym.prompts import load_template
from agentgym.registration import open_env
from agentgym.version import __version__
from tests.evaluation import corridor

SOKOBAN = "agentgym/Sokoban-v0"


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(tmp_path: Path, **settings) -> list[dict]:
    write_demos(DemoConfig(**{"env_id": SOKOBAN, "tasks": 6, **settings}), tmp_path / "demos.jsonl")
    return lines(tmp_path / "demos.jsonl")


@pytest.mark.parametrize("answer", ["plain", "think-action", "json-call", "tool-calls"])
def test_messages_replay_to_won_episodes(tmp_path, answer):
    samples = written(tmp_path, env_id="agentgym/ALFWorld-v0", tasks=3, answer=answer)
    env = open_env("agentgym/ALFWorld-v0", split="train")
    template = load_template("alfworld", answer, env.tools)
    for task in dict.fromkeys(sample["task_id"] for sample in samples):
        turns = [sample for sample in samples if sample["task_id"] == task]
        assert [sample["turn"] for sample in turns] == list(range(len(turns)))
        observation, info = env.reset(seed=0, options={"task": task})
        for sample in turns:
            question, said = sample["messages"]
            assert (question["role"], said["role"]) == ("user", "assistant")
            assert question["content"].startswith(template.static)
            assert observation in question["content"]
            assert all(action in question["content"] for action in info["admissible_actions"])
            read = template.answer.parse(said["content"])
            assert not read.problem
            observation, _, _, _, info = env.step(read.action)
        assert info["won"]


def test_every_line_says_where_it_comes_from(tmp_path):
    samples = written(tmp_path, options={"num_boxes": 2})
    env = open_env(SOKOBAN, split="train", options={"num_boxes": 2})
    template = load_template("sokoban", "plain")
    for sample in samples:
        assert list(sample) == ["manifest", "messages", "task_id", "turn"]
        assert sample["manifest"] == {
            "env": SOKOBAN,
            "options": '{"num_boxes":2}',
            "split": "train",
            "split_sha256": env.tasks.manifest_sha256,
            "seed": 0,
            "agent": "rules",
            "agent_version": 2,
            "privileged": False,
            "template": "sokoban/plain",
            "template_version": template.version,
            "template_sha256": template.sha256,
            "history": 2,
            "agentgym": __version__,
        }


def test_tool_calls_come_with_their_schema(tmp_path):
    for sample in written(tmp_path, format="tools", agent="oracle"):
        assert sample["manifest"]["privileged"] is True
        assert sample["manifest"]["template"] == "sokoban/bare"
        (tool,) = sample["tools"]
        _, said = sample["messages"]
        (call,) = said["tool_calls"]
        assert call["function"]["name"] == tool["function"]["name"] == "move"
        assert list(call["function"]["arguments"]) == tool["function"]["parameters"]["required"]
        assert call["function"]["arguments"]["direction"] in ("up", "down", "left", "right")


def test_tool_calls_replay_to_won_episodes(tmp_path):
    env = open_env("agentgym/ALFWorld-v0", split="train")
    samples = written(tmp_path, env_id="agentgym/ALFWorld-v0", tasks=3, format="tools")
    for sample in samples:
        if sample["turn"] == 0:
            _, info = env.reset(seed=0, options={"task": sample["task_id"]})
        (call,) = sample["messages"][1]["tool_calls"]
        assert sample["tools"] == tool_schemas(env.tools)
        _, _, terminated, _, info = env.step(action_of(env.tools, ToolCall(**call["function"])))
        assert info["action_is_valid"]
        assert not terminated or info["won"]
    assert info["won"]


def test_an_action_that_is_no_call_is_refused_in_one_line(tmp_path, monkeypatch):
    env = open_env(SOKOBAN, split="train")
    wait = Tool("wait", "Wait.", template="wait")
    monkeypatch.setattr(type(env), "suite_spec", replace(env.suite_spec, tools=(wait,)))
    monkeypatch.setattr("agentgym.envs.sokoban.env.TOOLS", {"agent": (wait,)})
    with pytest.raises(
        UsageError, match=r"^the action '\w+' is not a call of the tools wait: write messages instead$"
    ):
        written(tmp_path, format="tools")


def test_the_samples_do_not_depend_on_the_batch(tmp_path):
    assert written(tmp_path, num_envs=1) == written(tmp_path, num_envs=5)


def test_lost_episodes_are_left_out(tmp_path, monkeypatch):
    class Stubborn:
        def act(self, requests):
            return [Completion("up") for _ in requests]

    monkeypatch.setattr(demos, "make_agent", lambda kind, envs: Stubborn())
    with pytest.raises(UsageError, match=r"^the agent 'rules' wins none of 6 tasks, [^\n]+$"):
        written(tmp_path, options={"max_steps": 1})
    assert not (tmp_path / "demos.jsonl").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": "test"}, "demonstrations are of the split 'train': 'test' is for evaluation"),
        ({"agent": "rule"}, r"unknown demonstrator 'rule' \(did you mean 'rules'\?\)"),
        ({"format": "tool"}, r"unknown format 'tool' \(did you mean 'tools'\?\)"),
        ({"tasks": 0}, "tasks must be a whole number of at least 1"),
        ({"answer": "plane"}, r"'plane' \(did you mean 'plain'\?\)"),
        ({"env_id": "agentgym/Sokobam-v0"}, "unknown id 'agentgym/Sokobam-v0'"),
    ],
)
def test_bad_settings_are_refused_in_one_line(tmp_path, settings, message):
    with pytest.raises(UsageError, match=message) as caught:
        written(tmp_path, **settings)
    assert "\n" not in str(caught.value)


def test_a_suite_without_rules_has_no_demonstrations(tmp_path):
    corridor.register()
    with pytest.raises(UnsupportedEnvError, match="the suite 'corridor' has no rules"):
        written(tmp_path, env_id=corridor.ENV_ID)


def test_the_command_writes_and_counts(tmp_path, capsys):
    path = tmp_path / "demos.jsonl"
    command = ["data", "demos", SOKOBAN, "--tasks", "4", "--option", "num_boxes=2", "--out", str(path)]
    assert main(command) == 0
    found = lines(path)
    episodes = len({sample["task_id"] for sample in found})
    assert f"{len(found)} samples of {episodes} won episodes of 4\n" in capsys.readouterr().out
    assert main([*command, "--agent", "oracle"]) == 0
    assert "of 4, by a privileged agent\n" in capsys.readouterr().out
    assert main([*command, "--split", "valid"]) == 2
    assert "demonstrations are of the split 'train'" in capsys.readouterr().err


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("form", ["messages", "tools"])
def test_trl_trains_on_the_file_as_it_is(tmp_path, form):
    samples = written(tmp_path, format=form)
    script = Path(__file__).with_name("sft_step.py")
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, str(script), str(tmp_path / "demos.jsonl"), str(tmp_path / "sft")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["columns"] == list(samples[0])
    assert 0.0 < found["loss"] < 20.0
    question, said = samples[0]["messages"]
    assert question["content"] in found["shown"]
    if form == "tools":
        assert '"name": "move"' in found["shown"]
        assert said["tool_calls"][0]["function"]["arguments"]["direction"] in found["shown"]
    else:
        assert f"assistant\n{said['content']}" in found["shown"]
