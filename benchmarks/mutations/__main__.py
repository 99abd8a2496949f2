"""Run mutants in the order of their digests with a seed, and write `benchmarks/mutations.json` and `.md`.

`map.toml` names the files of tests for each part of the package, beside the examples in a module's own
docstrings, and the mutants that change nothing, with the reason. A mutant is killed by a test that fails with
it and passes without it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from benchmarks.harness.report import machine, parser, publish, table
from benchmarks.mutations.operators import Mutant, mutants
from benchmarks.mutations.worker import LIMIT, ROOT, Copy, serve

FOUND = ROOT / "benchmarks/mutations.json"
SEED = 20261123
ENDS = ("killed", "timed out", "equivalent", "survived")


def run_all(chosen: list[Mutant], tests: dict[str, list[str]], workers: int, minutes: float) -> Iterator[Any]:
    """Yield what each mutant comes to; none begins after the time is over."""
    until = time.monotonic() + 60 * minutes
    copies: SimpleQueue[Copy] = SimpleQueue()

    def tried(mutant: Mutant) -> dict[str, Any] | None:
        if time.monotonic() > until:
            return None
        copy = copies.get()
        try:
            prefix = max((prefix for prefix in tests if mutant.path.startswith(prefix)), key=len)
            examples = [mutant.path] * (">>> " in (ROOT / mutant.path).read_text())
            return copy.try_out(mutant, examples + tests[prefix])
        finally:
            copies.put(copy)

    with tempfile.TemporaryDirectory(prefix="mutations-") as folder, ThreadPoolExecutor(workers) as pool:
        started = [Copy(Path(folder) / str(number)) for number in range(workers)]
        for copy in started:
            copies.put(copy)
        try:
            for result in pool.map(tried, chosen):
                if result is not None:
                    print(f"{result['seconds']:5.1f} s  {result['end']:9}  {result['name']}", flush=True)
                    yield result
        finally:
            for copy in started:
                copy.close()


def page(found: dict[str, Any]) -> str:
    """Return the report in Markdown."""
    results = found["mutants"]
    counts = Counter((result["part"], result["end"]) for result in results)
    rows = [(part, [counts[part, end] for end in ENDS]) for part in sorted({part for part, _ in counts})]
    rows.append(("all", [sum(column) for column in zip(*(row for _, row in rows), strict=True)]))
    operators = Counter(result["name"].rpartition(":")[2].partition("-")[0] for result in results)
    lines = [
        "# Mutations",
        "",
        f"{len(results)} of {found['all']:,} mutants, in the order of seed {found['seed']}, on "
        f"{found['processor']} with Python {found['python']}: `make mutations`. A mutant is killed by a test "
        f"that fails with it and passes without it; its tests have {LIMIT} s of processor time. Operators: "
        "`benchmarks/mutations/operators.py`. Tests of each module, and reasons of equivalent mutants: "
        "`benchmarks/mutations/map.toml`. Each mutant: `benchmarks/mutations.json`.",
        *(["", found["note"]] if found.get("note") else []),
        "",
    ]
    cells = ((part, sum(row), *row, f"{1 - row[-1] / sum(row):.1%}") for part, row in rows)
    head = ("part", "mutants", *ENDS, "killed, timed out or equivalent")
    lines += table(head, cells, len(ENDS) + 2)
    lines += ["", "Operators: " + ", ".join(f"{name} {n}" for name, n in operators.most_common()) + "."]
    survived = [result for result in results if result["end"] == "survived"]
    lines += ["", "## Survived", ""] if survived else []
    lines += [f"- `{each['name']}`: `{each['before']}` -> `{each['after']}`" for each in survived]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what the command line asks for."""
    given = parser("benchmarks.mutations", __doc__)
    given.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given.add_argument("--seed", type=int, default=SEED)
    given.add_argument("--count", type=int, default=500, help="mutants at most")
    given.add_argument("--minutes", type=float, default=240.0, help="none begins after them")
    given.add_argument("--part", action="append", default=[], help="only of paths that begin so; repeat")
    given.add_argument("--workers", type=int, default=2)
    given.add_argument("--again", action="store_true", help="run survivors whose code is there again")
    given.add_argument("--repeat", action="store_true", help="run the report's whose code is there again")
    given.add_argument("--go-on", action="store_true", help="run those that the report lacks")
    options = given.parse_args()
    if options.serve:
        serve()
        return
    settings = tomllib.loads((Path(__file__).parent / "map.toml").read_text())
    files = sorted(path for part in settings["run"] for path in (ROOT / part).rglob("*.py"))
    every = [each for path in files for each in mutants(str(path.relative_to(ROOT)), path.read_bytes())]
    every.sort(key=lambda each: hashlib.sha256(f"{options.seed} {each.key}".encode()).digest())
    named = [each for each in every if not options.part or each.path.startswith(tuple(options.part))]
    chosen, found, note = named[: options.count], {}, ""
    if options.again or options.go_on or options.repeat:  # by their keys, since lines have moved
        report = json.loads(FOUND.read_text())
        last, note = report["mutants"], report.get("note", "")
        survived = {each["key"] for each in last if each["end"] == "survived"}
        left = {each["key"] for each in last} if options.repeat else survived if options.again else set()
        found = {_identity(each): each for each in last if each["key"] not in left}
        known = {each["key"] for each in last}
        further = [each for each in chosen if options.go_on and each.key not in known]
        chosen = [each for each in every if each.key in left] + further
    for result in run_all(chosen, settings["tests"], options.workers, options.minutes):
        result["key"] = Mutant(**{field.name: result[field.name] for field in fields(Mutant)}).key
        found[_identity(result)] = result
    for result in found.values():
        result["part"] = next(part for part in settings["run"] if result["path"].startswith(part))
        if result["end"] == "survived" and result["key"] in settings["equivalent"]:
            result["end"] = "equivalent"
    about = {"seed": options.seed, "all": len(every), "processor": machine()["cpu"].partition(",")[0]}
    python = platform.python_version()
    report = {**about, "python": python, "note": note, "mutants": list(found.values())}
    publish(FOUND, report, page(report))


def _identity(result: dict[str, Any]) -> tuple[str, ...]:
    return result["path"], result["before"], result["after"], result["name"]


if __name__ == "__main__":
    main()
