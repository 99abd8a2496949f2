"""WebShop beside the original: ``python -m benchmarks.speed.webshop_original --webshop CHECKOUT``.

Both play the recorded episodes of ``benchmarks.parity.webshop``, over the 1,000 published products, in turn,
round by round: the original in a process of its own (`benchmarks.speed.webshop_upstream`), with Lucene. First
both play once and everything they show is compared. Ours is measured twice: with all queries and pages seen
before, and at first sight, with a world that was opened for the pass and has searched, read, shown and scored
nothing. Seconds are the processor's, of the thread that plays.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.core.tasks import ListTaskSet
from agentgym.data.directory import data_directory, find
from agentgym.envs.webshop.data.importer import convert, find_files
from agentgym.envs.webshop.data.productstore import StoredCatalogue
from agentgym.envs.webshop.engine.world import ShopWorld
from agentgym.envs.webshop.env import WebShopEnv
from agentgym.envs.webshop.source import documents
from agentgym.retrieval.engines.bm25 import build_bm25, open_bm25
from benchmarks.harness.processes import Peer
from benchmarks.harness.report import machine, parser, publish, table
from benchmarks.parity.webshop import PRICES, RecordedPrices, goal_task, read_episodes

OUT = Path(__file__).with_suffix(".json")
UPSTREAM = OUT.with_name("webshop_upstream.py")

RECORD_FIELDS = (
    *("asin", "name", "full_description", "small_description", "product_category", "category", "query"),
    *("customization_options", "images"),
)
TAGGER = "blank-en"
ENDLESS = 1 << 30
REPEATS = 5
"""Passes of ours in a round, of which the median counts: one takes milliseconds."""

COMPARED = ("observation", "what can be clicked", "reward", "end")

Episode = Mapping[str, Any]


class Ours:
    """This project's environment over the same products, prices and goals."""

    def __init__(self, folder: Path, episodes: Sequence[Episode], prices: Mapping[str, float]):
        """Import the products and build the index."""
        (folder / "published").mkdir()
        for name, published in (("items", "items_shuffle_1000"), ("attributes", "items_ins_v2_1000")):
            shutil.copy(folder / f"{name}.json", folder / "published" / f"{published}.json")
        convert(list(find_files(folder / "published")), folder / "store", progress=lambda done, total: None)
        (self._store,) = (folder / "store").glob("*.products")
        self._folder = folder / "bm25"
        products = documents(StoredCatalogue(self._store))
        self._index = build_bm25(products, corpus="webshop", folder=self._folder)
        self._prices = RecordedPrices(prices)
        self._tasks = [goal_task(episode["goal"]) for episode in episodes]
        self._episodes = episodes

    def open(self, *, new_words: bool = False) -> WebShopEnv:
        """Return an environment that has seen nothing; with ``new_words``, over an index that has neither."""
        index = open_bm25(self._folder) if new_words else self._index
        index.search("", 1)
        world = ShopWorld(
            StoredCatalogue(self._store), index, name="recorded", tagger=TAGGER, prices=self._prices
        )
        env = WebShopEnv(dataset=world, goals="synthetic", parity="upstream", max_steps=ENDLESS)
        env.tasks = ListTaskSet("recorded", self._tasks, dataset="recorded", suite="webshop")
        return env

    def show(self) -> list[list[Any]]:
        """Play all episodes; return what every step shows."""
        env, shown = self.open(), []
        for task, episode in zip(self._tasks, self._episodes, strict=True):
            env.reset(options={"task": task.id})
            for action in episode["actions"]:
                observation, reward, terminated, _, _ = env.step(action)
                shown.append([observation, list(env.view.page(env.visit).clicks), reward, terminated])
        return shown

    def play(self, env: WebShopEnv) -> float:
        """Play all episodes; return the steps a second."""
        steps, began = 0, time.thread_time()
        for task, episode in zip(self._tasks, self._episodes, strict=True):
            env.reset(options={"task": task.id})
            for action in episode["actions"]:
                env.step(action)
                steps += 1
        return steps / (time.thread_time() - began)


