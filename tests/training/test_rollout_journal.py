"""Killed runs go on with their open episodes; whatever their journal has become, nothing wrong is played."""

import random
import shutil
import subprocess
import sys
from pathlib import Path
from threading import Barrier, Thread
from types import SimpleNamespace

import pytest
import torch

from agentgym.core.types import Completion, Request
from agentgym.envs.ezpoints.env import EZPointsEnv
from agentgym.errors import UsageError
from agentgym.history.rollouts import read_rollouts
from agentgym.inference.models.language_model import load_model, save_model
from agentgym.inference.policy.policy import LanguageModelPolicy
from agentgym.training.collect.config import RolloutConfig
from agentgym.training.collect.pool import RolloutPool
from agentgym.training.collect.rollout_journal import RolloutJournal
from agentgym.training.collect.task_order import TaskOrder
from agentgym.training.config import TINY, override
from agentgym.training.learner.distributed import Ranks
from agentgym.training.run import resume, start
from tests.training import killed
from tests.training.test_loop import config, logged, same, weights
from tests.training.test_pool_admission import RandomWorker
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
STALE = {"rollout__max_staleness": 1, "rollout__overlap": False}


class KilledError(Exception):
    """What ends a run anywhere."""


def play(play_run, fails_at=None):
    """Play a run, up to a request; return the seeds and turns of those that were answered."""
    plain, asked, sampled = LanguageModelPolicy.question, [], []
    act = LanguageModelPolicy.act

    def question(self, request):
        asked.append(request)
        if len(asked) == fails_at:
            raise KilledError
        return plain(self, request)

    def act_and_count(self, requests):
        answers = act(self, requests)
        sampled.extend((request.seed, request.turn) for request in requests)
        return answers

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LanguageModelPolicy, "question", question)
        patch.setattr(LanguageModelPolicy, "act", act_and_count)
        try:
            play_run()
        except KilledError:
            assert fails_at is not None
        else:
            assert fails_at is None
    return sampled


def told(folder):
    """Return the metrics but the seconds and what was recalled, and the sum of that."""
    lines, recalled = logged(folder), 0
    for line in lines:
        recalled += int(line["diagnostics"].pop("journal", {"recalled": 0})["recalled"])
    return lines, recalled


