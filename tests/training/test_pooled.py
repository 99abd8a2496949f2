"""Training on a data pool: as on the same rollouts directly, bit for bit; each group once."""

import os
import signal
import sys
from collections import Counter
from dataclasses import replace

import pytest

from agentgym.algos.table import ALGORITHMS
from agentgym.cli import main
from agentgym.core.types import Completion
from agentgym.errors import UsageError
from agentgym.history.run import read_metrics
from agentgym.rollout.datapool import DataPool
from agentgym.training.collect.pool import RolloutPool
from agentgym.training.collect.pooled import RUN_FILE, PooledCollector
from agentgym.training.loop import Trainer
from agentgym.training.run import resume, start
from tests.training.pooled_runs import forked, kill_at_random, model_bytes, played, settings, store

WHOLE_EPISODES = [name for name, each in ALGORITHMS.items() if each.trainable and not each.snapshot]
FAST = ("grpo", "gigpo", "graphgpo")
STALE = {"rollout__max_staleness": 4, "rollout__overlap": False}


@pytest.fixture(scope="module")
def direct(tmp_path_factory):
    """Two updates of a run that plays: its folder and their groups."""
    folder = tmp_path_factory.mktemp("direct")
    return folder, played(settings(), folder)


def signature(folder):
    """Return what the metrics say of the update and its episodes."""
    names = (
        "success",
        "mean_return",
        "usable_fraction",
        "loss",
        "entropy",
        "grad_norm",
        "logp_diff",
        "episodes",
    )
    names += ("env_steps", "tokens_in", "tokens_out", "staleness", "step_groups", "version")
    return [[getattr(line, name) for name in names] for line in read_metrics(folder)]


@pytest.mark.parametrize(
    "algorithm",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in FAST)) for name in WHOLE_EPISODES],
)
def test_training_on_a_pool_is_training_on_the_same_rollouts(tmp_path, algorithm):
    changes = {"rollout__accuracy": [0.0, 1.0]} if algorithm == "prime" else {}
    updates = played(settings(algorithm, **changes), tmp_path / "direct")
    pool = store(tmp_path / "pool", updates)
    outcome = start(settings(algorithm, rollout__pool=str(pool), **changes), tmp_path / "run", logs=["jsonl"])
    assert outcome.end == "finished"
    assert model_bytes(tmp_path / "run") == model_bytes(tmp_path / "direct")
    assert signature(tmp_path / "run") == signature(tmp_path / "direct")
    assert any(line.loss for line in read_metrics(tmp_path / "run"))
    with DataPool(pool) as found:
        assert found.counts() == {"trained": sum(map(len, updates))}


def test_dynamic_sampling_leaves_out_what_it_would_have_played(tmp_path):
    changes = {"rollout__attempts": 2, "iterations": 1}
    with pytest.MonkeyPatch.context() as patch:
        rounds = []
        play = RolloutPool._round
        patch.setattr(RolloutPool, "_round", lambda self: rounds.append(play(self)) or rounds[-1])
        start(settings(**changes), tmp_path / "direct", logs=["jsonl"])
    assert len(rounds) == 2
    pool = store(tmp_path / "pool", rounds)
    start(settings(rollout__pool=str(pool), **changes), tmp_path / "run", logs=["jsonl"])
    assert model_bytes(tmp_path / "run") == model_bytes(tmp_path / "direct")
    (line,) = read_metrics(tmp_path / "run")
    assert line.dropped == read_metrics(tmp_path / "direct")[0].dropped > 0


# ---- waiting and staleness ----------------------------------------------------------------------


@pytest.fixture
def stop_waiting(monkeypatch):
    """End runs when they wait; return the lines that they print."""
    lines = []

    def end(self, *asked):
        lines.append(plain(self, *asked))
        self.stop = lambda: True
        return lines[-1]

    plain = PooledCollector._waiting
    monkeypatch.setattr(PooledCollector, "_waiting", end)
    return lines


def test_rollouts_of_the_first_weights_are_for_the_first_update_unless_more_staleness_is_admitted(
    tmp_path, direct, stop_waiting
):
    first = direct[1][0]
    pool = store(tmp_path / "pool", [first, first[:2]])
    outcome = start(settings(rollout__pool=str(pool)), tmp_path / "run", logs=["jsonl"])
    assert (outcome.end, outcome.iterations) == ("interrupted", 1)
    assert stop_waiting == [
        f"update 2 waits for 3 groups in {pool}: 0 complete, 0 open; 2 were sampled by weights older than "
        "version 1, and rollout.max_staleness=0 admits none of them: a new run with more would"
    ]
    (line,) = read_metrics(tmp_path / "run")
    assert line.diagnostics["pool"] == {"open": 0, "complete": 2, "stale": 0, "age": 0}
    store(pool, [[], [], first[:1]])  # of the same weights, but as many as a more patient run needs
    other = start(settings(rollout__pool=str(pool), **STALE | {"iterations": 1}), tmp_path / "other", logs=[])
    assert (other.end, other.iterations) == ("finished", 1)


def test_a_run_that_waits_is_ended_with_a_checkpoint_and_goes_on(tmp_path, direct, stop_waiting):
    whole, updates = direct
    pool = store(tmp_path / "pool", updates[:1])
    run = tmp_path / "run"
    outcome = start(settings(rollout__pool=str(pool), checkpoint_every=0), run, logs=["jsonl"])
    assert (outcome.end, outcome.iterations) == ("interrupted", 1)
    store(pool, [[], updates[1]])
    run = run.rename(tmp_path / "moved")
    assert resume(run, logs=["jsonl"]).end == "finished"
    assert model_bytes(run) == model_bytes(whole)


