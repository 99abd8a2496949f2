"""The data pool: what is added is there once, whatever is killed or damaged; groups keep their order."""

import contextlib
import json
import multiprocessing
import os
import random
import signal
import sqlite3
import threading
from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest

from agentgym.core.types import Completion, Step
from agentgym.errors import UsageError
from agentgym.rollout.datapool import MAX_NAME, DataPool
from agentgym.rollout.stored_episode import read_episodes
from tests.pooled import episode, fill, names, step

IMAGE = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)


@pytest.fixture
def pool(tmp_path):
    with DataPool(tmp_path / "pool", group_size=2) as pool:
        yield pool


def fully(trajectory):
    """Return every field, those that do not count in comparisons too."""
    steps = [{field.name: getattr(each, field.name) for field in fields(Step)} for each in trajectory.steps]
    return trajectory, steps


def state(pool):
    """Return all that a pool says."""
    groups = pool.groups()
    return groups, [list(map(repr, pool.episodes(group.name))) for group in groups], pool.counts()


# ---- episodes -----------------------------------------------------------------------------------


def test_an_episode_comes_back_as_it_was(pool):
    completion = replace(step(0, 3).completion, versions=(3, 4), format_error="no tag", cost=0.01)
    odd = replace(step(0, 3), completion=completion, observation="", side=1, truncated=True)
    failed = Completion("", error="context_limit", prompt_ids=(5,))
    for rollout, played in enumerate(
        [episode(), episode(steps=0), replace(episode(), steps=(odd, step(1, 2)), unplayed=failed)]
    ):
        given = replace(played, rollout=rollout)
        name = pool.add(given, group="g", size=9)
        assert fully(dict(pool.episodes("g"))[name]) == fully(given)
    pictured = replace(odd, observation={"text": "see", "image": IMAGE})
    pool.add(episode(steps=0, final_observation={"text": "end", "image": IMAGE}), group="p")
    pool.add(replace(episode(1), steps=(pictured,)), group="p")
    (_, first), (_, second) = pool.episodes("p")
    assert np.array_equal(first.final_observation["image"], IMAGE)
    seen = second.steps[0].observation
    assert (seen["text"], seen["image"].tolist()) == ("see", IMAGE.tolist())
    assert replace(second.steps[0], observation="") == odd


def test_the_same_episode_is_there_once(pool):
    name = pool.add(episode(), group="g")
    first, *rest = episode().steps
    first = replace(first, completion=replace(first.completion, seconds=9.0))
    slower = replace(episode(), env_seconds=9.0, steps=(first, *rest))
    assert pool.add(slower, group="g", labels=["late"]) == pool.add(episode(), group="g") == name
    assert len(pool.episodes("g")) == 1
    with pytest.raises(UsageError, match=r"group g .* another rollout 0 already; name another group"):
        pool.add(episode(won=True), group="g")
    assert len(pool.episodes("g")) == 1


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (episode(1, task="b"), {}, "began in state"),
        (episode(1, initial_hash="f" * 32), {}, "began in state"),
        (episode(1), {"size": 3}, "it is of 2 episodes, not of 3"),
        (episode(1), {"size": 0}, "at least 1: got size 0"),
        (episode(1), {"labels": [""]}, "1 to 200 printable"),
        (episode(1), {"labels": ["a\nb"]}, "1 to 200 printable"),
        (episode(1), {"group": "g" * (MAX_NAME + 1)}, "1 to 200 printable"),
        (episode(1, score=float("nan")), {}, "cannot be stored"),
        (episode(1, final_observation="\ud800"), {}, "cannot be stored"),
        (
            replace(episode(1), steps=(step(0, 0, completion=Completion("", response_ids=(2**31,))),)),
            {},
            "cannot be stored",
        ),
    ],
)
def test_what_cannot_be_added_is_one_line_and_leaves_nothing(pool, given, options, message):
    pool.add(episode(), group="g")
    before = state(pool)
    with pytest.raises(UsageError, match=message) as raised:
        pool.add(given, **{"group": "g"} | options)
    assert "\n" not in str(raised.value)
    assert state(pool) == before


def test_sizes_are_bounded(pool):
    with DataPool(pool.folder) as other, pytest.raises(UsageError, match="got size None"):
        other.add(episode(), group="g")
    fill(pool, "g")
    with pytest.raises(UsageError, match="it has its 2 episodes already"):
        pool.add(episode(2, task="g"), group="g")


