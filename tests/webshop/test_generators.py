"""Versions of the built-in generator, and goals divided by product."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from agentgym.envs.webshop.builtin.catalogue import SIZE
from agentgym.envs.webshop.builtin.tasks import SIZES, UNSEEN, builtin_tasks
from agentgym.envs.webshop.env import WebShopEnv


def shared_texts(**options):
    """Return the texts that goals of two splits have."""
    splits = {}
    for split in SIZES:
        for task in builtin_tasks(split, **options):
            splits.setdefault(task.content.text, set()).add(split)
    return [text for text, found in splits.items() if len(found) > 1]


@pytest.mark.parametrize(
    ("size", "seed", "split_by"),
    [
        (SIZE, 0, "goal"),
        (SIZE, 0, "product"),
        pytest.param(2_000, 3, "goal", marks=pytest.mark.slow),
        pytest.param(2_000, 3, "product", marks=pytest.mark.slow),
    ],
)
def test_no_text_is_in_two_splits(size, seed, split_by):
    assert shared_texts(size=size, seed=seed, split_by=split_by) == []


def test_generator_1_had_texts_in_two_splits():
    found = shared_texts(generator=1)
    assert len(found) == 6
    tests = {task.content.text for task in builtin_tasks("test")}
    assert len(tests & set(found)) == 3
    assert "Let us order a dust proof power bank" in found


def test_generator_2_changes_no_task_but_those_that_stand_in_for_others():
    replaced = {}
    for split in SIZES:
        old, new = builtin_tasks(split, generator=1), builtin_tasks(split)
        assert len(old) == len(new)
        replaced[split] = [i for i in range(len(old)) if old[i].id != new[i].id]
        assert not {new[i].id for i in replaced[split]} & set(old.ids)
        assert all(old[i].type == new[i].type for i in replaced[split])
        assert (old.manifest == new.manifest) == (split in ("test", UNSEEN))
    assert {split: len(found) for split, found in replaced.items()} == {
        "train": 52, "valid": 2, "test": 0, UNSEEN: 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "manifest"),
    [
        ({}, "a4907b1d1a9ff97ae4d80aaff374950a0c4f6ab078078c8e7ac5d4f2a57360a9"),
        ({"difficulty": "easy"}, "b1c8498a4185e11cdf69e0eeccdee61532f7490b18be470484521eea95c05815"),
    ],
)
def test_generator_1_is_what_earlier_versions_made(options, manifest):
    assert WebShopEnv(**options, generator=1).tasks.manifest_sha256 == manifest
    assert WebShopEnv(**options).tasks.manifest_sha256 != manifest
    assert WebShopEnv(**options, generator=2).tasks is WebShopEnv(**options).tasks


def test_divided_by_product_no_product_is_in_two_splits():
    products = {
        split: {task.content.asin for task in builtin_tasks(split, split_by="product")} for split in SIZES
    }
    assert not [pair for pair in itertools.combinations(SIZES, 2) if products[pair[0]] & products[pair[1]]]
    assert {split: len(found) for split, found in products.items()} == {
        "train": 1_877, "valid": 207, "test": 218, UNSEEN: 389,
    }  # fmt: skip
    trained = {task.content.asin for task in builtin_tasks("train")}
    share = np.mean([task.content.asin in trained for task in builtin_tasks("test")])
    assert share == pytest.approx(0.957)  # what the option is for
    by_goal, by_product = (builtin_tasks("test", split_by=by) for by in ("goal", "product"))
    assert "split_by" not in by_goal.manifest
    assert by_product.manifest["split_by"] == "product"
    hashes = {WebShopEnv(split="test", split_by=by).tasks.manifest_sha256 for by in ("goal", "product")}
    assert len(hashes) == 2


def test_goals_divided_by_product_are_the_same_in_another_process():
    program = (
        "from agentgym.envs.webshop.builtin.tasks import builtin_tasks as b; "
        "print(b('valid', split_by='product').ids[:30])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7"},
    )
    assert eval(done.stdout) == builtin_tasks("valid", split_by="product").ids[:30]


def test_an_id_is_the_same_goal_however_goals_are_divided_and_made():
    goals = {}
    for options in ({}, {"generator": 1}, {"split_by": "product"}):
        for task in builtin_tasks("valid", **options):
            assert goals.setdefault(task.id, task.content) == task.content