RUNS = {
    "rounds": ("ppo", {"rollout__num_envs": 5}),
    "two steps old, groups left out": (
        "dapo",
        {**STALE, "rollout__max_staleness": 2, "rollout__attempts": 2},
    ),
    "trees": ("spo3", {"iterations": 2}),
    "continuations": ("vine", {"iterations": 2, "algorithm_options__continuations": 2}),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_killed_anywhere_becomes_the_same(tmp_path, name):
    algorithm, changes = RUNS[name]
    settings = config(algorithm, **{"evaluation__every": 0, "checkpoint_every": 1, "iterations": 3} | changes)
    whole = tmp_path / "whole"
    requests = play(lambda: start(settings, whole, logs=["jsonl"]))
    draws, saved = random.Random(name), 0
    for place in (draws.randrange(2, len(requests)), len(requests) - 1):
        folder = tmp_path / str(place)
        sampled = play(lambda folder=folder: start(settings, folder, logs=["jsonl"]), fails_at=place)
        sampled += play(lambda folder=folder: resume(folder, logs=["jsonl"]))
        assert sorted(sampled) == sorted(set(requests)) == sorted(requests)  # none is sampled twice
        lines, recalled = told(folder)
        assert lines == told(whole)[0]
        assert same(weights(folder), weights(whole))
        saved += recalled
    assert saved > 0


def test_killed_again_and_again(tmp_path):
    settings = config("grpo", evaluation__every=0, checkpoint_every=2, iterations=3, **STALE)
    whole, folder = tmp_path / "whole", tmp_path / "parts"
    requests = play(lambda: start(settings, whole, logs=["jsonl"]))
    sampled = play(lambda: start(settings, folder, logs=["jsonl"]), fails_at=40)
    for _ in range(3):
        sampled += play(lambda: resume(folder, logs=["jsonl"]), fails_at=30)
    sampled += play(lambda: resume(folder, logs=["jsonl"]))
    assert set(sampled) == set(requests)
    assert len(sampled) > len(requests)  # what weights after the checkpoint had sampled is sampled again
    assert told(folder)[0] == told(whole)[0]
    assert same(weights(folder), weights(whole))


OTHERS = {
    "agentgym/Sokoban-v0": {"env_options.max_optimal": 2, "env_options.max_steps": 5},
    "agentgym/ALFWorld-v0": {"env_options.max_steps": 8},
    "agentgym/HotpotQA-v0": {},
    "agentgym/Sotopia-v0": {"env_options.max_turns": 4},
}
"""The last two ask for passages, or what a partner says."""


@pytest.mark.parametrize(
    "env_id", [pytest.param(name, marks=[pytest.mark.slow] * ("ALFWorld" in name)) for name in OTHERS]
)
def test_open_episodes_of_any_suite_go_on(tmp_path, env_id):
    small = {"iterations": 1, "checkpoint_every": 1, "evaluation.every": 0, "patience": 9}
    small |= {"rollout.tasks": 2, "rollout.group_size": 2, "rollout.num_envs": 3}
    settings = override(TINY.config("grpo", env_id, model="tiny:0.1m"), small | OTHERS[env_id])
    whole, folder = tmp_path / "whole", tmp_path / "parts"
    requests = play(lambda: start(settings, whole, logs=["jsonl"]))
    sampled = play(lambda: start(settings, folder, logs=["jsonl"]), fails_at=len(requests) * 2 // 3)
    assert sorted(sampled + play(lambda: resume(folder, logs=["jsonl"]))) == sorted(requests)
    lines, recalled = told(folder)
    assert recalled == len(sampled) > 0
    assert lines == told(whole)[0]
    assert same(weights(folder), weights(whole))


# ---- processes that are gone --------------------------------------------------------------------


@pytest.fixture(scope="module")
def gone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.killed", folder], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", killed.CASES)
def test_a_process_that_was_killed_is_followed_by_one_that_goes_on(gone, tmp_path, name):
    settings, folder = killed.settings(name), gone / name
    sampled = play(lambda: resume(folder, logs=["jsonl"]))
    lines, recalled = told(folder)
    assert recalled > 0
    order = TaskOrder(EZPointsEnv().tasks, settings.seed)
    for update in range(settings.iterations):  # the first groups begun, each once
        kept = read_rollouts(folder, update + 1)
        groups = [order.episodes(3 * update + place, 4) for place in range(3)]
        assert [(each.trajectory.seed, each.trajectory.rollout) for each in kept] == [
            (spec.seed, spec.rollout) for specs in groups for spec in specs
        ]
        for version in (step.completion.version for each in kept for step in each.trajectory.steps):
            assert update - settings.rollout.max_staleness <= version <= update
    if not (settings.rollout.max_staleness and settings.rollout.overlap):
        requests = play(lambda: start(settings, tmp_path, logs=["jsonl"]))
        assert set(sampled) < set(requests)
        assert lines == told(tmp_path)[0]
        assert same(weights(folder), weights(tmp_path))


# ---- what becomes of files ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def broken_off(tmp_path_factory):
    """A run, the same broken off in its second iteration, and one of other settings."""
    folder = tmp_path_factory.mktemp("broken-off")
    settings = config("grpo", evaluation__every=0, checkpoint_every=1, iterations=2)
    requests = play(lambda: start(settings, folder / "whole", logs=["jsonl"]))
    play(lambda: start(settings, folder / "parts", logs=["jsonl"]), fails_at=len(requests) - 20)
    other = config("grpo", evaluation__every=0, checkpoint_every=1, iterations=2, learner__learning_rate=1e-3)
    play(lambda: start(other, folder / "other", logs=["jsonl"]), fails_at=len(requests) - 20)
    return folder


def cut(content, draws):
    return content[: draws.randrange(len(content))]


def flip(content, draws):
    place = draws.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << draws.randrange(8)]) + content[place + 1 :]


def repeat(content, draws):
    return content + content


def noise(content, draws):
    return content + draws.randbytes(1000)


@pytest.mark.parametrize("damage", [cut, flip, repeat, noise, None])
def test_damage_costs_turns_and_nothing_else(broken_off, tmp_path, damage):
    draws, folder = random.Random(repr(damage)[:20]), tmp_path / "parts"
    shutil.copytree(broken_off / "parts", folder, symlinks=True)
    (path,) = (folder / "journal").iterdir()
    if damage is None:  # a file of another run, of the same seed
        shutil.copy(broken_off / "other" / "journal" / path.name, path)
    else:
        path.write_bytes(damage(path.read_bytes(), draws))
    resume(folder, logs=["jsonl"])
    lines, recalled = told(folder)
    assert (recalled == 0) == (damage is None)
    assert lines == told(broken_off / "whole")[0]
    assert same(weights(folder), weights(broken_off / "whole"))


