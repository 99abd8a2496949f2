"""Measures the viewer: how long a step takes to show, and the memory of a tab with 10,000 episodes.

``python -m benchmarks.site_viewer RUN...`` writes the films of packed runs, opens the longest of each
environment in Chromium from the disk, and steps through it; then it opens a made-up list of 10,000 episodes
and scrolls through it. Numbers are printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from agentgym.evaluation.verify.archives import open_run
from agentgym.site.rendering import render
from agentgym.site.viewer_data import DATA, FilmPacks, RunFilms, write_index, write_run
from tests.serving.browser import Browser

MANY = 10_000
FILMS = 4
"""Of each environment."""

STEP = (
    "(() => { const b = document.getElementById('on'); for (let i = 0; i < {steps}; i++) {"
    "b.click(); document.body.getBoundingClientRect() } })()"
)
"""Clicks on the button, each with the layout that follows."""

WORK = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
"""What Chromium counts of a step, in seconds of its thread's processor time."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print.

    Args:
        argv: command line; None for the program's own.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", help="packed runs, or folders")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        site = Path(name) / "site"
        (site / "static").mkdir(parents=True)
        for source in files("agentgym.site").joinpath("static").iterdir():
            (site / "static" / source.name).write_bytes(source.read_bytes())
        films = [write_run(site, open_run(run), most=FILMS) for run in arguments.runs]
        films.append(_many(site, films[0]))
        write_index(site, films)
        (site / "view.html").write_text(render("view.html", "Episodes"), encoding="utf-8")
        browser = Browser(Path(name) / "profile", width=1600, height=1000, scripts=True)
        found = {"steps": [_steps(browser, site, each) for each in films[:-1]]}
        print(json.dumps({**found, "many": _list(browser, site, films[-1])}, indent=1))
        browser.close()
    return 0


def _many(site: Path, films: RunFilms) -> RunFilms:
    """Write a list of many episodes that repeats those of a run."""
    known = [episode for episode in films.episodes if episode.pack]
    many = tuple(replace(known[n % len(known)], number=n + 1, pack=0) for n in range(MANY))
    made = replace(films, key="0123456789ab", episodes=many)
    FilmPacks(site, made.key).close(made)
    return made


def _steps(browser: Browser, site: Path, films: RunFilms) -> dict[str, object]:
    """Step through the longest film of each environment; return processor milliseconds a step."""
    browser.call("Performance.enable", timeDomain="threadTicks")
    times: dict[str, object] = {}
    longest = {
        e.label: e for e in sorted(films.episodes, key=lambda each: each.length) if e.pack and e.length
    }
    for label, episode in longest.items():
        browser.open("about:blank")
        browser.open(f"{(site / 'view.html').as_uri()}#{films.key}/{episode.number}/0")
        _until(browser, "document.getElementById('on') !== null")
        began = _worked(browser)
        browser.value(STEP.replace("{steps}", str(episode.length)))
        size = (site / DATA / films.key / f"{episode.pack}.js").stat().st_size
        taken = 1000 * (_worked(browser) - began) / episode.length
        times[label] = {"steps": episode.length, "bytes": size, "ms a step": round(taken, 1)}
    return times


def _worked(browser: Browser) -> float:
    """Return the seconds that scripts and layout have taken."""
    metrics = {each["name"]: each["value"] for each in browser.call("Performance.getMetrics")["metrics"]}
    return float(sum(metrics[name] for name in WORK))


def _list(browser: Browser, site: Path, films: RunFilms) -> dict[str, object]:
    """Scroll through a long list; return the memory of its tab, and milliseconds of drawing rows."""
    browser.open("about:blank")
    browser.open(f"{(site / 'view.html').as_uri()}#{films.key}")
    _until(browser, "document.getElementById('count').textContent.startsWith('10,000')")
    for place in range(0, MANY * 30, 30_000):
        browser.value(f"document.getElementById('rows').scrollTop = {place}; 0")
    browser.call("HeapProfiler.collectGarbage")
    heap = browser.call("Runtime.getHeapUsage")
    return {
        "episodes": len(films.episodes),
        "list bytes": (site / DATA / films.key / "episodes.js").stat().st_size,
        "rows in the page": browser.value("document.querySelectorAll('#rows .row').length"),
        "heap used MB": round(heap["usedSize"] / 1e6, 1),
        "heap taken MB": round(heap["totalSize"] / 1e6, 1),
    }


def _until(browser: Browser, expression: str) -> None:
    waiting = f"new Promise(r => {{ const w = () => {expression} ? r() : setTimeout(w, 10); w() }})"
    browser.call("Runtime.evaluate", expression=waiting, awaitPromise=True)


if __name__ == "__main__":
    raise SystemExit(main())
