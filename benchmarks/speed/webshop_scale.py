"""WebShop at full scale: ``python -m benchmarks.speed.webshop_scale --products 100000 1181436``.

A made-up catalogue in the published form (`benchmarks.speed.webshop_catalogue`) is imported, indexed by each
engine, opened and searched. Every phase runs in a process of its own, so that its peak of memory is its own.
Times are of the processor, so that what else the machine does counts little. A size that is measured again
replaces its old figures; the others stay.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.envs.webshop.data.importer import convert, find_files
from agentgym.envs.webshop.data.productstore import StoredCatalogue
from agentgym.retrieval.analysis import Analyser
from agentgym.retrieval.engines.bm25 import build_bm25, open_bm25
from benchmarks.speed.report import machine
from benchmarks.speed.webshop_catalogue import instructions, write_upstream

OUT = Path(__file__).with_name("webshop_scale.json")

FOLDER = Path(tempfile.gettempdir(), "webshop-scale")

QUERIES = 1_000
"""Of a round."""
ROUNDS = 5
FOUND = 50
BM25S_LIMIT = 200_000
"""Documents that bm25s is given at most."""


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


def build(folder: Path, products: int) -> dict[str, float]:
    """Build an index."""
    build_bm25(documents(folder), corpus="made up", folder=folder / "bm25")
    return {"bytes": size_of(folder / "bm25")}


def opening(folder: Path, products: int) -> dict[str, float]:
    """Open the store and read products at random."""
    began = time.process_time()
    catalogue = StoredCatalogue(folder / "store" / "full.products")
    opened = time.process_time()
    for index in np.random.default_rng(0).integers(0, len(catalogue), 20_000).tolist():
        catalogue.product(index)
    read = time.process_time()
    return {"open_ms": 1e3 * (opened - began), "product_us": 1e6 * (read - opened) / 20_000}


def searching(folder: Path, products: int) -> dict[str, float]:
    """Open an index and search it, with the machine's caches to itself."""
    began = time.process_time()
    index = open_bm25(folder / "bm25")
    opened = time.process_time()
    times = []
    for query in [*instructions(2 * QUERIES)[QUERIES:], *instructions(QUERIES)]:
        before = time.thread_time()
        index.search(query, FOUND)
        times.append(1e3 * (time.thread_time() - before))
    p10, p50 = np.quantile(times[QUERIES:], [0.1, 0.5]).tolist()
    return {"open_ms": 1e3 * (opened - began), "p10_ms": p10, "p50_ms": p50}


def side_by_side(folder: Path, products: int) -> dict[str, float]:
    """Ask each query of all engines in turn, so that whatever else the machine does hits all of them."""
    searches: dict[str, Callable[[str], object]] = {
        "bm25": partial(open_bm25(folder / "bm25").search, k=FOUND)
    }
    if products <= BM25S_LIMIT:
        searches |= bm25s_searches(folder)
    queries = instructions((1 + ROUNDS) * QUERIES)
    for query in queries[:QUERIES]:  # so that words are known; the queries are new
        for search in searches.values():
            search(query)
    times = np.array([asked(searches, query) for query in queries[QUERIES:]])  # (queries, engines)
    ratios = np.median((times / times[:, :1]).reshape(ROUNDS, QUERIES, -1), axis=1)
    figures: dict[str, float] = {}
    for column, name in enumerate(searches):
        p50, p99 = np.quantile(times[:, column], [0.5, 0.99]).tolist()
        figures |= {f"{name} mean": float(times[:, column].mean()), f"{name} p50": p50, f"{name} p99": p99}
        figures[f"{name} ratio"] = float(np.median(ratios[:, column]))
    return figures


def asked(searches: Mapping[str, Callable[[str], object]], query: str) -> list[float]:
    """Return the milliseconds that each search takes for a query, of all its threads together."""
    times = []
    for search in searches.values():
        began = time.process_time()
        search(query)
        times.append(1e3 * (time.process_time() - began))
    return times


def bm25s_searches(folder: Path) -> dict[str, Callable[[str], object]]:
    """Return a search by bm25s with each of its backends, of the same terms."""
    import bm25s

    analyser = Analyser()
    corpus = [analyser.terms(text) for _, text in documents(folder)]

    def made(backend: str) -> Callable[[str], object]:
        index = bm25s.BM25(method="lucene", k1=0.9, b=0.4, backend=backend)
        index.index(corpus, show_progress=False)
        known = index.vocab_dict

        def search(query: str) -> object:
            terms = [term for term in analyser.terms(query) if term in known]
            return index.retrieve([terms], k=FOUND, show_progress=False)

        return search

    return {"bm25s": made("numpy"), "bm25s, numba": made("numba")}


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


PHASES: dict[str, Callable[..., dict[str, float]]] = {
    "write": write,
    "import": importing,
    "open": opening,
    "build bm25": build,
    "search bm25": searching,
    "side by side": side_by_side,
}


