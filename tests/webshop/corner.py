"""A small shop for tests: twelve lamps, a rug with awkward options, and a search by common words."""

import numpy as np

from agentgym.envs.webshop.data.products import Instruction, ListCatalogue, Product
from agentgym.envs.webshop.engine.world import ShopWorld
from agentgym.envs.webshop.env import WebShopEnv
from agentgym.retrieval.index import Hits

LAMPS = tuple(
    Product(
        asin=f"B0000000{number:02}",
        title=f"Brass Desk Lamp {number}",
        description="A lamp for reading.",
        bullets=("Bright LED ", "Easy to clean "),
        category="garden",
        query="desk lamps",
        product_category="Home › Lighting › Desk Lamps",  # noqa: RUF001
        pricing=(10.0 + number,) if number % 2 else (10.0 + number, 30.0 + number),
        options=(("color", ("dark red", "navy", "white")), ("size", ("small", "large"))),
        attributes=("energy efficient", "easy clean"),
    )
    for number in range(12)
)
RUG = Product(
    asin="B0000000RU",
    title="Wool Rug",
    bullets=("",),
    category="home",
    query="rugs",
    product_category="Home › Floor › Rugs",  # noqa: RUF001
    pricing=(985.0,),
    options=(
        ("fit", ('3"', "grün", "features", "next >", "a[b]", "same", "same")),
        ("cut", ("same", "oval", "cut")),
    ),
    attributes=("soft wool",),
)
SHELF = (*LAMPS, RUG)
HUMAN = (
    Instruction(LAMPS[0].asin, "i want a red lamp.", ("easy clean",), ("dark red", "small")),
    Instruction(LAMPS[0].asin, "i want a lamp", (), ("navy",)),
    Instruction(LAMPS[1].asin, "get me two lamps", ("easy clean", "energy efficient"), ()),
)
SYNTHETIC = (
    Instruction(LAMPS[0].asin, "Find me easy clean desk lamps", ("easy clean",)),
    Instruction(RUG.asin, "Find me soft wool rugs", ("soft wool", "easy clean")),
)


class WordSearch:
    """Finds the products whose titles have a word of the query, in the order of the shelf."""

    def __init__(self, catalogue):
        self.titles = [catalogue.product(i).title.lower().split() for i in range(len(catalogue))]
        self.asked = []

    def search(self, query, k):
        self.asked.append(query)
        found = [i for i, title in enumerate(self.titles) if set(title) & set(query.split())][:k]
        return Hits(np.array(found, np.int32), np.zeros(len(found), np.float32))


def corner_shop(**options):
    """Return a new world of these products."""
    catalogue = ListCatalogue(SHELF, human=HUMAN, synthetic=SYNTHETIC)
    return ShopWorld(catalogue, WordSearch(catalogue), name="corner", **options)


def visit_shop(goals="human", wish="i want a red lamp", **options):
    """Return an environment at the start of the goal with this wording, and what it says first."""
    env = WebShopEnv(dataset=corner_shop(), split="upstream-test", goals=goals, **options)
    task = next(task for task in env.tasks if task.content.text.startswith(wish))
    return env, *env.reset(seed=0, options={"task": task.id})


def play(env, *actions):
    """Play actions; return the last step."""
    for action in actions:
        step = env.step(action)
    return step
