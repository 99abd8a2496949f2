"""The gateway over a real engine: `agentgym serve gateway`, weights of a run that is followed, recordings."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from agentgym.cli import main
from agentgym.errors import UsageError
from agentgym.inference.engines.recording import RecordingEngine
from agentgym.inference.engines.standalone import open_engine
from agentgym.inference.engines.types import GenerationRequest, Sampling
from agentgym.inference.models.language_model import save_model
from agentgym.rollout.datapool import DataPool
from agentgym.training.track.checkpoint import FOLDER, save_checkpoint
from agentgym.training.track.follower import CheckpointFollower
from tests.serving.gateway_stand_ins import Talking, make_model, stored, talking
from tests.training.plain import close, forward_logprobs
from tests.training.stub_vllm_server import serving
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save_model(folder, make_model())
    return folder


def changed(model, scale):
    with torch.no_grad():
        for weight in model.model.parameters():
            weight.mul_(scale)
    return model


def checkpoint(run, name, model, version):
    save_checkpoint(run, name, {"version": version}, lambda path: save_model(path, model), keep=1)


def test_what_a_session_keeps_is_what_the_model_computes(directory, tmp_path):
    model, engine = open_engine(str(directory))
    with DataPool(tmp_path / "pool") as pool, talking(model, engine, pool=pool) as gateway:
        session = gateway.begin()
        said = gateway.say(session, "Which way?", max_tokens=12, temperature=0.8)
        gateway.say(session, "Which way?", said, "And now?", max_tokens=12, temperature=0.8)
        gateway.post(f"{session}/complete")
        ((episode, _),) = stored(pool)
    assert len(episode.steps) == 2
    for step in episode.steps:
        made = step.completion
        request = GenerationRequest(made.prompt_ids, None, Sampling(0.8), seed=0)
        assert close(made.logprobs, forward_logprobs(model.model, request, made.response_ids))


def test_weights_of_a_run_are_taken_over_as_they_appear(directory, tmp_path):
    _, engine = open_engine(str(directory))
    said = []
    follower = CheckpointFollower(tmp_path, engine, say=said.append)
    request = GenerationRequest((1, 2, 3), None, Sampling(1.0, 8, ()), seed=1)
    first = engine.submit(request).result(60)
    assert (first.version, follower.look(), said) == (0, False, [])
    checkpoint(tmp_path, "000001", changed(make_model(), 1.5), 5)
    assert follower.look()
    assert not follower.look()
    second = engine.submit(request).result(60)
    assert second.version == 5
    assert second.logprobs != first.logprobs
    (tmp_path / FOLDER / "000001" / "state.pt").write_bytes(b"x")
    checkpoint(tmp_path, "000002", changed(make_model(), 1.5), 6)
    (tmp_path / FOLDER / "000002" / "model" / "config.json").unlink()
    assert not follower.look()
    assert not follower.look()
    assert ["version 5" in said[0], "cannot take over" in said[1], len(said)] == [True, True, 2]
    assert engine.version == 5
    follower.start()
    follower.close()


def test_engines_are_named_with_what_they_need():
    with pytest.raises(UsageError, match="does not exist"):
        open_engine("/nowhere")
    with pytest.raises(UsageError, match="yours are running: leave out one"):
        open_engine(str(ROOT), "vllm", servers=["http://localhost:1"], options={"max_num_seqs": 3})
    with pytest.raises(UsageError, match="engine 'vllm' alone"):
        open_engine(str(ROOT), "hf", options={"max_num_seqs": 3})


@contextmanager
def command(*words):
    """Run the command; yield its gateway, end it by Ctrl-C."""
    line = [sys.executable, "-m", "agentgym", "serve", "gateway", *map(str, words), "--port", "0"]
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    gateway = None
    try:
        while (said := process.stdout.readline()) and gateway is None:
            if found := re.search(r"served at (http://\S+)/sessions", said):
                gateway = Talking(found[1])
                break
        assert gateway is not None, said
        yield gateway
    finally:
        os.kill(process.pid, signal.SIGINT)
        said = process.stdout.read()
        process.stdout.close()
        assert process.wait(PATIENCE) == 0, said


def play_short(gateway):
    """Play an episode of two calls; return what was said, and the episode's id."""
    session = gateway.begin(index=0, group="g", group_size=1)
    first = gateway.say(session, "Which way?")
    gateway.post(f"{session}/env/step", action="up")
    second = gateway.say(session, "Which way?", first, "And now?")
    assert gateway.post(f"{session}/env/step", action="up")["truncated"]
    return [first, second], gateway.post(f"{session}/complete")["episode"]


