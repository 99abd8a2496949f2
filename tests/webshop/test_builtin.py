"""The built-in shop: the same everywhere, honest about what it sells, and wishes that can be met."""

import itertools
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest

from agentgym.agents import make_agent
from agentgym.core.hashing import sha256_json
from agentgym.core.tasks import split_of
from agentgym.envs.webshop.builtin import tasks as tasks_module
from agentgym.envs.webshop.builtin.catalogue import SIZE, builtin_catalogue
from agentgym.envs.webshop.builtin.choices import OPTIONS
from agentgym.envs.webshop.builtin.departments import DEPARTMENTS, EVERYWHERE, plain
from agentgym.envs.webshop.builtin.goals import (
    DIFFICULTIES,
    HELD_OUT,
    KINDS,
    LEVELS,
    NEAR_MISSES,
    UNINDEXED,
    ProductIndex,
    unindexed,
)
from agentgym.envs.webshop.builtin.product_templates import BRANDS, brand
from agentgym.envs.webshop.builtin.tasks import SIZES, UNSEEN, builtin_tasks
from agentgym.envs.webshop.engine.goals import NO_LIMIT
from agentgym.envs.webshop.engine.purchases import choosable
from agentgym.envs.webshop.engine.reward import colour_of, resemble
from agentgym.envs.webshop.engine.visit import Visit
from agentgym.envs.webshop.env import WebShopEnv
from agentgym.errors import UsageError
from agentgym.rollout.worker import RolloutWorker
from agentgym.vector.serial import SerialVectorEnv

MARKED = {
    attribute
    for department in DEPARTMENTS
    for kind in department.kinds
    for attribute in (*kind.attributes, *department.attributes, *EVERYWHERE)
}
ATTRIBUTES = sorted({plain(attribute) for attribute in MARKED})
VALUES = sorted({value for _, values in OPTIONS.values() for value in values})


@pytest.fixture(scope="module")
def products():
    catalogue = builtin_catalogue()
    return [catalogue.product(i) for i in range(len(catalogue))]


@pytest.fixture(scope="module")
def world():
    return WebShopEnv().world


def all_tasks():
    return [task for split in SIZES for task in builtin_tasks(split)]


# ---- words ----------------------------------------------------------------------------------------


def test_there_are_a_dozen_departments_of_six_kinds():
    assert [len(department.kinds) for department in DEPARTMENTS] == [6] * 12
    assert len(KINDS) == len({kind.noun for kind in KINDS.values()}) == 72
    assert [len(kind.also_called) for kind in KINDS.values()] == [2] * 72
    assert len({brand(number) for number in range(BRANDS)}) == BRANDS


def test_no_attribute_is_something_to_be_for_one_kind_and_to_have_for_another():
    assert len(ATTRIBUTES) == len(MARKED) > 500


def test_no_attribute_or_value_passes_for_another():
    assert not [pair for pair in itertools.combinations(ATTRIBUTES, 2) if resemble(*pair)]
    colours = [(one, colour_of(one)) for one in VALUES]
    assert not [
        (one, other)
        for (one, left), (other, right) in itertools.combinations(colours, 2)
        if resemble(left, right)
    ]
    assert resemble("water proof", "proof water")


# ---- catalogue ------------------------------------------------------------------------------------


def test_products_never_change(products):
    assert (
        sha256_json([asdict(product) for product in products])
        == "0e368b5f0a919eb20900a6356aaa62738c069a53015c5dce7e0ae75108b6b344"
    )


def test_a_smaller_catalogue_is_the_beginning_of_a_larger_one(products):
    assert [builtin_catalogue(2_000).product(i) for i in range(2_000)] == products[:2_000]


def test_another_seed_gives_other_products(products):
    other = builtin_catalogue(2_000, seed=1)
    mine = {product.asin for product in products}
    assert not [i for i in range(1000) if other.product(i).asin in mine]
    titles = {product.title for product in products}
    assert sum(other.product(i).title in titles for i in range(1000)) < 10


@pytest.mark.parametrize(("size", "seed"), [(1999, 0), (True, 0), ("2000", 0), (2000, -1), (2000, 0.5)])
def test_a_catalogue_that_cannot_be_is_refused(size, seed):
    with pytest.raises(UsageError, match="built-in shop"):
        builtin_catalogue(size, seed)


