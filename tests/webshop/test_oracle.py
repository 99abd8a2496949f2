"""The oracle makes the best purchase there is, from wherever it is put."""

import itertools
import os
from collections import Counter
from pathlib import Path

import pytest

from agentgym.agents import make_agent
from agentgym.envs.webshop.builtin.tasks import SIZES
from agentgym.envs.webshop.data.productfiles import read_catalogue
from agentgym.envs.webshop.data.products import ListCatalogue, Product
from agentgym.envs.webshop.engine import purchases as module
from agentgym.envs.webshop.engine.goals import Goal, Prices, make_goals
from agentgym.envs.webshop.engine.purchases import best_choice, purchases
from agentgym.envs.webshop.engine.visit import Visit
from agentgym.envs.webshop.engine.world import ShopWorld
from agentgym.envs.webshop.env import WebShopEnv
from agentgym.envs.webshop.oracle import WebShopOracle
from agentgym.retrieval.engines.bm25 import build_bm25
from agentgym.rollout.worker import RolloutWorker
from agentgym.vector.serial import SerialVectorEnv
from tests.policy_requests import request_of


def play(env, oracle, info):
    """Let the oracle finish an episode; return its actions and the last info."""
    actions = []
    while info["admissible_actions"]:
        (completion,) = oracle.act([request_of(env, info)])
        *_, info = env.step(completion.action)
        assert info["action_is_valid"], completion.action
        actions.append(completion.action)
    return actions, info


def shop(products, **options):
    """Return a world of some products."""
    catalogue = ListCatalogue(products)
    documents = [(product.asin, product.indexed_text) for product in products]
    return ShopWorld(catalogue, build_bm25(documents, corpus="test"), name="test", **options)


# ---- built-in -------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", SIZES)
def test_it_buys_what_scores_1_in_as_few_steps_as_there_are(split):
    env = WebShopEnv(split=split)
    oracle = env.oracle()
    for task in env.tasks[:200]:
        _, info = env.reset(options={"task": task.id})
        actions, end = play(env, oracle, info)
        assert (end["won"], end["score"], end["progress"]) == (True, 1.0, 1.0)
        assert len(actions) == 3 + len(task.content.options)


def test_it_goes_on_from_wherever_it_is_put():
    env = WebShopEnv(split="valid", difficulty="hard", max_steps=60)
    oracle = env.oracle()
    for task in env.tasks[:6]:
        product = env.world.item(task.content.asin)
        hits = env.world.found("present")
        other = env.world.at(next(i for i in hits if env.world.at(i).asin != product.asin))
        open_product = [f"search[{product.title}]", f"click[{product.asin}]"]
        values = product.options[0][1]
        for detour in (
            ["click[back to search]"],
            ["search[zzz]"],
            ["search[present]", "click[next >]", "click[next >]"],
            [f"search[{product.title}]", "click[next >]"],
            [f"search[{product.title}]", *["click[next >]"] * 4],
            ["search[present]", f"click[{other.asin}]"],
            ["search[present]", f"click[{other.asin}]", "click[features]"],
            [*open_product, "click[description]"],
            [*open_product, *(f"click[{value}]" for value in values)],
            [*open_product, *(f"click[{value}]" for value in values), "click[reviews]"],
        ):
            _, info = env.reset(options={"task": task.id})
            for action in detour:
                *_, info = env.step(action)
            actions, end = play(env, oracle, info)
            assert end["score"] == 1.0, (detour, actions)
            assert len(actions) <= 4 + len(product.options) + 1


def test_it_goes_back_a_page_where_that_is_nearer_than_searching_anew():
    copies = [Product(f"C{i:09}", f"desk lamp {'tall ' * (i % 7)}", query="lamps") for i in range(60)]
    world = shop(copies)
    oracle = WebShopOracle(world)
    wanted = next(copy for copy in copies if (plan := oracle.plan(wish(copy))) is not None and plan.page == 2)
    plan = oracle.plan(wish(wanted))
    asked = [oracle._click(plan, Visit("results", plan.query, number)) for number in (1, 2, 3, 5)]
    assert asked == ["next >", wanted.asin.lower(), "< prev", None]


def test_it_takes_the_query_that_shows_the_product_on_the_earliest_page():
    env = WebShopEnv(split="test")
    oracle = env.oracle()
    for task in env.tasks[:50]:
        plan = oracle.plan(task.content)
        assert plan.purchase.asin == task.content.asin
        place = env.world.catalogue.index_of(task.content.asin)
        assert place in env.world.found(plan.query)[10 * (plan.page - 1) : 10 * plan.page]


def test_it_plays_many_episodes_at_once():
    envs = SerialVectorEnv(8, env_class=WebShopEnv, split="test", autoreset_mode="Disabled")
    agent = make_agent("oracle", envs)
    tasks = [task.id for task in envs.tasks[:12]]
    worker = RolloutWorker(envs, agent, env_id="agentgym/WebShop-v0")
    groups = worker.collect(tasks, group_size=2, seed=0)
    assert [one.score for group in groups for one in group.trajectories] == [1.0] * 24


# ---- where the product wished for is not the best -------------------------------------------------


def wish(product, *, attributes=(), options=(), limit=1000.0):
    return Goal(product.asin, f"a {product.title}", attributes, options, limit)


LAMP = Product(
    "L000000001",
    "Desk Lamp",
    query="lamps",
    options=(("color", ("dark red", "sky blue")), ("size", ("small", "large"))),
    attributes=("brass foot",),
    pricing=(20.0,),
)
BETTER = Product(
    "L000000002",
    "Desk Lamp Two",
    query="lamps",
    options=(("colour", ("light green",)), ("size", ("small", "tiny"))),
    attributes=("brass foot", "cloth shade"),
    pricing=(30.0,),
)
RUG = Product("R000000001", "Wool Rug", query="rugs", attributes=("brass foot", "cloth shade"))


