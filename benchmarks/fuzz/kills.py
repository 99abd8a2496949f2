"""Benchmarks killed at random (``kill -9``) and resumed: nothing is lost, and the result is the same."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from agentgym.evaluation.log.results import EPISODES_FILE, RETRIED, RUN_FILE, latest
from agentgym.evaluation.log.runfiles import check_chain, read_lines, read_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.verify.submissions import Unranked, verify_below

NAME = "kills"

SUITE = f"""\
name = "{NAME}"
version = "1"
seed = 11
attempts = 2

[[env]]
id = "agentgym/EZPoints-v0"
label = "EZPoints"
split = "test"
tasks = 17

[[env]]
id = "agentgym/Sokoban-v0"
label = "Sokoban"
split = "test"
tasks = 40
kwargs = {{ dim_room = [6, 6], num_boxes = 1, max_steps = 40 }}

[[env]]
id = "agentgym/ALFWorld-v0"
label = "ALFWorld"
split = "valid_seen"
tasks = 12
kwargs = {{ max_steps = 20 }}

[[agent]]
name = "random"
kind = "random"

[[agent]]
name = "oracle"
kind = "oracle"

[[agent]]
name = "scripted"
kind = "scripted"
options = {{ path = "SCRIPT" }}
"""

KILLS_A_ROUND = 8
"""After so many a run may end, if it has not before."""

MAX_SECONDS = 120.0
"""Seconds that a benchmark may take."""


@dataclass(slots=True)
class Kills:
    """What was killed, and what was wrong."""

    kills: int = 0
    while_playing: int = 0
    """Of them, those after the first line of the round and before the last."""
    afterwards: int = 0
    """Of them, those after the last line: while verifying, ranking or closing."""
    torn: int = 0
    """Of them, those that left half a line."""
    rounds: int = 0
    """Times that a benchmark was brought to its end."""
    lines: int = 0
    """Lines of all rounds at their ends."""
    attempts: int = 0
    """Of them, further attempts at episodes that ended by an error."""
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def table(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def run_kills(root: Path, kills: int, *, seed: int) -> Kills:
    """Kill benchmarks.

    Args:
        root: an empty folder.
        kills: how many.
        seed: of when.
    """
    began, report = perf_counter(), Kills()
    suite = root / "suites" / f"{NAME}.toml"
    suite.parent.mkdir(parents=True)
    script = root / "script.txt"
    script.write_text("up\n1\nlook\n")  # episodes that are not over then end as agent_error
    suite.write_text(SUITE.replace("SCRIPT", str(script)))
    whole = {read_run(folder).agent.name: read_run(folder) for folder in run_bench(suite, root / "whole")}
    results = {name: str(run.result_id) for name, run in whole.items()}
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    while report.kills < kills:
        out = root / f"round{report.rounds}"
        _round(suite, out, kills, rng, report)
        report.rounds += 1
        _check_end(out, results, report)
    report.seconds = perf_counter() - began
    return report


def _round(suite: Path, out: Path, kills: int, rng: np.random.Generator, report: Kills) -> None:
    """Kill one benchmark again and again until it ends."""
    ranked = ["--leaderboard", str(out / "LEADERBOARD.md")]
    after = ranked if rng.random() < 0.5 else ["--no-verify"]
    own = 0
    while True:
        words = ["bench", str(suite), "--out", str(out), "--num-envs", str(rng.choice([1, 3, 16])), *after]
        before = _lines(out)
        process = subprocess.Popen(
            [sys.executable, "-m", "agentgym", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            if own < KILLS_A_ROUND and report.kills < kills and _wait(process, out, rng):
                process.kill()
                process.communicate()
                own += 1
                report.kills += 1
                _check_kill(out, before, report)
                continue
            _, errors = process.communicate(timeout=MAX_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        if process.returncode:
            report.wrong.append(
                f"a resumed benchmark ended with {process.returncode}: {errors.decode()[-300:]}"
            )
        _check_prefixes(out, before, report)
        return


def _wait(process: subprocess.Popen[bytes], out: Path, rng: np.random.Generator) -> bool:
    """Wait for a random moment of time, or of what is written; return whether the process is still there."""
    if rng.random() < 0.3:
        until = perf_counter() + rng.uniform(0.2, 6.0)
        while perf_counter() < until and process.poll() is None:
            time.sleep(0.002)
    else:
        wanted = _written(out) + int(rng.integers(0, 60_000))
        give_up = perf_counter() + rng.uniform(3.0, 6.0)
        while _written(out) <= wanted and perf_counter() < give_up and process.poll() is None:
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.01))
    return process.poll() is None


def _files(out: Path) -> dict[str, Path]:
    return {path.parent.name.partition("-")[0]: path for path in out.glob(f"*/*/{EPISODES_FILE}")}


def _written(out: Path) -> int:
    return sum(path.stat().st_size for path in _files(out).values())


def _lines(out: Path) -> dict[str, bytes]:
    """Return the whole lines of each agent's episodes."""
    found = {}
    for name, path in _files(out).items():
        data = path.read_bytes()
        found[name] = data[: data.rfind(b"\n") + 1]
    return found


def _check_kill(out: Path, before: Mapping[str, bytes], report: Kills) -> None:
    _check_prefixes(out, before, report)
    files = _files(out)
    contents = [path.read_bytes() for path in files.values()]
    report.torn += any(data and not data.endswith(b"\n") for data in contents)
    ended = [_is_complete(path) for path in files.values()]
    if len(ended) == 3 and all(ended):
        report.afterwards += 1
    elif files:
        report.while_playing += 1


def _is_complete(episodes: Path) -> bool:
    run = episodes.with_name(RUN_FILE)
    return run.exists() and json.loads(run.read_text())["result_id"] is not None


def _check_prefixes(out: Path, before: Mapping[str, bytes], report: Kills) -> None:
    """Every line that was there is still there, and in its place."""
    now = _lines(out)
    for name, data in before.items():
        if not now.get(name, b"").startswith(data):
            report.wrong.append(f"{name}: lines of before a kill are gone or changed")


def _check_end(out: Path, results: Mapping[str, str], report: Kills) -> None:
    """The result is that of a benchmark that was never killed, and every line is accounted for."""
    folders = [path.parent for path in _files(out).values()]
    names = set()
    for folder in folders:
        run, lines = read_run(folder), read_lines(folder).checked(folder / EPISODES_FILE)
        episodes = lines.samples
        names.add(run.agent.name)
        report.lines += len(episodes)
        report.attempts += len(episodes) - len(latest(episodes))
        if run.result_id != results.get(run.agent.name):
            report.wrong.append(f"{run.agent.name}: another result than without kills")
        report.wrong += [f"{run.agent.name}: {problem}" for problem in check_chain(run, lines)]
        again = {episode.key for episode in episodes if episode.attempt > 1}
        if not again <= {episode.key for episode in episodes if episode.end_reason in RETRIED}:
            report.wrong.append(f"{run.agent.name}: an episode was played again that had a result")
    if names != set(results):
        report.wrong.append(f"runs of {sorted(names)} only")
    if report.rounds == 1:  # their files are alike: verifying one round's shows that of all
        for entry in verify_below(out):
            if isinstance(entry, Unranked):
                report.wrong.append(f"{entry.name}: {entry.reason}")
