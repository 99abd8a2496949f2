"""`transformers serve` with tiny models: what a real server answers, refuses and ignores."""

import subprocess
import sys
from pathlib import Path

import pytest

from agentgym.cli import main as agentgym
from agentgym.core.tools import Tool, ToolParameter, tool_schemas
from agentgym.endpoint import (
    ChatMessage,
    ChatRequest,
    ChatSampling,
    Endpoint,
    EndpointSession,
    EndpointSpec,
    RequestFailedError,
    read_ledger,
)
from agentgym.errors import UsageError
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.suites.suite import load_suite
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.types import GenerationRequest, Sampling
from agentgym.inference.models.families import FAMILIES, make_family_model
from agentgym.inference.models.language_model import load_model, save_model
from agentgym.prompts.chat_template import ChatSetup
from tests.endpoint import model_server
from tests.endpoint.model_server import ModelServer

TEXTS = ("Go up, down, left or right.", "You push boxes onto targets.")
MODEL = "tiny-qwen3"
SUITE = Path(__file__).parents[2] / "benchmarks" / "suites" / "smollm2.toml"
PRICED = """
[[price]]
model = "tiny-qwen3"
since = 2026-01-01
input = 0.01
output = 0.1
"""
TOOLS = tuple(tool_schemas((Tool("look_up", "Look it up.", (ToolParameter("word"),)),)))


def real(test):
    """Mark what starts the real server, which takes seconds: `make test-parity` runs it."""
    return pytest.mark.slow(pytest.mark.peer(test))


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name in FAMILIES:
        save_model(folder / f"tiny-{name}", make_family_model(name, TEXTS))
    return folder


@pytest.fixture(scope="session")
def server(models, tmp_path_factory):
    with ModelServer(models / MODEL, log=tmp_path_factory.mktemp("served") / "server.log") as running:
        yield running


@pytest.fixture
def opened(server):
    """Endpoints of the server, closed in the end."""
    endpoints = []

    def make(model=MODEL, **settings):
        endpoints.append(Endpoint(EndpointSpec(server.url, model, first_pause=0.01, **settings)))
        return endpoints[-1]

    yield make
    for endpoint in endpoints:
        endpoint.close()


def question(text="Where do I go?", *, temperature=0.0, max_tokens=12, system="", **more):
    messages = [ChatMessage("system", system)] if system else []
    sampling = ChatSampling(temperature, max_tokens, seed=more.pop("seed", None))
    return ChatRequest((*messages, ChatMessage("user", text)), sampling, **more)


def said(model, prompt, max_tokens=12):
    """What a model's likeliest tokens say, by our own engine."""
    sampling = Sampling(temperature=0.0, max_tokens=max_tokens, stop_ids=model.stop_ids)
    (answer,) = HfEngine(model.model).generate([GenerationRequest(tuple(prompt), None, sampling, seed=0)])
    return model.tokenizer.decode(answer.ids, skip_special_tokens=True).strip()  # as the server does


@real
def test_chats_are_rendered_and_answered_as_by_our_own_engine(models, opened):
    model = load_model(models / MODEL)
    for setup in (ChatSetup(), ChatSetup(system="Be brief."), ChatSetup(tools=TOOLS)):
        (reply,) = opened().ask([question(system=setup.system, tools=setup.tools)])
        prompt = model.chat.set_up(setup).encode_chat("Where do I go?")
        assert reply.prompt_tokens == len(prompt)
        assert reply.text == said(model, prompt)
        assert reply.completion_tokens <= 12
        assert reply.finish_reason == ("length" if reply.completion_tokens == 12 else "stop")
        assert reply.seconds > 0


@real
def test_thinking_is_switched_off_by_a_field_of_the_request(models, opened):
    endpoint = opened(extra={"chat_template_kwargs": {"enable_thinking": False}})
    model = load_model(models / MODEL)
    prompt = model.chat.set_up(ChatSetup(options={"enable_thinking": False})).encode_chat("Where do I go?")
    (reply,) = endpoint.ask([question()])
    assert (reply.prompt_tokens, reply.text) == (len(prompt), said(model, prompt))


@real
def test_a_stream_brings_the_same_answer(opened):
    asked = [question(f"{number}?") for number in range(4)]
    whole, pieces = opened().ask(asked), opened(stream=True).ask(asked)
    for one, other in zip(whole, pieces, strict=True):
        # a character that is cut in the middle never comes
        assert one.text.rstrip("\ufffd") == other.text.strip().rstrip("\ufffd")
        assert one.finish_reason == other.finish_reason
        assert (one.prompt_tokens, one.completion_tokens) == (other.prompt_tokens, other.completion_tokens)
    assert len({reply.text for reply in whole}) > 1