def test_the_best_is_found_even_where_the_product_wished_for_is_not_it():
    world = shop([LAMP, BETTER, RUG])
    goal = wish(LAMP, attributes=("brass foot", "cloth shade"), options=("small",), limit=40.0)
    ranked = list(purchases(world, goal))
    assert [(purchase.asin, purchase.options) for purchase in ranked] == [
        (BETTER.asin, (("size", "small"),)),
        (LAMP.asin, (("size", "small"),)),
        (RUG.asin, ()),
    ]
    assert [purchase.score for purchase in ranked] == [1.0, 0.75, 0.0]
    assert WebShopOracle(world).plan(goal).purchase == ranked[0]


def test_of_equal_purchases_that_of_the_product_wished_for_comes_first():
    twin = Product("L000000000", LAMP.title, query="lamps", attributes=LAMP.attributes, pricing=(20.0,))
    world = shop([twin, LAMP])
    for goal in (wish(LAMP, attributes=("brass foot",)), wish(LAMP, attributes=("not there",))):
        found = list(purchases(world, goal))
        assert [purchase.asin for purchase in found] == [LAMP.asin, twin.asin]
        assert found[0].score == found[1].score


def test_a_value_that_meets_two_wishes_is_chosen_once():
    world = shop([LAMP])
    goal = wish(LAMP, options=("sky blue", "pale blue", "large"))
    assert best_choice(world, goal, LAMP).options == (("color", "sky blue"), ("size", "large"))
    assert best_choice(world, goal, LAMP).score == 1.0


def test_one_value_of_each_option_is_chosen():
    world = shop([LAMP])
    goal = wish(LAMP, options=("sky blue", "dark red"))
    purchase = best_choice(world, goal, LAMP)
    assert len(purchase.options) == 1
    assert purchase.score == pytest.approx(2 / 3)


def test_what_cannot_be_chosen_is_not():
    odd = Product(
        "O000000001",
        "Odd Lamp",
        query="lamps",
        options=(("first", ("x", "buy now", "a [b] c")), ("second", ("x",))),
        pricing=(20.0,),
    )
    world = shop([odd])
    assert best_choice(world, wish(odd, options=("x",)), odd).options == (("second", "x"),)
    for value in ("buy now", "a [b] c"):
        assert best_choice(world, wish(odd, options=(value,)), odd).options == ()


def test_a_product_that_search_does_not_lead_to_is_not_planned_for():
    world = shop([LAMP, BETTER])
    goal = wish(LAMP, attributes=("brass foot",))
    hidden = WebShopOracle(shop([LAMP, BETTER]))
    hidden._world.found = lambda query: (1,)
    assert WebShopOracle(world).plan(goal).purchase.asin == LAMP.asin
    assert hidden.plan(goal).purchase.asin == BETTER.asin
    hidden = WebShopOracle(shop([LAMP, BETTER]))
    hidden._world.found = lambda query: ()
    assert hidden.plan(goal) is None


def test_queries_hold_nothing_that_an_action_cannot_say():
    lamp = Product("L000000003", "Lamp [new]\nwith Foot", query="lamps")
    plan = WebShopOracle(shop([lamp])).plan(wish(lamp))
    assert not set("[]\n") & set(plan.query)


def test_large_catalogues_are_not_gone_through(monkeypatch):
    monkeypatch.setattr(module, "EXHAUSTIVE", 2)
    filler = [Product(f"F{i:09}", f"thing {i}", query="things") for i in range(80)]
    world = shop([LAMP, BETTER, *filler])
    goal = wish(LAMP, attributes=("brass foot", "cloth shade"), limit=40.0)
    found = list(purchases(world, goal))
    assert found[0].asin == BETTER.asin
    assert len(found) < 10


# ---- official data --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    """Return the world of the 1,000 published products."""
    folder = Path(os.environ["AGENTGYM_DATA"]) / "webshop"
    catalogue = read_catalogue(folder / "products_1000.jsonl", folder / "items_ins_v2_1000.json")
    products = [catalogue.product(i) for i in range(len(catalogue))]
    documents = [(product.asin, product.indexed_text) for product in products]
    return ShopWorld(catalogue, build_bm25(documents, corpus="small"), name="small")


@pytest.mark.assets
def test_some_published_goals_cannot_be_met_and_nothing_beats_their_own_product(small):
    goals = make_goals(small.catalogue, "synthetic", Prices())[::23]
    short = [goal for goal in goals if best_choice(small, goal, small.item(goal.asin)).score < 1.0]
    assert 0.03 < len(short) / len(goals) < 0.10
    for goal in short:
        best = next(purchases(small, goal))
        assert best.asin == goal.asin
        assert best.score > 0.6


@pytest.mark.assets
def test_the_oracle_finds_its_way_in_the_published_catalogue(small):
    oracle = WebShopOracle(small)
    goals = make_goals(small.catalogue, "synthetic", Prices())[::97]
    pages = Counter(oracle.plan(goal).page for goal in goals)
    assert set(pages) == {1}


@pytest.mark.assets
def test_no_choice_of_options_does_better(small):
    """Compares with every combination of values, which `best_choice` does not go through."""
    goals = make_goals(small.catalogue, "synthetic", Prices())[::331]
    for goal in goals:
        product = small.item(goal.asin)
        combinations = itertools.product(
            *([(name, value) for value in dict.fromkeys(values)] for name, values in product.options)
        )
        scores = [
            small.score(Visit(asin=product.asin, options=tuple(sorted(chosen))), goal).total
            for chosen in combinations
        ]
        assert best_choice(small, goal, product).score == max(scores)
