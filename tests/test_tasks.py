"""Task sets: order, names, draws, duplicates, manifests, splits of generated items."""

import pickle
from collections import Counter

import numpy as np
import pytest

from agentgym import Task, UsageError
from agentgym.core.hashing import content_id, sha256_json
from agentgym.core.tasks import DEFAULT_SIZES, ListTaskSet, check_split, split_of
from agentgym.errors import nearest


def task(content, source=None):
    return Task(content_id(content), content, source_id=source or f"file#{content}")


def listed(contents="abc", **options):
    return ListTaskSet("train", [task(c) for c in contents], **({"dataset": "d", "suite": "s"} | options))


def test_a_list_is_a_sequence():
    tasks = listed()
    assert len(tasks) == 3
    assert [each.content for each in tasks] == ["a", "b", "c"]
    assert tasks[-1] == tasks[2]
    assert [each.content for each in tasks[1:]] == ["b", "c"]
    assert tasks.ids == [content_id(c) for c in "abc"]
    for index in (3, -4):
        with pytest.raises(IndexError, match="tasks 0 to 2"):
            tasks[index]


def test_tasks_are_found_by_either_name():
    tasks = listed()
    assert tasks.find(content_id("b")).content == tasks.find("file#b").content == "b"
    assert content_id("b") in tasks
    assert "file#b" in tasks
    assert tasks[1] in tasks
    assert "file#z" not in tasks
    assert 3 not in tasks


@pytest.mark.parametrize("key", ["file#z", "", 3, None, ["file#a"]])
def test_an_unknown_name_is_one_line_that_helps(key):
    with pytest.raises(
        UsageError, match=r"no task .* in split 'train' \(3 tasks\); take one of env.tasks.ids"
    ) as caught:
        listed().find(key)
    assert "\n" not in str(caught.value)


def test_duplicates_are_numbered():
    tasks = ListTaskSet("train", [task("a", f"file#{n}") for n in range(3)], dataset="d", suite="s")
    name = content_id("a")
    assert tasks.ids == [name, f"{name}-2", f"{name}-3"]
    assert [tasks.find(key).source_id for key in (name, f"{name}-2", "file#2")] == [
        "file#0",
        "file#1",
        "file#2",
    ]
    tasks.verify()


def test_an_empty_split_is_refused():
    with pytest.raises(UsageError, match="holds no task"):
        listed("")


def test_a_manifest_pins_content_order_and_origin():
    hashes = [
        listed().manifest_sha256,
        listed("acb").manifest_sha256,
        listed("ab").manifest_sha256,
        listed("abd").manifest_sha256,
        listed(dataset="e").manifest_sha256,
        listed(suite="t").manifest_sha256,
    ]
    assert len(set(hashes)) == len(hashes)
    assert listed().manifest_sha256 == hashes[0] == sha256_json(listed().manifest)


def test_draws_are_uniform_and_follow_the_generator():
    tasks = listed("abcdefgh")
    draw = [tasks.draw(rng := np.random.Generator(np.random.PCG64(5))).content]
    draw += [tasks.draw(rng).content for _ in range(7_999)]
    again = np.random.Generator(np.random.PCG64(5))
    assert [tasks.draw(again).content for _ in range(8_000)] == draw
    counts = Counter(draw)
    assert set(counts) == set("abcdefgh")
    assert all(abs(count - 1_000) < 5 * np.sqrt(1_000) for count in counts.values())


def test_verify_finds_ids_that_lead_elsewhere():
    tasks = listed()
    tasks._by_key[content_id("a")] = 1
    with pytest.raises(UsageError, match="task 0 of split 'train'"):
        tasks.verify()


def test_tasks_travel():
    tasks = pickle.loads(pickle.dumps(listed()))
    assert list(tasks) == list(listed())
    assert tasks.manifest_sha256 == listed().manifest_sha256


def test_split_of_is_the_id_modulo_100():
    expected = [*["test"] * 10, *["valid"] * 10, *["train"] * 80]
    assert [split_of(f"{n:032x}") for n in range(100)] == expected
    assert split_of(f"{3:032x}-2") == "test"


def test_unknown_splits_name_the_nearest():
    with pytest.raises(
        UsageError, match=r"unknown split 'vaild' \(did you mean 'valid'\?\); choose one of train, valid"
    ):
        check_split("vaild", DEFAULT_SIZES)
    assert nearest("qqqq", DEFAULT_SIZES) == ""
    assert nearest(None, DEFAULT_SIZES) == ""
