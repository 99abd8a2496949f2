"""BM25 at several sizes, beside others: ``python -m benchmarks.retrieval.bm25 --passages 1000 100000``.

Passages are made up with the lengths and word frequencies of HotpotQA's sample, queries are its questions,
whole or five words of each (`benchmarks.retrieval.synthetic`). Every phase runs in a process of its own, so
that its memory is its own; times are of the processor unless it says otherwise. A phase that is measured
again replaces its old figures; the others stay.
"""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.retrieval.analysis import ANALYSER, Analyser
from agentgym.retrieval.corpus.naming import IdColumn
from agentgym.retrieval.engines.bm25 import ENGINE, Bm25, build_bm25, open_bm25
from agentgym.retrieval.engines.bm25.merging import merge_blocks
from agentgym.retrieval.engines.bm25.postings import in_files, write_layout
from agentgym.retrieval.index import MANIFEST, Manifest, new_folder, spool_beside, versions
from benchmarks.harness.processes import alone, status
from benchmarks.harness.report import machine, parser, table
from benchmarks.retrieval.synthetic import counted_blocks, five_words, made_up, questions

OUT = Path(__file__).with_suffix(".json")

FOLDER = Path(tempfile.gettempdir(), "bm25-scale")

MB = 1 << 20
K = 5
BATCH = 1_280
"""Queries of one turn of verl-agent's search recipe."""
ROUNDS = 5
ASKED = 256
"""Queries of a round; FTS5, which is slow, is asked fewer."""
COMPARED = 50
"""Queries whose lists are compared with those of the NumPy form."""

Search = Callable[[Sequence[str]], object]


def build(folder: Path, passages: int) -> dict[str, float]:
    """Build the index, in two processes from a million passages on."""
    processes = 2 if passages >= 1_000_000 else 1
    build_bm25(made_up(passages), corpus="made up", folder=folder / "bm25", processes=processes)
    size = sum(path.stat().st_size for path in (folder / "bm25").iterdir())
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "bytes": size,
        "processes": processes,
        "children_cpu_s": children.ru_utime + children.ru_stime,
        "child_peak_mb": children.ru_maxrss / 1024 if processes > 1 else 0,
    }


