"""Whether the documentation's training commands learn: each that trains a tiny model here, ten seeds.

``python -m benchmarks.documented`` adds what is missing to ``benchmarks/documented.jsonl``, a line each, and
writes ``benchmarks/documented.md``. Commands of three iterations or fewer, or of a clone of one
epoch, show how something works, and are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from agentgym.evaluation.board.statistics import t_interval
from agentgym.history.metrics import Evaluated
from agentgym.history.run import read_metrics
from tests.examples.test_commands import PAGES, ROOT, commands

SEEDS = range(10)
SHORT = 3
"""Iterations of a command that shows how something works."""
RUNS = Path(__file__).with_suffix(".jsonl")


def documented() -> dict[str, str]:
    """Return the page of each run that begins with a tiny model, or with one that a run before made.

    By its command, without seed and evaluations, which change nothing of what is learned.
    """
    found: dict[str, str] = {}
    for page in PAGES:
        for command in commands(page):  # type: ignore[no-untyped-call]
            words = shlex.split(command)
            if words[:2] != ["agentgym", "train"] or "--model" not in words or "--recipe" in words:
                continue
            given = dict(pairwise(words))
            short = int(given.get("--iterations", SHORT + 1)) <= SHORT or given.get("--epochs") == "1"
            if given["--model"].startswith(("tiny", "runs/")) and not short:
                found.setdefault(_plain(words), page.relative_to(ROOT).as_posix())
    return found


def _plain(words: Sequence[str]) -> str:
    kept = list(words)
    for flag, value in pairwise(words):
        if flag == "--seed" or (flag == "--set" and value.startswith("evaluation.")):
            place = next(k for k in range(len(kept)) if kept[k : k + 2] == [flag, value])
            del kept[place : place + 2]
    return shlex.join(kept)


def learn(command: str, seed: int, folder: Path) -> dict[str, Any]:
    """Run a command in a folder; return success before and after on held-out tasks, by split."""
    words = shlex.split(command)[1:]
    clones = words[1] == "bc"
    out = folder / (
        words[words.index("--out") + 1] if "--out" in words else f"run{len(list(folder.iterdir()))}"
    )
    words += ["--seed", str(seed), "--out", str(out), *(() if clones else ("--log", "jsonl"))]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    agentgym = [sys.executable, "-m", "agentgym", *words]
    done = subprocess.run(agentgym, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command}: {done.stderr}")
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - spent
    if clones:
        after = json.loads((out / "cloning.json").read_text(encoding="utf-8"))["held_out"]
        success: dict[str, Any] = {"before": None, "after": {"": round(after["play"]["success"], 4)}}
    else:
        metrics = read_metrics(out)
        evaluations = [each.evaluation for each in metrics if each.evaluation is not None]
        success = {"before": _success(metrics[0].evaluation_before), "after": _success(evaluations[-1])}
    return {
        "command": command, "seed": seed, **success,
        "end": done.stdout.splitlines()[0], "cpu_seconds": round(seconds, 1),
    }  # fmt: skip


def _success(evaluated: Evaluated | None) -> dict[str, float]:
    if evaluated is None:
        return {}
    splits = evaluated.splits or {"": evaluated}
    return {name: round(each.success, 4) for name, each in splits.items()}


def report(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the page."""
    lines = [
        "# The documentation's training commands",
        "",
        "Each command of the documentation that trains a tiny model from random weights, or a clone of "
        f"its own, with {len(SEEDS)} seeds, nothing else set; those of {SHORT} iterations or fewer show "
        "how something works and are left out. Success is that of the evaluations before the first and after "
        "the last iteration, on the validation split's 30 tasks at temperature 0.4; of a clone, of its "
        "likeliest answers. Means with Student's 95 % interval over seeds. `python -m benchmarks.documented` "
        "repeats it.",
        "",
        "| page | command | before | after | least gain | seeds | seconds |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for command, page in documented().items():
        own = [run for run in runs if run["command"] == command]
        after = [first(run["after"]) for run in own]
        before = [first(run["before"]) for run in own if run["before"]]
        gains = [late - early for late, early in zip(after, before, strict=False)]
        shown = command.replace("|", "\\|")
        lines.append(
            f"| {page} | `{shown}` | {_percent(before)} | {_percent(after)} | "
            f"{f'{100 * min(gains):+.0f}' if gains else '-'} | {len(own)} | "
            f"{np.mean([run['cpu_seconds'] for run in own]):.0f} |"
        )
    return "\n".join(lines) + "\n"


def first(success: Mapping[str, float]) -> float:
    """Return success on the first split."""
    return next(iter(success.values()))


def _percent(values: Sequence[float]) -> str:
    return str(t_interval(np.array(values), (0.0, 1.0)).scaled(100.0)) if values else "-"


def main() -> None:
    """Run what is missing, and write the page after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS)
    for seed in parser.parse_args().seeds:
        with TemporaryDirectory() as folder:  # of all, since one begins with what another made
            for command in documented():
                if not any((run["command"], run["seed"]) == (command, seed) for run in read()):
                    found = learn(command, seed, Path(folder))
                    with RUNS.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(found) + "\n")
                RUNS.with_suffix(".md").write_text(report(read()), encoding="utf-8")


def read() -> list[dict[str, Any]]:
    """Return the runs so far."""
    lines = RUNS.read_text(encoding="utf-8").splitlines() if RUNS.exists() else []
    return [json.loads(line) for line in lines]


if __name__ == "__main__":
    main()
