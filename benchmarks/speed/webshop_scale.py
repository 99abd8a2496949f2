"""WebShop at full scale: ``python -m benchmarks.speed.webshop_scale --products 100000 1181436``.

A made-up catalogue in the published form (`benchmarks.speed.webshop_catalogue`) is imported, indexed by each
engine, opened and searched. Every phase runs in a process of its own, so that its peak of memory is its own.
Times are of the processor, so that what else the machine does counts little. A size that is measured again
replaces its old figures; the others stay.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.data.productstore import StoredCatalogue
from agentgym.data.webshop import convert, find_files
from agentgym.retrieval.analysis import Analyser
from agentgym.retrieval.bm25 import build_bm25, open_bm25
from agentgym.retrieval.tantivy import build_tantivy, open_tantivy
from benchmarks.speed.report import machine
from benchmarks.speed.webshop_catalogue import instructions, write_upstream

OUT = Path(__file__).with_name("webshop_scale.json")

FOLDER = Path(tempfile.gettempdir(), "webshop-scale")

QUERIES = 1_000
FOUND = 50
BM25S_LIMIT = 200_000
"""Documents that bm25s is given at most: it takes lists of all words, and so several gigabytes beyond."""

ENGINES: dict[str, tuple[Callable[..., Any], Callable[[Path], Any]]] = {
    "bm25": (build_bm25, open_bm25),
    "tantivy": (build_tantivy, open_tantivy),
}


def documents(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield name and indexed text of every product of the imported catalogue."""
    catalogue = StoredCatalogue(folder / "store" / "full.products")
    for index in range(len(catalogue)):
        product = catalogue.product(index)
        yield product.asin, product.indexed_text


def write(folder: Path, products: int) -> dict[str, float]:
    """Write the upstream files."""
    (folder / "upstream").mkdir()
    write_upstream(folder / "upstream", products)
    return {"bytes": size_of(folder / "upstream")}


def importing(folder: Path, products: int) -> dict[str, float]:
    """Import them."""
    files = list(find_files(folder / "upstream"))
    convert(files, folder / "store", progress=lambda done, total: None)
    return {"bytes": size_of(folder / "store")}


def build(folder: Path, products: int, engine: str) -> dict[str, float]:
    """Build an index."""
    ENGINES[engine][0](documents(folder), corpus="made up", folder=folder / engine)
    return {"bytes": size_of(folder / engine)}


def opening(folder: Path, products: int) -> dict[str, float]:
    """Open the store and read products at random."""
    began = time.process_time()
    catalogue = StoredCatalogue(folder / "store" / "full.products")
    opened = time.process_time()
    for index in np.random.default_rng(0).integers(0, len(catalogue), 20_000).tolist():
        catalogue.product(index)
    read = time.process_time()
    return {"open_ms": 1e3 * (opened - began), "product_us": 1e6 * (read - opened) / 20_000}


def searching(folder: Path, products: int, engine: str) -> dict[str, float]:
    """Open an index and search it for instructions, none twice."""
    began = time.process_time()
    index = ENGINES[engine][1](folder / engine)
    opened = time.process_time()
    return {"open_ms": 1e3 * (opened - began), **latency(lambda query: index.search(query, FOUND))}


def bm25s(folder: Path, products: int) -> dict[str, float]:
    """Build an index of bm25s from the same terms, and search it."""
    import bm25s as peer

    analyser = Analyser()
    began = time.process_time()
    index = peer.BM25(method="lucene", k1=0.9, b=0.4)
    index.index([analyser.terms(text) for _, text in documents(folder)], show_progress=False)
    seconds = time.process_time() - began
    return {
        "build_s": seconds,
        **latency(lambda query: index.retrieve([analyser.terms(query)], k=FOUND, show_progress=False)),
    }


def latency(search: Callable[[str], object]) -> dict[str, float]:
    """Return mean, median and 99th percentile of a query's time; words are known, queries new."""
    queries = instructions(2 * QUERIES)
    for query in queries[QUERIES:]:
        search(query)
    times = []
    for query in queries[:QUERIES]:
        began = time.thread_time()
        search(query)
        times.append(1e3 * (time.thread_time() - began))
    p50, p99 = np.quantile(times, [0.5, 0.99]).tolist()
    return {"mean_ms": float(np.mean(times)), "p50_ms": p50, "p99_ms": p99}


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


PHASES: dict[str, Callable[..., dict[str, float]]] = {
    "write": write,
    "import": importing,
    "open": opening,
    "build bm25": partial(build, engine="bm25"),
    "search bm25": partial(searching, engine="bm25"),
    "bm25s": bm25s,
    "build tantivy": partial(build, engine="tantivy"),
    "search tantivy": partial(searching, engine="tantivy"),
}


