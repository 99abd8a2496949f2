"""The parts of fuzzing that run in processes of their own."""

from __future__ import annotations

import os
import resource
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from agentgym.data.directory import CACHE_VARIABLE
from benchmarks.fuzz.arena import make_arena
from benchmarks.fuzz.kills import Kills, run_kills
from benchmarks.fuzz.mutations import Laboratory, Outcome, Place, drawn
from benchmarks.fuzz.report import FAILED, Mutations

MAX_MEMORY = 4 << 30
"""Bytes of address space: a change that makes a verifier ask for more is a crash."""

SHARDS = 8
"""Parts that mutations are tried in."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of the mutations, tried."""

    every: int
    counts: Counter[tuple[Place, Outcome]]
    failures: tuple[str, ...]
    without_trace: int
    seconds: float


def kill(kills: int, seed: int) -> Kills:
    """Kill benchmarks in a folder of their own, with a cache of their own."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = str(Path(folder) / "cache")
        return run_kills(Path(folder), kills, seed=seed)


def mutate(most: int | None, seed: int, shard: int) -> Shard:
    """Try one part of the mutations, with runs of its own."""
    began = perf_counter()
    _, hardest = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, hardest))
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = str(Path(folder) / "cache")
        laboratory = Laboratory(make_arena(Path(folder)))
        every = list(laboratory.mutations())
        findings = [laboratory.find(mutation) for mutation in drawn(every, most, seed=seed)[shard::SHARDS]]
        without_trace = 0
        if shard == 0:
            retries = laboratory.retries_without_trace()
            without_trace = len(retries)
            findings += [finding for finding in retries if finding.outcome in FAILED]
    return Shard(
        every=len(every),
        counts=Counter((finding.mutation.place, finding.outcome) for finding in findings),
        failures=tuple(f"{f.mutation}: {f.outcome}: {f.detail}" for f in findings if f.outcome in FAILED),
        without_trace=without_trace,
        seconds=perf_counter() - began,
    )


def merged(shards: Sequence[Shard]) -> Mutations | None:
    """Put the parts together; None where there are none."""
    if not shards:
        return None
    return Mutations(
        every=shards[0].every,
        counts=sum((shard.counts for shard in shards), Counter()),
        failures=tuple(line for shard in shards for line in shard.failures),
        without_trace=sum(shard.without_trace for shard in shards),
        seconds=sum(shard.seconds for shard in shards),
    )