def test_a_run_without_a_checkpoint_begins_with_the_groups_that_it_had(tmp_path, direct, monkeypatch):
    whole, updates = direct
    pool = store(tmp_path / "pool", updates)
    run_settings = settings(rollout__pool=str(pool))
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_rollouts", lambda self, collected: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            start(run_settings, tmp_path / "run", logs=["jsonl"])
    resume(tmp_path / "run", logs=["jsonl"])
    assert model_bytes(tmp_path / "run") == model_bytes(whole)
    assert (tmp_path / "run" / RUN_FILE).read_text().startswith("run-")


def test_ctrl_c_ends_a_run_that_waits_and_the_command_goes_on(tmp_path, direct):
    run, (first, _) = tmp_path / "run", direct[1]
    DataPool(tmp_path / "pool").close()
    words = [
        "train",
        "grpo",
        "--config",
        str(direct[0] / "config.json"),
        "--iterations",
        "1",
        "--out",
        str(run),
    ]
    words += ["--rollouts", str(tmp_path / "pool")]
    receiver, sender = os.pipe()

    def train():
        sys.stderr = os.fdopen(sender, "w", buffering=1)
        return main(words)

    child = forked(train)
    os.close(sender)
    with os.fdopen(receiver) as lines:
        while "waits for 3 groups" not in (line := lines.readline()):
            assert line, "the run has ended"
        os.kill(child, signal.SIGINT)
        _, status = os.waitpid(child, 0)
        assert (status, lines.read().count("Traceback")) == (0, 0)
    assert not read_metrics(run)
    store(tmp_path / "pool", [first])
    assert main(["train", "--resume", str(run), "--log", "jsonl"]) == 0
    assert [line.iteration for line in read_metrics(run)] == [1]
    assert main(["train", "--resume", str(run), "--rollouts", str(tmp_path)]) == 2


# ---- what cannot be trained on ------------------------------------------------------------------


def changed(member, **changes):
    """Return an episode with something of its last answer changed."""
    last = member.steps[-1]
    return replace(
        member, steps=(*member.steps[:-1], replace(last, completion=replace(last.completion, **changes)))
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda member: replace(member, env_id="agentgym/EZPoints-v0"),
            "is of agentgym/EZPoints-v0, and the run of agentgym/Sokoban-v0",
        ),
        (lambda member: changed(member, prompt_ids=()), "lacks tokens or log-probabilities in turn"),
        (lambda member: changed(member, logprobs=()), "lacks tokens or log-probabilities in turn"),
        (
            lambda member: replace(member, steps=(replace(member.steps[0], completion=Completion("up")),)),
            "lacks tokens or log-probabilities in turn 0",
        ),
        (
            lambda member: changed(member, prompt_ids=(1, 100_000)),
            r"has token 100000 in turn \d, and the model only",
        ),
    ],
)
def test_an_episode_that_does_not_fit_is_named(tmp_path, direct, change, message):
    *groups, last = direct[1][0]
    wrong = replace(last, trajectories=tuple(map(change, last.trajectories)))
    pool = store(tmp_path / "pool", [[*groups, wrong]])
    with DataPool(pool) as found:
        name = found.episodes("0-2")[0][0]
    run_settings = settings(rollout__pool=str(pool), iterations=1)
    with pytest.raises(UsageError, match=f"episode {name} of group 0-2 {message}") as raised:
        start(run_settings, tmp_path / "run", logs=[])
    assert "\n" not in str(raised.value)
    with DataPool(pool) as found:
        found.drop("0-2")
    store(pool, [[], [last]])
    assert start(run_settings, tmp_path / "run", logs=[]).end == "finished"


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        ("spo3", {}),
        ("vine", {}),
        ("grpo", {"mix": [{"env_id": "agentgym/EZPoints-v0", "tasks": 1, "algorithm": ""}]}),
        ("grpo", {"curriculum": {"by": "optimal_moves", "levels": [1, 2], "iterations": 1}}),
    ],
)
def test_what_does_not_train_on_a_pool_is_refused(tmp_path, algorithm, changes):
    with pytest.raises(UsageError, match=r"rollout.pool \(--rollouts\) has whole episodes"):
        settings(algorithm, rollout__pool=str(tmp_path), **changes)


# ---- processes that are gone --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "kills"), [(0, 2), *(pytest.param(seed, 6, marks=pytest.mark.slow) for seed in range(1, 6))]
)
def test_a_trainer_that_is_killed_anywhere_trains_on_each_group_once(tmp_path, seed, kills):
    played_settings = settings(iterations=4, checkpoint_every=2)
    updates = played(played_settings, tmp_path / "direct")
    pool = store(tmp_path / "pool", updates)
    assert 0 < kill_at_random(tmp_path / "run", pool, seed, kills) <= kills
    assert model_bytes(tmp_path / "run") == model_bytes(tmp_path / "direct")
    with DataPool(pool) as found:
        assert found.counts() == {"trained": 12}
        assert Counter(group.update for group in found.groups()) == {1: 3, 2: 3, 3: 3, 4: 3}
        run = found.groups()[0].run
        assert [group for group, _ in found.leased(run, 4)][::4] == ["3-0", "3-1", "3-2"]
