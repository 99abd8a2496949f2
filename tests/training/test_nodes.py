"""Ranks that die or hang, and runs that torchrun begins again."""

import json
import threading

import pytest
from torch._C._distributed_c10d import HashStore

from agentgym.errors import UsageError
from agentgym.history.run import CONFIG_FILE, read_metrics
from agentgym.io.files import sole_writer
from agentgym.training.config import override
from agentgym.training.learner import heartbeat
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.heartbeat import heartbeats
from agentgym.training.models.models import open_directory, save_model
from agentgym.training.models.tiny import tiny_model, word_tokenizer
from agentgym.training.run import read_config, resume, start
from benchmarks.nodes.soak import NOBODY, Case, difference, play, words
from tests.training.test_loop import config


def test_a_rank_killed_in_a_rollout_is_started_again_and_changes_nothing(tmp_path):
    case = Case("rollout", 2, 2, 1, False)
    outcome = play(tmp_path / "killed", case, command=words(iterations=3, every=1))
    assert (outcome.died, outcome.resumed, outcome.ranks) == (2, 2, 2)
    (tmp_path / "alone").mkdir()
    plain = read_config(tmp_path / "killed" / "run")
    start(plain, tmp_path / "alone" / "run", logs=["jsonl"])
    found = difference(tmp_path / "killed", tmp_path / "alone")
    assert (found.metrics, found.rollouts) == ((), 0)
    assert found.weights < 1e-4
    assert [line.iteration for line in read_metrics(tmp_path / "killed" / "run")] == [1, 2, 3]


@pytest.mark.slow
def test_a_machine_that_dies_in_an_update_leaves_the_run_to_the_other(tmp_path):
    play(tmp_path / "undisturbed", NOBODY)
    outcome = play(tmp_path / "killed", Case("update", 4, 2, 0, True))
    assert (outcome.died, outcome.resumed, outcome.ranks) == (4, 3, 1)
    found = difference(tmp_path / "killed", tmp_path / "undisturbed")
    assert (found.metrics, found.rollouts) == ((), 0)
    assert found.weights < 1e-4


@pytest.fixture
def _quick(monkeypatch):
    for name, seconds in (("BEAT", 0.01), ("_TURN", 0.02), ("SILENCE", 0.5)):
        monkeypatch.setattr(heartbeat, name, seconds)


@pytest.mark.usefixtures("_quick")
def test_a_rank_whose_heartbeats_stop_is_noticed_and_one_that_is_over_is_not():
    store, silent = HashStore(), {}
    noticed = threading.Event()

    def end(neighbour):
        silent.setdefault("rank", neighbour)
        noticed.set()

    with heartbeats(store, 0, 3, end=end), heartbeats(store, 2, 3, end=silent.__delitem__):
        with heartbeats(store, 1, 3, end=silent.__delitem__):
            assert not noticed.wait(1.0)
        assert not noticed.wait(1.0)  # rank 1 came to its end
    other = HashStore()
    with heartbeats(other, 0, 2, end=end):
        other.add("beats/1", 1)
        assert noticed.wait(5.0)  # rank 1 has not
    assert silent == {"rank": 1}


@pytest.mark.usefixtures("_quick")
def test_a_rank_that_fails_and_does_not_end_is_noticed():
    store, noticed = HashStore(), threading.Event()
    with heartbeats(store, 0, 2, end=lambda neighbour: noticed.set()):
        with pytest.raises(RuntimeError, match="one rank alone"), heartbeats(store, 1, 2):
            raise RuntimeError("one rank alone")
        assert noticed.wait(5.0)


def test_a_restart_goes_on_with_the_same_run_alone(tmp_path, monkeypatch):
    asked = config("grpo", iterations=2, checkpoint_every=1)
    start(asked, tmp_path, logs=["jsonl"])
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    assert start(asked, tmp_path, logs=["jsonl"]).iterations == 2
    with pytest.raises(UsageError, match="began with other settings") as raised:
        start(override(asked, {"seed": 7}), tmp_path, logs=["jsonl"])
    assert "\n" not in str(raised.value)
    table = json.loads((tmp_path / CONFIG_FILE).read_text())
    del table["made_with"]
    (tmp_path / CONFIG_FILE).write_text(json.dumps(table))  # as an older version left it
    with pytest.raises(UsageError, match="began with other settings"):
        start(asked, tmp_path, logs=["jsonl"])
    assert resume(tmp_path, logs=["jsonl"]).iterations == 2


def test_a_store_that_outlives_a_restart_is_refused(monkeypatch):
    for name, value in (("LOCAL_RANK", "0"), ("TORCHELASTIC_USE_AGENT_STORE", "True")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "1")
    with pytest.raises(UsageError, match="TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"), Ranks.join("cpu"):
        pass


def test_a_restart_waits_for_the_lock_of_what_is_gone(tmp_path):
    other = sole_writer(tmp_path)
    other.__enter__()
    with pytest.raises(UsageError, match="another process is writing"), sole_writer(tmp_path, patience=0.2):
        pass
    threading.Timer(0.3, other.__exit__, (None, None, None)).start()
    with sole_writer(tmp_path, patience=30.0):
        pass


@pytest.mark.parametrize("name", ["version of agentgym", "tasks", "weights"])
def test_machines_with_other_data_are_refused(tmp_path, monkeypatch, name):
    def gathered(ranks, items):
        return [*items, {**items[0], name: "other"}] if isinstance(items[0], dict) else list(items)

    monkeypatch.setattr(Ranks, "gather", gathered)
    with pytest.raises(UsageError, match=f"the {name} on rank 1 .*give every machine the same"):
        start(config("grpo", iterations=1), tmp_path / "run", logs=[])


def test_other_weights_of_the_same_sizes_have_another_digest(tmp_path):
    digests = []
    for seed in (0, 0, 1):
        folder = tmp_path / str(len(digests))
        save_model(folder, tiny_model("0.1m", word_tokenizer(["right"]), seed=seed))
        digests.append(open_directory(folder).weights.digest())
    assert digests[0] == digests[1] != digests[2]