@pytest.mark.parametrize("changes", [False, True])
def test_what_other_weights_have_sampled_is_not_played(tmp_path, changes):
    model = tmp_path / "model"
    made = load_model(start(config("grpo", iterations=1), tmp_path / "first", logs=[]).checkpoint / "model")
    save_model(model, made)
    short = {"evaluation__every": 0, "iterations": 1, "prompting__max_tokens": 12}
    settings = config("grpo", model=str(model), **short)
    play(lambda: start(settings, tmp_path / "run", logs=["jsonl"]), fails_at=20)
    with torch.no_grad():
        next(made.model.parameters()).mul_(1 + changes)
    save_model(model, made)
    play(lambda: start(settings, tmp_path / "run", logs=["jsonl"]))
    assert (told(tmp_path / "run")[1] == 0) == changes


def test_a_journal_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "journal").write_text("a file where the folder should be")
    with pytest.raises(
        UsageError, match=r"cannot make folder .*journal: .*a file is where a folder"
    ) as raised:
        start(config("grpo", evaluation__every=0), tmp_path, logs=[])
    assert "\n" not in str(raised.value)


def request(seed, turn, state_hash="here", *actions):
    steps = tuple(SimpleNamespace(completion=Completion(action)) for action in actions)
    return Request(seed, "task", "", turn, "", (), state_hash, seed, history=steps)


def answer(version, *versions):
    return Completion(f"of {version}", version=version, response_ids=(1, 2), versions=versions)


@pytest.fixture
def opened(tmp_path):
    journals = []

    def opened(iteration, version, **options):
        journals.append(RolloutJournal(tmp_path / "journal", "key", **options))
        journals[-1].resume(iteration, version)
        return journals[-1]

    yield opened
    for journal in journals:
        journal.close()


def recalled(journal, *asked):
    return journal.recall(request(*asked))


def test_an_episode_that_was_given_up_is_asked_about_again(opened):
    journal = opened(0, 0)
    journal.append([request(1, 0), request(1, 1)], [answer(1), Completion("", error="context_limit")])
    journal = opened(0, 0)  # whose weights are gone
    journal.append([request(1, 0)], [answer(0)])
    journal = opened(0, 0)
    assert recalled(journal, 1, 0) == (answer(0), False)
    assert recalled(journal, 1, 1) is None


def test_what_weights_of_the_future_have_sampled_is_gone(opened):
    journal = opened(0, 0, staleness=2)
    journal.append([request(1, 0), request(2, 0)], [answer(0), answer(0)])
    journal.begin(2)
    journal.append([request(1, 1), request(2, 1)], [answer(0, 0, 1), answer(1)])
    journal.append([request(3, 0)], [answer(0)])
    journal.close()
    journal.append([request(4, 0)], [answer(0)])  # when the run is over, nothing is
    again = opened(1, 0, staleness=2)
    assert recalled(again, 1, 0) == (answer(0), True)
    assert recalled(again, 1, 0) is None  # once
    assert recalled(again, 1, 1) is recalled(again, 2, 1) is None
    assert recalled(again, 3, 0) == (answer(0), False)
    later = opened(2, 1, staleness=2)  # not even when there are such weights again
    assert recalled(later, 1, 0) == (answer(0), True)
    assert recalled(later, 1, 1) is recalled(later, 4, 0) is None


def test_an_episode_that_goes_otherwise_is_sampled_from_there(opened):
    journal = opened(0, 0)
    for turn in range(4):
        journal.append([request(1, turn)], [answer(0)])
    journal = opened(0, 0)
    assert recalled(journal, 1, 0) == (answer(0), False)
    assert recalled(journal, 1, 1, "elsewhere") is None
    assert recalled(journal, 1, 2) is None
    journal.append([request(1, 1, "elsewhere")], [answer(0)])
    journal = opened(0, 0)
    assert recalled(journal, 1, 0) == (answer(0), False)
    assert recalled(journal, 1, 1, "elsewhere") == (answer(0), False)


def test_a_turn_is_not_played_after_others_than_it_was_sampled_after(opened):
    journal = opened(0, 0)
    journal.append([request(1, 0), request(1, 1, "here", "look")], [answer(1), answer(0)])
    journal = opened(0, 0)  # the first turn's weights are gone
    assert recalled(journal, 1, 0) is None
    journal.append([request(1, 0)], [answer(0)])
    assert recalled(opened(0, 0), 1, 0) == (answer(0), False)
    for action, found in (("wait", None), ("look", (answer(0), False))):  # both lead to the same state
        assert recalled(opened(0, 0), 1, 1, "here", action) == found