def test_products_are_well_formed(products):
    assert len(products) == SIZE
    assert len({product.asin for product in products}) == len({product.title for product in products}) == SIZE
    for product in products:
        assert len(product.asin) == 10
        assert len(product.pricing) in (1, 2)
        assert 0 < product.pricing[0] == min(product.pricing) < 1000
        assert 1 <= len(product.bullets) <= 8
        assert all(product.bullets)
        assert 2 <= len(product.attributes) == len(set(product.attributes)) <= 7
        values = [value for _, values in product.options for value in values]
        assert len(choosable(product)) == len(values)
        assert product.product_category.count(" \u203a ") == 2


def test_texts_tell_each_attribute_and_no_other(products):
    for product in products:
        text = "\n".join((product.title, " ".join(product.bullets), product.description)).lower()
        assert {attribute for attribute in ATTRIBUTES if attribute in text} == set(product.attributes)


def test_products_are_about_as_the_real_ones(products):
    """The ranges hold the figures of the 1,000 products that WebShop publishes as its small set."""
    assert 16 <= np.median([len(product.title.split()) for product in products]) <= 21  # 18
    assert 0.25 <= np.mean([not product.description for product in products]) <= 0.35  # 0.30
    assert 4 <= np.median([len(product.bullets) for product in products]) <= 6  # 5
    assert 110 <= np.mean([len(product.indexed_text.split()) for product in products]) <= 140  # 124
    assert 0.05 <= np.mean([len(product.pricing) == 2 for product in products]) <= 0.12  # 0.093
    assert 3 <= np.median([len(values) for p in products for _, values in p.options]) <= 5  # 4
    told = [attribute in p.indexed_text for p in products for attribute in p.attributes]
    assert 0.4 <= np.mean(told) <= 0.6  # 0.48


def test_most_products_have_others_that_are_almost_the_same(products):
    by_kind = {}
    for product in products:
        by_kind.setdefault(product.query, []).append(product)
    close = 0
    for product in products:
        mine = set(product.attributes)
        close += any(
            len(mine - set(other.attributes)) <= 1 for other in by_kind[product.query] if other is not product
        )
    assert close > 0.8 * len(products)


# ---- wishes ---------------------------------------------------------------------------------------


def test_ids_are_all_different_and_every_task_belongs_to_its_split():
    seen = set()
    for split, size in SIZES.items():
        tasks = builtin_tasks(split)
        assert len(tasks) == size == len(list(tasks))
        for task in tasks:
            assert (task.metadata["kind"] in HELD_OUT) == (split == UNSEEN)
            assert split == UNSEEN or split_of(task.id) == split
            seen.add(task.id)
        counts = Counter(task.type for task in tasks)
        assert set(counts) == set(DIFFICULTIES)
        assert max(counts.values()) - min(counts.values()) <= 1
    assert len(seen) == sum(SIZES.values())


def test_wishes_never_change():
    wishes = {
        split: [(task.id, task.content.text, task.content.price_upper) for task in builtin_tasks(split)[:100]]
        for split in SIZES
    }
    assert sha256_json(wishes) == "46eeaa242ef3f285e0630e7e0ca3924a06a7ad7fc3a76e4ede71902d5fdb48b9"


def test_a_wish_says_all_that_is_asked_for():
    for task in all_tasks():
        goal = task.content
        for wanted in (*goal.attributes, *goal.options):
            assert wanted in goal.text
        assert KINDS[task.metadata["kind"]].noun in goal.text
        limit = f"{goal.price_upper:.2f} dollars"
        assert (limit in goal.text) == (goal.price_upper < NO_LIMIT)
        assert "  " not in goal.text


def test_a_difficulty_is_what_it_says(world):
    limits = {difficulty: [] for difficulty in DIFFICULTIES}
    for task in all_tasks():
        goal, level = task.content, LEVELS[task.type]
        product = world.item(goal.asin)
        assert level.attributes[0] <= len(goal.attributes) <= level.attributes[1]
        assert level.options[0] <= len(goal.options) <= level.options[1]
        assert goal.price_upper >= max(product.pricing)
        limits[task.type].append(goal.price_upper / max(product.pricing))
        if task.type == "hard":
            assert task.metadata["alternatives"] == 0
            assert task.metadata["near_misses"] >= NEAR_MISSES
            assert len(unindexed(product, goal.attributes)) >= UNINDEXED
    easy, medium, hard = (np.median(limits[difficulty]) for difficulty in DIFFICULTIES)
    assert hard < 1.1 < medium < easy


