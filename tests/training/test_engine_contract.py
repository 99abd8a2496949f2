"""What every engine must hold to, whoever draws the tokens."""

import random
from dataclasses import dataclass
from time import sleep
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.core.futures import mapped
from agentgym.errors import UsageError
from agentgym.inference.engines import Engine, GenerationRequest, Sampling
from agentgym.inference.engines.choices import ActionSpeller
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.recording import RecordingEngine, ReplayEngine
from agentgym.inference.engines.server import ServerEngine
from agentgym.inference.engines.server_weights import FileSender
from agentgym.inference.engines.vllm_process import VllmProcess, serve_options
from agentgym.inference.engines.vllm_worker import METHOD
from agentgym.inference.models.language_model import LanguageModel, load_model, save_model
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from tests.training.conftest import TEXTS
from tests.training.plain import ACTIONS, close, forward_logprobs, mixed_requests, prompt
from tests.training.stub_vllm_server import serving
from tests.waiting import PATIENCE

VERSION = 3


class Replayed:
    """An engine whose every answer has been through a file."""

    def __init__(self, engine, folder):
        self.path = folder / "recording.jsonl"
        self.recording = RecordingEngine(engine, self.path)
        self.version, self.context_length = engine.version, engine.context_length

    def generate(self, requests):
        said = self.recording.generate(requests)
        again = ReplayEngine(self.path, version=self.version).generate(requests)
        assert again == said
        return again

    def submit(self, request):
        future = self.recording.submit(request)

        def again(said):
            assert ReplayEngine(self.path, version=said.version).submit(request).result() == said
            return said

        return mapped(future, again)

    def sync(self, state, version):
        self.recording.sync(state, version)
        replay = ReplayEngine(self.path)
        replay.sync(state, version)
        self.version = replay.version


class Submitted:
    """An engine that is asked for each response alone, in batches of whatever has come."""

    def __init__(self, engine):
        self.engine, self.context_length = engine, engine.context_length
        self.submit, self.sync = engine.submit, engine.sync

    @property
    def version(self):
        return self.engine.version

    def generate(self, requests):
        return [future.result(PATIENCE) for future in [self.submit(request) for request in requests]]


@dataclass
class Subject:
    """An engine, and the learner's model, whose weights it has."""

    engine: Any
    learner: LanguageModel
    speller: ActionSpeller

    @property
    def model(self):
        return self.learner.model

    @property
    def size(self):
        return len(self.learner.tokenizer)

    def train(self, factor=1.1):
        """Change the learner's weights."""
        with torch.no_grad():
            for weight in self.model.parameters():
                weight.mul_(factor)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A saved model with heads of 32, the smallest that vLLM has kernels for."""
    made = tiny_model("0.8m", word_tokenizer(TEXTS), context=128, seed=3)
    # as models have whose generation settings list several; a quarter, so that they are met
    made.model.generation_config.eos_token_id = list(range(1, len(made.tokenizer), 4))
    path = tmp_path_factory.mktemp("model")
    save_model(path, made)
    return path


def make_hf(learner, request):
    return HfEngine(load_model(request.getfixturevalue("directory")).model, version=VERSION)


def make_replay(learner, request):
    return Replayed(make_hf(learner, request), request.getfixturevalue("tmp_path"))


@pytest.fixture(scope="module")
def real_server(directory):
    """Start one server for all tests: a gibibyte of cache, and any core."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        patch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        process = VllmProcess(directory, serve_options({}, dtype=torch.float32, device="cpu"))
    yield process.url
    process.close()


def vllm_engine(url, learner):
    sender = FileSender("", after=METHOD)
    engine = ServerEngine([url], learner.model, dtype=torch.float32, sender=sender)
    engine.sync(learner.model.named_parameters(), VERSION)
    return engine


def make_vllm(learner, request):
    return vllm_engine(request.getfixturevalue("real_server"), learner)


def make_server(learner, request):
    """Two servers with other weights than the learner's, until the first sync."""
    directory = request.getfixturevalue("directory")
    servers = request.getfixturevalue("servers")
    for server in servers:
        server.engine.sync([(n, w * 0.9) for n, w in server.model.named_parameters()], len(server.labels))
        server.labels.append("default")
    engine = ServerEngine([server.url for server in servers], learner.model, dtype=torch.float32)
    engine.sync(load_model(directory).model.named_parameters(), VERSION)
    return engine


@pytest.fixture(scope="module")
def servers(directory):
    with serving(directory, 2) as found:
        yield found


MAKERS = {"hf": make_hf, "replay": make_replay, "server": make_server, "vllm": make_vllm}
MARKS = {"vllm": [pytest.mark.vllm]}


