"""Measures the site: how long a build takes, how large a board is, and how soon a page is painted.

``python -m benchmarks.site`` builds the pages of the quick suite's committed runs, unpacked beforehand and
with an empty cache of verdicts, so that every run is verified and every episode played again. Then Chromium
opens a made-up board of 20 agents on 9 environments from the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from agentgym.evaluation.board.boards import make_boards
from agentgym.evaluation.log.results import RUN_FILE
from agentgym.evaluation.log.runfiles import read_lines
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.submissions import verify_below
from agentgym.io.paths import CACHE_VARIABLE
from agentgym.site.build import build_site
from benchmarks.speed.report import machine
from tests.serving.browser import Browser
from tests.site.test_size import write_large_board

RUNS = Path("benchmarks/runs/quick")
REPORT = Path("benchmarks/site.md")
PAINTS = 9
"""Openings of a page."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write the report.

    Args:
        argv: command line; None for the program's own.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=RUNS, help=f"packed runs (default: {RUNS})")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        os.environ[CACHE_VARIABLE] = str(work / "cache")
        results = work / "results"
        for packed in sorted(arguments.runs.glob("*.run.xz")):
            shutil.copytree(open_run(packed).folder, results / packed.name.removesuffix(".run.xz"))
        shutil.rmtree(work / "cache")
        found = {"machine": machine(), **_build(results, work / "site"), **_board(results, work)}
    REPORT.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    REPORT.write_text(_page(found), encoding="utf-8")
    return 0


def _build(results: Path, site: Path) -> dict[str, object]:
    """Build on one core without and with verdicts at hand; return processor seconds, and what there is."""
    spent = []
    for _ in range(2):
        began = time.process_time()
        build_site(results, site, reports=Path("benchmarks"))
        spent.append(time.process_time() - began)
    files = [path for path in site.rglob("*") if path.is_file()]
    packs = [path for path in files if re.fullmatch(r"\d+\.js", path.name)]
    lines = [read_lines(folder.parent).samples for folder in results.rglob(RUN_FILE)]
    return {
        "processor seconds of a build that verifies all runs and plays all episodes": spent[0],
        "of a build where the runs are verified already": spent[1],
        "episodes": sum(map(len, lines)),
        "files": len(files),
        "bytes": sum(path.stat().st_size for path in files),
        "largest file of episodes": max(path.stat().st_size for path in packs),
    }


def _board(results: Path, work: Path) -> dict[str, object]:
    """Open a large board again and again; return the milliseconds to its first paint, and its bytes."""
    boards, _ = make_boards(verify_below(results))
    page, size = write_large_board(boards[0], work / "large")
    browser = Browser(work / "profile", scripts=True)
    paints = []
    for _ in range(PAINTS):
        browser.open("about:blank")
        browser.open(page.as_uri())
        entry = "performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)[0] ?? -1"
        browser.call("Runtime.evaluate", expression="new Promise(r => setTimeout(r, 300))", awaitPromise=True)
        paints.append(float(browser.value(entry)))
    browser.close()
    return {
        "board bytes": size,
        "first paint ms, median": statistics.median(paints),
        "first paint ms, most": max(paints),
    }


def _page(found: dict[str, object]) -> str:
    lines = [
        "# The site",
        "",
        "`python -m benchmarks.site` wrote this page.",
        "",
        "| what | measured |",
        "|---|---|",
    ]
    for name, value in found.items():
        if name != "machine":
            shown = f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
            lines.append(f"| {name} | {shown} |")
    lines += ["", f"Machine: {', '.join(f'{key} {value}' for key, value in machine().items())}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