def test_the_purchase_a_wish_is_made_from_scores_1(world):
    for task in all_tasks()[::7]:
        goal = task.content
        offers = choosable(world.item(goal.asin))
        chosen = tuple(sorted((offers[value], value) for value in goal.options))
        assert world.score(Visit(asin=goal.asin, options=chosen), goal).total == 1.0


@pytest.mark.parametrize("split", ["valid", UNSEEN])
def test_brute_force_finds_the_purchases_that_are_known_and_no_others(world, products, split):
    shelf = ProductIndex(world.catalogue)
    for task in builtin_tasks(split)[:6]:
        goal = task.content
        known = shelf.meeting(shelf.requirements(goal.attributes, goal.options, goal.price_upper))
        found = {i for i, product in enumerate(products) if best_score(world, goal, product) == 1.0}
        assert world.catalogue.index_of(goal.asin) in found
        for i, product in enumerate(products):
            affordable = world.prices.of(product) <= goal.price_upper
            of_type = world.score(Visit(asin=product.asin), goal).type == 1.0
            assert (i in found) == bool(known >> i & 1 and affordable and of_type)
        if task.type == "hard":
            assert len(found) == 1


def best_score(world, goal, product):
    """Return the highest score of a product over all choices; of those that could not score 1, a bound."""
    everything = tuple((name, value) for name, values in product.options for value in values)
    bound = world.score(Visit(asin=product.asin, options=everything), goal).total
    if bound < 1.0:
        return bound
    names = sorted(name for name, _ in product.options)
    values = dict(product.options)
    return max(
        world.score(Visit(asin=product.asin, options=tuple(zip(names, choice, strict=True))), goal).total
        for choice in itertools.product(*(values[name] for name in names))
    )


def test_facts_about_a_wish_are_what_counting_gives(products):
    shelf = ProductIndex(builtin_catalogue())
    for task in builtin_tasks("test")[:60]:
        goal, kind = task.content, task.metadata["kind"]
        missed = []
        for product in products:
            values = {value for _, values in product.options for value in values}
            lacking = [attribute for attribute in goal.attributes if attribute not in product.attributes]
            lacking += [value for value in goal.options if value not in values]
            lacking += ["price"] * (min(product.pricing) > goal.price_upper)
            if product.query == kind:
                missed.append(len(lacking))
        assert missed.count(0) == task.metadata["alternatives"] + 1
        assert missed.count(1) == task.metadata["near_misses"]
    assert shelf.meeting([]).bit_count() == len(products)


def test_search_rarely_puts_the_wished_for_first_but_always_leads_to_it(world):
    first = 0
    for task in builtin_tasks("valid")[:300]:
        place = world.catalogue.index_of(task.content.asin)
        first += world.found(task.content.text.lower())[0] == place
        assert place in world.found(world.item(task.content.asin).title.lower())
    assert first < 0.3 * 300


# ---- task sets ------------------------------------------------------------------------------------


