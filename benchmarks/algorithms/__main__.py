"""The command line of the sweep; ``python -m benchmarks.algorithms --help``."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from agentgym.errors import UsageError
from benchmarks.algorithms.plan import ENVIRONMENTS
from benchmarks.algorithms.report import write_page, write_report
from benchmarks.algorithms.runs import RunKey, describe, keys_of, read_run, train, warm_start
from benchmarks.algorithms.studies import STUDIES

PAGES = Path(__file__).parent


def main(words: Sequence[str] | None = None) -> int:
    """Train what is missing of a study, two runs at a time, and write its report after each."""
    arguments = _parse(words)
    if arguments.list:
        for study in STUDIES.values():
            print(f"{study.name:<24} {len(study.arms):>2} arms  {study.title} ({study.source})")
        return 0
    study = STUDIES[arguments.study]
    if arguments.page:
        write_page(study, arguments.out)
        return 0
    keys = keys_of(
        study,
        only=arguments.only,
        environments=arguments.envs,
        seeds=arguments.seeds or (*study.seeds[: arguments.first], *study.held_back),
        budget=arguments.budget,
    )
    everything = keys_of(study, budget=arguments.budget)
    for name in dict.fromkeys(key.environment for key in keys):
        warm_start(ENVIRONMENTS[name])
    if not arguments.report:
        _train(keys, arguments.workers)
    write_report(study, everything, arguments.out)
    return 0


def _parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.algorithms", description=__doc__)
    parser.add_argument("study", nargs="?", default="main", choices=STUDIES, metavar="STUDY")
    parser.add_argument("--list", action="store_true", help="list the studies")
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="algorithms or labels of arms")
    parser.add_argument("--envs", nargs="+", default=(), choices=ENVIRONMENTS, metavar="NAME")
    parser.add_argument("--seeds", nargs="+", default=(), type=int, metavar="N")
    parser.add_argument(
        "--first", type=int, metavar="N", help="as many of the study's seeds, and its held-back ones"
    )
    parser.add_argument("--budget", type=int, metavar="STEPS", help="environment steps of each run")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time (default: 2)")
    parser.add_argument("--report", action="store_true", help="only write the report of what is there")
    parser.add_argument("--page", action="store_true", help="only write the page of the committed JSON file")
    parser.add_argument("--out", type=Path, default=PAGES, metavar="FOLDER", help="of the report")
    return parser.parse_args(words)


def _train(keys: Sequence[RunKey], workers: int) -> None:
    missing, refused = [], {}
    for key in keys:
        try:
            if read_run(key) is None:
                missing.append(key)
        except UsageError as error:
            refused[key.arm.label] = str(error)
    for label, why in refused.items():
        print(f"left out: {label}: {why}", file=sys.stderr)
    print(f"{len(missing)} of {len(keys)} runs are to be trained", file=sys.stderr)
    context = multiprocessing.get_context("spawn")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(max(1, workers), mp_context=context) as pool:
        running = {pool.submit(train, key): key for key in missing}
        for number, future in enumerate(as_completed(running), start=1):
            key = running[future]
            try:
                line = describe(key, future.result())
            except UsageError as error:
                line = f"{key.environment} {key.arm.label} seed {key.seed}: {error}"
            print(f"[{number}/{len(missing)}] {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
