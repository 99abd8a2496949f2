"""Goals: how instructions become goals, what they weigh, which prices they allow."""

from collections import Counter

import pytest

from agentgym.data.directory import find
from agentgym.envs.webshop.data.productfiles import read_catalogue
from agentgym.envs.webshop.data.products import Instruction, ListCatalogue, Product
from agentgym.envs.webshop.engine.goals import LIMITS, NO_LIMIT, Goal, Prices, limit_text, make_goals
from tests.webshop.corner import HUMAN, LAMPS, RUG, SHELF, SYNTHETIC

CORNER = ListCatalogue(SHELF, human=HUMAN, synthetic=SYNTHETIC)


def test_human_goals_are_the_instructions_that_ask_for_something():
    prices = Prices()
    limits = [prices.limit(prices.of(LAMPS[i]), LAMPS[i].asin) for i in (0, 1)]
    assert make_goals(CORNER, "human", prices) == [
        Goal(
            LAMPS[0].asin,
            f"i want a red lamp, and price lower than {limits[0]:.2f} dollars",
            ("easy clean",),
            ("dark red", "small"),
            limits[0],
        ),
        Goal(
            LAMPS[1].asin,
            f"get me two lamps, and price lower than {limits[1]:.2f} dollars",
            ("easy clean", "energy efficient"),
            (),
            limits[1],
        ),
    ]


def test_synthetic_goals_are_all_combinations_of_options():
    goals = make_goals(CORNER, "synthetic", Prices())
    lamps = [goal for goal in goals if goal.asin == LAMPS[0].asin]
    limit = lamps[0].price_upper
    assert [goal.options for goal in lamps] == [
        (("color", color), ("size", size))
        for color in ("dark red", "navy", "white")
        for size in ("small", "large")
    ]
    assert {goal.price_upper for goal in lamps} == {limit}
    assert lamps[1].text == (
        "Find me easy clean desk lamps with color: dark red, and size: large, and price lower than "
        f"{limit:.2f} dollars"
    )
    rugs = [goal for goal in goals if goal.asin == RUG.asin]
    assert len(rugs) == 3 * 7  # options sorted by name, and values that come twice twice
    assert rugs[5].options == rugs[6].options == (("cut", "same"), ("fit", "same"))
    assert rugs[5].id == rugs[6].id
    assert rugs[0].text == 'Find me soft wool rugs with cut: same, and fit: 3"'
    assert rugs[0].price_upper == NO_LIMIT


def test_rare_attributes_weigh_more():
    goals = make_goals(CORNER, "synthetic", Prices())
    assert {goal.weight for goal in goals if goal.asin == LAMPS[0].asin} == {1 / 27}
    assert {goal.weight for goal in goals if goal.asin == RUG.asin} == {(1 / 21 + 1 / 27) / 2}
    assert {goal.weight for goal in make_goals(CORNER, "human", Prices())} == {1.0}


def test_a_product_without_options_has_one_goal():
    shelf = ListCatalogue([Product("A", "a", pricing=(5.0,))], synthetic=[Instruction("A", "find a", ("b",))])
    (goal,) = make_goals(shelf, "synthetic", Prices())
    assert goal.options == ()
    assert goal.text == f"find a{limit_text(goal.price_upper)}"


@pytest.mark.parametrize(
    ("price", "candidates"),
    [
        (0.0, (10, 20, 30, 40)),
        (10.0, (20, 30, 40, 50)),
        (10.01, (20, 30, 40, 50)),
        (959.0, (960, 970, 980, 990)),
        (969.0, (970, 980, 990)),
        (979.0, (980, 990)),
        (980.0, None),
        (5000.0, None),
    ],
)
def test_a_limit_is_the_larger_of_two_of_the_first_four_above(price, candidates):
    drawn = Counter(Prices().limit(price, f"B{number}") for number in range(600))
    if candidates is None:
        assert set(drawn) == {NO_LIMIT}
        return
    n = len(candidates)
    assert set(drawn) == set(candidates[1:])
    for rank, limit in enumerate(candidates):  # of n (n - 1) / 2 pairs, `rank` have this one as the larger
        assert drawn[limit] / 600 == pytest.approx(rank / (n * (n - 1) / 2), abs=0.08)


def test_limits():
    assert (LIMITS[0], LIMITS[-1], len(LIMITS)) == (10.0, 990.0, 99)
    assert limit_text(40.0) == ", and price lower than 40.00 dollars"
    assert limit_text(NO_LIMIT) == ""


def test_prices_follow_from_seed_and_product_alone():
    ranged = [Product(f"B{number}", "x", pricing=(10.0, 20.0)) for number in range(400)]
    one = [Prices(1).of(product) for product in ranged]
    assert one == [Prices(1).of(product) for product in reversed(ranged)][::-1]
    assert one != [Prices(2).of(product) for product in ranged]
    assert all(10.0 <= price <= 20.0 for price in one)
    assert sum(one) / 400 == pytest.approx(15.0, abs=0.5)
    assert len(set(one)) == 400
    assert Prices().of(Product("B", "x", pricing=(20.0, 10.0))) <= 20.0  # some ranges are the wrong way round


def test_the_number_of_an_instruction_changes_its_limit():
    assert len({Prices().limit(5.0, "B", number) for number in range(20)}) == 3


@pytest.mark.assets
def test_the_thousand_products_give_6910_goals():
    catalogue = read_catalogue(find("webshop/products_1000.jsonl"), find("webshop/items_ins_v2_1000.json"))
    goals = make_goals(catalogue, "synthetic", Prices())
    assert len(goals) == 6910
    assert len({goal.asin for goal in goals}) == 415
    assert len({goal.id for goal in goals}) == 6901
    assert not list(catalogue.instructions("human"))
