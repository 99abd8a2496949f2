"""Splits: disjoint by content, where dividing by position is not; and upstream's own divisions."""

import json
import random
from collections import Counter

import numpy as np
import pytest

from agentgym.data.directory import find
from agentgym.envs.webshop.data.productfiles import read_catalogue
from agentgym.envs.webshop.data.products import Instruction, ListCatalogue, Product
from agentgym.envs.webshop.engine.goals import Prices, make_goals
from agentgym.envs.webshop.engine.world import ShopWorld
from agentgym.envs.webshop.env import WebShopEnv
from agentgym.envs.webshop.tasks import RANGES, goal_splits, goal_tasks, in_upstream_order
from agentgym.errors import UsageError
from tests.webshop.corner import WordSearch, corner_shop

COLORS = tuple(f"shade {number}" for number in range(40))


def big_shop(human=600):
    """Return a world of thirty products with forty-two options each, two of them twice."""
    shelf = [
        Product(f"B{number:09}", f"Shirt {number}", options=(("color", (*COLORS, *COLORS[:2])),))
        for number in range(30)
    ]
    synthetic = [Instruction(product.asin, "find a shirt", ("soft",)) for product in shelf]
    wishes = [
        Instruction(shelf[number % 30].asin, f"wish {number}", ("soft",), (COLORS[number % 40],))
        for number in range(human)
    ]
    catalogue = ListCatalogue(shelf, human=wishes, synthetic=synthetic)
    return ShopWorld(catalogue, WordSearch(catalogue), name="big")


def shared_contents(train, test):
    """Return the contents (product, attributes, options) that both sides have: the leak."""
    one, other = ({(goal.asin, goal.attributes, goal.options) for goal in goals} for goals in (train, test))
    return one & other


def split_goals(world, split, kind="synthetic"):
    return [task.content for task in goal_tasks(world, split, kind)]


@pytest.mark.parametrize("kind", ["human", "synthetic"])
def test_splits_share_no_content(kind):
    world = big_shop()
    parts = [split_goals(world, split, kind) for split in ("train", "valid", "test")]
    for i in range(3):
        assert not shared_contents(parts[i], parts[(i + 1) % 3])
    every = make_goals(world.catalogue, kind, world.prices)
    assert sum(map(len, parts)) == len(every)
    assert len(parts[0]) > 0.7 * len(every)
    assert all(parts)


def test_the_public_scheme_leaks():
    """Each worker shuffles the goals for itself and then takes a range of positions.

    Upstream's users seed nothing or each worker differently: what one keeps for evaluation is what
    another trains on. The same check that passes above finds it.
    """
    goals = make_goals(big_shop().catalogue, "synthetic", Prices())

    def worker(seed, first, end):
        order = list(goals)
        random.Random(seed).shuffle(order)
        return order[first:end]

    train = [goal for seed in range(4) for goal in worker(seed, 500, None)]
    test = worker(99, 0, 500)
    leaked = shared_contents(train, test)
    assert len(leaked) / len({(goal.asin, goal.options) for goal in test}) > 0.95
    # with a seed all workers share, only duplicates are on both sides
    assert shared_contents(worker(233, 500, None), worker(233, 0, 500))


def test_upstream_s_own_splits_are_ranges_of_its_order():
    world = big_shop()
    order = in_upstream_order(make_goals(world.catalogue, "synthetic", world.prices))
    assert len(order) == 30 * 42
    for split, (first, end) in RANGES.items():
        if split.startswith("upstream") and first < len(order):
            assert split_goals(world, split) == order[first:end]
    tasks = goal_tasks(world, "upstream-dev", "synthetic")
    assert [task.source_id for task in tasks[:3]] == ["500", "501", "502"]
    with pytest.raises(UsageError, match="'upstream-train' of big holds no task"):
        goal_tasks(world, "upstream-train", "synthetic")


def test_the_shuffle_is_upstream_s():
    """``random.seed(233); random.shuffle(goals)``, as Python does it in every version."""
    assert in_upstream_order(range(10)) == [5, 9, 0, 1, 4, 7, 6, 3, 8, 2]


@pytest.mark.parametrize("kind", ["human", "synthetic"])
def test_divided_by_product_no_product_is_in_two_splits(kind):
    world = big_shop()
    parts = {
        split: goal_tasks(world, split, kind, split_by="product") for split in ("train", "valid", "test")
    }
    products = {split: {task.content.asin for task in tasks} for split, tasks in parts.items()}
    for one, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
        assert not products[one] & products[other]
    assert sum(map(len, parts.values())) == len(make_goals(world.catalogue, kind, world.prices))
    assert parts["test"].manifest["split_by"] == "product"
    assert "split_by" not in goal_tasks(world, "test", kind).manifest
    ids = {task.source_id: task.id for split in products for task in goal_tasks(world, split, kind)}
    assert {task.source_id: task.id for tasks in parts.values() for task in tasks} == ids
    with pytest.raises(UsageError, match="split 'upstream-dev' is by number: leave out split_by, or choose"):
        goal_tasks(world, "upstream-dev", kind, split_by="product")


def test_splits_that_have_tasks():
    shop = corner_shop()
    assert goal_splits(shop, "human", split_by="goal") == ("train", "papers", "upstream-test")
    assert goal_splits(shop, "synthetic", split_by="goal") == ("train", "valid", "test", "upstream-test")
    assert goal_splits(big_shop(), "human", split_by="product") == ("train", "valid", "test")
    for kind in ("human", "synthetic"):
        for split in goal_splits(big_shop(), kind, split_by="goal"):
            assert len(goal_tasks(big_shop(), split, kind)) > 0


