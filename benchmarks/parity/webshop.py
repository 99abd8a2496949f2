"""WebShop against recordings of the original: ``python -m benchmarks.parity.webshop``.

The folder ``golden`` beside the data directory, or the one that ``--recordings`` names, holds
``webshop_reference.jsonl.gz``, episodes of the original environment step by step, and
``webshop_reference_prices.json``, the prices it had drawn. `WebShopEnv` plays the same goals and actions,
with what the original's search had found, and everything it shows is compared after every step.
"""

from __future__ import annotations

import gzip
import json
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import numpy as np

from agentgym.core.tasks import ListTaskSet, Task
from agentgym.data.directory import data_directory, find
from agentgym.envs.webshop.data.productfiles import read_catalogue
from agentgym.envs.webshop.data.products import Catalogue, Product
from agentgym.envs.webshop.engine.goals import Goal, Prices, make_goals
from agentgym.envs.webshop.engine.text import Mode
from agentgym.envs.webshop.engine.visit import parse
from agentgym.envs.webshop.engine.world import FOUND, ShopWorld
from agentgym.envs.webshop.env import WebShopEnv
from agentgym.errors import UsageError
from agentgym.retrieval.index import Hits
from benchmarks.harness.report import parser, publish, table

EPISODES = "webshop_reference.jsonl.gz"
PRICES = "webshop_reference_prices.json"
COMPARED = ("observation", "clickables", "search bar", "reward", "done")
TAGGER = "blank-en"
"""What the recordings were scored with."""

EXAMPLES = 20
"""Mismatches kept to be looked at."""

ENDLESS = 1 << 30


class RecordedPrices(Prices):
    """Prices that the original had drawn."""

    def __init__(self, prices: Mapping[str, float]):
        """Take them by product."""
        super().__init__()
        self._prices = prices

    def of(self, product: Product) -> float:
        """Return the price of a product."""
        return self._prices[product.asin]


class RecordedSearch:
    """What the original's search had found."""

    def __init__(self, catalogue: Catalogue, episodes: Sequence[Mapping[str, Any]]):
        """Look for the searches of all episodes.

        Raises:
            UsageError: one query found different things.
        """
        self._found: dict[str, tuple[int | None, ...]] = {}
        for step in (step for episode in episodes for step in episode["steps"]):
            said = parse(step["action"])
            if "search_results" in step and said is not None:
                found = tuple(catalogue.index_of(asin) for asin in step["search_results"])
                if self._found.setdefault(said[1], found) != found:
                    raise UsageError(f"the query {said[1]!r} is recorded with different results")

    def search(self, query: str, k: int) -> Hits:
        """Return what a query had found."""
        found = np.array(self._found[query][:k], dtype=np.int32)
        return Hits(found, np.zeros(len(found), dtype=np.float32))


class Comparison:
    """Plays recorded episodes again."""

    def __init__(self, world: ShopWorld):
        """Play them in this world."""
        self._envs = {
            mode: WebShopEnv(dataset=world, observation=mode, parity="upstream", max_steps=ENDLESS)
            for mode in get_args(Mode)
        }
        self.steps: Counter[str] = Counter()
        self.mismatches: Counter[str] = Counter(dict.fromkeys(COMPARED, 0))
        self.examples: list[list[str]] = []

    def environment(self, episode: Mapping[str, Any]) -> WebShopEnv:
        """Return the environment of an episode's mode, with its goal as the only task."""
        env = self._envs[episode["mode"]]
        env.tasks = ListTaskSet("parity", [goal_task(episode["goal"])], dataset="parity", suite="webshop")
        return env

    def play(self, episode: Mapping[str, Any]) -> None:
        """Play one episode, comparing every step."""
        mode, env = episode["mode"], self.environment(episode)
        observation, _ = env.reset(seed=0)
        self._compare("(start)", [observation], [episode["reset_obs"]])
        for step in episode["steps"]:
            before = env.snapshot().state.visit
            clickables = list(env.view.page(before).clicks)
            observation, reward, terminated, _, _ = env.step(step["action"])
            self.steps[mode] += 1
            self._compare(
                step["action"],
                [observation, clickables, before.page == "start", reward, terminated],
                [step[key] for key in ("obs", "clickables", "has_search_bar", "reward", "done")],
            )

    def _compare(self, action: str, ours: Sequence[object], theirs: Sequence[object]) -> None:
        for name, one, other in zip(COMPARED, ours, theirs, strict=False):
            if one != other:
                self.mismatches[name] += 1
                if len(self.examples) < EXAMPLES:
                    self.examples.append([name, action[:200], str(other)[:2000], str(one)[:2000]])