def write_inputs(folder: Path, episodes: Sequence[Episode], prices: Mapping[str, float]) -> None:
    """Write what the original reads: the products as they are published, goals, actions and prices."""
    lines = find("webshop/products_1000.jsonl").read_text(encoding="utf-8").splitlines()
    items = []
    for line in lines:
        product = json.loads(line)["product"]
        pricing = "".join(f"${price}" for price in product["pricing"] or ())
        items.append({**{name: product[name] for name in RECORD_FIELDS}, "pricing": pricing})
    (folder / "documents").mkdir()
    (folder / "documents" / "documents.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, value in (("items", items), ("human", {}), ("prices", prices), ("episodes", episodes)):
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    shutil.copyfile(find("webshop/items_ins_v2_1000.json"), folder / "attributes.json")


def differences(ours: Sequence[Sequence[Any]], theirs: Sequence[Sequence[Any]]) -> dict[str, int]:
    """Count the steps whose observation, clickables, reward or end differ."""
    counts = dict.fromkeys(COMPARED, 0)
    for one, other in zip(ours, theirs, strict=True):
        for name, left, right in zip(COMPARED, one, other, strict=True):
            counts[name] += left != right
    return counts


def measure(original: Peer, ours: Ours, rounds: int) -> dict[str, list[float]]:
    """Return the steps a second of each round."""
    seen = ours.open()
    ours.play(seen)
    original.ask("play")  # Java compiles what is hot
    contestants: dict[str, Callable[[], WebShopEnv]] = {
        "seen before": lambda: seen,
        "first sight": ours.open,
        "first sight, new words": lambda: ours.open(new_words=True),
    }
    figures: dict[str, list[float]] = {"original": [], **{name: [] for name in contestants}}
    for _ in range(rounds):
        played = original.ask("play")
        figures["original"].append(played["steps"] / played["seconds"])
        for name, opened in contestants.items():
            figures[name].append(statistics.median(ours.play(opened()) for _ in range(REPEATS)))
    return figures


def medians(figures: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Return each contestant's median over rounds, and that of the ratios to the original within them."""
    return {
        name: {
            "steps a second": statistics.median(values),
            "times the original": statistics.median(
                value / other for value, other in zip(values, figures["original"], strict=True)
            ),
        }
        for name, values in figures.items()
    }


def markdown(record: Mapping[str, Any]) -> str:
    """Write the report for people."""
    figures = record["steps_per_second"]
    theirs = figures["original"]
    rows = []
    for name, values in figures.items():
        ratios = [value / other for value, other in zip(values, theirs, strict=True)]
        spread = f"{min(values):,.0f} to {max(values):,.0f}"
        ratio = f"{statistics.median(ratios):,.0f} ({min(ratios):,.0f} to {max(ratios):,.0f})"
        label = "the original" if name == "original" else f"agentgym, {name}"
        ratio = "" if name == "original" else ratio
        rows.append((label, f"{statistics.median(values):,.0f}", spread, ratio))
    versions, about = record["original"], record["machine"]
    counts = ", ".join(f"{name} {count}" for name, count in record["differences"].items())
    packages = ", ".join(f"{name} {number}" for name, number in versions.items())
    own = ", ".join(f"{name} {about[name]}" for name in about if name not in ("cpu", "system"))
    return "\n".join(
        [
            "# Speed of WebShop beside the original",
            "",
            f"`make speed WEBSHOP=checkout`, {record['rounds']} rounds, on {about['cpu']}; {own}.",
            f"The original: princeton-nlp/WebShop at {record['commit'][:7]}, {packages}.",
            "",
            f"{record['episodes']} recorded episodes, {record['steps']} actions, over the 1,000 published",
            "products, in one thread each, in turn, round by round; steps a second of the processor,",
            "median and range, and the ratio within a round.",
            "",
            *table(("contestant", "steps/s", "range", "times the original"), rows),
            "",
            f"Steps that differ between the two: {counts}.",
            "",
            NOTES,
        ]
    )


NOTES = """\
*Seen before*: every query, page and purchase was played before in the process. *First sight*: the world
is opened for the pass and has searched, read, shown and scored nothing; the index knows the words of the
queries, as in training after a while. *First sight, new words*: the index is opened for the pass, too,
and has met no word. Both answer resets and steps in text mode; ours also hands out what can be clicked,
state hash and score; the original is not asked for what can be clicked beyond what its own step reads.

The original searches with Lucene, through the jar of pyserini, and keeps nothing of what it did. There
are stand-ins for torch and for the environment that drives a browser, which play no part, and for the
spaCy model, which tags nouns when a purchase is scored: in both, spaCy's English tokenizer takes every
word but a stop word for one, and remembers words in both. Goals and prices are the recorded ones.
"""


def commit_of(checkout: Path) -> str:
    """Return the commit of a checkout."""
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    """Compare, measure and write the report."""
    arguments = parser(__spec__.name, __doc__, OUT, rounds=5)
    arguments.add_argument("--webshop", type=Path, required=True, help="checkout of princeton-nlp/WebShop")
    arguments.add_argument("--python", type=Path, required=True, help="a Python with what the checkout needs")
    arguments.add_argument("--recordings", type=Path, help="folder of the recorded episodes")
    options = arguments.parse_args()
    recordings = options.recordings or data_directory().parent / "golden"
    episodes = [
        {"goal": episode["goal"], "actions": [step["action"] for step in episode["steps"]]}
        for episode in read_episodes(recordings)
    ]
    prices = json.loads((recordings / PRICES).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder, episodes, prices)
        words = (str(options.webshop.resolve()), str(folder))
        original = Peer(options.python, UPSTREAM, words, folder / "log.txt")
        ours = Ours(folder, episodes, prices)
        record = {
            "rounds": options.rounds,
            "machine": machine("PyStemmer", "rapidfuzz", "spacy"),
            "original": original.versions,
            "commit": commit_of(options.webshop),
            "episodes": len(episodes),
            "steps": sum(len(episode["actions"]) for episode in episodes),
            "differences": differences(ours.show(), original.ask("show")),
            "steps_per_second": measure(original, ours, options.rounds),
        }
        record["medians"] = medians(record["steps_per_second"])
        original.end()
    publish(options.out, record, markdown(record))
    return int(any(record["differences"].values()))


if __name__ == "__main__":
    raise SystemExit(main())
