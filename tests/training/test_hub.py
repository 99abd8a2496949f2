"""Models named as repositories of the Hugging Face hub, in a cache that is laid out here."""

import json
import os
import shutil
import subprocess
import sys

import httpx2
import huggingface_hub
import pytest

from agentgym.errors import UsageError
from agentgym.inference.models.language_model import save_model
from agentgym.inference.policy.saved import read_agent
from agentgym.io import hub
from agentgym.training.config import override, read_config
from agentgym.training.machine.resources import resolve
from agentgym.training.run import resume, start
from tests.training.test_loop import config, same, weights

COMMIT, OTHER = "a" * 40, "b" * 40
NAME = "someone/tiny-model"


@pytest.fixture
def cache(tmp_path, monkeypatch, language_model):
    """A cache with two commits of a repository, of which the branch main is the first."""
    folder = tmp_path / "hub" / "models--someone--tiny-model"
    for commit in (COMMIT, OTHER):
        save_model(folder / "snapshots" / commit, language_model)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    (folder / "refs" / "next").write_text(OTHER)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    hub._snapshot.cache_clear()
    yield folder
    hub._snapshot.cache_clear()


def error(kind, status):
    return kind("no", response=httpx2.Response(status, request=httpx2.Request("GET", "https://hub")))


def test_a_repository_is_its_snapshot_and_a_directory_comes_first(cache):
    assert hub.model_directory(NAME) == cache / "snapshots" / COMMIT
    assert hub.model_directory(f"{NAME}@next") == cache / "snapshots" / OTHER
    assert hub.model_directory(f"{NAME}@{OTHER}") == cache / "snapshots" / OTHER
    (cache.parents[1] / "someone" / "tiny-model").mkdir(parents=True)
    assert str(hub.model_directory(NAME)) == hub.pinned(NAME) == NAME


def test_what_is_asked_for_is_tensors_and_texts(cache, monkeypatch):
    asked = {}
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda name, **options: asked.update(options, name=name) or "x"
    )
    hub.model_directory(f"{NAME}@v1.0")
    assert (asked["name"], asked["revision"]) == (NAME, "v1.0")
    assert not {"*.bin", "*.pt", "*.py", "*"} & set(asked["allow_patterns"])


def test_a_run_names_the_commit_and_goes_on_with_it(cache, tmp_path):
    settings = config("grpo", model=NAME, iterations=1, prompting__choice="constrained")
    settings = override(
        settings, {"prompting.wording": "terse", "prompting.answer": "bare", "prompting.budget": 120}
    )
    outcome = start(settings, tmp_path / "run", logs=["jsonl"])
    assert read_config(tmp_path / "run").model == f"{NAME}@{COMMIT}"
    assert read_agent(outcome.checkpoint / "model").training.base_model == f"{NAME}@{COMMIT}"
    (cache / "refs" / "main").write_text(OTHER)
    shutil.rmtree(cache / "snapshots" / OTHER)
    hub._snapshot.cache_clear()
    resume(tmp_path / "run", logs=["jsonl"], iterations=2)
    directory = override(settings, {"model": str(cache / "snapshots" / COMMIT), "iterations": 2})
    start(directory, tmp_path / "same", logs=[])
    assert same(weights(tmp_path / "run"), weights(tmp_path / "same"))


def test_a_reward_model_s_repository_is_pinned_too(cache):
    settings = config("istar", reward_model__model=NAME)
    assert resolve(settings).reward_model.model == f"{NAME}@{COMMIT}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/nowhere/at/all", "does not exist: give the path of a saved model, or OWNER/NAME"),
        ("nowhere", "does not exist: give the path of a saved model, or OWNER/NAME"),
        (f"{NAME}@", "does not exist"),
        ("some..one/model", "cannot be fetched from the hub: "),
        ("someone/else", "not in the cache and cannot be reached .*`hf download someone/else`"),
        (f"{NAME}@old", "there is no directory someone/tiny-model@old here"),
    ],
)
def test_what_is_not_here_is_one_line(cache, name, message):
    with pytest.raises(UsageError, match=message) as raised:
        hub.model_directory(name)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "status", "message"),
    [
        ("RepositoryNotFoundError", 401, "no such repository on the hub, or a private one"),
        ("GatedRepoError", 403, "ask there, then `hf auth login`"),
        ("RevisionNotFoundError", 404, "has no revision 'v2'"),
        ("HfHubHTTPError", 500, "cannot be fetched from the hub: no"),
    ],
)
def test_what_the_hub_refuses_is_one_line(cache, monkeypatch, kind, status, message):
    def refuse(*arguments, **options):
        raise error(getattr(huggingface_hub.errors, kind), status)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(UsageError, match=message) as raised:
        hub.model_directory("someone/model@v2")
    assert "\n" not in str(raised.value)


def test_the_command_line_honours_the_hub_s_variables(cache):
    variables = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache.parent)}

    def plan(name):
        command = [sys.executable, "-m", "agentgym", "train", "grpo", "--env", "agentgym/Sokoban-v0"]
        command += ["--model", name, "--plan", "--device-memory", "80"]
        return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)

    done = plan(NAME)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(NAME)
    refused = plan("someone/else")
    assert refused.returncode == 2
    assert "not in the cache" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert json.loads((cache / "snapshots" / COMMIT / "config.json").read_text())
