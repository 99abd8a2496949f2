"""Kinds of interaction that are about money and goods: negotiation, exchange, competition."""

from __future__ import annotations

from agentgym.envs.sotopia.builtin.drafts import Draft
from agentgym.envs.sotopia.builtin.terms import Terms
from agentgym.rng import KeyRng

PRICES = 10
"""Prices to choose from."""

_WARES = (
    "a used cargo bicycle", "a walnut desk", "a set of copper pans", "a rowing machine", "a shed's worth of oak boards",
    "an old printing press", "a box of first editions", "a pair of oil paintings", "a hand loom", "a garden swing",
    "an upright piano", "a chest of carving tools",
)  # fmt: skip


def negotiation(rng: KeyRng, names: tuple[str, str]) -> Draft:
    """Draft a sale: a price that only the seller, and one that only the buyer knows."""
    seller = rng.below(2)
    step = rng.pick((5, 10, 20))
    low = step * rng.between(6, 30)
    prices = [low + step * i for i in range(PRICES)]
    floor = low + step * rng.between(1, PRICES - 3) - rng.between(1, step - 1)
    ceiling = floor + step * rng.between(2, PRICES - 2)
    ware = rng.pick(_WARES)
    sells, buys = tuple(price - floor for price in prices), tuple(ceiling - price for price in prices)
    sale = (
        f"Sell {ware} to {names[1 - seller]} for as much as you can. Your limit is {floor} crowns: below it you would "
        "rather keep what you have. Nobody else should learn this number."
    )
    purchase = (
        f"Buy {ware} from {names[seller]} for as little as you can. Your limit is {ceiling} crowns: above it you would "
        "rather do without. Nobody else should learn this number."
    )
    order = (0, 1) if seller == 0 else (1, 0)
    wishes, points, limits = (sale, purchase), (sells, buys), (str(floor), str(ceiling))
    return Draft(
        f"{names[seller]} wants to sell {ware}, and {names[1 - seller]} may buy it. They meet to settle the price, "
        "in crowns.",
        (wishes[order[0]], wishes[order[1]]),
        Terms(
            tuple(map(str, prices)),
            (points[order[0]], points[order[1]]),
            (0, 0),
            limits=(limits[order[0]], limits[order[1]]),
            material=True,
        ),
    )
