"""Let ranks die in the middle of rollouts and updates, and write what became of it: ``make test-nodes``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from agentgym.training.learner.heartbeat import SILENCE
from benchmarks.nodes.soak import EVERY, ITERATIONS, LAST_CALL, LEASE, NOBODY, Case, difference, play

ABOUT = f"""# Ranks that die

`make test-nodes`: {{times}} deaths in rollouts and as many in updates, then two that hang. Two machines,
each a `torchrun` with a process group, home, temporary folder and caches of its own, share nothing but the
run's folder; gloo on a CPU that other work shares. A tiny model learns EZPoints by GiGPO for {ITERATIONS}
iterations, rollouts never stale, a checkpoint every {EVERY}. One rank dies: alone (SIGKILL; its `torchrun`
starts it again), or with its whole machine (the other goes on alone), or it is stopped (SIGSTOP), which no
connection shows. `--nnodes 1:2 --max-restarts 3`, `last_call_timeout={LAST_CALL}`; a rank ends {SILENCE} s
after the last heartbeat of the next one. A stopped machine holds the run's folder for {LEASE} s, as one that
a file server has lost does.

Seconds are from the death to the first iteration after it; starting Python anew is most of them. The last
columns compare with the run in which nobody died: the largest difference of a final weight, and whether every
iteration is there once with the same groups, episodes, steps and tokens, and the same kept rollouts, byte for
byte.

| what died | in | resumed at | ranks | seconds | weights | groups and episodes |
|---|---|---:|---:|---:|---:|---|
"""

HANGS = (Case("rollout", 4, 1, 1, False, hangs=True), Case("update", 4, 2, 0, True, hangs=True))


def cases(times: int, seed: int) -> Iterator[Case]:
    """Draw where ranks die, as often in rollouts as in updates, every second time with their machines."""
    draws = np.random.default_rng(seed)
    for stage in ("rollout", "update"):
        for number in range(times):
            iteration, call, rank = (int(draws.integers(1, most)) for most in (ITERATIONS + 1, 3, 3))
            yield Case(stage, iteration, call, rank - 1, bool(number % 2))


def row(case: Case, folder: Path) -> tuple[str, bool]:
    """Play a case; return its line, and whether all is as it must be."""
    outcome = play(folder / "run", case)
    found = difference(folder / "run", folder / "undisturbed")
    alike = not found.metrics and (found.rollouts == 0)
    tolerance = 0.0 if outcome.ranks == 2 else 1e-4
    what = f"{'a machine' if case.machine else 'a rank'} ({'stopped' if case.hangs else 'killed'})"
    told = "the same" if alike else f"differ: {', '.join(found.metrics) or f'{found.rollouts} kept'}"
    cells = (
        what, f"{case.stage} {outcome.died}", outcome.resumed, outcome.ranks, f"{outcome.seconds:.0f}",
        f"{found.weights:.1g}", told,
    )  # fmt: skip
    expected = (outcome.died - 1) // EVERY * EVERY + 1
    return (
        f"| {' | '.join(map(str, cells))} |",
        alike and found.weights <= tolerance and outcome.resumed == expected,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Play all cases; return 1 where one is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="deaths in rollouts, and in updates")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/nodes.md"))
    given = parser.parse_args(arguments)
    lines, wrong = [], 0
    with tempfile.TemporaryDirectory() as name:
        play(Path(name) / "undisturbed", NOBODY)
        for case in (*cases(given.times, given.seed), *HANGS):
            line, fine = row(case, Path(name))
            wrong += not fine
            lines.append(line if fine else f"{line} WRONG")
            print(lines[-1], flush=True)
            given.out.write_text(ABOUT.format(times=given.times) + "\n".join(lines) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