@pytest.fixture(
    params=[
        pytest.param((name, wrapped), id=f"{name}{ending}", marks=MARKS.get(name, ()))
        for name in MAKERS
        for ending, wrapped in (("", lambda engine: engine), ("-submitted", Submitted))
    ]
)
def subject(request, directory):
    name, wrapped = request.param
    learner = load_model(directory)
    speller = ActionSpeller(learner.chat, end=learner.stop_ids[-1])
    return Subject(wrapped(MAKERS[name](learner, request)), learner, speller)


def free(subject, length=20, *, seed=0, prompt_seed=0, **sampling):
    return GenerationRequest(prompt(subject.size, length, prompt_seed), None, Sampling(**sampling), seed)


def test_it_is_an_engine(subject):
    assert isinstance(subject.engine, Engine)
    assert subject.engine.context_length == 128
    assert subject.engine.version == VERSION
    assert subject.engine.generate([]) == []


@pytest.mark.parametrize("temperature", [1.0, 1.3])
def test_log_probabilities_are_those_of_a_plain_forward_pass(subject, temperature):
    requests = mixed_requests(
        subject.learner, subject.speller, (1, 17, 40, 5, 90, 3, 33, 64), temperature=temperature
    )
    for request, generation in zip(requests, subject.engine.generate(requests), strict=True):
        assert close(generation.logprobs, forward_logprobs(subject.model, request, generation.ids))
        assert len(generation.ids) == len(generation.logprobs)
        assert generation.version == VERSION


def test_a_response_follows_from_its_prompt_and_seed_alone(subject):
    requests = mixed_requests(subject.learner, subject.speller, (17, 1, 40, 5, 17))
    together = subject.engine.generate(requests)
    backwards = subject.engine.generate(requests[::-1])[::-1]
    alone = [subject.engine.generate([request])[0] for request in requests]
    for one, *others in zip(together, backwards, alone, strict=True):
        for other in others:
            assert (other.ids, other.finish) == (one.ids, one.finish)
            assert close(other.logprobs, one.logprobs, 1e-5)
    seeds = [free(subject, seed=seed, max_tokens=4) for seed in range(8)]
    assert len({generation.ids for generation in subject.engine.generate(seeds)}) == 8


def test_greedy_responses_take_the_likeliest_token(subject):
    (generation,) = subject.engine.generate([free(subject, temperature=0.0, max_tokens=6)])
    ids = list(prompt(subject.size, 20))
    for token in generation.ids:
        assert token == subject.model(torch.tensor([ids])).logits[0, -1].argmax()
        ids.append(token)


def test_draws_follow_the_distribution(subject):
    choice = subject.speller.trie(("look", "wait", "open fridge"))
    ids = prompt(subject.size, 12)
    requests = [GenerationRequest(ids, choice, Sampling(temperature=2.0), seed) for seed in range(200)]
    counts: dict[str, int] = {}
    expected: dict[str, float] = {}
    for request, generation in zip(requests, subject.engine.generate(requests), strict=True):
        action = choice.action(generation.ids)
        counts[action] = counts.get(action, 0) + 1
        logprobs = forward_logprobs(subject.model, request, generation.ids)
        expected[action] = 200 * torch.tensor(logprobs, dtype=torch.float64).sum().exp().item()
    assert sum(expected.values()) == pytest.approx(200)  # so all three were drawn
    assert sum((counts[a] - expected[a]) ** 2 / expected[a] for a in counts) < 13.8  # p = 0.001


def test_responses_end_at_a_stop_id_or_at_their_limit(subject):
    stops = tuple(range(0, subject.size, 4))
    requests = [free(subject, seed=seed, max_tokens=6, stop_ids=stops) for seed in range(30)]
    generations = subject.engine.generate(requests)
    assert {generation.finish for generation in generations} == {"stop", "length"}
    for generation in generations:
        *before, last = generation.ids
        assert not set(before) & set(stops)
        assert (last in stops) == (generation.finish == "stop")
        assert generation.finish == "stop" or len(generation.ids) == 6


def test_only_stop_ids_stop(subject):
    """The model's own ends of sequence are tokens like any other where they are not among them."""
    requests = [free(subject, seed=seed, max_tokens=8) for seed in range(12)]
    generations = subject.engine.generate(requests)
    assert all(len(generation.ids) == 8 for generation in generations)
    ends = set(subject.learner.stop_ids)
    assert sum(bool(ends & set(generation.ids[:-1])) for generation in generations) > 6


def test_the_context_is_a_limit(subject):
    (generation,) = subject.engine.generate([free(subject, 125)])
    assert (len(generation.ids), generation.finish) == (3, "length")
    with pytest.raises(UsageError, match=r"leaves room for 0 of the 1 .* context of 128: shorten the prompt"):
        subject.engine.generate([free(subject, 128)])
    choice = GenerationRequest(prompt(subject.size, 127), subject.speller.trie(ACTIONS), Sampling(), seed=0)
    with pytest.raises(UsageError, match="shorten the prompt"):
        subject.engine.generate([choice])
    with pytest.raises(UsageError, match="has no tokens"):
        subject.engine.generate([GenerationRequest((), None, Sampling(), seed=0)])


