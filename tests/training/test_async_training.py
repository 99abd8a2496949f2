"""Training rollouts in which each episode goes on at its own pace."""

import json
import random
from concurrent.futures import Future
from threading import Thread
from time import sleep

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.algos.tokens import Batch
from agentgym.core.types import AsyncPolicy, Group
from agentgym.errors import UsageError
from agentgym.history.run import read_metrics
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.recording import RecordingEngine, ReplayEngine
from agentgym.inference.policy.open import open_model, vocabulary_texts
from agentgym.inference.policy.prompted import make_policy
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker
from agentgym.training import setup as setups
from agentgym.training.collect.config import RolloutConfig
from agentgym.training.learner.packing import stale_tokens
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.run import start
from agentgym.training.setup import TrainingSetup
from tests.training.test_loop import EZPOINTS, config, logged, same, weights
from tests.training.test_pool import episode

ASYNC = {"rollout__asynchronous": True}
AHEAD = ASYNC | {"rollout__max_staleness": 1}
IN_FLIGHT = AHEAD | {"rollout__updates_in_flight": True}
FREE = {"prompting__choice": "free", "prompting__max_tokens": 12}


@pytest.mark.parametrize("choice", [{}, FREE])
def test_episodes_are_those_of_lock_step(choice):
    settled = resolve(config(**choice))
    envs = open_vector(EZPOINTS, 6)
    texts = vocabulary_texts(settled.model, [(envs, settled.prompting)])
    model = open_model(settled.model, texts, settled.prompting, 3)
    groups = []
    for asynchronous in (False, True):
        policy = make_policy(
            settled.prompting, model, HfEngine(model.model, version=3), envs, asynchronous=asynchronous
        )
        assert isinstance(policy, AsyncPolicy) == asynchronous
        worker = RolloutWorker(envs, policy, env_id=EZPOINTS)
        groups.append(worker.collect(envs.tasks.ids[:4], group_size=3, seed=0))
    envs.close()
    steps = [
        [step for group in each for member in group.trajectories for step in member.steps] for each in groups
    ]
    assert len(steps[0]) == len(steps[1]) > 12
    for one, other in zip(*steps, strict=True):
        assert other.completion.response_ids == one.completion.response_ids
        assert other.completion.version == 3
        assert np.allclose(other.completion.logprobs, one.completion.logprobs, atol=1e-5)
        assert (other.action, other.reward, other.next_state_hash) == (
            one.action,
            one.reward,
            one.next_state_hash,
        )


