"""The engine over `vllm serve` processes, on stubs that draw real tokens: where requests go, what is lost."""

import copy
import tempfile
from dataclasses import replace
from threading import Thread

import pytest
import torch

from agentgym.errors import UsageError
from agentgym.history.run import read_metrics
from agentgym.inference.engines import GenerationRequest, Sampling, vllm_server
from agentgym.inference.engines.server import ServerEngine
from agentgym.inference.engines.server_weights import FileSender
from agentgym.inference.engines.sync_check import CanaryError
from agentgym.inference.engines.vllm_server import VllmServer
from agentgym.inference.models.language_model import load_model, save_model
from agentgym.inference.models.lora import Adapter
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from agentgym.inference.policy.open import open_model, vocabulary_texts
from agentgym.registration import open_vector
from agentgym.training.config import TrainConfig, override
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.update import Learner
from agentgym.training.machine.resources import resolve
from agentgym.training.run import start
from tests.training.batches import OBJECTIVES, some_batch, some_rows
from tests.training.conftest import TEXTS
from tests.training.plain import close, forward_logprobs, prompt
from tests.training.stub_vllm_server import StubServer, serving
from tests.waiting import PATIENCE, wait_until

VERSION = 3


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_model(path, tiny_model("0.1m", word_tokenizer(TEXTS), context=128, seed=3))
    return path


@pytest.fixture
def learner(directory):
    return load_model(directory).model


@pytest.fixture
def servers(directory):
    with serving(directory, 2) as found:
        yield found


def opened(servers, learner, **options):
    engine = ServerEngine([server.url for server in servers], learner, dtype=torch.float32, **options)
    engine.sync(learner.named_parameters(), VERSION)
    for server in servers:
        server.asked.clear()
    return engine


def asked(learner, seed=0, *, tokens=30, episode=None):
    ids = prompt(learner.config.vocab_size, 20, seed)
    episode = seed if episode is None else episode
    return GenerationRequest(ids, None, Sampling(max_tokens=tokens), seed, episode=episode)


def changed(learner, factor=1.1):
    return {name: weight.detach() * factor for name, weight in learner.named_parameters()}


def test_an_episode_stays_with_a_server_and_a_new_one_goes_to_the_least_loaded(servers, learner):
    engine = opened(servers, learner)
    engine.generate([asked(learner, seed, tokens=2, episode=seed % 6) for seed in range(24)])
    homes = [{tuple(body["token_ids"]) for body in server.generations()} for server in servers]
    assert [len(home) for home in homes] == [12, 12]
    for episode in range(6):
        prompts = {asked(learner, seed).prompt_ids for seed in range(episode, 24, 6)}
        assert sum(not prompts.isdisjoint(home) for home in homes) == 1
    servers[0].engine.pause()
    busy = [engine.submit(asked(learner, seed, episode=0)) for seed in range(4)]
    busy += [engine.submit(asked(learner, seed, episode=1)) for seed in range(4)]
    wait_until(lambda: len(servers[0].generations()) == 12 + 4)
    wait_until(lambda: not servers[1].engine._open and engine._servers[1].requests == 0)
    engine.submit(asked(learner, 50, episode=99)).result(PATIENCE)
    assert engine._homes[99].url == servers[1].url
    servers[0].engine.resume()
    assert all(len(future.result(PATIENCE).ids) == 30 for future in busy)


def test_what_a_killed_server_had_open_is_asked_of_the_others(servers, learner):
    engine = opened(servers, learner)
    requests = [asked(learner, seed) for seed in range(8)]
    expected = engine.generate(requests)
    for server in servers:
        server.engine.left = 9
    futures = [engine.submit(request) for request in requests]
    wait_until(lambda: all(server.engine.left == 0 for server in servers))
    servers[1].kill()
    servers[0].engine.resume()
    found = [future.result(PATIENCE) for future in futures]
    assert [each.ids for each in found] == [each.ids for each in expected]
    assert {each.version for each in found} == {VERSION}
    engine.sync(changed(learner).items(), 4)  # those that are left
    assert engine.submit(requests[0]).result(PATIENCE).version == 4
    servers[0].kill()
    with pytest.raises(UsageError, match=r"no server is left: http.* does not answer .*; start them again"):
        engine.submit(requests[0]).result(PATIENCE)
    with pytest.raises(UsageError, match="no server is left"):
        engine.sync(learner.named_parameters(), 5)