def test_tasks_are_the_same_in_another_process_and_in_any_order():
    wanted = {split: [task.id for task in builtin_tasks(split)[:40]] for split in SIZES}
    program = (
        "from agentgym.envs.webshop.builtin.tasks import builtin_tasks as b\n"
        f"print({{s: [t.id for t in b(s)[39::-1]][::-1] for s in {tuple(reversed(SIZES))}}})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert eval(done.stdout) == wanted


def test_a_difficulty_selects_tasks_of_the_whole_split():
    whole = {task.id for task in builtin_tasks("valid")}
    parts = [{task.id for task in builtin_tasks("valid", difficulty=name)} for name in DIFFICULTIES]
    assert set.union(*parts) == whole
    assert sum(map(len, parts)) == len(whole)
    assert {task.type for task in builtin_tasks("test", difficulty="hard")} == {"hard"}
    hashes = {builtin_tasks("valid", difficulty=name).manifest_sha256 for name in (None, *DIFFICULTIES)}
    assert len(hashes) == 4


def test_a_split_goes_on_for_as_long_as_one_likes():
    longer = builtin_tasks("test", count=1_500)
    assert [task.id for task in longer[:1_000]] == [task.id for task in builtin_tasks("test")]
    assert len({task.id for task in longer}) == 1_500
    assert longer.manifest_sha256 != builtin_tasks("test").manifest_sha256


def test_the_smallest_shop_has_enough_to_wish_for():
    for difficulty in ("easy", "hard"):
        ids = {task.id for task in builtin_tasks("train", size=2_000, difficulty=difficulty)}
        assert len(ids) in (3_333, 3_334)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "valdi"}, "did you mean 'valid'"),
        ({"split": "test", "difficulty": "hrad"}, "did you mean 'hard'"),
        ({"split": "test", "size": 10}, "at least 2000 products"),
        ({"split": "test", "seed": -1}, "whole number"),
        ({"split": "test", "count": 0}, "at least 1"),
        ({"split": "test", "split_by": "prodct"}, r"unknown split_by 'prodct' \(did you mean 'product'\?\)"),
        ({"split": "test", "generator": 3}, "unknown generator 3; choose one of 1, 2, None"),
        ({"split": "test", "generator": True}, "unknown generator True; choose one of 1, 2, None"),
        ({"split": "test", "generator": [1]}, "unknown generator .*choose one of 1, 2, None"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(options, message):
    with pytest.raises(UsageError, match=message) as caught:
        builtin_tasks(**options)
    assert "\n" not in str(caught.value)


def test_a_shop_in_which_nothing_new_can_be_wished_for_says_so(monkeypatch):
    monkeypatch.setattr(tasks_module, "EXHAUSTED", 12)
    tasks = builtin_tasks("test_unseen", size=2_000, seed=9, difficulty="easy", count=300_000)
    with pytest.raises(UsageError, match=r"2000 products has no more than \d+ easy goals"):
        list(tasks)


def test_tasks_verify_themselves():
    tasks = builtin_tasks("valid")
    tasks.verify()
    task = tasks[3]
    tasks._made[3] = replace(task, id="0" * 32)
    try:
        with pytest.raises(UsageError, match=f"{task.source_id} is not the one its id 0+ says"):
            tasks.verify()
    finally:
        tasks._made[3] = task


def test_the_name_of_the_data_set_gives_size_and_seed():
    env = WebShopEnv(dataset="builtin:2200:5", split="test")
    assert len(env.world.catalogue) == 2_200
    assert env.world.catalogue.sha256 == builtin_catalogue(2_200, 5).sha256
    env.reset(seed=0)
    assert env.task.source_id.startswith("builtin/5/seen/")
    assert env.data_key != WebShopEnv(split="test").data_key
    for name in ("builtin:", "builtin:many", "builtin:3000:1:1", "builtin:3000:-1", "builtin:12"):
        with pytest.raises(UsageError, match=r"builtin:SIZE|at least 2000"):
            WebShopEnv(dataset=name)


def test_asking_for_a_task_makes_no_more_than_it_takes(monkeypatch):
    made = []
    tasks = builtin_tasks("train", seed=3, size=2_000)
    shop = tasks._streams[0]._shop
    make_goal = shop.make_goal
    monkeypatch.setattr(
        shop, "make_goal", lambda *given, **options: made.append(given) or make_goal(*given, **options)
    )
    assert len(tasks) == 10_000
    tasks[5]
    assert 1 <= len(made) < 50


# ---- difficulty -----------------------------------------------------------------------------------


def scores_of(agent, difficulty, count):
    envs = SerialVectorEnv(
        8, env_class=WebShopEnv, split="test", difficulty=difficulty, autoreset_mode="Disabled"
    )
    worker = RolloutWorker(envs, make_agent(agent, envs), env_id="agentgym/WebShop-v0")
    groups = worker.collect([task.id for task in envs.tasks[:count]], group_size=1, seed=0)
    return [trajectory.score for group in groups for trajectory in group.trajectories]


def test_buying_the_first_hit_goes_worse_the_harder_the_wish():
    scores = [scores_of("shopper", difficulty, 330) for difficulty in DIFFICULTIES]
    easy, medium, hard = map(np.mean, scores)
    assert easy > medium > hard
    assert easy > hard + 0.1
    easy, medium, hard = (np.mean(np.equal(each, 1.0)) for each in scores)
    assert easy > 1.2 * medium > 2.5 * hard > 0


def test_random_play_earns_next_to_nothing():
    scores = scores_of("random", None, 120)
    assert np.mean(scores) < 0.15
    assert np.mean(np.equal(scores, 1.0)) < 0.05
