"""Every term of a purchase's score, in literal numbers."""

from dataclasses import replace

import pytest

from agentgym.envs.webshop.data.products import Product
from agentgym.envs.webshop.engine.colours import COLOURS
from agentgym.envs.webshop.engine.goals import Goal
from agentgym.envs.webshop.engine.reward import PurchaseScorer, Score, colour_of
from tests.webshop.corner import LAMPS, RUG, play, visit_shop

LAMP = replace(LAMPS[1], attributes=("energy efficient", "easy to clean"))
WISH = Goal(LAMP.asin, "a lamp", ("energy efficient", "bright led", "wood"), ("dark red", "small"), 11.0)


def score(bought=LAMP, goal=WISH, wished=LAMP, price=11.0, chosen=("dark red",)):
    return PurchaseScorer(lambda product: tuple(product.title.lower().split())).score(
        bought, goal, wished=wished, price=price, chosen=chosen
    )


def test_the_sum_of_its_terms():
    found = score()
    assert found == Score((2 + 1 + 1) / 6, 1.0, 2, 1, True, True, True, 1.0)
    assert found.total == pytest.approx(2 / 3)


def test_the_price_counts_up_to_the_limit():
    assert [score(price=price).price for price in (10.99, 11.0, 11.01)] == [True, True, False]
    assert score(price=12.0).total == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("attribute", "met"),
    [
        ("energy efficient", True),
        ("efficient energy", True),  # a set of words
        ("Energy-Efficient!", True),
        ("energy efficiency", True),  # 87.5 per cent
        ("energy", True),  # a part of the words
        ("energetic effects", False),
        ("clean", True),
        ("reading", True),  # in the description
        ("desk lam", True),  # in the title
        ("right led", True),  # in the features
        ("Desk", False),  # texts are looked through in lower case, and wishes are not put into it
        ("wood", False),
    ],
)
def test_attributes_resemble_one_or_stand_in_a_text(attribute, met):
    assert score(goal=replace(WISH, attributes=(attribute,))).attributes == met


def test_resemblance_is_above_85_per_cent_rounded():
    """Two texts of 20 and of 14 letters share all but three: 2 * 17 / 40, exactly 85 per cent."""
    one, other = "abcdefghijklmnopqrst", "abcdefghijklmnopq"
    lamp = replace(LAMP, attributes=(one,))
    assert score(bought=lamp, goal=replace(WISH, attributes=(other + "xyz",))).attributes == 0
    assert score(bought=lamp, goal=replace(WISH, attributes=(other + "xy",))).attributes == 1  # 87.2
    lamp = replace(LAMP, attributes=("a" * 100,))
    assert score(bought=lamp, goal=replace(WISH, attributes=("a" * 100 + "b" * 35,))).attributes == 0  # 85.1
    assert score(bought=lamp, goal=replace(WISH, attributes=("a" * 100 + "b" * 34,))).attributes == 0  # 85.47
    assert score(bought=lamp, goal=replace(WISH, attributes=("a" * 100 + "b" * 33,))).attributes == 1  # 85.8


@pytest.mark.parametrize(
    ("chosen", "met"),
    [
        ((), 0),
        (("dark red",), 1),
        (("dark grey",), 1),  # both are "dark"
        (("red",), 0),
        (("small", "bright dark"), 2),
        (("x-small",), 1),
        (("large",), 0),
        (("dark red", "dark red"), 1),
    ],
)
def test_options_are_compared_by_their_first_colour(chosen, met):
    assert score(chosen=chosen).options == met


def test_colours_are_looked_for_in_order():
    assert len(COLOURS) == 102
    assert [colour_of(text) for text in ("light red", "shredded", "titanium", "x-large")] == [
        "light", "red", "tan", "x-large",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("option", "chosen", "met"),
    [
        (("color", "red"), "red", 1),
        (("color", "red"), "deep red", 1),
        (("color", "light red"), "light red", 1),  # "light" is a part of the pair's words
        (("color", "light red"), "dark light red", 0),
        (("size", "xx-large"), "xx-large", 1),  # a part of the pair's words
        (("size", "xx-large"), "x-large", 0),
        (("red", "x"), "red", 1),  # a name may be a colour
        (("size", "a\u00a0b"), "a\u00a0b", 0),  # printed with the blank's code in it
    ],
)
def test_synthetic_options_are_compared_as_python_prints_pairs(option, chosen, met):
    goal = replace(WISH, options=(option,))
    assert score(goal=goal, chosen=(chosen,)).options == met


def titled(title, query="x", category="y"):
    return Product("B0000000ZZ", title, query=query, product_category=category)


@pytest.mark.parametrize(
    ("bought", "wished", "kind", "title_score"),
    [
        (titled("a b c d"), titled("a b c d"), 1.0, 1.0),
        (titled("a"), titled("a b c d e f g h i j k"), 0.1, 1 / 11),
        (titled("a"), titled("a b c d e f g h i j"), 1.0, 1 / 10),  # the same query
        (titled("a", query="z"), titled("a b c d e f g h i j"), 0.5, 1 / 10),
        (titled("a", query="z"), titled("a b c d e"), 0.5, 1 / 5),
        (titled("a", query="z"), titled("a b c d"), 1.0, 1 / 4),
        (titled("a"), titled("b"), 0.0, 0.0),
        (titled("a a"), titled("a a b"), 1.0, 1 / 3),  # different words over all words
        (titled("a", query="z"), titled(""), 0.5, 0.2),
    ],
)
def test_the_kind_of_product_scales_the_sum(bought, wished, kind, title_score):
    found = score(bought=bought, wished=wished)
    assert (found.type, found.title_score) == (kind, pytest.approx(title_score))
    assert found.total == pytest.approx(kind * (found.attributes + found.options + found.price) / 6)


def test_two_common_categories_make_a_match():
    path = "Home \u203a {} \u203a Lamps"
    wished = titled("a b c d e", category=path.format("Light"))
    assert score(titled("a", "z", path.format("Desk")), wished=wished).category_match
    assert not score(titled("a", "z", "Lamps"), wished=wished).category_match
    assert score(titled("a", "z", path.format("Desk")), wished=wished).type == 1.0
    assert score(titled("a", "z", "Lamps"), wished=wished).type == 0.5


def test_a_purchase_in_an_episode():
    env, _, info = visit_shop()
    wish = info["goal"]
    lamp = LAMPS[0].asin.lower()
    step = play(env, "search[lamp]", f"click[{lamp}]", "click[dark red]", "click[small]", "click[buy now]")
    assert wish.startswith("i want a red lamp")
    assert (step[1], step[4]["won"], step[4]["score"]) == (1.0, True, 1.0)
    env.reset(options={"task": env.task.id})
    step = play(env, "search[rug]", f"click[{RUG.asin.lower()}]", "click[buy now]")
    assert (step[1], step[4]["won"]) == (0.0, False)