def run_phase(name: str, folder: Path, products: int) -> dict[str, float]:
    """Run a phase in this process; return its figures with time and memory."""
    began, wall = time.process_time(), time.perf_counter()
    figures = PHASES[name](folder, products)
    return {
        "cpu_s": time.process_time() - began,
        "wall_s": time.perf_counter() - wall,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        **figures,
    }


def measure(folder: Path, products: int, phases: Iterable[str]) -> Iterator[tuple[str, dict[str, float]]]:
    """Run phases, each in a process of its own; yield their figures."""
    for name in phases:
        if name == "bm25s" and products > BM25S_LIMIT:
            continue
        command = [sys.executable, "-m", "benchmarks.speed.webshop_scale", "--phase", name]
        command += ["--folder", str(folder), "--products", str(products)]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        figures = json.loads(answer.stdout)
        print(products, name, figures, file=sys.stderr)
        yield name, figures


def markdown(record: dict[str, Any]) -> str:
    """Write the tables."""
    about, sizes = record["machine"], {int(size): result for size, result in record["sizes"].items()}
    versions = ", ".join(
        f"{name} {about[name]}" for name in ("python", "numpy", "bm25s", "tantivy", "PyStemmer")
    )
    lines = [
        "# WebShop at full scale",
        "",
        f"`python -m benchmarks.speed.webshop_scale` on {about['cpu']}; {versions}.",
        "",
        "A made-up catalogue, whose words come as often as in the real texts, in the form of the published",
        "files. Every phase runs in a process of its own. Times are of the processor; peaks of memory count",
        "the parts of mapped files that were touched, which all processes share and the system may drop.",
        "",
        "| phase | products | processor time | peak memory | on disk |",
        "|---|---|---|---|---|",
    ]
    for size, result in sorted(sizes.items()):
        for name, label in (
            ("import", "import"),
            ("build bm25", "index, bm25"),
            ("build tantivy", "index, tantivy"),
        ):
            row = result[name]
            disk = f"{row['bytes'] / 1e6:,.0f} MB"
            lines.append(
                f"| {label} | {size:,} | {row['cpu_s']:,.0f} s | {row['peak_mb']:,.0f} MB | {disk} |"
            )
    lines += ["", "| opened and read | products | open | one product, at random |", "|---|---|---|---|"]
    for size, result in sorted(sizes.items()):
        row = result["open"]
        lines.append(f"| catalogue | {size:,} | {row['open_ms']:.1f} ms | {row['product_us']:.0f} us |")
    lines += [
        "",
        f"Search for the best {FOUND} of instructions ({QUERIES:,} queries, none asked before):",
        "",
        "| engine | products | open | mean | median | 99 % | peak memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for size, result in sorted(sizes.items()):
        for name in ("search bm25", "search tantivy", "bm25s"):
            if name in result:
                row = result[name]
                opened = f"{row['open_ms']:.1f} ms" if "open_ms" in row else "built in memory"
                times = " | ".join(f"{row[key]:.2f} ms" for key in ("mean_ms", "p50_ms", "p99_ms"))
                engine = name.removeprefix("search ")
                lines.append(f"| {engine} | {size:,} | {opened} | {times} | {row['peak_mb']:,.0f} MB |")
    return "\n".join(lines) + "\n\n" + NOTES


NOTES = """\
`bm25` is the project's own index, which ranks as Lucene does, document for document; `bm25s` has the
formula but not Lucene's lengths and ties, and `tantivy` other constants. `bm25s` is given the same terms, and
no more than 200,000 documents.
"""


def main() -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", type=int, nargs="+", default=[100_000])
    parser.add_argument(
        "--folder", type=Path, default=Path("/tmp/webshop-scale"), help="for files of some GB"
    )
    parser.add_argument("--phase", choices=PHASES, help="of one size, in this process")
    parser.add_argument("--only", choices=PHASES, nargs="+", default=list(PHASES), help="in the same folder")
    parser.add_argument("--report", action="store_true", help="only write the tables again")
    arguments = parser.parse_args()
    if arguments.phase:
        print(json.dumps(run_phase(arguments.phase, arguments.folder, arguments.products[0])))
        return
    for products in [] if arguments.report else arguments.products:
        folder = arguments.folder / str(products)
        folder.mkdir(parents=True, exist_ok=True)
        for name, figures in measure(folder, products, arguments.only):
            save(products, name, figures)
    OUT.with_suffix(".md").write_text(markdown(json.loads(OUT.read_text())))


def save(products: int, phase: str, figures: dict[str, float]) -> None:
    """Put the figures of a phase with those that are known."""
    record = json.loads(OUT.read_text()) if OUT.exists() else {"sizes": {}}
    record["machine"] = machine("bm25s", "tantivy", "PyStemmer")
    record["sizes"].setdefault(str(products), {})[phase] = figures
    OUT.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