def test_exported_episodes_are_read_and_may_be_added_to_another_pool(pool, tmp_path):
    seen = step(0, 3, observation={"text": "see", "image": IMAGE})
    unplayed = Completion("", error="context_limit", prompt_ids=(5,))
    pool.add(episode(), group="g", labels=["b", "a"])
    name = pool.add(replace(episode(1), steps=(seen,), unplayed=unplayed), group="g", trainable=False)
    pool.reward(name, 2.0, won=True)
    fill(pool, "dropped")
    pool.drop("dropped")
    out = tmp_path / "out.jsonl"
    assert pool.export(out) == 2
    read = list(read_episodes(out))
    assert [(each.group, each.size, each.labels, each.trainable) for each in read] == [
        ("g", 2, ("a", "b"), False)
    ] * 2
    with DataPool(tmp_path / "other") as other:
        for each in read:
            other.add(each.trajectory, group=each.group, size=each.size, labels=each.labels)
        assert repr([each for _, each in other.episodes("g")]) == repr(
            [each for _, each in pool.episodes("g")]
        )
    assert pool.export(out, "dropped") == 2


@pytest.mark.parametrize("data", ["!", "AAA", "AAAA AAAA", "QUJD", 7, None])
def test_a_damaged_picture_is_no_episode(pool, tmp_path, data):
    out = tmp_path / "out.jsonl"
    pool.add(episode(steps=0, final_observation={"text": "end", "image": IMAGE}), group="p")
    pool.export(out)
    table = json.loads(out.read_text())
    assert len(list(read_episodes(out))) == 1
    table["trajectory"]["final_observation"]["image"]["data"] = data
    out.write_text(f"{json.dumps(table)}\n")
    with pytest.raises(UsageError, match=r"^[^\n]*, line 1 is not an episode: "):
        list(read_episodes(out))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"won":false', '"won":"yes"', "expected true or false, got 'yes'"),
        ('"won"', '"more"', "unknown key 'more'"),
        ('"steps":[', '"steps":[{},', "is not an episode"),
        ('"size":2', '"size": 2', "is not written as episodes are"),
        ('"prompt_ids":"', '"prompt_ids":"!', "is not an episode"),
        ('"logprobs":"', '"logprobs":"AAAA', "is not an episode"),
        ("}", "", "not JSON"),
    ],
)
def test_records_of_other_people_are_checked_in_every_field(pool, tmp_path, old, new, message):
    out = tmp_path / "out.jsonl"
    fill(pool, "a")
    pool.export(out)
    first, second = out.read_text().splitlines()
    second = second.replace(", ", ",").replace(": ", ":").replace('"won":true', '"won":false')
    assert old in second
    out.write_text(f"{first}\n{second.replace(old, new)}\n")
    with pytest.raises(UsageError, match=message) as raised:
        list(read_episodes(out))
    assert str(raised.value).startswith(f"{out}, line 2")
    assert "\n" not in str(raised.value)
    with pytest.raises(UsageError, match="cannot read"):
        list(read_episodes(tmp_path / "none"))


# ---- groups -------------------------------------------------------------------------------------


def test_a_group_is_known_by_what_was_added(pool):
    pool.add(episode(0, version=3), group="g", labels=["b", "a"])
    (group,) = pool.groups("g")
    assert (group.state, group.members, group.size, group.labels) == ("open", 1, 2, ("a", "b"))
    mixed = replace(step(0, 1).completion, versions=(1, 6))
    pool.add(replace(episode(1), steps=(step(0, 4), step(1, 1, completion=mixed))), group="g")
    pool.tag("g", "c")
    pool.untag("g", "a", "never there")
    (group,) = pool.groups("g")
    assert (group.state, group.oldest, group.newest, group.labels) == ("complete", 1, 6, ("b", "c"))
    assert (group.trainable, group.score, group.run, group.update) == (True, 1 / 6, "", 0)
    pool.drop("g")
    assert pool.groups()[0].state == "dropped"
    assert pool.counts() == {"dropped": 1}
    with pytest.raises(UsageError, match="has no group 'other'"):
        pool.groups("g", "other")


def test_late_rewards_count_until_the_lease(pool):
    names = [pool.add(episode(rollout), group="g") for rollout in range(2)]
    pool.reward(names[0], 5.0)
    pool.reward(names[0], 1.5, won=True, score=0.75)  # of a client that asks again
    changed = dict(pool.episodes("g"))[names[0]]
    assert [each.reward for each in changed.steps] == [0.0, 0.1, 0.2 + 1.5]
    assert (changed.won, changed.score) == (True, 0.75)
    (group,) = pool.lease("run", 1, 1, oldest_version=None)
    assert group.trajectories == (changed, episode(1))
    with pytest.raises(UsageError, match="of group g, which run has leased"):
        pool.reward(names[1], 1.0)
    with pytest.raises(UsageError, match="finite numbers"):
        pool.reward(names[1], float("nan"))
    with pytest.raises(UsageError, match="has no episode 'x'"):
        pool.reward("x", 1.0)
    empty = pool.add(episode(steps=0), group="h")
    with pytest.raises(UsageError, match="without a step to reward"):
        pool.reward(empty, 1.0)