def test_weights_come_by_files_which_do_not_stay(servers, learner, tmp_path):
    engine = opened(servers, learner, sender=FileSender(str(tmp_path / "shared")))
    state = changed(learner)
    engine.sync(state.items(), 4)
    for server in servers:
        (body,) = [body for path, body in server.asked if path == "/collective_rpc"]
        assert body["kwargs"]["weights_path"] == str(tmp_path / "shared" / "agentgym-weights")
        own = dict(server.model.named_parameters())
        assert all(torch.equal(own[name], weight) for name, weight in state.items())
        paths = [path for path, _ in server.asked]
        assert paths == [
            "/pause", "/collective_rpc", "/reset_prefix_cache", "/update_weight_version", "/resume",
            "/inference/v1/generate", "/weight_checker",
        ]  # fmt: skip
    assert list((tmp_path / "shared").iterdir()) == []


def test_an_adapter_comes_by_a_folder_beside_weights_that_stay(servers, learner, tmp_path):
    adapter, model, rows = Adapter(4, 8.0), copy.deepcopy(learner), some_rows()
    batch = some_batch(model, rows)
    sender = FileSender(str(tmp_path / "shared"), adapter)
    urls = [server.url for server in servers]
    engine = ServerEngine(urls, learner, dtype=torch.float32, adapter=adapter, sender=sender)
    config = LearnerConfig(lora_rank=4, lora_alpha=8.0, learning_rate=1e-2)
    trained = Learner(model, OBJECTIVES["token"], config)
    for version in (4, 5):
        engine.sync(trained.weights(), version)
        request = asked(learner, tokens=5)
        found = engine.generate([request])[0]
        assert (found.version, close(found.logprobs, forward_logprobs(model, request, found.ids))) == (
            version,
            True,
        )
        trained.update(rows, batch, seed=version)
    assert list((tmp_path / "shared").iterdir()) == []
    for server in servers:
        paths = [path for path, _ in server.asked]
        assert (paths.count("/v1/load_lora_adapter"), paths.count("/collective_rpc")) == (2, 0)
        assert len(server.adapters) == 1
    servers[0].missing["/v1/load_lora_adapter"] = 404
    with pytest.raises(
        UsageError, match=r"does not offer /v1/load_lora_adapter: .* with VLLM_ALLOW_RUNTIME_LORA"
    ):
        engine.sync(trained.weights(), 6)


def test_weights_that_do_not_arrive_are_noticed(servers, learner):
    engine = opened(servers, learner)
    servers[1].takes_weights = False
    with pytest.raises(CanaryError, match=rf"{servers[1].url}: after the sync .* are off by"):
        engine.sync(changed(learner).items(), 4)
    with pytest.raises(UsageError, match="weights are not known: sync first"):
        engine.submit(asked(learner))
    servers[1].takes_weights = True
    engine.sync(changed(learner).items(), 4)
    assert engine.generate([asked(learner)])[0].version == 4


def test_a_folder_that_servers_do_not_see_is_one_line(servers, learner):
    engine = opened(servers, learner)
    servers[0].missing["/collective_rpc"] = 500
    with pytest.raises(UsageError, match=r"must be the learner's, .* set rollout\.weights_folder") as raised:
        engine.sync(changed(learner).items(), 4)
    assert "\n" not in str(raised.value)
    assert not servers[1].engine.paused


def test_a_response_that_ends_servers_does_not_end_them_all(directory, learner):
    with serving(directory, 3) as servers:
        engine = opened(servers, learner)
        poison = asked(learner, tokens=2)
        plain = StubServer.generate

        def generate(server, body):
            if body["token_ids"] == list(poison.prompt_ids):
                server.kill()
                raise ConnectionError
            return plain(server, body)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StubServer, "generate", generate)
            with pytest.raises(UsageError, match=r"2 servers were lost .* a prompt of 20 tokens; the last"):
                engine.generate([poison])
            assert [server.dead for server in servers].count(True) == 2
            assert engine.generate([asked(learner, 1, tokens=2)])[0].ids  # by the one that is left


def test_a_server_that_is_gone_before_it_takes_a_request_says_nothing_of_the_response(directory, learner):
    with serving(directory, 4) as servers:
        engine = opened(servers, learner)
        (expected,) = engine.generate([asked(learner, tokens=2)])
        for server in servers[:3]:
            server.kill()
        assert engine.generate([asked(learner, tokens=2)])[0].ids == expected.ids


