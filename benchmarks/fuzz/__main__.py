"""Fuzz all, and write a report: ``python -m benchmarks.fuzz``, or ``make fuzz``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from agentgym.io.files import replace_file
from benchmarks.fuzz.actions import run_actions, shares
from benchmarks.fuzz.parts import SHARDS, kill, merged, mutate
from benchmarks.fuzz.report import failures, page
from benchmarks.harness.report import machine

OUT = Path("benchmarks/fuzz.md")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz; return 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--actions", type=int, default=1_000_000, help="hostile actions (default: 1000000)")
    parser.add_argument("--mutations", type=int, help="changed files, drawn at random (default: all)")
    parser.add_argument("--kills", type=int, default=100, help="killed benchmarks (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--out", type=Path, default=OUT, help=f"the report (default: {OUT})")
    asked = parser.parse_args(arguments)
    began = perf_counter()
    with ProcessPoolExecutor(asked.workers, mp_context=get_context("spawn")) as pool:
        killing = [pool.submit(kill, asked.kills, asked.seed)] if asked.kills else []
        playing = {
            env_id: pool.submit(run_actions, env_id, count, seed=asked.seed)
            for env_id, count in shares(asked.actions).items()
            if count
        }
        changing = [
            pool.submit(mutate, asked.mutations, asked.seed, shard)
            for shard in range(SHARDS if asked.mutations != 0 else 0)
        ]
        kills = next((_told(future, "kills") for future in killing), None)
        tallies = [_told(future, env_id) for env_id, future in playing.items()]
        mutations = merged([_told(future, f"files, part {n}") for n, future in enumerate(changing, 1)])
    minutes = (perf_counter() - began) / 60
    numbers = f"--actions {asked.actions} --kills {asked.kills} --seed {asked.seed}"
    if asked.mutations is not None:
        numbers += f" --mutations {asked.mutations}"
    command = f"python -m benchmarks.fuzz {numbers}"
    about = {key: text.replace(", one used", "") for key, text in machine().items()}
    replace_file(asked.out, page(command, about, minutes, mutations, tallies, kills))
    wrong = failures(mutations, tallies, kills)
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    sys.stdout.write(f"{len(wrong)} found; the report is {asked.out} ({minutes:.1f} minutes)\n")
    return 1 if wrong else 0


ResultT = TypeVar("ResultT")


def _told(future: Future[ResultT], part: str) -> ResultT:
    """Wait for a part, and say that it is done."""
    result = future.result()
    sys.stderr.write(f"{part}: done\n")
    return result


if __name__ == "__main__":
    raise SystemExit(main())
