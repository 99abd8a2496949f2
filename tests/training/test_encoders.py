"""Encoders of observations: what they return, how often they read, and training with them."""

import math

import numpy as np
import pytest
import torch

from agentgym.algos.batch import StepBatch
from agentgym.algos.graph import match_edges
from agentgym.algos.matching import match_states
from agentgym.algos.objective import Objective
from agentgym.errors import UsageError
from agentgym.training.config import TrainConfig, config_from_json, config_to_json, override
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.encoders import (
    PolicyEncoder,
    SentenceEncoder,
    open_observation_encoder,
    with_embeddings,
)
from agentgym.training.learner.update import Learner
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup
from tests.training.conftest import TEXTS

TINY = {
    "model": "tiny:0.1m",
    "rollout.tasks": 2,
    "rollout.group_size": 3,
    "rollout.num_envs": 6,
    "evaluation.every": 0,
    "algorithm_options.match": "embedding",
    "env_options.rewards": "gym-cards",  # a wrong formula costs 1, so that even random play teaches something
    "env_options.max_steps": 3,
}


class Counting:
    """A sentence encoder that writes down what it reads: a text's vector is its length and its vowels."""

    def __init__(self):
        self.read = []

    def encode_passages(self, texts):
        self.read += texts
        return np.array([[len(text), sum(text.count(v) for v in "aeiou")] for text in texts], np.float32)


def steps_of(*texts):
    n = len(texts)
    return StepBatch.of(
        group=[0] * n, trajectory=range(n), state=range(n), reward=[0.0] * n, texts=texts, actions=texts
    )


def test_each_distinct_text_is_embedded_once():
    counting = Counting()
    encoder = SentenceEncoder(counting)
    steps = with_embeddings(steps_of("one", "two", "one", "three"), encoder)
    assert steps.embeddings.tolist() == [[3, 2], [3, 1], [3, 2], [5, 2]]
    again = with_embeddings(steps_of("three", "four"), encoder)
    assert again.embeddings.tolist() == [[5, 2], [4, 2]]
    assert counting.read == ["one", "two", "three", "four"]
    assert with_embeddings(steps, None) is steps


def test_the_policy_reads_each_observation_alone(language_model):
    learner = Learner(language_model.model, Objective(), LearnerConfig(token_budget=24))
    texts = [*TEXTS, "look", ""]
    found = PolicyEncoder(learner, language_model).embed(texts)
    states = []
    for text in [*texts[:-1], " "]:
        ids = torch.tensor([language_model.chat.encode(text)])
        with torch.no_grad():
            states.append(language_model.model.base_model(ids).last_hidden_state[0, -1].double().numpy())
    np.testing.assert_allclose(found, np.array(states) - np.mean(states, axis=0), atol=1e-5)


def test_a_graph_merges_nodes_and_groups_by_embeddings():
    """Two pages that differ by an advertisement are one node: entered, left and compared as one."""
    batch = StepBatch.of(
        group=[0] * 4, trajectory=[0, 0, 1, 1], state="abcd", next_state="be" "df", reward=[0, 0, 0, 1],
        embeddings=np.array([[1, 0], [0, 1], [1, 0.1], [0.1, 1]]),
    )  # fmt: skip
    source, target = match_edges(batch, "embedding")
    assert source[0] == source[2] == match_states(batch, "embedding")[0]
    assert target[0] == source[1] == source[3] == target[2]


@pytest.mark.parametrize(
    ("algorithm", "encoder"),
    [
        ("graphgpo", "policy"),
        ("gigpo", "policy"),
        pytest.param("graphgpo", "minilm", marks=pytest.mark.peer),
        pytest.param("gigpo", "minilm", marks=pytest.mark.peer),
    ],
)
def test_it_trains(algorithm, encoder, tmp_path):
    plain = TrainConfig(algorithm=algorithm, env_id="agentgym/EZPoints-v0")
    config = override(plain, TINY | {"encoder": encoder, "learner.learning_rate": 1e-2})
    assert config_from_json(config_to_json(config)) == config
    setup = TrainingSetup.open(resolve(config))
    before = [weight.detach().clone() for weight in setup.learner.model.parameters()]
    trainer = Trainer(setup, tmp_path)
    for _ in range(2):
        assert math.isfinite(trainer.iterate().loss)
    assert any((a != b).any() for a, b in zip(before, setup.learner.model.parameters(), strict=True))
    trainer.close()
    setup.close()


@pytest.mark.parametrize(
    "changes", [{"encoder": ""}, {"encoder": "policy", "algorithm_options.match": "state"}]
)
def test_matching_and_encoder_go_together(changes):
    plain = TrainConfig(algorithm="graphgpo", env_id="agentgym/EZPoints-v0")
    with pytest.raises(
        UsageError, match=r"both algorithm_options\.match is 'embedding' and encoder"
    ) as raised:
        override(plain, TINY | changes)
    assert "\n" not in str(raised.value)


def test_an_unknown_encoder_is_one_line(language_model):
    assert open_observation_encoder("", None, language_model) is None
    with pytest.raises(UsageError, match=r"unknown encoder 'minlm' \(did you mean 'minilm'") as raised:
        open_observation_encoder("minlm", None, language_model)
    assert "\n" not in str(raised.value)