class Disordered:
    """A recording whose answers come in any order, each after some time."""

    def __init__(self, path, seed, *, in_flight=False):
        self.recording = ReplayEngine(path, in_flight=in_flight)
        self.in_flight = in_flight
        self.context_length = self.recording.context_length
        self.draws, self.waiting, self.most = random.Random(seed), [], 0
        Thread(target=self._answer, daemon=True).start()

    @property
    def version(self):
        return self.recording.version

    def generate(self, requests):
        return self.recording.generate(requests)

    def submit(self, request):
        future: Future = Future()
        self.waiting.append((future, self.recording.submit(request).result()))
        self.most = max(self.most, len(self.waiting))
        return future

    def sync(self, state, version):
        assert self.in_flight or not self.waiting
        self.recording.sync(state, version)

    def _answer(self):
        while True:
            sleep(self.draws.choice((0, 0, 0.0005)))
            if self.waiting:
                future, generation = self.waiting.pop(self.draws.randrange(len(self.waiting)))
                if future.set_running_or_notify_cancel():  # a run that ends cancels what is in flight
                    future.set_result(generation)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A recorded run in lock-step, what it trained on, and its weights."""
    folder = tmp_path_factory.mktemp("recorded")
    return folder, recording_of(folder, config(iterations=3, evaluation__every=0))


def recording_of(folder, settled):
    """Run, record what is sampled, and return what is trained on."""
    plain = setups._engine
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            setups, "_engine", lambda *args: RecordingEngine(plain(*args), folder / "recording.jsonl")
        )
        batches = kept_batches(patch)
        start(settled, folder / "run", logs=["jsonl"])
    assert len(batches) == settled.iterations
    return batches


def again_from(folder, again, settled, seed, *, in_flight=False):
    """Run from a recording whose answers come in any order; return the engine, and what is trained on."""
    engine = Disordered(folder / "recording.jsonl", seed, in_flight=in_flight)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setups, "_engine", lambda *_: engine)
        found = kept_batches(patch)
        # of the run's engine nothing is started: it answers by itself
        patch.setattr(Disordered, "start", lambda *_, **__: None, raising=False)
        start(settled, again / "run", logs=["jsonl"])
    return engine, found


def kept_batches(patch):
    """Keep what is trained on."""
    batches, plain = [], Batch.of.__func__

    def of(cls, steps, *args, **options):
        batch = plain(cls, steps, *args, **options)
        batches.append((steps.group.tolist(), steps.reward.tolist(), batch.advantages.tolist()))
        return batch

    patch.setattr(Batch, "of", classmethod(of))
    return batches


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1 << 32))
def test_answers_in_any_order_give_the_same_batches_and_weights(recorded, tmp_path_factory, seed):
    folder, batches = recorded
    again = tmp_path_factory.mktemp("again")
    settled = config(iterations=3, evaluation__every=0, **ASYNC)
    engine, found = again_from(folder, again, settled, seed)
    assert engine.most > 1
    assert found == batches
    assert same(weights(folder / "run"), weights(again / "run"))
    assert logged(folder / "run") == logged(again / "run")


@pytest.mark.parametrize("seed", [0, 1])
def test_updates_in_flight_repeat_from_the_versions_that_were_recorded(tmp_path, seed):
    """When which weights came to an episode is chance, and in the recording."""
    settled = config(iterations=5, evaluation__every=0, **IN_FLIGHT, **FREE)
    batches = recording_of(tmp_path, settled)
    lines = [json.loads(line) for line in (tmp_path / "recording.jsonl").read_text().splitlines()[1:]]
    assert len({line["version"] for line in lines}) > 3
    _, found = again_from(tmp_path, tmp_path / "again", settled, seed, in_flight=True)
    assert found == batches
    assert same(weights(tmp_path / "run"), weights(tmp_path / "again" / "run"))


@pytest.mark.parametrize("changes", [ASYNC, AHEAD, IN_FLIGHT], ids=["on-policy", "ahead", "in-flight"])
def test_a_run_trains_whose_episodes_have_their_own_pace(tmp_path, changes):
    settled = config(iterations=4, **changes)
    assert start(settled, tmp_path, logs=["jsonl"]).end == "finished"
    lines = read_metrics(tmp_path)
    assert lines[-1].version == 4
    assert all(line.logp_diff < 1e-4 for line in lines)
    assert sum(line.tokens_out for line in lines) > 0 < sum(line.seconds.model for line in lines)
    assert lines[-1].env_steps >= sum(line.steps_per_episode * 12 for line in lines) - 1e-6
    assert lines[-1].evaluation.episodes == 3


class BrokenError(Exception):
    """What a step raises."""


@pytest.mark.parametrize("changes", [{}, {"rollout__max_staleness": 1}, ASYNC, AHEAD, IN_FLIGHT])
def test_an_engine_that_fails_is_one_error_and_no_endless_wait(tmp_path, monkeypatch, changes):
    settled = resolve(config(evaluation__every=0, **changes))
    setup = TrainingSetup.open(settled)
    trainer, plain, calls = Trainer(setup, tmp_path), setup.engine._advance, []

    def advance(fresh):
        calls.append(len(fresh))
        if len(calls) == 20:
            raise BrokenError
        return plain(fresh)

    monkeypatch.setattr(setup.engine, "_advance", advance)

    def train():
        for _ in range(10):
            trainer.iterate()

    with pytest.raises(BrokenError):
        train()
    trainer.close()
    setup.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"asynchronous": True, "max_staleness": 1, "overlap": False}, "set overlap, or max_staleness to 0"),
        ({"updates_in_flight": True, "max_staleness": 1}, "set asynchronous, overlap and a max_staleness"),
        ({"updates_in_flight": True, "asynchronous": True}, "set asynchronous, overlap and a max_staleness"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        RolloutConfig(**options)


def test_each_token_is_as_old_as_the_weights_that_drew_it():
    from dataclasses import replace

    from agentgym.rollout.worker import EpisodeSpec

    played = episode(EpisodeSpec("task", 0, 0), True, 1, 2)
    mixed, plain = played.steps
    steps = (
        replace(mixed, completion=replace(mixed.completion, response_ids=(5, 6, 7), versions=(1, 2, 2))),
        replace(plain, completion=replace(plain.completion, response_ids=(5, 6))),
    )
    group = Group("task", "", (replace(played, steps=steps),))
    assert stale_tokens([group], 2).tolist() == [True, False, False, False, False]
    assert torch.tensor(stale_tokens([group], 3)).all()
