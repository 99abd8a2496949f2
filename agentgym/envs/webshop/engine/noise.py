"""Advertisements on pages: observations differ from visit to visit, states do not.

After GraphGPO (appendix D.3), which shows that methods that tell states apart by their text break when
advertisements are put between the lines of a page. They stand below the instruction, which no advertisement
parts from its label. The texts are this project's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym.core.rng import KeyRng
from agentgym.envs.webshop.engine.pages import Node

OFFERS = (
    "Today only: {percent}% off {thing}!",
    "Members save {percent}% on {thing} this week.",
    "Last chance: {thing} from ${price}.",
    "New in store: {thing}, now ${price}.",
    "Sponsored: {number} people near you bought {thing} today.",
    "Subscribe to our newsletter and win {thing}!",
    "Customers who viewed this also liked {thing}.",
    "Free shipping on {thing} over ${price}.",
    "Rated best {thing} {number} times in a row.",
    "Only {number} left: {thing} at {percent}% off.",
)
THINGS = (
    "garden lights", "coffee beans", "yoga mats", "phone cases", "desk chairs", "hiking socks", "pet beds",
    "board games", "wall clocks", "rain jackets", "kitchen knives", "travel mugs", "photo frames",
    "bath towels", "running shoes", "headphones", "picnic baskets", "sunglasses", "tool sets", "tea samplers",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Noise:
    """Frequency and number of advertisements on pages."""

    probability: float = 0.0
    """Probability that a page carries any."""
    adverts: int = 2
    """Number of advertisements on a page that carries any."""

    def spread(self, nodes: Sequence[Node], draws: KeyRng) -> list[Node]:
        """Return the nodes of a page, perhaps with advertisements between them."""
        shown = list(nodes)
        if draws.below(1 << 32) >= self.probability * (1 << 32):
            return shown
        first = 1 + next((i for i, node in enumerate(nodes) if node.kind == "instruction"), 0)
        for _ in range(self.adverts):
            shown.insert(draws.between(first, len(shown)), Node("advert", _advert(draws)))
        return shown


def stream_of(drawn: int, rollout: int) -> int:
    """Return the seed of an episode's advertisements, from 0 to 2^62 - 1.

    Attempts at one task share their environment's seed, but each meets advertisements of its own.
    """
    return KeyRng(drawn, rollout).below(1 << 62)


def _advert(draws: KeyRng) -> str:
    return draws.pick(OFFERS).format(
        thing=draws.pick(THINGS),
        percent=5 * draws.between(1, 14),
        price=draws.between(5, 95),
        number=draws.between(2, 400),
    )