def test_the_command_replays_what_another_gateway_recorded(directory, tmp_path):
    recording, pool = tmp_path / "recording.jsonl", tmp_path / "pool"
    model, engine = open_engine(str(directory))
    env, options = "agentgym/Sokoban-v0", {"max_steps": 2}
    limits = {"tokens": 6}
    recorder = RecordingEngine(engine, recording)
    with talking(model, recorder, env=env, env_options=options, limits=limits) as gateway:
        said, episode = play_short(gateway)
    assert episode is None
    words = (directory, "--replay", recording, "--env", env, "--option", "max_steps=2")
    with command(*words, "--limit", "tokens=6", "--pool", pool) as gateway:
        again, episode = play_short(gateway)
    assert again == said
    with DataPool(pool) as opened:
        ((played, group),) = stored(opened)
        assert [id for id, _ in opened.episodes("g")] == [episode]
    assert (group.state, played.end_reason, len(played.steps)) == ("complete", "step_limit", 2)


def test_a_tiny_model_is_made_for_the_environment_and_is_the_same_after_a_restart(tmp_path):
    words = ("tiny:0.1m", "--env", "agentgym/EZPoints-v0", "--limit", "tokens=6", "--journal", tmp_path)
    asked = "spades of clubs from both cards"  # words of the environment are a token each
    with command(*words) as gateway:
        session = gateway.begin(index=0)
        said = gateway.say(session, asked, temperature=0)
        (trace,) = gateway.get(f"{session}/traces")
    with command(*words) as gateway:
        assert gateway.get(f"{session}/traces") == [trace]
        assert gateway.say(gateway.begin(index=0), asked, temperature=0) == said
    assert len(trace["prompt_token_ids"]) < 25 < len(asked)


def test_a_tiny_models_size_is_checked_before_anything_is_made(capsys):
    assert main(["serve", "gateway", "tiny:9m", "--port", "0"]) == 2
    assert "did you mean 'tiny:5m'?" in capsys.readouterr().err


def test_wrong_arguments_are_one_line(directory, tmp_path, capsys):
    (tmp_path / "token").write_text("\n")
    for words, line in (
        (("--limit", "session=3"), "unknown key 'session'"),
        (("--token", tmp_path / "token"), "holds no token"),
        (("--template-option", "enable_thinking=false"), "reads no option 'enable_thinking'"),
        (("--env", "agentgym/Sokobn-v0"), "Sokobn"),
        (("--replay", tmp_path / "none"), "name a recording"),
        (("--server", "http://localhost:1"), "with the engine 'vllm' alone"),
    ):
        assert main(["serve", "gateway", str(directory), "--port", "0", *map(str, words)]) == 2
        assert line in capsys.readouterr().err


def test_servers_are_sent_the_weights_and_asked(directory):
    with serving(directory) as servers:
        model, engine = open_engine(str(directory), "vllm", servers=[servers[0].url])
        with talking(model, engine) as gateway:
            session = gateway.begin()
            gateway.say(session, "Which way?", max_tokens=6)
            (trace,) = gateway.get(f"{session}/traces")
    assert 1 <= len(trace["completion_token_ids"]) <= 6
    local, _ = open_engine(str(directory))
    request = GenerationRequest(tuple(trace["prompt_token_ids"]), None, Sampling(1.0), seed=0)
    assert close(
        trace["logprobs"], forward_logprobs(local.model, request, tuple(trace["completion_token_ids"]))
    )