def test_groups_are_leased_in_the_order_in_which_they_began(pool):
    for task in "abc":
        pool.add(episode(0, task=task), group=task)
    for task in "cb":  # which end first
        pool.add(episode(1, task=task), group=task)
    assert pool.lease("run", 1, 2, oldest_version=None) is None
    pool.add(episode(1, task="a"), group="a")
    assert names(pool.lease("run", 1, 2, oldest_version=None)) == "ab"
    assert pool.lease("run", 2, 2, oldest_version=None) is None
    assert names(pool.lease("run", 2, 1, oldest_version=None)) == "c"


def test_a_group_that_will_not_be_complete_is_waited_for_only_so_long(pool):
    pool.add(episode(0, task="a"), group="a")
    fill(pool, "b")
    assert pool.lease("run", 1, 1, oldest_version=None) is None
    assert names(pool.lease("run", 1, 1, oldest_version=None, patience=0.0)) == "b"
    fill(pool, "c")
    pool.add(episode(1, task="a"), group="a")  # after all
    assert names(pool.lease("run", 2, 1, oldest_version=None)) == "a"


@pytest.mark.parametrize("leave_out", ["drop", "set_trainable"])
def test_nobody_waits_for_what_is_not_trained_on(pool, leave_out):
    pool.add(episode(0, task="a"), group="a")
    fill(pool, "b")
    getattr(pool, leave_out)("a", *([False] if leave_out == "set_trainable" else []))
    assert names(pool.lease("run", 1, 1, oldest_version=None)) == "b"


def test_a_member_keeps_its_group_out_of_training_unless_that_is_said(pool):
    pool.add(episode(0), group="g", trainable=False)
    pool.add(episode(1), group="g")
    assert pool.lease("run", 1, 1, oldest_version=None) is None
    pool.set_trainable("g", True)
    assert pool.groups()[0].trainable
    assert names(pool.lease("run", 1, 1, oldest_version=None)) == "a"
    with pytest.raises(UsageError, match="group g is leased by run run"):
        pool.set_trainable("g", False)


def test_groups_of_old_weights_are_stale_for_the_run_and_stay(pool):
    fill(pool, "a", version=0)
    pool.add(episode(0, task="b", version=1), group="b")
    fill(pool, "c", version=2)
    assert pool.lease("run", 1, 1, oldest_version=2) is not None  # neither a nor the open b is waited for
    assert pool.counts() == {"leased": 1, "stale": 2}
    assert names(pool.lease("other", 1, 1, oldest_version=0)) == "a"
    assert pool.counts() == {"leased": 2, "open": 1}  # which the other run would take


# ---- runs ---------------------------------------------------------------------------------------


def test_an_update_has_the_same_groups_whenever_it_asks(pool):
    fill(pool, *"abcdef")
    first = pool.lease("run", 1, 2, oldest_version=0)
    assert pool.lease("other", 1, 2, oldest_version=0) != first
    assert pool.lease("run", 1, 2, oldest_version=5) == first
    with DataPool(pool.folder) as found:
        assert found.lease("run", 1, 2, oldest_version=0) == first
        assert [group for group, _ in found.leased("run", 1)] == ["a", "a", "b", "b"]
        with pytest.raises(UsageError, match="run has 2 groups for update 1, not 1: ask for as many"):
            found.lease("run", 1, 1, oldest_version=0)


def test_a_run_that_goes_back_has_its_groups_again_in_their_order(pool):
    fill(pool, *"abcdefg")
    for update, found in enumerate(["ab", "cd", "ef"], start=1):
        assert names(pool.lease("run", update, 2, oldest_version=0)) == found
    pool.trained("run", 2)
    assert pool.counts() == {"trained": 4, "leased": 2, "complete": 1}
    assert names(pool.lease("run", 2, 2, oldest_version=0)) == "cd"
    assert pool.counts() == {"trained": 2, "leased": 4, "complete": 1}
    assert pool.lease("other", 1, 2, oldest_version=0) is None  # what the run had is for nobody else
    assert names(pool.lease("run", 3, 2, oldest_version=0)) == "ef"
    assert names(pool.lease("run", 4, 1, oldest_version=0)) == "g"


def test_a_group_that_is_dropped_from_an_update_is_replaced(pool):
    fill(pool, *"abc")
    pool.lease("run", 1, 2, oldest_version=0)
    pool.drop("a")
    assert names(pool.lease("run", 1, 2, oldest_version=0)) == "bc"
    pool.trained("run", 1)
    with pytest.raises(UsageError, match="group b is trained by run run"):
        pool.drop("b")