def test_a_server_that_hangs_is_noticed_and_one_that_is_slow_is_not(servers, learner, monkeypatch):
    monkeypatch.setattr(vllm_server, "PATIENCE", 0.3)
    connected, hanging = VllmServer._connected, set()
    monkeypatch.setattr(
        VllmServer,
        "_connected",
        lambda self, timeout: connected(self, timeout if self.url in hanging else PATIENCE),
    )
    engine = opened(servers, learner)
    (expected,) = engine.generate([asked(learner, tokens=8)])
    engine._homes.clear()
    for server in servers:
        server.engine.left = 4
    future = engine.submit(asked(learner, tokens=8))
    wait_until(lambda: any(server.engine.left == 0 for server in servers))
    (held,) = [server for server in servers if server.engine.left == 0]
    wait_until(lambda: held.asked.count(("/health", None)) >= 2)  # it had its health the first time
    assert not future.done()
    held.hung = hanging.add(held.url) or True
    (other,) = [server for server in servers if server is not held]
    other.engine.resume()
    assert future.result(PATIENCE).ids == expected.ids
    assert [server.url for server in engine._servers] == [other.url]


def test_a_server_that_was_started_anew_is_not_sampled_from(servers, learner):
    engine = opened(servers, learner)
    expected = engine.generate([asked(learner, seed) for seed in range(4)])
    servers[0].labels[-1] = "default"
    found = engine.generate([asked(learner, seed) for seed in range(4)])
    assert [each.ids for each in found] == [each.ids for each in expected]
    servers[1].labels[-1] = "2"
    with pytest.raises(UsageError, match=r"left: .* weights of version 2, not 3: it was started"):
        engine.generate([asked(learner, 9)])


def test_weights_change_within_responses_and_each_token_says_so(servers, learner, directory):
    other = load_model(directory).model
    other.load_state_dict(changed(other), strict=False)
    other.tie_weights()
    engine = opened(servers, learner)
    engine.start(updates_in_flight=True)
    for number, server in enumerate(servers):
        server.engine.left = 8 + number
    requests = [asked(learner, seed) for seed in range(6)]
    futures = [engine.submit(request) for request in requests]
    wait_until(lambda: all(server.engine.left == 0 for server in servers))
    engine.sync(other.named_parameters(), 4)
    for request, future in zip(requests, futures, strict=True):
        found = future.result(PATIENCE)
        old = found.versions.count(VERSION)
        assert found.versions == ((VERSION,) * old + (4,) * (30 - old) if old else ())
        assert found.version == (VERSION if old else 4)
        expected = [forward_logprobs(model, request, found.ids) for model in (learner, other)]
        assert close(found.logprobs, expected[0][:old] + expected[1][old:])
    assert any(future.result().versions for future in futures)


def test_without_updates_in_flight_weights_wait(servers, learner):
    engine = opened(servers, learner)
    for server in servers:
        server.engine.left = 5
    futures = [engine.submit(asked(learner, seed)) for seed in range(2)]
    wait_until(lambda: all(server.engine.left == 0 for server in servers))
    syncing = Thread(target=engine.sync, args=(changed(learner).items(), 4))
    syncing.start()
    wait_until(lambda: engine._pauses)
    for server in servers:
        server.engine.resume()
    assert [future.result(PATIENCE).version for future in futures] == [VERSION] * 2
    syncing.join(PATIENCE)
    assert engine.version == 4


def test_a_server_that_a_killed_run_left_paused_goes_on(servers, learner, monkeypatch):
    monkeypatch.setattr(vllm_server, "TIMEOUT", 5.0)
    servers[1].engine.pause()
    engine = opened(servers, learner)
    assert {each.version for each in engine.generate([asked(learner, seed) for seed in range(2)])} == {
        VERSION
    }


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"missing": {"/is_paused": 404}}, "does not offer /is_paused: start it as VLLM_SERVER_DEV_MODE=1"),
        ({"missing": {"/inference/v1/generate": 403}}, "does not offer /inference/v1.*scale-out"),
        ({"missing": {"/v1/models": 401}}, "refuses /v1/models: stub 401"),
        (
            {"raw": True},
            "reports log-probabilities of another distribution: .*--logprobs-mode processed_logprobs",
        ),
        ({"context": 70}, "reads 70 tokens, and 100 are needed: start it with --max-model-len 100"),
        ({"dead": True}, r"does not answer .*: start it as"),
    ],
)
def test_servers_that_a_learner_cannot_use_are_refused(servers, learner, wrong, line):
    for name, value in wrong.items():
        setattr(servers[1], name, value)
    with pytest.raises(UsageError, match=rf"{servers[1].url} {line}") as raised:
        opened(servers, learner, context_length=100)
    assert "\n" not in str(raised.value)
    servers[1].dead = False


