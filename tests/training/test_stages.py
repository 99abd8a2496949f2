"""Stages of an iteration: an algorithm collects, scores and minimises with objects of its own."""

import sys

import pytest

from agentgym.algos.table import ALGORITHMS
from agentgym.cli import main
from agentgym.errors import UsageError
from agentgym.io.optional import load_reference
from agentgym.training.config import TrainConfig, override, read_config
from agentgym.training.run import resume, start
from agentgym.training.stages import OUTCOME, Stages, stages_of
from agentgym.training.track.checkpoint import last_checkpoint, load_checkpoint

EZPOINTS = "agentgym/EZPoints-v0"
SMALL = {
    "model": "tiny:0.1m",
    "iterations": 2,
    "rollout.tasks": 2,
    "rollout.group_size": 2,
    "rollout.num_envs": 4,
    "evaluation.every": 0,
}

MINE = '''
from dataclasses import replace

import numpy as np

from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.grpo import OBJECTIVE
from agentgym.core.arrays import Floats
from agentgym.training.stages import Stages
from agentgym.training.stages.outcome import OutcomeScorer, PolicyMinimiser, open_pool

LOG = []


def advantage(batch: StepBatch, *, bonus: float = 1.0) -> Floats:
    return bonus * np.ones(len(batch))


class Visits:
    """Counts the tasks that were played, in front of the usual pool."""

    def __init__(self, pool):
        self.pool, self.visits = pool, {}

    @property
    def episodes(self):
        return self.pool.episodes

    def collect(self, version):
        collected = self.pool.collect(version)
        for group in collected.groups:
            self.visits[group.task_id] = self.visits.get(group.task_id, 0) + 1
        LOG.append(("collect", len(collected.groups)))
        return collected

    def over_ranks(self):
        return self.pool.over_ranks()

    def close(self):
        self.pool.close()

    def state_dict(self):
        return {"pool": self.pool.state_dict(), "visits": dict(self.visits)}

    def load_state_dict(self, state):
        self.pool.load_state_dict(state["pool"])
        self.visits = state["visits"]


class RewardModel:
    """Learns a number along with the policy, and adds it to the advantage."""

    def __init__(self, inner):
        self.inner, self.number = inner, 0.0

    def score(self, rollouts):
        self.number += 1.0
        scores = self.inner.score(rollouts)
        LOG.append(("score", self.number))
        return replace(scores, advantages=scores.advantages + self.number)

    def state_dict(self):
        return {"number": self.number}

    def load_state_dict(self, state):
        self.number = state["number"]


class Minimiser(PolicyMinimiser):
    def minimise(self, rollouts, batch, *, seed, rate):
        LOG.append(("minimise", float(batch.advantages[0])))
        return self.learner.update(rollouts.rows, batch, seed=seed, rate=rate)


STAGES = Stages(
    collector=lambda setup: Visits(open_pool(setup)),
    scorer=lambda setup: RewardModel(OutcomeScorer.open(setup)),
    minimiser=Minimiser.open,
)
MINE = Algorithm(
    title="Mine", paper="none", advantage=advantage, objective=OBJECTIVE, credit="step", stages="mine:STAGES"
)
SHORT = Algorithm(
    title="Short", paper="none", advantage=lambda batch: np.zeros(1), objective=OBJECTIVE, credit="step"
)
PLAIN = Algorithm(title="Plain", paper="none", advantage=advantage, objective=OBJECTIVE, credit="step")
BROKEN = replace(MINE, stages="mine:advantage")
'''


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    yield load_reference("mine:LOG")
    sys.modules.pop("mine")


def config(algorithm, **changes):
    plain = TrainConfig(algorithm=algorithm, env_id=EZPOINTS)
    return override(plain, SMALL | {key.replace("__", "."): value for key, value in changes.items()})


def test_the_loop_collects_scores_and_minimises_with_the_algorithms_objects(mine, tmp_path):
    start(config("mine:MINE", algorithm_options__bonus=0.5), tmp_path / "run", logs=[])
    assert mine == [
        ("collect", 2),
        ("score", 1.0),
        ("minimise", 1.5),
        ("collect", 2),
        ("score", 2.0),
        ("minimise", 2.5),
    ]
    assert read_config(tmp_path / "run").algorithm == "mine:MINE"


def test_the_state_of_stages_is_part_of_checkpoints(mine, tmp_path):
    start(config("mine:MINE"), tmp_path / "run", logs=[])
    state = load_checkpoint(last_checkpoint(tmp_path / "run"))
    assert state["scorer"] == {"number": 2.0}
    assert sum(state["pool"]["visits"].values()) == 4
    resume(tmp_path / "run", logs=[], iterations=3)
    assert mine[-2:] == [("score", 3.0), ("minimise", 4.0)]
    state = load_checkpoint(last_checkpoint(tmp_path / "run"))
    assert sum(state["pool"]["visits"].values()) == 6


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "mine:MIEN"}, "did you mean 'MINE'"),
        (
            {"algorithm": "mine:SHORT"},
            r"advantage has shape \(1,\), not \(\d+,\): return one number for each",
        ),
        ({"algorithm": "mine:BROKEN"}, "the stages of mine:BROKEN, is a function: name an"),
        (
            {"algorithm": "mine:PLAIN", "algorithm_options__bonus": "high"},
            "algorithm_options of mine:PLAIN: bonus must be a number",
        ),
        (
            {"algorithm": "mine:PLAIN", "algorithm_options__bonsu": 1.0},
            "unknown option 'bonsu'",
        ),
        ({"algorithm": "gigpo", "algorithm_options__match": "embedding"}, "encoder says what embeds"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message) as raised:
        start(config(**changes), tmp_path / "run", logs=[])
    assert "\n" not in str(raised.value)


def test_stages_of_every_algorithm_that_can_be_trained_can_be_loaded():
    trained = {name: stages_of(name) for name, algorithm in ALGORITHMS.items() if algorithm.trainable}
    assert all(isinstance(stages, Stages) for stages in trained.values())
    assert {name for name, stages in trained.items() if stages is not OUTCOME} >= {"ppo", "steppo"}


@pytest.mark.usefixtures("mine")
def test_an_algorithm_elsewhere_is_trained_from_the_command_line(tmp_path, monkeypatch):
    settings = [
        word
        for key, value in SMALL.items()
        if key not in ("model", "iterations")
        for word in ("--set", f"{key}={value}")
    ]
    words = ["train", "mine:PLAIN", "--env", EZPOINTS, "--model", "tiny:0.1m", "--iterations", "1", *settings]
    monkeypatch.chdir(tmp_path)
    assert main(words) == 0
    assert (tmp_path / "runs" / "mine.PLAIN-ezpoints-seed0" / "checkpoints" / "last" / "model").is_dir()