def test_a_choice_without_an_alternative_is_made(subject):
    only = GenerationRequest(
        prompt(subject.size, 20), subject.speller.trie(("go to shelf 1",)), Sampling(), seed=0
    )
    (generation,) = subject.engine.generate([only])
    assert generation.ids == subject.speller.spell("go to shelf 1")
    assert set(generation.logprobs) == {0.0}
    assert generation.finish == "choice"


def test_actions_that_begin_alike_are_chosen_after_what_they_share(subject):
    trie = subject.speller.trie(("go to shelf 1", "go to drawer 2"))
    requests = [GenerationRequest(prompt(subject.size, 20), trie, Sampling(), seed) for seed in range(4)]
    for request, generation in zip(requests, subject.engine.generate(requests), strict=True):
        assert close(generation.logprobs, forward_logprobs(subject.model, request, generation.ids))


@pytest.mark.parametrize("named", ["once", "twice", "by the other name"])
def test_weights_and_their_version_are_taken_over(subject, named):
    requests = mixed_requests(subject.learner, subject.speller, (40, 17, 90))
    before = subject.engine.generate(requests)
    subject.train()
    state = dict(subject.model.state_dict() if named == "twice" else subject.model.named_parameters())
    if named == "by the other name":
        state["lm_head.weight"] = state.pop("model.embed_tokens.weight")
    subject.engine.sync(reversed(state.items()), version=8)
    assert subject.engine.version == 8
    after = subject.engine.generate(requests)
    for request, old, new in zip(requests, before, after, strict=True):
        assert new.version == 8
        assert close(new.logprobs, forward_logprobs(subject.model, request, new.ids))
        assert new.logprobs != old.logprobs or set(old.logprobs) == {0.0}


def breaks_off(state):
    """Yield some weights and fail, as a learner does that dies."""
    yield from list(state.items())[:4]
    raise ConnectionError("the learner is gone")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            lambda state: ((k, v) for k, v in state.items() if k != "model.norm.weight"),
            r"1 tensors are missing, for example model\.norm\.weight",
        ),
        (lambda state: (state | {"extra": torch.zeros(1)}).items(), "no tensor 'extra'"),
        (
            lambda state: (state | {"model.norm.weight": torch.zeros(3)}).items(),
            r"model\.norm\.weight has shape \(\d+,\) in the engine's model, not \(3,\)",
        ),
        (breaks_off, "the learner is gone"),
    ],
)
def test_weights_that_do_not_fit_leave_the_engine_as_it_was(subject, change, error):
    requests = mixed_requests(subject.learner, subject.speller, (40, 17))
    before = subject.engine.generate(requests)
    state = {name: tensor + 1 for name, tensor in subject.model.state_dict().items()}
    with pytest.raises((UsageError, ConnectionError), match=error):
        subject.engine.sync(change(state), version=8)
    assert subject.engine.version == VERSION
    assert [generation.ids for generation in subject.engine.generate(requests)] == [g.ids for g in before]


@pytest.mark.vllm
def test_weights_come_within_the_responses_of_vllm_serve(real_server, directory):
    learner, other = load_model(directory), load_model(directory)
    with torch.no_grad():
        for weight in other.model.parameters():
            weight.mul_(1.1)
    engine = vllm_engine(real_server, learner)
    engine.start(updates_in_flight=True)
    size, mixed = len(learner.tokenizer), 0
    for version in range(1, 21, 2):  # some come before the first token, or after the last
        engine.sync(learner.model.state_dict().items(), version)
        requests = [
            GenerationRequest(prompt(size, 20, seed), None, Sampling(max_tokens=100), seed, episode=seed)
            for seed in range(version, version + 4)
        ]
        futures = [engine.submit(request) for request in requests]
        sleep(0.02 * version)
        engine.sync(other.model.state_dict().items(), version + 1)
        for request, future in zip(requests, futures, strict=True):
            found = future.result(PATIENCE)
            versions = found.versions or (found.version,) * 100
            old = versions.count(version)
            assert versions == (version,) * old + (version + 1,) * (100 - old)
            expected = [forward_logprobs(each.model, request, found.ids) for each in (learner, other)]
            assert close(found.logprobs, expected[0][:old] + expected[1][old:])
            mixed += 0 < old < 100
    assert mixed > 4


def test_the_process_s_generators_are_left_alone(subject):
    before = random.getstate(), torch.random.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    subject.engine.generate(mixed_requests(subject.learner, subject.speller, (9, 9, 9, 9)))
    subject.engine.sync(subject.model.state_dict().items(), version=4)
    assert random.getstate() == before[0]
    assert torch.equal(torch.random.get_rng_state(), before[1])
    assert np.random.get_state()[1].tolist() == before[2]  # noqa: NPY002
