"""Ranks that die or hang, and runs that torchrun begins again."""

import json
import threading

import pytest
from torch._C._distributed_c10d import HashStore

from agentgym.errors import UsageError
from agentgym.history.run import CONFIG_FILE, read_metrics
from agentgym.inference.models.language_model import open_directory, save_model
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from agentgym.io import files
from agentgym.io.files import sole_writer
from agentgym.training.config import override, read_config
from agentgym.training.learner import heartbeat
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.heartbeat import heartbeats
from agentgym.training.run import resume, start
from tests.training.dying_ranks import NOBODY, Case, difference, play, words
from tests.training.test_loop import config
from tests.waiting import PATIENCE, wait_until


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


class Clock:
    """Seconds that pass once every thread of the heartbeats waits for them."""

    def __init__(self):
        self.now, self.threads, self.due = 0.0, [], {}
        self.changed = threading.Condition()

    def event(self):
        return ClockEvent(self)

    def thread(self, **options):
        self.threads.append(threading.Thread(**options))
        return self.threads[-1]

    def _all_wait(self):
        return all(each in self.due or not each.is_alive() for each in self.threads)

    def pass_by(self, seconds):
        end = self.now + seconds
        while True:
            wait_until(self._all_wait)
            with self.changed:
                self.now = min((end, *(due for due, _ in self.due.values())))
                if self.now == end:
                    return
                self.due = {each: wait for each, wait in self.due.items() if wait[0] > self.now}
                self.changed.notify_all()


class ClockEvent(threading.Event):
    """An event that is waited for by a clock."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def set(self):
        super().set()
        with self.clock.changed:
            self.clock.due = {each: wait for each, wait in self.clock.due.items() if wait[1] is not self}
            self.clock.changed.notify_all()

    def wait(self, seconds):
        own = threading.current_thread()
        with self.clock.changed:
            if not self.is_set():
                self.clock.due[own] = self.clock.now + seconds, self
                assert self.clock.changed.wait_for(lambda: own not in self.clock.due, PATIENCE)
        return self.is_set()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(heartbeat, "Event", clock.event)
    monkeypatch.setattr(heartbeat, "Thread", clock.thread)
    return clock


def test_a_rank_whose_heartbeats_stop_is_noticed_and_one_that_is_over_is_not(clock):
    store, silent = HashStore(), []
    with heartbeats(store, 0, 3, end=silent.append), heartbeats(store, 2, 3, end=silent.append):
        with heartbeats(store, 1, 3, end=silent.append):
            clock.pass_by(200.0)
        clock.pass_by(200.0)  # rank 1 came to its end
    assert silent == []
    other = HashStore()
    with heartbeats(other, 0, 2, end=silent.append):
        other.add("beats/1", 1)
        clock.pass_by(45.0)
        assert silent == []
        clock.pass_by(10.0)  # rank 1 has not
    assert silent == [1]


def test_a_rank_that_fails_and_does_not_end_is_noticed(clock):
    store, silent = HashStore(), []
    with heartbeats(store, 0, 2, end=silent.append):
        with pytest.raises(RuntimeError, match="one rank alone"), heartbeats(store, 1, 2):
            raise RuntimeError("one rank alone")
        clock.pass_by(60.0)
    assert silent == [1]


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


def test_a_restart_waits_for_the_lock_of_what_is_gone(tmp_path, monkeypatch):
    other = sole_writer(tmp_path)
    other.__enter__()
    with pytest.raises(UsageError, match="another process is writing"), sole_writer(tmp_path, patience=0.2):
        pass
    monkeypatch.setattr(files, "sleep", lambda seconds: other.__exit__(None, None, None))
    with sole_writer(tmp_path, patience=PATIENCE):
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