def laying_out(folder: Path, passages: int) -> dict[str, float]:
    """Build the index of passages whose terms are drawn and counted at once, so as to measure merging."""
    ids = IdColumn()
    for number in range(passages):
        ids.add(f"{number:08}")
    with spool_beside(folder / "bm25") as spool, new_folder(folder / "bm25") as draft:
        blocks = list(counted_blocks(passages, spool))
        cpu, wall = time.process_time(), time.perf_counter()
        postings, filled = merge_blocks(blocks, ids, in_files(draft), 0.9, 0.4)
        merged = {"merge_cpu_s": time.process_time() - cpu, "merge_wall_s": time.perf_counter() - wall}
        write_layout(draft, postings)
        manifest = Manifest(
            engine=ENGINE,
            analyser=ANALYSER,
            parameters={"k1": 0.9, "b": 0.4, "filled": filled},
            corpus="made up",
            corpus_sha256="",
            count=passages,
            libraries=versions("numpy"),
        )
        (draft / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    size = sum(path.stat().st_size for path in (folder / "bm25").iterdir())
    return {"bytes": size, "pairs": len(postings.documents), **merged}


def generating(folder: Path, passages: int) -> dict[str, float]:
    """Only make the passages up, so as to know what of building is that."""
    return {"passages": sum(1 for _ in made_up(passages))}


def searching(folder: Path, passages: int) -> dict[str, float]:
    """Search whole questions and five words of them, alone and in a batch."""
    began = time.process_time()
    index = open_bm25(folder / "bm25", backend="numba")
    figures: dict[str, float] = {"open_ms": 1e3 * (time.process_time() - began)}
    whole = questions(BATCH + ASKED)
    index.search_all(whole[BATCH:], K)  # compile, and read from the disk what others keep in memory
    index.search_all(whole[:BATCH], K)
    for name, queries in (("whole", whole[:BATCH]), ("five", five_words(whole[:BATCH]))):
        times = []
        for query in queries:
            before = time.thread_time()
            index.search(query, K)
            times.append(1e3 * (time.thread_time() - before))
        figures |= {f"{name} mean": float(np.mean(times)), f"{name} p50": float(np.median(times))}
        figures[f"{name} p99"] = float(np.quantile(times, 0.99))
    figures["batch wall_s"], figures["batch cpu_s"] = _batch(index, whole[:BATCH])
    figures["anonymous_mb"] = status("RssAnon") / MB
    figures["mapped_mb"] = status("RssFile") / MB
    return figures


def _batch(index: Bm25, queries: list[str]) -> tuple[float, float]:
    """Return the least wall and processor time of a batch in three."""
    walls, cpus = [], []
    for _ in range(3):
        wall, cpu = time.perf_counter(), time.process_time()
        index.search_all(queries, K)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return min(walls), min(cpus)


def comparing(folder: Path, passages: int) -> dict[str, float]:
    """Count the lists that differ from those of the NumPy form."""
    compiled = open_bm25(folder / "bm25", backend="numba")
    reference = open_bm25(folder / "bm25", backend="numpy")
    asked = questions(COMPARED)
    differ = 0
    for query in [*asked, *five_words(asked)]:
        ours, theirs = compiled.search(query, K), reference.search(query, K)
        same = np.array_equal(ours.documents, theirs.documents) and np.array_equal(ours.scores, theirs.scores)
        differ += not same
    return {"lists": 2 * len(asked), "differ": differ}


def side_by_side(folder: Path, passages: int) -> dict[str, float]:
    """Ask all engines in turn, round by round, so that whatever else the machine does hits all of them."""
    corpus = list(made_up(passages))
    engines = {
        "bm25": _ours(open_bm25(folder / "bm25", backend="numba")),
        "bm25, NumPy": _ours(open_bm25(folder / "bm25", backend="numpy")),
        "bm25, batch": _ours_in_a_batch(open_bm25(folder / "bm25", backend="numba")),
        "bm25, NumPy, batch": _ours_in_a_batch(open_bm25(folder / "bm25", backend="numpy")),
        "bm25s, numba": _bm25s(corpus),
        "SQLite FTS5": _fts5(corpus),
    }
    whole = questions((1 + ROUNDS) * ASKED)
    figures: dict[str, float] = {}
    for name, queries in (("whole", whole), ("five", five_words(whole))):
        times = np.array(
            [
                [_asked(search, queries[at : at + ASKED], engine) for engine, search in engines.items()]
                for at in range(0, len(queries), ASKED)
            ][1:]
        )
        for column, engine in enumerate(engines):
            figures[f"{engine} {name} ms"] = float(np.median(times[:, column]))
            figures[f"{engine} {name} ratio"] = float(np.median(times[:, column] / times[:, 0]))
    return figures


def _asked(search: Search, queries: Sequence[str], engine: str) -> float:
    """Return the milliseconds of the processor that a query takes."""
    asked = queries[:16] if engine == "SQLite FTS5" else queries
    before = time.process_time()
    search(asked)
    return 1e3 * (time.process_time() - before) / len(asked)


def _ours(index: Any) -> Search:
    return lambda queries: [index.search(query, K) for query in queries]


def _ours_in_a_batch(index: Bm25) -> Search:
    return lambda queries: index.search_all(queries, K)


def _bm25s(corpus: Sequence[tuple[str, str]]) -> Search:
    """Return searches by bm25s with numba, given the same terms, all queries in one call."""
    import bm25s

    analyser = Analyser()
    index = bm25s.BM25(method="lucene", k1=0.9, b=0.4, backend="numba")
    index.index([analyser.terms(text) for _, text in corpus], show_progress=False)
    known = index.vocab_dict

    def search(queries: Sequence[str]) -> object:
        terms = [[term for term in analyser.terms(query) if term in known] for query in queries]
        return index.retrieve(terms, k=K, show_progress=False)

    return search


def _fts5(corpus: Sequence[tuple[str, str]]) -> Search:
    """Return searches by SQLite's FTS5, given the same terms."""
    analyser = Analyser()
    base = sqlite3.connect(":memory:")
    base.execute("CREATE VIRTUAL TABLE passages USING fts5(text, tokenize=unicode61)")
    base.executemany(
        "INSERT INTO passages (text) VALUES (?)", ((" ".join(analyser.terms(text)),) for _, text in corpus)
    )

    def search(queries: Sequence[str]) -> object:
        found = []
        for query in queries:
            wanted = " OR ".join(f'"{term}"' for term in dict.fromkeys(analyser.terms(query)))
            statement = f"SELECT rowid FROM passages WHERE passages MATCH ? ORDER BY rank LIMIT {K}"
            found.append(base.execute(statement, (wanted,)).fetchall())
        return found

    return search


PHASES: dict[str, Callable[[Path, int], dict[str, float]]] = {
    "generate": generating,
    "build": build,
    "lay out": laying_out,
    "search": searching,
    "compare": comparing,
    "side by side": side_by_side,
}

SIDE_BY_SIDE_LIMIT = 200_000
"""Passages that all engines are given at most."""


def run_phase(name: str, folder: Path, passages: int) -> dict[str, float]:
    """Run a phase in this process; return its figures with time and memory."""
    cpu, wall = time.process_time(), time.perf_counter()
    figures = PHASES[name](folder, passages)
    return {
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.perf_counter() - wall,
        "peak_mb": status("VmHWM") / MB,
        "load": os.getloadavg()[0],
        **figures,
    }


def save(passages: int, phase: str, figures: dict[str, float]) -> None:
    """Put the figures of a phase with those that are known."""
    record = json.loads(OUT.read_text()) if OUT.exists() else {"sizes": {}}
    record["machine"] = machine("bm25s", "numba", "PyStemmer") | {"sqlite": sqlite3.sqlite_version}
    record["sizes"].setdefault(str(passages), {})[phase] = figures
    OUT.write_text(json.dumps(record, indent=1) + "\n")


def markdown(record: dict[str, Any]) -> str:
    """Write the tables, of what has been measured."""
    about = record["machine"]
    sizes = sorted((int(size), result) for size, result in record["sizes"].items())
    packages = [name for name in about if name not in ("cpu", "system", "gymnasium", "agentgym-suite")]
    lines = ["# BM25 at several sizes", ""]
    lines += [f"`python -m benchmarks.retrieval.bm25` on {about['cpu']};"]
    lines += [f"{', '.join(f'{name} {about[name]}' for name in packages)}.", "", *SETTING, ""]
    built: list[tuple[object, ...]] = []
    for size, row in ((size, result["build"]) for size, result in sizes if "build" in result):
        result = record["sizes"][str(size)]
        made = f"{result['generate']['cpu_s']:,.0f} s" if "generate" in result else "n/a"
        peak = row["peak_mb"] + row["processes"] * row["child_peak_mb"]
        cpu = row["cpu_s"] + row["children_cpu_s"]
        built.append((f"{size:,}, {row['processes']} counting", f"{cpu:,.0f} s, {made}", *_taken(row, peak)))
    for size, row in ((size, result["lay out"]) for size, result in sizes if "lay out" in result):
        cpu = f"{row['cpu_s']:,.0f} s, of it merging {row['merge_cpu_s']:,.0f} s"
        built.append((f"{size:,}, drawn as counted terms", cpu, *_taken(row, row["peak_mb"])))
    head = ("built", "processor time, making up alone", "wall", "peak memory", "on disk", "load")
    lines += table(head, built)
    lines += ["", *_searches(sizes)]
    for size, row in ((size, result["compare"]) for size, result in sizes if "compare" in result):
        lines.append(f"\nOf {row['lists']} lists over {size:,} passages {row['differ']} differ from NumPy's.")
    for size, row in ((size, result["side by side"]) for size, result in sizes if "side by side" in result):
        lines += [
            f"\nA query over {size:,} passages, best {K}, all engines in turn, median of {ROUNDS} rounds:",
            "",
            "| engine | whole question | times bm25's | five words | times bm25's |",
            "|---|---|---|---|---|",
        ]
        for engine in (key.removesuffix(" whole ms") for key in row if key.endswith(" whole ms")):
            cells = [
                f"{row[f'{engine} {name} ms']:.3f} ms | {row[f'{engine} {name} ratio']:.2f}"
                for name in ("whole", "five")
            ]
            lines.append(f"| {engine} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n\n" + NOTES


def _taken(row: dict[str, float], peak: float) -> tuple[str, ...]:
    size = f"{row['bytes'] / 1e6:,.0f} MB"
    return f"{row['wall_s']:,.0f} s", f"{peak:,.0f} MB", size, f"{row['load']:.1f}"


def _searches(sizes: Sequence[tuple[int, dict[str, Any]]]) -> list[str]:
    lines = [
        f"| searched, best {K} | whole question: mean, median, 99 % | five words: mean, median, 99 % "
        f"| {BATCH:,} questions in one call: wall, processor | memory beside the mapped files | load |",
        "|---|---|---|---|---|---|",
    ]
    for size, row in ((size, result["search"]) for size, result in sizes if "search" in result):
        cells = [
            ", ".join(f"{row[f'{name} {key}']:.2f} ms" for key in ("mean", "p50", "p99"))
            for name in ("whole", "five")
        ]
        batch = f"{row['batch wall_s']:.2f} s, {row['batch cpu_s']:.2f} s"
        memory = f"{row['anonymous_mb']:.0f} MB"
        lines.append(f"| {size:,} | {' | '.join(cells)} | {batch} | {memory} | {row['load']:.1f} |")
    return lines


SETTING = (
    "Passages are made up: they have the lengths of those in HotpotQA's sample and its words as often as it",
    "has them, drawn one by one, so that words go together by chance; queries are its questions, whole or",
    "five words of each that are no stop words. Every phase runs in a process of its own. Times are of the",
    "processor, on two cores that were busy with other work (the load says how much): they are upper bounds.",
)

NOTES = """\
`bm25` is the project's own index, compiled by numba; `NumPy` is its form without, which finds the same;
`batch` is `search_all`. `bm25s` has the formula but not Lucene's lengths and ties, with its numba backend,
whose compilation is not counted, and all queries of a round in one call. It and SQLite's FTS5 are given
the same terms. The others are asked no more than 200,000 passages.
Rows of another engine are of an earlier version, which had it.
The wall time of a batch, on two threads, says little where others used the cores too: half its processor time
is what two free cores take. Passages drawn as counted terms were built without their texts, which a build
reads at about 75 us each; their search is that of any index.
"""


def measure(passages: int, folder: Path, phases: Sequence[str]) -> None:
    """Run phases, each in a process of its own, and keep their figures."""
    for name in phases:
        if name == ("lay out" if "build" in phases else ""):
            continue
        if name == "side by side" and passages > SIDE_BY_SIDE_LIMIT:
            continue
        given = ("--phase", name, "--folder", str(folder), "--passages", str(passages))
        figures = alone(__spec__.name, *given)
        print(passages, name, figures, file=sys.stderr)
        save(passages, name, figures)


def main() -> None:
    """Measure and write the report."""
    given = parser(__spec__.name, __doc__)
    given.add_argument("--passages", type=int, nargs="+", default=[1_000, 100_000])
    given.add_argument("--folder", type=Path, default=FOLDER, help="for files of some GB")
    given.add_argument("--phase", choices=PHASES, help="of one size, in this process")
    given.add_argument("--only", choices=PHASES, nargs="+", default=list(PHASES), help="in the same folder")
    given.add_argument("--report", action="store_true", help="only write the tables again")
    arguments = given.parse_args()
    if arguments.phase:
        print(json.dumps(run_phase(arguments.phase, arguments.folder, arguments.passages[0])))
        return
    for passages in [] if arguments.report else arguments.passages:
        folder = arguments.folder / str(passages)
        folder.mkdir(parents=True, exist_ok=True)
        measure(passages, folder, arguments.only)
    OUT.with_suffix(".md").write_text(markdown(json.loads(OUT.read_text())))


if __name__ == "__main__":
    main()
