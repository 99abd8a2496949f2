"""Kept rollouts: what an iteration played, with its credit; a resumed run writes the same."""

import numpy as np
import pytest

from agentgym.algos.table import find_algorithm
from agentgym.errors import UsageError
from agentgym.history.rollouts import (
    drop_rollouts,
    kept_iterations,
    read_rollouts,
    rollouts_file,
    write_rollouts,
)
from agentgym.training.config import TrainConfig, override
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.run import resume, start
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages import Scores
from agentgym.training.stages.outcome import OutcomeScorer, StepCriticScorer, TokenCriticScorer

SMALL = {
    "model": "tiny:0.1m",
    "iterations": 4,
    "checkpoint_every": 2,
    "rollout.tasks": 2,
    "rollout.group_size": 2,
    "rollout.num_envs": 4,
    "evaluation.every": 0,
    "patience": 100,
    "keep_rollouts": 1,
}


def config(algorithm="gigpo", **changes):
    plain = TrainConfig(algorithm=algorithm, env_id="agentgym/EZPoints-v0")
    return override(plain, SMALL | changes)


class Listening:
    """A scorer that remembers what it was given and what it answered."""

    def __init__(self, scorer, process=None):
        self.scorer, self.process, self.seen = scorer, process, []

    def score(self, rollouts):
        scores = self.scorer.score(rollouts)
        if self.process:
            scores = Scores(
                scores.advantages, scores.unit, process_rewards=np.arange(len(rollouts.steps), dtype=float)
            )
        self.seen.append((rollouts, scores))
        return scores

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


SCORERS = {"grpo": OutcomeScorer, "steppo": StepCriticScorer, "ppo": TokenCriticScorer}


def iterate(algorithm, folder, **options):
    setup = TrainingSetup.open(resolve(config(algorithm)))
    listening = Listening(SCORERS[algorithm].open(setup), **options)
    Trainer(setup, folder, scorer=listening).iterate()
    ((rollouts, scores),) = listening.seen
    return rollouts, scores, read_rollouts(folder, 1)


@pytest.mark.parametrize("algorithm", ["grpo", "steppo", "ppo"])
def test_steps_are_kept_with_what_the_algorithm_made_of_them(tmp_path, algorithm):
    rollouts, scores, episodes = iterate(algorithm, tmp_path)
    played = [episode.trajectory for episode in episodes]
    places = [(episode.group, episode.trajectory.rollout) for episode in episodes]
    assert places == [("0", 0), ("0", 1), ("1", 0), ("1", 1)]
    assert {(each.iteration, each.version, each.size, each.trainable) for each in episodes} == {
        (1, 0, 2, True)
    }
    steps = [step for each in played for step in each.steps]
    credit = [each for episode in episodes for each in episode.credit]
    assert [step.completion.response_ids for step in steps] == [row.response_ids for row in rollouts.rows]
    assert [step.reward for step in steps] == rollouts.steps.reward.tolist()
    assert [step.valid for step in steps] == rollouts.steps.valid.tolist()
    assert {each.process_reward for each in credit} == {None}
    for episode in episodes:
        assert episode.returns_to_go[0] == episode.trajectory.episode_return
        for step in episode.trajectory.steps:
            assert step.action in step.admissible_actions or not step.valid
            assert (step.observation, step.completion.version) == ("", 0)
    ends = np.cumsum([len(step.completion.response_ids) for step in steps])
    if find_algorithm(algorithm).unit == "token":
        assert [a for each in credit for a in each.token_advantages] == scores.advantages.tolist()
        assert credit[0].advantage == pytest.approx(scores.advantages[: ends[0]].mean())
        assert [each.value for each in credit] == scores.values[[0, *ends[:-1]]].tolist()
    else:
        assert [each.advantage for each in credit] == scores.advantages.tolist()
        assert {each.token_advantages for each in credit} == {()}
        values = [None] * len(steps) if scores.values is None else scores.values.tolist()
        assert [each.value for each in credit] == values


