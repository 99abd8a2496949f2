"""Interactions about money and goods: negotiation, exchange, competition."""

from __future__ import annotations

from itertools import product

from agentgym.core.rng import KeyRng
from agentgym.envs.sotopia.builtin.drafts import ScenarioDraft, by_role
from agentgym.envs.sotopia.builtin.terms import Terms

PRICES = 10
"""Prices to choose from."""

_WARES = (
    "a used cargo bicycle", "a walnut desk", "a set of copper pans", "a rowing machine",
    "an old printing press", "a stack of oak boards", "a box of first editions", "a pair of oil paintings",
    "a hand loom", "a garden swing", "an upright piano", "a chest of carving tools",
)  # fmt: skip

_THINGS = (
    "atlas", "axe", "backpack", "blanket", "camera", "clock", "coat", "drum", "globe", "guitar", "hammock",
    "kettle", "lamp", "mirror", "rope", "saddle", "scale", "stove", "tent", "toolbox", "trumpet", "vase",
)  # fmt: skip

_PRIZES = (
    "the last free stall at the summer market", "the only workshop in the courtyard",
    "the one seat left on the expedition", "the rehearsal room on Friday nights",
    "the corner plot of the garden", "the single parking space behind the house",
    "the last copy of a rare score",
)  # fmt: skip


def negotiation(rng: KeyRng, names: tuple[str, str]) -> ScenarioDraft:
    """Draft a sale: the least that the seller takes and the most that the buyer gives are private."""
    seller = rng.below(2)
    step = rng.pick((5, 10, 20))
    low = step * rng.between(6, 30)
    prices = [low + step * i for i in range(PRICES)]
    floor = low + step * rng.between(1, PRICES - 3) - rng.between(1, step - 1)
    ceiling = floor + step * rng.between(2, PRICES - 2)
    ware = rng.pick(_WARES)
    private = "Nobody else should learn this number."
    sale = (
        f"Sell {ware} to {names[1 - seller]} for as much as you can. Your limit is {floor} crowns: below it "
        f"you would rather keep what you have. {private}"
    )
    purchase = (
        f"Buy {ware} from {names[seller]} for as little as you can. Your limit is {ceiling} crowns: above it "
        f"you would rather do without. {private}"
    )
    sold, bought = tuple(price - floor for price in prices), tuple(ceiling - price for price in prices)
    return ScenarioDraft(
        f"{names[seller]} wants to sell {ware}, and {names[1 - seller]} may buy it. They meet to settle the "
        "price, in crowns.",
        by_role(seller, sale, purchase),
        Terms(
            tuple(map(str, prices)),
            by_role(seller, sold, bought),
            (0, 0),
            limits=by_role(seller, str(floor), str(ceiling)),
            material=True,
        ),
    )


def exchange(rng: KeyRng, names: tuple[str, str]) -> ScenarioDraft:
    """Draft a swap of two items each, whose values are private."""
    things: list[str] = []
    while len(things) < 4:
        thing = rng.pick(_THINGS)
        if thing not in things:
            things.append(thing)
    owned = (tuple(things[:2]), tuple(things[2:]))
    # one's own things are worth a little less to oneself, so that swaps can please both
    worth = [
        {thing: rng.between(1, 8) if thing in owned[side] else rng.between(2, 12) for thing in things}
        for side in (0, 1)
    ]
    given = [((first,), (second,), tuple(sorted((first, second)))) for first, second in owned]
    deals = list(product(*given))
    points = [
        tuple(
            sum(worth[side][thing] for thing in (*owned[side], *deal[1 - side]) if thing not in deal[side])
            for deal in deals
        )
        for side in (0, 1)
    ]
    without = [sum(worth[side][thing] for thing in owned[side]) for side in (0, 1)]
    wishes = [
        f"End up with things that are worth as much as possible to you. To you the {_listed(worth[side])}."
        for side in (0, 1)
    ]
    return ScenarioDraft(
        f"{names[0]} has brought {_both(owned[0])}, {names[1]} {_both(owned[1])}. They may swap. Terms name "
        f"what {names[0]} gives, then what {names[1]} gives for it.",
        (wishes[0], wishes[1]),
        Terms(
            tuple(f"{' and '.join(first)} for {' and '.join(second)}" for first, second in deals),
            (points[0], points[1]),
            (without[0], without[1]),
            material=True,
        ),
    )


def _both(things: tuple[str, ...]) -> str:
    return " and ".join(f"{'an' if thing[0] in 'aeiou' else 'a'} {thing}" for thing in things)


def _listed(worth: dict[str, int]) -> str:
    return ", the ".join(f"{thing} is worth {points}" for thing, points in worth.items())


def competition(rng: KeyRng, names: tuple[str, str]) -> ScenarioDraft:
    """Draft a contest for one good: either may take it and pay the other off; its worth is private."""
    prize = rng.pick(_PRIZES)
    step = rng.pick((2, 3, 5))
    worth = (step * rng.between(1, 7) + 1, step * rng.between(1, 7) + 1)
    chances = (rng.between(0, 2 * step), rng.between(0, 2 * step))
    deals, points = [], ([], [])  # type: tuple[list[str], tuple[list[int], list[int]]]
    for taker in (0, 1):
        for payment in range(0, 5 * step, step):
            deals.append(f"{names[taker].lower()} pays {payment}")
            points[taker].append(worth[taker] - payment)
            points[1 - taker].append(payment)
    wishes = [
        f"Get {prize}, or be paid well for giving it up. It is worth {worth[side]} crowns to you, and the "
        f"draw is worth {chances[side]}."
        for side in (0, 1)
    ]
    return ScenarioDraft(
        f"Both {names[0]} and {names[1]} want {prize}. One of them can have it and pays the other some "
        "crowns for it; terms name who pays, and so has it. If they cannot agree, strangers join in, and "
        "lots are drawn.",
        (wishes[0], wishes[1]),
        Terms(tuple(deals), (tuple(points[0]), tuple(points[1])), chances, material=True),
    )