def goal_task(goal: Mapping[str, Any]) -> Task:
    """Return the task of a recorded goal."""
    options = goal["goal_options"]
    made = Goal(
        asin=goal["asin"],
        text=goal["instruction_text"],
        attributes=tuple(goal["attributes"]),
        options=tuple(options.items()) if isinstance(options, dict) else tuple(options),
        price_upper=goal["price_upper"],
        weight=goal["weight"],
    )
    return Task(made.id, made, "0")


def read_episodes(folder: Path) -> list[dict[str, Any]]:
    """Read the recordings; UsageError where there are none."""
    try:
        with gzip.open(folder / EPISODES, "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except OSError as error:
        raise UsageError(f"no recordings {folder / EPISODES}: name their folder with --recordings") from error


def recorded_world(folder: Path, episodes: Sequence[Mapping[str, Any]]) -> ShopWorld:
    """Return the shop with the prices and the search results of the recordings; errors as `compare`."""
    catalogue = read_catalogue(find("webshop/products_1000.jsonl"), find("webshop/items_ins_v2_1000.json"))
    prices = RecordedPrices(json.loads((folder / PRICES).read_text(encoding="utf-8")))
    search = RecordedSearch(catalogue, episodes)
    return ShopWorld(catalogue, search, name="recorded", tagger=TAGGER, prices=prices)


def compare(folder: Path) -> dict[str, Any]:
    """Play all recordings; return the report.

    Args:
        folder: of the recordings; the products come from the data directory.

    Raises:
        UsageError: recordings, products or spaCy are not there.
    """
    episodes = read_episodes(folder)
    world = recorded_world(folder, episodes)
    comparison = Comparison(world)
    for episode in episodes:
        comparison.play(episode)
    goals = make_goals(world.catalogue, "synthetic", world.prices)
    return {
        "episodes": len(episodes),
        "bought": sum(episode["steps"][-1]["done"] for episode in episodes),
        "steps": sum(comparison.steps.values()),
        "steps by mode": dict(comparison.steps),
        "mismatches": dict(comparison.mismatches),
        "weights that differ": sum(_weights(episodes, goals)),
        "goals": len(goals),
        "products with goals": len({goal.asin for goal in goals}),
        "contents of goals": len({goal.id for goal in goals}),
        "found at most": FOUND,
        "tagger": f"{world.tagger.id} ({world.tagger.version})",
        "examples": comparison.examples,
        "versions": {name: version(name) for name in ("rapidfuzz", "spacy")}
        | {"Python": platform.python_version()},
    }


def _weights(episodes: Sequence[Mapping[str, Any]], goals: Sequence[Goal]) -> Iterator[bool]:
    """Yield for each recorded goal whether ours has another weight."""
    ours = {(goal.asin, goal.options): goal.weight for goal in goals}
    for episode in episodes:
        theirs = goal_task(episode["goal"]).content
        yield ours.get((theirs.asin, theirs.options)) != theirs.weight


def markdown(report: Mapping[str, Any]) -> str:
    """Write the report for people."""
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    goals = ("weight of the goal (once an episode)", report["weights that differ"])
    counts = [*report["mismatches"].items(), goals]
    modes = ", ".join(f"{steps} in mode `{mode}`" for mode, steps in report["steps by mode"].items())
    return "\n".join(
        [
            "# WebShop against recordings of the original",
            "",
            f"{report['episodes']} episodes, {report['bought']} of them with a purchase; "
            f"{report['steps']} steps, {modes}. The recorded search results and prices are given; everything "
            "else is computed. "
            f"Tagger: {report['tagger']}. {versions}.",
            "",
            *table(("compared after every step", "mismatches"), counts),
            "",
            f"The 1,000 products give {report['goals']:,} synthetic goals from "
            f"{report['products with goals']} products; {report['contents of goals']:,} of them differ in "
            "product, attributes or options.",
            "",
        ]
    )


def main() -> int:
    """Compare, write the report, and exit 1 on any mismatch."""
    arguments = parser(__spec__.name, __doc__, Path(__file__).with_suffix(".json"))
    about = "their folder; if not given and not there, none is read"
    arguments.add_argument("--recordings", type=Path, help=about)
    options = arguments.parse_args()
    folder = options.recordings or data_directory().parent / "golden"
    if options.recordings is None and not (folder / EPISODES).exists():
        print(f"left out: no recordings {folder / EPISODES}")
        return 0
    report = compare(folder)
    publish(options.out, report, markdown(report))
    return int(any(report["mismatches"].values()) or report["weights that differ"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