@real
def test_temperature_0_repeats_itself_and_a_seed_draws_again(opened):
    endpoint = opened(concurrency=1)
    first, again = (endpoint.ask([question(sample=sample)])[0].text for sample in range(2))
    assert first == again
    drawn = [
        endpoint.ask([question(temperature=1.0, seed=seed, sample=n)])[0].text
        for n, seed in enumerate((1, 1, 2))
    ]
    assert drawn[0] == drawn[1] != drawn[2]


@real
def test_what_it_does_not_know_fails_one_request_at_once(opened, tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    with EndpointSession(ledger=ledger):
        with pytest.raises(RequestFailedError, match=r"422.*best_of"):
            opened(extra={"best_of": 2}).ask([question()])
        with pytest.raises(RequestFailedError, match=r"400.*pinned"):
            opened("another").ask([question()])
    assert [(row.retries, row.error != "") for row in read_ledger(ledger)] == [(0, True)] * 2


@real
def test_the_probe_tells_what_it_ignores(opened):
    probe = opened().probe()
    assert (probe.n, probe.logprobs, probe.response_format) == ("ignored",) * 3
    assert probe.token_ids == "refused"
    assert "return_token_ids" in probe.refused["return_token_ids"]
    assert (probe.max_tokens, probe.max_completion_tokens, probe.seed) == ("heeded",) * 3
    assert (probe.temperature, probe.tools) == ("accepted",) * 2
    assert probe.usage
    assert probe.repeatable
    assert probe.answers_as == f"{MODEL}@main"


@real
def test_models_of_all_families_are_served(models, tmp_path):
    with ModelServer(models, log=tmp_path / "server.log", batching=True) as running:
        for name in FAMILIES:
            model = load_model(models / f"tiny-{name}")
            prompt = model.chat.set_up(ChatSetup("Be brief.", TOOLS)).encode_chat("Where do I go?")
            endpoint = Endpoint(EndpointSpec(running.url, f"tiny-{name}"))
            (reply,) = endpoint.ask([question(system="Be brief.", tools=TOOLS)])
            assert (reply.prompt_tokens, reply.text) == (len(prompt), said(model, prompt)), name
            endpoint.close()


def test_what_a_server_said_before_it_ended_is_told(tmp_path, monkeypatch):
    (tmp_path / "absent").mkdir()
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho Traceback\necho 'KeyError: model_type'\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(
        UsageError, match=r"transformers serve ended with 1, see .*server\.log: KeyError: model_t"
    ):
        ModelServer(tmp_path / "absent", log=tmp_path / "server.log").__enter__()


@real
def test_a_server_that_cannot_start_says_why(tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{}")
    with pytest.raises(UsageError, match=r"transformers serve ended with 1, see .*server\.log: \w+Error: "):
        ModelServer(tmp_path / "broken", log=tmp_path / "server.log").__enter__()


def test_a_server_ends_with_its_parent(tmp_path):
    command = [sys.executable, "-P", model_server.__file__, "serve", "absent", "--port", "0"]
    orphan = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    orphan.stdin.close()
    assert orphan.wait(300) == 1


@real
def test_react_plays_every_built_in_suite_and_replays(server, tmp_path):
    results, again, prices = (tmp_path / name for name in ("results", "again", "prices.toml"))
    prices.write_text(PRICED)
    words = ["bench", str(SUITE), "--no-baselines", "--limit", "1", "--agent", "react", "--model", MODEL]
    words += [
        "--endpoint",
        server.url,
        "--option",
        "max_tokens=6",
        "--option",
        "budget=1024",
        "--option",
        "images=false",
    ]
    words += ["--cache", str(tmp_path / "answers.sqlite"), "--prices", str(prices), "--verify"]
    assert agentgym([*words, "--out", str(results)]) == 0
    assert agentgym([*words, "--out", str(again), "--cache-mode", "replay-only"]) == 0
    (run,) = (path.parent for path in results.glob("*/*/run.json"))
    (replayed,) = (path.parent for path in again.glob("*/*/run.json"))
    assert read_run(run).result_id == read_run(replayed).result_id
    episodes = read_episodes(run)
    assert {episode.env for episode in episodes} == {env.label for env in load_suite(SUITE).env}
    assert all(episode.completion_tokens and episode.cost and episode.model_seconds for episode in episodes)
    assert not any(episode.won for episode in episodes)