def test_what_a_run_that_is_gone_has_leased_is_given_back(pool):
    fill(pool, *"ab")
    pool.lease("gone", 1, 1, oldest_version=0)
    pool.trained("gone", 1)
    pool.lease("gone", 2, 1, oldest_version=0)
    pool.release("gone")
    assert pool.counts() == {"trained": 1, "complete": 1}
    assert names(pool.lease("run", 1, 1, oldest_version=0)) == "b"


@pytest.mark.parametrize("seed", range(3))
def test_no_group_is_of_two_updates_whatever_is_called(pool, seed):
    draws, had = random.Random(seed), {}
    fill(pool, *"abcdef")
    for number in range(60):
        group, run, update = draws.choice("abcdef"), draws.choice("rs"), draws.randrange(1, 4)
        call = draws.choice(["lease", "lease", "trained", "drop", "set_trainable", "add"])
        with contextlib.suppress(UsageError):
            if call == "lease" and (found := pool.lease(run, update, 1, oldest_version=draws.randrange(2))):
                had.setdefault((run, update), []).append(names(found))
            elif call == "trained":
                pool.trained(run, update)
            elif call == "drop" and draws.random() < 0.3:
                pool.drop(group)
            elif call == "set_trainable":
                pool.set_trainable(group, draws.random() < 0.7)
            elif call == "add":
                for rollout in range(2):
                    task = chr(ord("g") + number // 4)
                    pool.add(episode(rollout, task=task, version=draws.randrange(2)), group=task)
    owners = [name for found in had.values() for name in dict.fromkeys(found)]
    assert len(owners) > 3
    assert len(set(owners)) == len(owners)
    dropped = {group.name for group in pool.groups() if group.state == "dropped"}
    assert all(set(found) - set(found[-1:]) <= dropped for found in had.values())


# ---- several processes --------------------------------------------------------------------------


def agent(folder, number, groups):
    with DataPool(folder, group_size=4) as pool:
        for group in range(groups):
            pool.add(episode(number), group=str(group))


def test_processes_and_threads_share_a_pool(tmp_path):
    context = multiprocessing.get_context("fork")
    agents = [context.Process(target=agent, args=(tmp_path, number, 8)) for number in range(2)]
    for each in agents:
        each.start()
    with DataPool(tmp_path) as pool:
        threads = [threading.Thread(target=agent, args=(tmp_path, number, 8)) for number in (2,)]
        threads += [threading.Thread(target=lambda: fill(pool, "own", size=4))]
        for each in threads:
            each.start()
        for group in range(8):
            pool.add(episode(3), group=str(group), size=4)
        for each in (*agents, *threads):
            each.join()
        assert [each.exitcode for each in agents] == [0, 0]
        assert pool.counts() == {"complete": 9}
        taken = [pool.lease("run", update, 3, oldest_version=None) for update in (1, 2, 3)]
        assert Counter(len(group.trajectories) for each in taken for group in each) == {4: 9}
        assert pool.lease("run", 4, 1, oldest_version=None) is None


def killed_agent(folder, pipe):
    with DataPool(folder) as pool:
        for number in range(10_000):
            pool.add(episode(0), group=str(number), size=1)
            os.write(pipe, b"%d\n" % number)


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 30))]
)
def test_what_a_killed_process_was_told_is_there(tmp_path, seed):
    receiver, sender = os.pipe()
    context = multiprocessing.get_context("fork")
    process = context.Process(target=killed_agent, args=(tmp_path, sender))
    process.start()
    os.close(sender)
    with os.fdopen(receiver) as lines:
        for _ in range(random.Random(seed).randrange(1, 9)):
            lines.readline()
        process.join(random.Random(seed).random() / 100)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        rest = [int(line) for line in lines]
    with DataPool(tmp_path) as pool:
        added = {int(group.name) for group in pool.groups()}
        assert set(range(max(rest, default=-1) + 1)) <= added
        fill(pool, "next")
        assert len(pool.lease("run", 1, len(added) + 1, oldest_version=None)) == len(added) + 1


def test_a_folder_that_cannot_be_used_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot make folder"):
        DataPool(tmp_path / "file")
    (tmp_path / "pool.sqlite").write_bytes(b"no database " * 100)
    with pytest.raises(UsageError, match=r"cannot use .*pool.sqlite: file is not a database"):
        DataPool(tmp_path)
    (tmp_path / "pool.sqlite").unlink()
    with DataPool(tmp_path):
        table = sqlite3.connect(tmp_path / "pool.sqlite")
        table.execute("PRAGMA user_version = 7")
        table.close()
    with pytest.raises(UsageError, match="of version 7, not 1"):
        DataPool(tmp_path)
