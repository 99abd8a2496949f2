import json
from dataclasses import replace

import pytest

from agentgym.core.types import Request
from agentgym.errors import UsageError
from agentgym.inference.engines import GenerationRequest, Sampling
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.recording import RecordingEngine, ReplayEngine
from agentgym.inference.models.tiny import tiny_model
from agentgym.inference.policy.policy import LanguageModelPolicy
from tests.training.plain import ACTIONS, mixed_requests


@pytest.fixture
def path(tmp_path):
    return tmp_path / "recording.jsonl"


@pytest.fixture
def recorded(language_model, speller, path):
    """Record two versions of a model; return requests and their answers by version."""
    models = [tiny_model("0.1m", language_model.tokenizer, context=128, seed=seed).model for seed in (1, 2)]
    engine = RecordingEngine(HfEngine(models[0], version=4), path)
    requests = mixed_requests(language_model, speller, (9, 30, 9, 30))
    answers = {4: engine.generate(requests[:7]) + engine.generate(requests[7:])}
    engine.sync(models[1].state_dict().items(), version=5)
    answers[5] = engine.generate(requests)
    return requests, answers


def test_what_was_recorded_is_said_again(recorded, path):
    requests, answers = recorded
    engine = ReplayEngine(path)
    assert (engine.version, engine.context_length) == (4, 128)
    assert engine.generate(requests[::-1]) == answers[4][::-1]
    engine.sync([], version=5)
    assert engine.generate(requests) == answers[5]
    assert answers[4] != answers[5]
    assert ReplayEngine(path, version=5).generate(requests[:2]) == answers[5][:2]


def test_an_episode_is_reproduced_without_its_model(language_model, speller, path):
    def play(engine):
        policy = LanguageModelPolicy(
            engine,
            language_model.chat,
            lambda asked: language_model.chat.encode(asked.observation),
            sampling=Sampling(),
            speller=speller,
        )
        asked = [
            Request(0, "t", "", turn, "You stand in a kitchen.", ACTIONS, "0" * 32, 7) for turn in range(5)
        ]
        return [replace(completion, seconds=0.0) for completion in policy.act(asked)]

    assert play(RecordingEngine(HfEngine(language_model.model), path)) == play(ReplayEngine(path))


def test_what_was_not_recorded_is_an_error(recorded, path, speller):
    (first, *_), _ = recorded
    engine = ReplayEngine(path)
    for other in (
        replace(first, seed=99),
        replace(first, prompt_ids=(1, *first.prompt_ids)),
        replace(first, sampling=Sampling(temperature=0.5)),
        replace(first, allowed=speller.trie(ACTIONS)),
    ):
        with pytest.raises(UsageError, match="holds no answer of version 4 to a prompt"):
            engine.generate([first, other])
    engine.sync([], version=6)
    with pytest.raises(UsageError, match="version 6"):
        engine.generate([first])


def test_other_actions_to_choose_from_are_an_error(recorded, path, speller):
    requests, _ = recorded
    choice = next(request for request in requests if request.allowed is not None)
    with pytest.raises(UsageError, match="recorded with other actions to choose from"):
        ReplayEngine(path).generate([replace(choice, allowed=speller.trie(("wait", "take cup")))])


def test_a_recording_is_never_written_over(language_model, path):
    RecordingEngine(HfEngine(language_model.model), path)
    with pytest.raises(UsageError, match="exists: name another file"):
        RecordingEngine(HfEngine(language_model.model), path)
    assert ReplayEngine(path).version == 0
    with pytest.raises(UsageError, match="holds no answer"):
        ReplayEngine(path).generate([GenerationRequest((1,), None, Sampling(), 0)])


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-20],
        lambda text: text.replace('"format":1', '"format":9'),
        lambda text: "",
        lambda text: text.replace('"seed"', '"sead"'),
        lambda text: text.replace('"max_tokens"', '"most"'),
        lambda text: json.dumps([1, 2]),
    ],
)
def test_a_damaged_recording_is_an_error(recorded, path, damage):
    path.write_text(damage(path.read_text()))
    with pytest.raises(UsageError, match=r"is damaged .*: record it anew"):
        ReplayEngine(path)


def test_a_missing_recording_is_an_error(path):
    with pytest.raises(UsageError, match=r"cannot read .*; name a recording"):
        ReplayEngine(path)