def _peak_kb() -> int:
    """Return the most memory this program has had, in kilobytes; ``ru_maxrss`` counts its parent too."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def run_phase(name: str, folder: Path, products: int) -> dict[str, float]:
    """Run a phase in this process; return its figures with time and memory."""
    began, wall = time.process_time(), time.perf_counter()
    figures = PHASES[name](folder, products)
    return {
        "cpu_s": time.process_time() - began,
        "wall_s": time.perf_counter() - wall,
        "peak_mb": _peak_kb() / 1024,
        **figures,
    }


def measure(folder: Path, products: int, phases: Iterable[str]) -> Iterator[tuple[str, dict[str, float]]]:
    """Run phases, each in a process of its own; yield their figures."""
    for name in phases:
        command = [sys.executable, "-m", "benchmarks.speed.webshop_scale", "--phase", name]
        command += ["--folder", str(folder), "--products", str(products)]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        figures = json.loads(answer.stdout)
        print(products, name, figures, file=sys.stderr)
        yield name, figures


def markdown(record: dict[str, Any]) -> str:
    """Write the tables, of what has been measured."""
    about = record["machine"]
    sizes = sorted((int(size), result) for size, result in record["sizes"].items())
    packages = [name for name in about if name not in ("cpu", "system", "gymnasium", "agentgym-suite")]
    phases = sorted({name for _, result in sizes for name in result})  # those of earlier versions too
    lines = [
        "# WebShop at full scale",
        "",
        f"`python -m benchmarks.speed.webshop_scale` on {about['cpu']};",
        f"{', '.join(f'{name} {about[name]}' for name in packages)}.",
        "",
        *SETTING,
        "",
        "| phase | products | processor time | peak memory | on disk |",
        "|---|---|---|---|---|",
    ]
    for name in ("import", *(name for name in phases if name.startswith("build "))):
        for size, row in ((size, result[name]) for size, result in sizes if name in result):
            figures = f"{row['cpu_s']:,.0f} s | {row['peak_mb']:,.0f} MB | {row['bytes'] / 1e6:,.0f} MB"
            lines.append(f"| {name} | {size:,} | {figures} |")
    lines += [
        "",
        "| opened | products | time | peak memory after reading | a query alone: median, fastest tenth |",
    ]
    lines.append("|---|---|---|---|---|")
    for name in ("open", *(name for name in phases if name.startswith("search "))):
        for size, row in ((size, result[name]) for size, result in sizes if name in result):
            what = {"open": "catalogue"}.get(name, name.removeprefix("search "))
            alone = f"{row['p50_ms']:.2f} ms, {row['p10_ms']:.2f} ms" if "p50_ms" in row else ""
            lines.append(
                f"| {what} | {size:,} | {row['open_ms']:.1f} ms | {row['peak_mb']:,.0f} MB | {alone} |"
            )
    for size, result in sizes:
        lines.append(f"\nOne of {size:,} products, at random: {result['open']['product_us']:.0f} us.")
    lines += [
        "",
        f"The best {FOUND} for {QUERIES:,} instructions, none asked before, each of all engines in turn; the",
        f"last column is the median of {ROUNDS} such rounds:",
        "",
        "| engine | products | mean | median | 99 % | times bm25's |",
        "|---|---|---|---|---|---|",
    ]
    for size, row in ((size, result["side by side"]) for size, result in sizes if "side by side" in result):
        for engine in sorted(key.removesuffix(" mean") for key in row if key.endswith(" mean")):
            times = " | ".join(f"{row[f'{engine} {key}']:.2f} ms" for key in ("mean", "p50", "p99"))
            lines.append(f"| {engine} | {size:,} | {times} | {row[f'{engine} ratio']:.2f} |")
    return "\n".join(lines) + "\n\n" + NOTES


SETTING = (
    "A made-up catalogue, whose words come as often as in the real texts, in the form of the published",
    "files. Every phase runs in a process of its own. Times are of the processor, on a machine that was busy",
    "with other work: they are upper bounds. Peaks of memory count the parts of mapped files that were",
    "touched, which all processes share and the system may drop.",
)

NOTES = """\
`bm25` is the project's own index, which ranks as Lucene does, document for document; `bm25s` has the
formula but not Lucene's lengths and ties. `bm25s` is given the same terms, with its NumPy backend and
with numba's, whose compilation is not counted, and no more than 200,000 documents: it takes lists of all
words, and so several gigabytes beyond. Rows of another engine are of an earlier version, which had it.
The comparison for 100,000 was measured on the machine named above; the other rows stem from an AMD EPYC.
What has no row was not measured: a phase is run, or run again, by `--only PHASE`.
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
    record["machine"] = machine("bm25s", "numba", "PyStemmer")
    record["sizes"].setdefault(str(products), {})[phase] = figures
    OUT.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
