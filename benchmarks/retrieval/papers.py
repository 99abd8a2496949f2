"""Paper search at full scale, beside SQLite: ``python -m benchmarks.retrieval.papers``.

Three million made-up papers with thirty million citations, as the two mapped files of
`agentgym.envs.papersearch` and as a SQLite database with the indexes that the same questions need. Every
phase runs in a process of its own, so that its memory is its own; times are of the processor.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.core.types import Passage
from agentgym.envs.papersearch.builtin.graph import builtin_graph
from agentgym.envs.papersearch.data.citations import CITATIONS, CitationGraph
from agentgym.envs.papersearch.data.corpus import open_corpus
from agentgym.envs.papersearch.engine.world import CITED, CITING, PaperWorld, View
from agentgym.retrieval.corpus.passages import PASSAGES, write_passages
from benchmarks.speed.report import machine

OUT = Path(__file__).with_suffix(".json")

FOLDER = Path(tempfile.gettempdir(), "papers-scale")

PAPERS = 3_000_000
REFERENCES = 10
"""Of a paper on average."""
SURVEYS = 200
"""One paper in so many cites `SURVEY_REFERENCES`, the others fewer than the average."""
SURVEY_REFERENCES = 120

ASKED = 500
"""Expansions that are timed, of different papers."""

SIZES = {"open": 100.0, "expand": 2.0, "resident": 1_500.0}
"""What is aimed at: milliseconds, and megabytes."""


def made_up(papers: int) -> Iterator[Passage]:
    """Yield papers with titles and abstracts of the built-in ones' length, twice as long."""
    texts = builtin_graph().papers
    for number in range(papers):
        first, second = texts[number % len(texts)], texts[number * 7919 % len(texts)]
        yield Passage(
            f"p{number:07d}", f"{first.title}, part {number}", f"{first.abstract} {second.abstract}"
        )