def test_files_stay_bounded(opened, tmp_path):
    def iterations():
        return [int(path.name[:6]) for path in sorted((tmp_path / "journal").iterdir())]

    journal = opened(0, 0, staleness=1)
    for iteration in range(1, 21):
        journal.append([request(iteration, 0)], [answer(iteration - 1)])
        journal.begin(iteration + 1)
        assert len(iterations()) <= 4
    assert iterations() == [1, 2, 20]
    journal.saved(20)
    assert iterations() == [20]
    assert recalled(opened(20, 20, staleness=1), 20, 0) == (answer(19), True)


def test_any_number_of_ranks_reads_the_files_of_all(opened):
    class Second(Ranks):
        __slots__ = ()

        def from_first(self, value):
            return value

    opened(0, 0).append([request(1, 0)], [answer(0)])
    opened(0, 0, ranks=Second(1, 2)).append([request(2, 0)], [answer(0)])
    alone = opened(0, 0)
    assert recalled(alone, 1, 0) == recalled(alone, 2, 0) == (answer(0), False)


# ---- several ranks ------------------------------------------------------------------------------


class Together(Ranks):
    """A rank in a thread."""

    __slots__ = ("barrier", "items")

    def __init__(self, rank, size, barrier, items):
        super().__init__(rank, size)
        object.__setattr__(self, "barrier", barrier)
        object.__setattr__(self, "items", items)

    def gather(self, items):
        self.items[self.rank] = items
        self.barrier.wait()
        found = [each for rank in range(self.size) for each in self.items[rank]]
        self.barrier.wait()
        return found


def played(size, updates, state=None, attempts=1):
    """Play updates on so many ranks.

    Returns:
        The seeds trained on, a list an update; the state; counts of each rank; the seeds begun; and how many
        groups are running or waiting.
    """
    order, barrier, items = TaskOrder(EZPointsEnv().tasks, seed=11), Barrier(size, timeout=PATIENCE), {}
    settings = RolloutConfig(tasks=4, group_size=2, max_staleness=2, attempts=attempts, overlap=False)
    results = {}

    def rank(number):
        worker = RandomWorker(5 + number, [1, 9, 60 + number], 0.5)
        pool = RolloutPool(worker, order, settings, Together(number, size, barrier, items))
        if state is not None:
            pool.load_state_dict(state)
        trained = []
        for worker.version in updates:
            collected = pool.collect(worker.version)
            trained.append([group.trajectories[0].seed for group in collected.groups])
            assert collected.diagnostics["pool"]["lost"] == 0
        report = collected.diagnostics["pool"]
        open_groups = report["running"] + report["waiting"]
        results[number] = trained, pool.state_dict(), pool.counts, worker.begun, open_groups

    threads = [Thread(target=rank, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    counts, begun = ([results[number][place] for number in range(size)] for place in (2, 3))
    return *results[0][:2], counts, {seed for each in begun for seed in each}, results[0][4]


@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 1), (1, 2), (4, 2), (2, 4)])
def test_no_group_is_lost_or_trained_on_twice_on_any_number_of_ranks(before, after, attempts):
    first, state, _, began, _ = played(before, range(5), attempts=attempts)
    rest, _, counts, begun, open_groups = played(after, range(5, 10), state, attempts=attempts)
    trained = [seed for update in (*first, *rest) for seed in update]
    assert len(set(trained)) == len(trained) == 40
    order, worker = TaskOrder(EZPointsEnv().tasks, seed=11), RandomWorker(1, [1], 0.5)
    known = [order.episodes(position, 2) for position in range(200)]
    for rank in range(after):  # each plays its part in order
        part = known[rank::after]
        while part[-1][0].seed not in trained:
            part.pop()
        for specs in (specs for specs in part if specs[0].seed not in trained):
            assert attempts > 1
            assert len({worker.won(spec) for spec in specs}) == 1
    assert sum(each.trained for each in counts) == 40
    if before == after:
        assert sum(each.begun for each in counts) == len(began | begun)
        assert sum(each.pending for each in counts) == open_groups
        assert [
            seed for update in played(before, range(10), attempts=attempts)[0] for seed in update
        ] == trained
