"""Runs as logs of inspect_ai: in its form, and with what the run says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.errors import UsageError
from agentgym.evaluation.log.inspect_log import LOG_VERSION, _sample, export_inspect
from agentgym.evaluation.log.runfiles import read_episodes
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.verify.archives import open_run

SUITE = """\
name = "logged"
version = "1"
seed = 3
attempts = 2
floor = ""
oracle = ""

[[env]]
id = "agentgym/EZPoints-v0"
label = "EZPoints"
split = "test"
tasks = 2

[[agent]]
name = "random"
kind = "random"
"""


@pytest.fixture(scope="module", params=[True, False], ids=["transcripts", "actions"])
def logged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run's folder with its log."""
    root = tmp_path_factory.mktemp("logged")
    (root / "logged.toml").write_text(SUITE)
    (folder,) = run_bench(root / "logged.toml", root / "results", transcripts=request.param)
    export_inspect(open_run(folder), folder / "log.json")
    return folder


def test_the_log_says_what_the_run_does(logged):
    log, episodes = json.loads((logged / "log.json").read_text()), read_episodes(logged)
    assert (log["version"], log["status"]) == (LOG_VERSION, "success")
    assert log["eval"]["dataset"]["samples"] == 2
    assert log["eval"]["config"] == {"epochs": 2}
    assert [(sample["id"], sample["epoch"]) for sample in log["samples"]] == [
        (f"{each.env}/{each.task_id}", each.rollout + 1) for each in episodes
    ]
    for sample, episode in zip(log["samples"], episodes, strict=True):
        said = [each["content"] for each in sample["messages"] if each["role"] == "assistant"]
        assert len(said) == episode.length
        assert sample["metadata"]["actions"] == list(episode.actions)
        assert {name: score["value"] for name, score in sample["scores"].items()} == {
            "score": episode.score,
            "success": float(episode.won),
        }
    means = {score["name"]: score["metrics"]["mean"]["value"] for score in log["results"]["scores"]}
    assert means["success"] == sum(each.won for each in episodes) / len(episodes)


def test_an_episode_that_ended_before_its_first_action_has_no_messages(logged):
    episode = replace(read_episodes(logged)[0], actions=(), rewards=(), length=0, end_reason="context_limit")
    sample = _sample(episode, None, "model")
    assert sample["messages"] == []
    assert sample["output"]["choices"][0]["message"]["content"] == ""


def test_the_same_run_gives_the_same_log(logged, tmp_path):
    export_inspect(open_run(logged), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (logged / "log.json").read_bytes()


def test_other_names_are_refused(logged, tmp_path):
    with pytest.raises(UsageError, match=r"call .* FILE\.json"):
        export_inspect(open_run(logged), tmp_path / "log.eval")
