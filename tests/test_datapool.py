"""The data pool: what is added is there once, whatever is killed or damaged; groups keep their order."""

import contextlib
import json
import multiprocessing
import os
import random
import signal
import threading
from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest

from agentgym.core.types import Completion, Step, Trajectory
from agentgym.errors import UsageError
from agentgym.rollout import pool_files
from agentgym.rollout.datapool import MAX_NAME, DataPool
from agentgym.rollout.stored_episode import MAX_LINE, make_line, read_episodes
from tests.pooled import episode, fill, names, step


@pytest.fixture
def pool(tmp_path):
    with DataPool(tmp_path / "pool", group_size=2) as pool:
        yield pool


def again(pool):
    """Return the pool as another process finds it, with an index of its own making."""
    for path in pool.folder.glob("index.sqlite*"):
        path.unlink()
    return DataPool(pool.folder)


def segment(pool, number=0):
    return pool.folder / "episodes" / f"{number:06d}.jsonl"


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
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    completion = replace(step(0, 3).completion, versions=(3, 4), format_error="no tag", cost=0.01)
    odd = replace(step(0, 3), completion=completion, observation="", side=1, truncated=True)
    failed = Completion("", error="context_limit", prompt_ids=(5,))
    for rollout, played in enumerate(
        [episode(), episode(steps=0), replace(episode(), steps=(odd, step(1, 2)), unplayed=failed)]
    ):
        given = replace(played, rollout=rollout)
        name = pool.add(given, group="g", size=9)
        assert fully(dict(pool.episodes("g"))[name]) == fully(given)
    pictured = replace(odd, observation={"text": "see", "image": image})
    pool.add(episode(steps=0, final_observation={"text": "end", "image": image}), group="p")
    pool.add(replace(episode(1), steps=(pictured,)), group="p")
    (_, first), (_, second) = pool.episodes("p")
    assert np.array_equal(first.final_observation["image"], image)
    seen = second.steps[0].observation
    assert (seen["text"], seen["image"].tolist()) == ("see", image.tolist())
    assert replace(second.steps[0], observation="") == odd


def test_the_same_episode_is_there_once(pool):
    name = pool.add(episode(), group="g")
    slower = replace(episode(), env_seconds=9.0, steps=tuple(episode().steps))
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
        (episode(1), {"size": 0}, "of 1 to 65,536"),
        (episode(1), {"labels": [""]}, "1 to 200 printable"),
        (episode(1), {"labels": ["a\nb"]}, "1 to 200 printable"),
        (episode(1), {"labels": ["a"] * 65}, "at most 64 labels"),
        (episode(1, score=float("nan")), {}, "cannot be stored"),
        (episode(1, score="1"), {}, "cannot be stored: .*score: expected a number"),
        (episode(1, final_observation=5), {}, "cannot be stored"),
        (episode(1, final_observation="\ud800"), {}, "cannot be stored"),
        (episode(1, end_reason="tired"), {}, "cannot be stored: .*tired"),
        (
            replace(episode(1), steps=(step(0, 0, completion=Completion("", response_ids=(2**31,))),)),
            {},
            "cannot be stored",
        ),
    ],
)
def test_what_cannot_be_added_is_one_line_and_leaves_nothing(pool, given, options, message):
    pool.add(episode(), group="g")
    before = segment(pool).read_bytes()
    with pytest.raises(UsageError, match=message) as raised:
        pool.add(given, **{"group": "g"} | options)
    assert "\n" not in str(raised.value)
    assert segment(pool).read_bytes() == before


def test_sizes_are_bounded(pool, monkeypatch):
    with pytest.raises(UsageError, match="1 to 200 printable"):
        pool.add(episode(), group="g" * (MAX_NAME + 1))
    with pytest.raises(UsageError, match=f"more than {MAX_LINE:,} bytes"):
        pool.add(episode(final_observation="x" * MAX_LINE), group="g")
    with DataPool(pool.folder) as other, pytest.raises(UsageError, match="got size None"):
        other.add(episode(), group="g")
    fill(pool, "g")
    with pytest.raises(UsageError, match="it has its 2 episodes already"):
        pool.add(episode(2, task="g"), group="g")


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
    with again(pool) as found:
        assert found.lease("run", 1, 2, oldest_version=0) == first
        assert [group for group, _ in found.leased("run", 1)] == ["a", "a", "b", "b"]
        with pytest.raises(UsageError, match="run has 2 groups for update 1, not 1: rewind it first"):
            found.lease("run", 1, 1, oldest_version=0)


def test_a_run_that_goes_back_has_its_groups_again_in_their_order(pool):
    fill(pool, *"abcdefg")
    for update, found in enumerate(["ab", "cd", "ef"], start=1):
        assert names(pool.lease("run", update, 2, oldest_version=0)) == found
    pool.trained("run", 2)
    assert pool.counts() == {"trained": 4, "leased": 2, "complete": 1}
    pool.rewind("run", 1)
    assert pool.counts() == {"trained": 2, "leased": 4, "complete": 1}
    assert pool.lease("other", 1, 2, oldest_version=0) is None  # what is reserved is for nobody else
    assert names(pool.lease("run", 2, 3, oldest_version=0)) == "cde"
    assert names(pool.lease("run", 3, 2, oldest_version=0)) == "fg"


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


# ---- files --------------------------------------------------------------------------------------


CALLS = [*["add"] * 6, *["tag", "untag", "trainable", "drop", "reward"], *["lease"] * 2]
CALLS += ["rewind", "trained", "release"]