def dates_of(papers: int) -> npt.NDArray[np.int32]:
    """Return dates from 1980 on, in order."""
    days = np.arange(papers) * (45 * 12 * 28) // papers
    return (19_80_00_00 + days // 336 * 10_000 + (days // 28 % 12 + 1) * 100 + days % 28 + 1).astype(np.int32)


def edges_of(papers: int) -> npt.NDArray[np.int32]:
    """Return (E, 2) citations of earlier papers, of some much more often than of others."""
    rng = np.random.Generator(np.random.PCG64(0))
    usual = REFERENCES - SURVEY_REFERENCES // SURVEYS
    counts = rng.poisson(usual, papers)
    counts[::SURVEYS] = SURVEY_REFERENCES
    counts[:1_000] = 0
    owners = np.repeat(np.arange(papers, dtype=np.int32), counts)
    targets = (owners * rng.random(len(owners)) ** 2).astype(np.int32)
    keys = np.unique(owners.astype(np.int64) << 32 | targets)
    return np.stack([keys >> 32, keys & 0xFFFFFFFF], axis=1).astype(np.int32)


def asked(graph: CitationGraph) -> list[int]:
    """Return papers whose expansion finds all that one can find."""
    cited, citing = np.diff(graph.cited.starts), np.diff(graph.citing.starts)
    full = np.flatnonzero((cited >= CITED) & (citing >= CITING))
    chosen: list[int] = np.random.Generator(np.random.PCG64(1)).permutation(full)[:ASKED].tolist()
    return chosen


def build_files(folder: Path, papers: int) -> dict[str, float]:
    """Write the two mapped files."""
    write_passages(folder / PASSAGES, made_up(papers), corpus="made up")
    ids = (f"p{number:07d}" for number in range(papers))
    graph = CitationGraph.of(ids, dates_of(papers), np.ones(papers, np.bool_), edges_of(papers))
    graph.write(folder / CITATIONS)
    sizes = {name: (folder / name).stat().st_size for name in (PASSAGES, CITATIONS)}
    return {"bytes": sum(sizes.values()), "edges": len(graph.cited.papers)}


def build_sqlite(folder: Path, papers: int) -> dict[str, float]:
    """Write the database: papers, and citations in both directions, the latest first."""
    path = folder / "papers.sqlite"
    path.unlink(missing_ok=True)
    dates, edges = dates_of(papers), edges_of(papers)
    with closing(sqlite3.connect(path)) as table:
        table.execute("PRAGMA journal_mode = OFF")
        table.execute("PRAGMA synchronous = OFF")
        table.execute(
            "CREATE TABLE papers (number INTEGER PRIMARY KEY, id TEXT, title TEXT, abstract TEXT, date INT)"
        )
        rows = ((number, *paper, int(dates[number])) for number, paper in enumerate(_parts(papers)))
        table.executemany("INSERT INTO papers VALUES (?, ?, ?, ?, ?)", rows)
        table.execute("CREATE UNIQUE INDEX ids ON papers (id)")
        for name, columns, key in (
            ("cited", "owner INT, place INT, target INT", "owner, place"),
            ("citing", "target INT, date INT, owner INT", "target, date DESC, owner"),
        ):
            table.execute(f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({key})) WITHOUT ROWID")
        for start in range(0, len(edges), 1 << 20):
            block = edges[start : start + (1 << 20)]
            places = range(start, start + len(block))
            owners, targets = block[:, 0].tolist(), block[:, 1].tolist()
            table.executemany("INSERT INTO cited VALUES (?, ?, ?)", zip(owners, places, targets, strict=True))
        order = np.lexsort((edges[:, 0], -dates[edges[:, 0]], edges[:, 1]))
        for start in range(0, len(edges), 1 << 20):
            block = edges[order[start : start + (1 << 20)]]
            when = dates[block[:, 0]].tolist()
            edges_in = zip(block[:, 1].tolist(), when, block[:, 0].tolist(), strict=True)
            table.executemany("INSERT INTO citing VALUES (?, ?, ?)", edges_in)
        table.commit()
    return {"bytes": path.stat().st_size}


def _parts(papers: int) -> Iterator[tuple[str, str, str]]:
    return ((paper.id, paper.title, paper.text) for paper in made_up(papers))


def expand_files(folder: Path, papers: int) -> dict[str, float]:
    """Open the files, and expand papers: who cites them, whom they cite, and all titles and abstracts."""
    began = time.thread_time()
    corpus = open_corpus(folder)
    opened = time.thread_time()
    world = PaperWorld("made up", corpus, None, None)  # type: ignore[arg-type]  # nothing is searched
    after_opening = resident()
    view = View(20_24_12_31)
    numbers = asked(corpus.graph)
    before = resident()

    def expand(number: int) -> int:
        found = world.neighbours(number, view)
        return sum(len(corpus.paper(neighbour).text) > 0 for neighbour in found)

    known = [corpus.passages[number].id for number in numbers]
    lookup = _times(lambda id: corpus.graph.number_of(id), known)
    lists = _times(lambda number: world.neighbours(number, view), numbers)
    return {
        "open_ms": 1e3 * (opened - began),
        **after_opening_named(after_opening),
        **_quantiles("expand", _times(expand, numbers)),
        **_quantiles("again", _times(expand, numbers)),
        **_quantiles("lists", lists),
        **_quantiles("id", lookup),
        "found": float(np.mean([len(world.neighbours(number, view)) for number in numbers])),
        "resident_mb": resident()["all"],
        "own_mb": resident()["own"],
        "before_mb": before["all"],
    }


def after_opening_named(values: dict[str, float]) -> dict[str, float]:
    """Return what is resident after opening, by the names of the report."""
    return {"opened_mb": values["all"], "opened_own_mb": values["own"]}


def expand_sqlite(folder: Path, papers: int) -> dict[str, float]:
    """Do the same with the database."""
    numbers = asked(open_corpus(folder).graph)
    began = time.thread_time()
    table = sqlite3.connect(folder / "papers.sqlite")
    table.execute("SELECT id FROM papers WHERE number = 0").fetchone()
    opened = time.thread_time()
    citing = (
        "SELECT p.id, p.title, p.abstract, p.date FROM citing JOIN papers p ON p.number = citing.owner "
        "WHERE target = ? AND citing.date <= ? AND p.abstract != '' ORDER BY citing.date DESC, owner LIMIT ?"
    )
    cited = (
        "SELECT p.id, p.title, p.abstract, p.date FROM cited JOIN papers p ON p.number = cited.target "
        "WHERE owner = ? AND p.date <= ? AND p.abstract != '' ORDER BY place LIMIT ?"
    )

    def expand(number: int) -> int:
        found = table.execute(citing, (number, 20_24_12_31, CITING)).fetchall()
        return len(found + table.execute(cited, (number, 20_24_12_31, CITED)).fetchall())

    times = _times(expand, numbers)
    figures = {
        "open_ms": 1e3 * (opened - began),
        **_quantiles("expand", times),
        **_quantiles("again", _times(expand, numbers)),
        "found": float(np.mean([expand(number) for number in numbers])),
        "resident_mb": resident()["all"],
        "own_mb": resident()["own"],
    }
    table.close()
    return figures


def _times(call: Callable[[Any], object], arguments: list[Any]) -> list[float]:
    """Return the milliseconds that each call takes."""
    times = []
    for argument in arguments:
        began = time.thread_time()
        call(argument)
        times.append(1e3 * (time.thread_time() - began))
    return times


def _quantiles(name: str, times: list[float]) -> dict[str, float]:
    p50, p99 = np.quantile(times, [0.5, 0.99]).tolist()
    return {f"{name}_p50_ms": p50, f"{name}_p99_ms": p99}


def resident() -> dict[str, float]:
    """Return the megabytes that are resident now: all, and the process's own, without mapped files."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    known = {
        line.partition(":")[0]: line.split()[1] for line in lines if line.startswith(("VmRSS", "RssAnon"))
    }
    return {"all": int(known["VmRSS"]) / 1024, "own": int(known["RssAnon"]) / 1024}


PHASES: dict[str, Callable[[Path, int], dict[str, float]]] = {
    "build files": build_files,
    "build sqlite": build_sqlite,
    "expand files": expand_files,
    "expand sqlite": expand_sqlite,
}


def run_phase(name: str, folder: Path, papers: int) -> dict[str, float]:
    """Run a phase in this process; return its figures with time and memory."""
    began, wall = time.process_time(), time.perf_counter()
    figures = PHASES[name](folder, papers)
    peak = next(
        int(line.split()[1]) / 1024
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        if line.startswith("VmHWM:")
    )
    spent = {"cpu_s": time.process_time() - began, "wall_s": time.perf_counter() - wall, "peak_mb": peak}
    return {**spent, **figures}


def markdown(record: dict[str, Any]) -> str:
    """Write the tables."""
    about, figures = record["machine"], record["phases"]
    packages = ", ".join(f"{name} {about[name]}" for name in ("python", "numpy", "sqlite"))
    files, sqlite = figures["expand files"], figures["expand sqlite"]
    lines = [
        "# Papers and citations at full scale",
        "",
        f"`python -m benchmarks.retrieval.papers` on {about['cpu']}; {packages}.",
        "",
        f"{record['papers']:,} made-up papers, {int(figures['build files']['edges']):,} citations. "
        f"Expanding one of {ASKED} papers finds",
        f"{files['found']:.0f} others on average, and reads their titles and abstracts. Times are of the",
        "processor, with the files in the system's cache.",
        "",
        "| | mapped files | SQLite |",
        "|---|---|---|",
    ]
    rows: list[tuple[str, str, str, str]] = [
        ("open", "open_ms", "{:.1f} ms", "open_ms"),
        ("expand, first time: median", "expand_p50_ms", "{:.2f} ms", "expand_p50_ms"),
        ("expand, first time: 99 %", "expand_p99_ms", "{:.2f} ms", "expand_p99_ms"),
        ("expand, again: median", "again_p50_ms", "{:.2f} ms", "again_p50_ms"),
        ("resident afterwards", "resident_mb", "{:,.0f} MB", "resident_mb"),
        ("of that, not of mapped files", "own_mb", "{:,.0f} MB", "own_mb"),
    ]
    lines += [
        f"| {name} | {form.format(files[ours])} | {form.format(sqlite[theirs])} |"
        for name, ours, form, theirs in rows
    ]
    built = [figures[f"build {kind}"] for kind in ("files", "sqlite")]
    for name, key, form, scale in (
        ("on disk", "bytes", "{:.2f} GB", 1e-9),
        ("built in", "cpu_s", "{:,.0f} s", 1.0),
        ("peak memory of building", "peak_mb", "{:,.0f} MB", 1.0),
    ):
        lines.append(f"| {name} | " + " | ".join(form.format(scale * row[key]) for row in built) + " |")
    lines += [
        "",
        f"Of the mapped files' time, {files['lists_p50_ms']:.3f} ms is for the lists of papers; the number "
        f"of an id takes {1e3 * files['id_p50_ms']:.0f} us.",
        "SQLite takes longer for papers that were not read before, and as long for those that were; what it",
        "reads stays in the system's cache, while mapped pages count as the process's, though all processes",
        "share them.",
        "",
        f"Aims: open {SIZES['open']:.0f} ms, expand {SIZES['expand']:.0f} ms, "
        f"{SIZES['resident']:,.0f} MB resident.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--papers", type=int, default=PAPERS)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for files of some GB, which stay")
    parser.add_argument("--phase", choices=PHASES, help="in this process")
    parser.add_argument("--only", choices=PHASES, nargs="+", default=list(PHASES), help="in the same folder")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    if arguments.phase:
        print(json.dumps(run_phase(arguments.phase, arguments.folder, arguments.papers)))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    record = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"phases": {}}
    for name in arguments.only:
        command = [sys.executable, "-m", "benchmarks.retrieval.papers", "--phase", name]
        command += ["--folder", str(arguments.folder), "--papers", str(arguments.papers)]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        record["phases"][name] = json.loads(answer.stdout)
        print(name, record["phases"][name], file=sys.stderr)
    record["machine"] = {**machine(), "sqlite": sqlite3.sqlite_version}
    record["papers"] = arguments.papers
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    if len(record["phases"]) == len(PHASES):
        arguments.out.with_suffix(".md").write_text(markdown(record))


if __name__ == "__main__":
    main()
