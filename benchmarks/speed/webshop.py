"""WebShop's speed: ``python -m benchmarks.speed.webshop``.

Contestants play in one process, one after the other, in several rounds; a ratio compares two contestants
within a round. Seconds are the processor's. Memory is measured in processes of their own. WebShop's own
environment is measured beside ours in `benchmarks.speed.webshop_original`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.core.tasks import Task
from agentgym.envs.webshop.data.importer import convert, find_files
from agentgym.envs.webshop.data.productstore import StoredCatalogue
from agentgym.envs.webshop.engine.world import ShopWorld
from agentgym.envs.webshop.env import WebShopEnv
from agentgym.envs.webshop.source import documents
from agentgym.errors import MissingDataError
from agentgym.retrieval.engines.bm25 import build_bm25, open_bm25
from agentgym.vector.serial import SerialVectorEnv
from benchmarks.harness.processes import alone, status
from benchmarks.harness.report import Texts, parser
from benchmarks.harness.rounds import Discipline, Run, measure_all, publish_rows, timed
from benchmarks.speed.webshop_catalogue import instructions, write_upstream

OUT = Path(__file__).with_suffix(".json")
TASKS = 64
"""Goals played; each is searched for by its instruction."""

STEPS = 12
"""Of an episode that makes no purchase."""

ENDLESS = 1 << 30

QUERIES = 20_000
"""New searches: more than are remembered, so that one that comes again has been forgotten."""

TEXTS = Texts(
    "Speed of WebShop",
    f"{TASKS} goals: each episode searches for its instruction, then clicks at random, up to {STEPS} steps.",
    "Environments hand out everything the contract asks for: observation, what can be clicked, state hash,\n"
    "reward; resets are part of their time. What was searched, shown or scored before is remembered, as in\n"
    "training. With a new search every three steps, nothing of the search is. Seconds are the processor's.",
    "peak memory of a process",
)


# ---- playing ---------------------------------------------------------------------------------


def dataset() -> str:
    """Return ``"webshop/small"`` where the published products are on this machine, else ``"builtin"``."""
    try:
        WebShopEnv(dataset="webshop/small", goals="synthetic")
    except MissingDataError:
        return "builtin"
    return "webshop/small"


def options() -> dict[str, Any]:
    """Return the options of the environments that play."""
    found: dict[str, Any] = {"dataset": dataset(), "split": "train"}
    return found | ({"goals": "synthetic"} if found["dataset"] != "builtin" else {})


def scripts(env: WebShopEnv) -> list[tuple[Task, list[str]]]:
    """Return goals and actions to play for each, drawn at random."""
    rng = np.random.default_rng(0)
    played = []
    for task in env.tasks[:TASKS]:
        info = env.reset(options={"task": task.id})[1]
        search = f"search[{info['goal']}]"
        actions: list[str] = []
        for _ in range(STEPS):
            clicks = info["admissible_actions"][1:]
            action = clicks[int(rng.integers(len(clicks)))] if clicks else search
            actions.append(action if actions else search)
            _, _, done, _, info = env.step(actions[-1])
            if done:
                break
        played.append((task, actions))
    return played


def single() -> Run:
    """Step a single environment."""
    env = WebShopEnv(**options(), max_steps=ENDLESS)
    turns = cycle(scripts(env))

    def once() -> int:
        task, actions = next(turns)
        env.reset(options={"task": task.id})
        for action in actions:
            env.step(action)
        return len(actions)

    return timed(once, time.process_time)


def batched(num: int) -> Run:
    """Step a vector environment that resets what has ended, all slots at once."""
    played = scripts(WebShopEnv(**options(), max_steps=ENDLESS))
    envs = SerialVectorEnv(
        num, env_class=WebShopEnv, **options(), max_steps=ENDLESS, autoreset_mode="Disabled"
    )
    slots = [i % len(played) for i in range(num)]
    left: list[list[str]] = [[] for _ in range(num)]

    def once() -> int:
        ended = [i for i in range(num) if not left[i]]
        if ended:
            envs.reset_at(ended, [played[slots[i]][0].id for i in ended], [0] * len(ended))
            for i in ended:
                left[i] = played[slots[i]][1][::-1]
                slots[i] = (slots[i] + 1) % len(played)
        envs.step_at(range(num), [actions.pop() for actions in left])
        return num

    return timed(once, time.process_time)


def new_searches(world: ShopWorld, queries: list[str]) -> Run:
    """Step a single environment: every third action is a search that is not remembered."""
    env = WebShopEnv(dataset=world, goals="human", split="upstream-test", max_steps=ENDLESS)
    turns = cycle(queries)

    def once() -> int:
        env.reset(seed=0)
        for _ in range(STEPS // 3):
            info = env.step(f"search[{next(turns)}]")[4]
            env.step(info["admissible_actions"][-1])  # the last product of the page
            env.step("click[description]")
        return STEPS

    return timed(once, time.process_time)


def keywords(instruction: str) -> str:
    """Return six words of an instruction: about what an agent searches for."""
    return " ".join(instruction.split()[2:8])


def resets() -> Run:
    """Reset an environment."""
    env = WebShopEnv(**options())
    names = [task.id for task in env.tasks[:TASKS]]

    def once() -> int:
        for name in names:
            env.reset(options={"task": name})
        return len(names)

    return timed(once, time.process_time)


def snapshots() -> Run:
    """Take a snapshot and restore it."""
    env = WebShopEnv(**options())
    _, info = env.reset(seed=0)
    env.step(f"search[{info['goal']}]")

    def once() -> int:
        for _ in range(TASKS):
            env.restore(env.snapshot())
        return TASKS

    return timed(once, time.process_time)


# ---- what is compared ------------------------------------------------------------------------


def made_up(products: int, folder: Path) -> ShopWorld:
    """Import and index a made-up catalogue of the published form."""
    for name in ("upstream", "store"):
        (folder / name).mkdir()
    write_upstream(folder / "upstream", products)
    files = list(find_files(folder / "upstream"))
    convert(files, folder / "store", progress=lambda done, total: None)
    catalogue = StoredCatalogue(folder / "store" / "full.products")
    build_bm25(documents(catalogue), corpus="made up", folder=folder / "index")
    return ShopWorld(catalogue, open_bm25(folder / "index"), name="made up")


def disciplines(world: ShopWorld, products: int) -> Iterator[Discipline]:
    """Yield everything that is measured in rounds."""
    yield Discipline("single environment, searches cached", "steps/s", {"agentgym": single})
    for num in (128, 1_024):
        contestants: dict[str, Callable[[], Run]] = {"agentgym": partial(batched, num)}
        contestants["agentgym, single"] = single
        yield Discipline(f"vector environment, N = {num:,}, searches cached", "steps/s", contestants)
    whole = instructions(QUERIES)
    for words, queries in (("six words", [keywords(query) for query in whole]), ("an instruction", whole)):
        name = f"single environment, {products:,} products, a new search for {words} every three steps"
        yield Discipline(name, "steps/s", {"agentgym": partial(new_searches, world, queries)})
    yield Discipline("reset", "resets/s", {"agentgym": resets})
    yield Discipline("snapshot and restore", "pairs/s", {"agentgym": snapshots})


# ---- processes of their own ------------------------------------------------------------------


def hold(num: int) -> None:
    """Hold so many episodes of different goals, and play some steps in each."""
    envs = SerialVectorEnv(num, env_class=WebShopEnv, **options())
    _, infos = envs.reset(seed=0, options={"tasks": [task.id for task in envs.tasks[:num]]})
    rng = np.random.default_rng(0)
    actions = [f"search[{goal}]" for goal in infos["goal"]]
    for _ in range(STEPS):
        infos = envs.step(actions)[4]
        rows = infos["admissible_actions"]
        actions = [row[int(rng.integers(1, len(row)))] if len(row) > 1 else "search[lamp]" for row in rows]


def hold_nothing() -> None:
    """Import what the others import."""


ALONE: dict[str, Callable[[], None]] = {
    "agentgym, 1 episode": partial(hold, 1),
    "agentgym, 128 episodes": partial(hold, 128),
    "neither: Python and what is imported": hold_nothing,
}


def notes(memory: dict[str, float], data: str) -> str:
    """Return what stands below the tables."""
    one, many = (memory[f"agentgym, {count}"] for count in ("1 episode", "128 episodes"))
    return (
        f"\n128 episodes take {many / one:.2f} times the memory of one.\n"
        f"\nData: {data}. Beside WebShop's own environment: [webshop_original.md](webshop_original.md).\n"
    )


def main() -> int:
    """Measure everything, and write the report."""
    arguments = parser(__spec__.name, __doc__, OUT, rounds=5, seconds=0.5)
    arguments.add_argument("--products", type=int, default=100_000, help="of the made-up catalogue")
    arguments.add_argument("--alone", choices=list(ALONE), help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.alone:
        ALONE[given.alone]()
        print(status("VmHWM"))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        world = made_up(given.products, Path(folder))
        rows = measure_all(disciplines(world, given.products), given)
    memory: dict[str, float] = {name: alone(__spec__.name, "--alone", name) for name in ALONE}
    return publish_rows(
        f"python -m {__spec__.name}",
        given,
        rows,
        TEXTS,
        peers=("rapidfuzz", "PyStemmer"),
        memory=memory,
        notes=notes(memory, dataset()),
        dataset=dataset(),
        products=given.products,
    )


if __name__ == "__main__":
    raise SystemExit(main())