def random_call(pool, draws, known):
    """Do anything that may be done; add to the ids of episodes."""
    group, call, run = draws.choice("abcdef"), draws.choice(CALLS), draws.choice("rs")
    if call == "add":
        given = episode(draws.randrange(2), task=group, version=draws.randrange(3))
        options = {"labels": draws.sample("xyz", 1), "trainable": draws.random() < 0.9}
        known.append(pool.add(given, group=group, size=2, **options))
    elif call in ("tag", "untag"):
        getattr(pool, call)(group, draws.choice("xyz"))
    elif call == "trainable":
        pool.set_trainable(group, draws.random() < 0.5)
    elif call == "drop" and draws.random() < 0.2:
        pool.drop(group)
    elif call == "reward" and known:
        pool.reward(draws.choice(known), draws.random(), won=draws.choice([None, True]))
    elif call == "lease":
        pool.lease(run, draws.randrange(1, 4), 1, oldest_version=draws.randrange(2), patience=0)
    elif call in ("rewind", "trained"):
        getattr(pool, call)(run, draws.randrange(3))
    elif call == "release":
        pool.release(run)


@pytest.mark.parametrize("seed", range(3))
def test_an_index_that_is_made_anew_says_the_same(pool, monkeypatch, seed):
    monkeypatch.setattr(pool_files, "SEGMENT_SIZE", 20_000)
    draws, known = random.Random(seed), []
    for _ in range(80):
        with contextlib.suppress(UsageError):
            random_call(pool, draws, known)
    assert len(pool.counts()) > 1
    assert len(list(segment(pool).parent.iterdir())) > 1
    before = state(pool)
    with DataPool(pool.folder) as other:
        assert state(other) == before
    with again(pool) as found:
        assert state(found) == before
        assert state(pool) == before  # whose own index is deleted


@pytest.mark.parametrize("damage", [b"no database", b""])
def test_an_index_that_is_damaged_or_behind_is_made_anew(pool, damage):
    fill(pool, *"abc")
    before = state(pool)
    pool.close()
    for path in pool.folder.glob("index.sqlite-*"):
        path.unlink()
    (pool.folder / "index.sqlite").write_bytes(damage)
    with DataPool(pool.folder) as found:
        assert state(found) == before
    found = DataPool(pool.folder)
    fill(found, "d")
    segment(pool).write_bytes(b"".join(segment(pool).read_bytes().splitlines(keepends=True)[:4]))
    assert [group.name for group in found.groups()] == ["a", "b"]
    found.close()


def test_half_a_line_of_a_killed_process_is_cut_off(pool):
    fill(pool, "a")
    whole = segment(pool).read_bytes()
    for end in (b'{"episode":{"a', whole.splitlines()[0]):
        segment(pool).write_bytes(whole + end)
        with again(pool) as found:
            assert [group.name for group in found.groups()] == ["a"]
            found.tag("a", "new")
        assert segment(pool).read_bytes().startswith(whole + b'{"change"')


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda line: line.replace(b"room 1", b"room 2"), "line 2: its checksum does not fit"),
        (lambda line: b"{" + line, "line 2: it is not written as lines of a pool are"),
        (lambda line: line.replace(b'"id":"', b'"id":"0'), "line 2: it is not written"),
        (lambda line: b"", "line 2: it is not written"),
    ],
)
def test_a_damaged_line_is_named_and_never_used(pool, damage, message):
    fill(pool, "a")
    first, second = segment(pool).read_bytes().splitlines()
    segment(pool).write_bytes(first + b"\n" + damage(second) + b"\n" + first + b"\n")
    with pytest.raises(UsageError, match=message) as raised:
        again(pool)
    assert str(segment(pool)) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_line_that_is_damaged_later_is_named_when_it_is_read(pool):
    fill(pool, "a")
    content = segment(pool).read_bytes()
    segment(pool).write_bytes(content.replace(b"the end", b"THE END"))
    with pytest.raises(UsageError, match=r"000000.jsonl, line 1: its checksum .* or drop group a"):
        pool.lease("run", 1, 1, oldest_version=None)
    segment(pool).write_bytes(content)
    assert len(pool.lease("run", 1, 1, oldest_version=None)) == 1


def test_records_of_other_people_are_checked_in_every_field(pool, tmp_path):
    fill(pool, "a")
    table = json.loads(segment(pool).read_bytes().splitlines()[0])["episode"]
    other = tmp_path / "other" / "episodes"
    other.mkdir(parents=True)
    for change in (
        {"won": "yes"},
        {"more": 1},
        {"steps": [{}]},
        {"admissible_actions": []},
        {"unplayed": table["steps"][0]["completion"] | {"prompt_ids": "!"}},
        {"unplayed": table["steps"][0]["completion"] | {"prompt_ids": "AAA="}},
        {"final_image": {"shape": [2, 2, 3], "data": ""}},
    ):
        (other / "000000.jsonl").write_text(make_line("episode", table | change) + "\n")
        with pytest.raises(UsageError, match=r"000000\.jsonl, line 1: ") as raised:
            DataPool(other.parent)
        assert "\n" not in str(raised.value)


def test_a_segment_is_a_file_of_episodes_and_a_file_of_episodes_a_segment(pool, tmp_path):
    fill(pool, "a", "b")
    found = list(read_episodes(segment(pool)))
    assert [record.group for record, _ in found] == ["a", "a", "b", "b"]
    assert [played for _, played in found] == [episode(n, task=task) for task in "ab" for n in range(2)]
    segment(pool).write_bytes(segment(pool).read_bytes()[:-9])
    with pytest.raises(UsageError, match="line 4: "):
        list(read_episodes(segment(pool)))
    with pytest.raises(UsageError, match="cannot read"):
        list(read_episodes(tmp_path / "none"))


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
        before = state(pool)
        with again(pool) as found:
            assert state(found) == before


def test_a_folder_that_cannot_be_used_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot make folder"):
        DataPool(tmp_path / "file")
    assert isinstance(episode(), Trajectory)