@pytest.mark.assets
def test_the_published_goals_by_product():
    """97 % of the test goals are for products that have training goals: unless products are divided."""
    parts = {
        (by, split): [
            task.content.asin for task in WebShopEnv(dataset="webshop/small", split=split, split_by=by).tasks
        ]
        for by in ("goal", "product")
        for split in ("train", "valid", "test")
    }
    trained = set(parts["goal", "train"])
    assert np.mean([asin in trained for asin in parts["goal", "test"]]) == pytest.approx(0.971, abs=5e-4)
    sizes = {split: (len(found), len(set(found))) for (by, split), found in parts.items() if by == "product"}
    assert sizes == {"train": (6_180, 343), "valid": (180, 36), "test": (550, 36)}
    products = [set(parts["product", split]) for split in ("train", "valid", "test")]
    assert not products[0] & products[1] | products[0] & products[2] | products[1] & products[2]


@pytest.mark.assets
def test_the_published_goals_are_divided_without_a_leak():
    parts = [
        [task.content for task in WebShopEnv(dataset="webshop/small", split=split).tasks]
        for split in ("train", "valid", "test")
    ]
    assert sum(map(len, parts)) == 6910
    for i in range(3):
        assert parts[i]
        assert not shared_contents(parts[i], parts[(i + 1) % 3])


@pytest.mark.assets
def test_the_order_is_that_of_goals_that_others_have_written_down():
    lines = find("webshop/goals_small_6910.jsonl").read_text().splitlines()
    catalogue = read_catalogue(find("webshop/products_1000.jsonl"), find("webshop/items_ins_v2_1000.json"))
    ours = in_upstream_order(make_goals(catalogue, "synthetic", Prices()))
    assert [goal.asin for goal in ours] == [json.loads(line)["asin"] for line in lines]


def test_the_papers_evaluate_on_the_first_500_human_goals():
    world = big_shop()
    order = in_upstream_order(make_goals(world.catalogue, "human", world.prices))
    assert split_goals(world, "papers", "human") == order[:500]
    assert split_goals(world, "papers-train", "human") == order[500:]
    assert len(WebShopEnv(dataset=world, split="papers").tasks) == 500
    with pytest.raises(UsageError, match="split 'papers' is of human goals: pass goals='human'"):
        WebShopEnv(dataset=world, split="papers", goals="synthetic")


def test_a_task_has_one_id_in_all_splits():
    world = big_shop()
    everywhere = {}
    for split in ("train", "valid", "test", "upstream-test", "upstream-dev"):
        for task in goal_tasks(world, split, "synthetic"):
            assert everywhere.setdefault(task.source_id, task.id) == task.id
    assert len(set(everywhere.values())) == 30 * 42
    duplicates = [name for name in everywhere.values() if "-" in name]
    assert len(duplicates) == 30 * 2
    assert {name.partition("-")[2] for name in duplicates} == {"2"}


def test_tasks_are_drawn_by_weight():
    tasks = goal_tasks(corner_shop(), "upstream-test", "synthetic")
    rng = np.random.default_rng(0)
    drawn = Counter(tasks.draw(rng).id for _ in range(4000))
    total = sum(task.content.weight for task in tasks)
    for task in tasks:
        assert drawn[task.id] / 4000 == pytest.approx(task.content.weight / total, abs=0.015)


def test_ids_follow_from_goals():
    tasks = goal_tasks(corner_shop(), "upstream-test", "synthetic")
    tasks.verify()
    assert tasks.manifest["goals"] == "synthetic"
    assert tasks.manifest["tagger"] == "words"
    assert tasks.find("0") == tasks[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "tests"}, r"unknown split 'tests' \(did you mean 'test'\?\)"),
        ({"difficulty": "hard"}, "difficulty is an option of built-in goals: leave it out with corner"),
        ({"generator": 2}, "generator is an option of built-in goals: leave it out with corner"),
        ({"split_by": "goals"}, r"unknown split_by 'goals' \(did you mean 'goal'\?\)"),
        ({"goals": "humane"}, r"unknown goals 'humane' \(did you mean 'human'\?\)"),
        ({"observation": "rich"}, r"unknown observation 'rich' \(did you mean 'text_rich'\?\)"),
        ({"parity": "down"}, "unknown parity 'down'"),
        ({"tagger": "blank-en"}, "corner was made with the tagger 'words': leave out tagger"),
        ({"noise": 2}, "noise must be a number from 0 to 1, got 2"),
        ({"noise": 0.5, "adverts": 0}, "adverts must be a whole number of at least 1, got 0"),
        ({"previous_actions": -1}, "previous_actions must be a whole number of at least 0, got -1"),
    ],
)
def test_what_is_wrong_is_said(options, message):
    with pytest.raises(UsageError, match=message):
        WebShopEnv(dataset=corner_shop(), **options)


def test_goals_that_a_data_set_lacks_are_named():
    shelf = ListCatalogue([Product("A", "a")], human=[Instruction("A", "get a", ("b",), ())])
    world = ShopWorld(shelf, WordSearch(shelf), name="tiny")
    with pytest.raises(UsageError, match="tiny has no synthetic goals: pass goals='human'"):
        WebShopEnv(dataset=world, goals="synthetic")
    with pytest.raises(UsageError, match="the built-in data set has goals of its own"):
        WebShopEnv(goals="human")