def test_other_things_are_refused(servers, learner, directory):
    larger = tiny_model("0.1m", word_tokenizer((*TEXTS, "other words")), context=128, seed=3).model
    with pytest.raises(UsageError, match=r"refuses .*is out of vocabulary"):
        opened(servers, larger)
    with pytest.raises(UsageError, match=r"give addresses such as http://localhost:8000"):
        VllmServer("localhost:8000")
    with pytest.raises(UsageError, match="draws at temperature"):
        opened(servers, learner).submit(replace(asked(learner), sampling=Sampling(temperature=0.001)))
    plain = TrainConfig(algorithm="grpo", env_id="agentgym/EZPoints-v0")
    for changes, line in (
        ({"rollout.servers": ["http://localhost:1"]}, r"need rollout\.engine=vllm"),
        ({"rollout.engine": "server"}, r"'server' is now 'vllm', with rollout\.servers"),
        (
            {"rollout.engine": "vllm", "rollout.weight_transfer": "nccl"},
            "two processes on one device: leave out",
        ),
        (
            {"rollout.engine": "vllm", "rollout.servers": ["http://l:1"], "rollout.vllm_sleep": 1},
            "of vLLM's own",
        ),
    ):
        with pytest.raises(UsageError, match=line):
            override(plain, changes)


def test_the_first_of_several_ranks_sends(servers, learner, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = [""]
    first = opened(servers, learner)
    second = opened(servers, learner, first=False, agree=lambda line: told[-1])
    for rank in (second, first):
        rank.sync(changed(learner).items(), 4)
        assert sum(path == "/collective_rpc" for path, _ in servers[0].asked) == (rank is first)
    assert list(tmp_path.iterdir()) == []
    assert [rank.generate([asked(learner)])[0].version for rank in (first, second)] == [4, 4]
    told.append("weights did not come")
    with pytest.raises(UsageError, match="weights did not come"):
        second.sync(changed(learner).items(), 5)


ASYNCHRONOUS = {
    "rollout.asynchronous": True,
    "rollout.overlap": True,
    "rollout.updates_in_flight": True,
    "rollout.max_staleness": 1,
}


def run_of(tmp_path, size, **changes):
    """Return the configuration of a run of two iterations, and a model for its servers."""
    plain = {
        "model": f"tiny:{size}",
        "iterations": 2,
        "rollout.tasks": 2,
        "rollout.group_size": 2,
        "rollout.num_envs": 4,
        "rollout.engine": "vllm",
        "evaluation.every": 0,
        "learner.learning_rate": 1e-2,
    }
    config = override(TrainConfig(algorithm="grpo", env_id="agentgym/EZPoints-v0"), plain | changes)
    envs = open_vector(config.env_id, 1)
    prompting = resolve(config).prompting
    made = open_model(config.model, vocabulary_texts(config.model, [(envs, prompting)]), prompting, seed=5)
    envs.close()
    return config, made


def check_run(folder, iterations):
    metrics = read_metrics(folder)
    assert [each.version for each in metrics] == list(range(1, iterations + 1))
    assert max(each.logp_diff for each in metrics) < 1e-4


@pytest.mark.parametrize("changes", [{}, ASYNCHRONOUS])
def test_a_run_samples_from_servers(tmp_path, changes):
    config, made = run_of(tmp_path, "0.1m", **changes)
    save_model(tmp_path / "model", made)
    with serving(tmp_path / "model", 2) as servers:
        config = override(config, {"rollout.servers": [server.url for server in servers]})
        assert start(config, tmp_path / "run", logs=["jsonl"]).end == "finished"
        assert all(server.generations() for server in servers)
    check_run(tmp_path / "run", 2)
    assert {server.labels[-1] for server in servers} == {"2"}