def test_process_rewards_are_kept_where_a_reward_model_gives_them(tmp_path):
    _, _, episodes = iterate("grpo", tmp_path, process=True)
    kept = [each.process_reward for episode in episodes for each in episode.credit]
    assert kept == list(range(len(kept)))


def test_what_a_replay_shows_again_is_not_kept(tmp_path):
    rollouts, _, _ = iterate("grpo", tmp_path)
    assert any(row.prompt_ids for row in rollouts.rows)
    text = rollouts_file(tmp_path, 1).read_text()
    assert not any(name in text for name in ("prompt_ids", "logprobs", "seconds"))


def test_none_are_kept_unless_asked_for(tmp_path):
    start(config(iterations=1, keep_rollouts=0), tmp_path, logs=[])
    assert kept_iterations(tmp_path) == []
    assert not (tmp_path / "rollouts").exists()
    with pytest.raises(UsageError, match="keep_rollouts must be a whole number of at least 0, got -1"):
        config(keep_rollouts=-1)


def test_a_resumed_run_keeps_the_same_rollouts(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    start(config(keep_rollouts=3, iterations=6), whole, logs=[])
    assert kept_iterations(whole) == [3, 6]
    start(config(keep_rollouts=3, iterations=4), parts, logs=[])
    rollouts_file(parts, 6).write_text("of a run that was cut off before its checkpoint\n")
    resume(parts, logs=[], iterations=5)
    assert kept_iterations(parts) == [3]  # what a resumed run has not played yet is gone
    resume(parts, logs=[], iterations=6)
    for iteration in (3, 6):
        assert rollouts_file(parts, iteration).read_bytes() == rollouts_file(whole, iteration).read_bytes()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda line: line.replace(b'"group":"0"', b'"group": "0"'), "line 1 is not written as episodes are"),
        (lambda line: line.replace(b'"iteration":1', b'"iteration":2'), "has an episode of iteration 2"),
        (lambda line: line.replace(b'"group":', b'"grup":'), "line 1: unknown key 'grup'"),
        (lambda line: line.replace(b'"credit":[{', b'"credit":[{"advantage":0.0},{'), "steps have .* values"),
        (lambda line: line[:-9], "line 4: not JSON"),
        (lambda line: line[:-1], "line 4 is not written"),
        (lambda line: b"[" * 100_000 + line, "line 1: .*nested more than 64 deep"),
    ],
)
def test_damaged_files_are_refused_by_line(tmp_path, changed, message):
    iterate("grpo", tmp_path)
    path = rollouts_file(tmp_path, 1)
    path.write_bytes(changed(path.read_bytes()))
    with pytest.raises(UsageError, match=message):
        read_rollouts(tmp_path, 1)


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path, monkeypatch):
    iterate("grpo", tmp_path)
    monkeypatch.setattr("agentgym.history.rollouts.MAX_LINES_SIZE", 1000)
    with pytest.raises(UsageError, match="larger than the 1,000 bytes that are read; iterations kept: 1"):
        read_rollouts(tmp_path, 1)


def test_a_missing_iteration_is_told_with_those_there_are(tmp_path):
    with pytest.raises(UsageError, match="iterations kept: none; train with --set keep_rollouts=10"):
        read_rollouts(tmp_path, 1)
    write_rollouts(tmp_path, 20, [])
    with pytest.raises(UsageError, match="iterations kept: 20"):
        read_rollouts(tmp_path, 1)
    drop_rollouts(tmp_path, after=19)
    assert kept_iterations(tmp_path) == []


def test_a_resumed_run_drops_what_was_kept_after_its_checkpoint(tmp_path):
    start(config(iterations=2), tmp_path, logs=[])
    write_rollouts(tmp_path, 9, [])
    resume(tmp_path, logs=[], iterations=3)
    assert kept_iterations(tmp_path) == [1, 2, 3]
