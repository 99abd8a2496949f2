"""Time of each advantage estimator beside loops: ``python -m benchmarks.speed.algos``.

A batch is 16 groups of 8 episodes of 50 steps, and ten times as many groups; a step's response has about 30
tokens. Both contestants compute the same numbers, which is checked first, in one process and one after the
other in every round. Times are of the processor, so that what else the machine does counts little.
"""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agentgym.algos import graphgpo
from agentgym.algos.advantage import segment_ends
from agentgym.algos.batch import StepBatch
from agentgym.algos.graph import match_edges
from agentgym.algos.table import ALGORITHMS
from agentgym.core.arrays import Floats
from benchmarks.harness.report import machine, parser, publish, table
from benchmarks.speed import loops

GROUP_SIZE, STEPS, STATES, TOKENS = 8, 50, 60, (20, 40)
SIZES = {16: 7, 160: 3}
"""Number of groups -> rounds."""

OUT = Path(__file__).with_name("algos.json")


@dataclass(frozen=True, slots=True)
class Result:
    """One estimator on one batch, in milliseconds of processor time."""

    algorithm: str
    steps: int
    arrays: float
    arrays_quartiles: tuple[float, float]
    loops: float
    loops_quartiles: tuple[float, float]
    ratio: float
    """Median over rounds of loops by arrays."""


@dataclass(frozen=True, slots=True)
class GraphResult:
    """GraphGPO's graphs of one batch."""

    steps: int
    nodes: int
    edges: int
    milliseconds: float
    """Processor time of the whole advantage, median over rounds."""
    megabytes: float
    """Most that it held at once, beside the batch."""


def make_batch(groups: int) -> StepBatch:
    """Draw episodes that wander about a few states of their group, some of them to success."""
    rng = np.random.default_rng(0)
    episodes = groups * GROUP_SIZE
    group = np.repeat(np.arange(groups), GROUP_SIZE * STEPS)
    moves = rng.integers(-2, 4, size=(episodes, STEPS))
    moves[:, 0] = 0
    walk = np.cumsum(np.concatenate([moves, moves[:, -1:]], axis=1), axis=1) % STATES
    won = np.repeat(rng.random(episodes) < 0.4, STEPS)
    last = np.tile(np.arange(STEPS) == STEPS - 1, episodes)
    n = len(group)
    return StepBatch(
        group=group,
        trajectory=np.repeat(np.arange(episodes), STEPS),
        step=np.tile(np.arange(STEPS), episodes),
        state=group * STATES + walk[:, :-1].ravel(),
        next_state=group * STATES + walk[:, 1:].ravel(),
        reward=10.0 * (won & last),
        outcome=won.astype(np.float64),
        won=won,
        valid=rng.random(n) < 0.95,
        terminated=won & last,
        truncated=~won & last,
        values=rng.normal(size=n),
        next_values=rng.normal(size=n),
        tokens=rng.integers(*TOKENS, size=n),
        actions=tuple(f"go {move}" for move in np.roll(moves, -1, axis=1).ravel().tolist()),
    )


def contestants(batch: StepBatch) -> dict[str, tuple[Callable[[], Floats], Callable[[], Floats]]]:
    """Name -> the estimator, and the loops."""
    assert batch.tokens is not None
    rng = np.random.default_rng(1)
    extra = {
        "ppo": rng.normal(size=batch.tokens.sum()),
        "istar": rng.normal(size=len(batch)),
        "prime": rng.normal(size=batch.tokens.sum()),
    }

    def pair(name: str) -> tuple[Callable[[], Floats], Callable[[], Floats]]:
        estimator, loop = ALGORITHMS[name].advantage, getattr(loops, name)
        if name not in extra:
            return lambda: estimator(batch), lambda: np.array(loop(batch))
        column, listed = extra[name], extra[name].tolist()
        if name == "ppo":
            return lambda: estimator(batch, values=column), lambda: np.array(loop(batch, listed))
        return lambda: estimator(batch, column), lambda: np.array(loop(batch, listed))

    return {name: pair(name) for name in ALGORITHMS if hasattr(loops, name)}


def milliseconds(function: Callable[[], object], seconds: float) -> float:
    """Processor time of one call, averaged over calls that last about so long."""
    calls, began = 0, time.process_time()
    while (took := time.process_time() - began) < seconds or not calls:
        function()
        calls += 1
    return 1000 * took / calls


def measure(groups: int, rounds: int, seconds: float) -> list[Result]:
    """Time all contestants on a batch of so many groups."""
    batch = make_batch(groups)
    results = []
    for name, (estimator, loop) in contestants(batch).items():
        if not np.abs(estimator() - loop()).max() < 1e-7:
            raise RuntimeError(f"{name}: the estimator and its loops differ, so there is nothing to time")
        times = np.array([(milliseconds(estimator, seconds), milliseconds(loop, 0.0)) for _ in range(rounds)])
        low, middle, high = np.percentile(times, [25, 50, 75], axis=0)
        ratio = float(np.median(times[:, 1] / times[:, 0]))
        ours, theirs = (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))
        results.append(Result(name, len(batch), float(middle[0]), ours, float(middle[1]), theirs, ratio))
        print(f"{name:24}{len(batch):8,} steps {middle[0]:9.2f} ms {middle[1]:11.1f} ms  x{ratio:.0f}")
    return results


def measure_graph(groups: int, rounds: int, seconds: float) -> GraphResult:
    """Time GraphGPO's advantage on a batch of so many groups, and measure what it holds."""
    batch = make_batch(groups)
    source, target = match_edges(batch)
    # the last step of a won episode leads to SUCCESS, a node of its group
    arrived = np.where(segment_ends(batch.trajectory) & batch.won, -1 - batch.group, target)
    nodes = len(np.unique(np.concatenate([source, arrived])))
    edges = np.unique(np.stack([source, arrived]), axis=1).shape[1]
    tracemalloc.start()
    graphgpo.advantage(batch)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    took = float(np.median([milliseconds(lambda: graphgpo.advantage(batch), seconds) for _ in range(rounds)]))
    return GraphResult(len(batch), nodes, edges, took, peak)


def markdown(results: list[Result], graphs: list[GraphResult], about: dict[str, str]) -> str:
    """Write the tables."""
    lines = [
        "# Speed of the advantage estimators",
        "",
        f"`python -m benchmarks.speed.algos` on {about['cpu']}; python {about['python']}, "
        f"numpy {about['numpy']}.",
        "",
        f"Groups of {GROUP_SIZE} episodes of {STEPS} steps, about {sum(TOKENS) // 2} response tokens a step "
        "(read by PPO, REINFORCE++, PRIME). Processor",
        "time in milliseconds, median and quartiles over rounds. The loops are `benchmarks/speed/loops.py`: "
        "plain Python,",
        "one pass for every sum. Both compute the same numbers, which is checked before the clock starts.",
        "",
    ]
    cells = []
    for r in results:
        (low, high), (least, most) = r.arrays_quartiles, r.loops_quartiles
        spreads = f"{low:.2f} to {high:.2f}", f"{least:,.1f} to {most:,.1f}"
        name, steps, ratio = ALGORITHMS[r.algorithm].title, f"{r.steps:,}", f"{r.ratio:,.0f}"
        cells.append((name, steps, f"{r.arrays:.2f}", spreads[0], f"{r.loops:,.1f}", spreads[1], ratio))
    lines += table(("algorithm", "steps", "agentgym", "quartiles", "loops", "quartiles", "faster by"), cells)
    lines += ["", "Dr. GRPO and GSPO have GRPO's estimator; 3SPO's is that of one round of its rollouts."]
    lines += [
        "",
        "## GraphGPO's graphs",
        "",
        "Nodes are states and each group's SUCCESS, edges distinct pairs of them; time and memory are of the "
        "whole advantage.",
        "",
    ]
    sizes = (
        (f"{g.steps:,}", f"{g.nodes:,}", f"{g.edges:,}", f"{g.milliseconds:.2f}", f"{g.megabytes:.1f}")
        for g in graphs
    )
    lines += table(("steps", "nodes", "edges", "ms", "MB at most"), sizes)
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> None:
    """Measure and write the results."""
    given = parser(__spec__.name, __doc__, OUT, seconds=0.2)
    given.add_argument("--groups", type=int, nargs="*", default=list(SIZES), help="sizes to measure")
    given.add_argument("--graphs", action="store_true", help="only GraphGPO's graphs; the rest stays")
    options = given.parse_args(arguments)
    about = machine()
    sizes = [(groups, SIZES.get(groups, 3)) for groups in options.groups]
    if options.graphs:
        kept = json.loads(options.out.read_text())
        about, results = kept["machine"], [Result(**row) for row in kept["results"]]
    else:
        results = [result for size in sizes for result in measure(*size, options.seconds)]
    graphs = [measure_graph(*size, options.seconds) for size in sizes]
    record = {"machine": about, "results": results, "graphs": graphs}
    publish(options.out, record, markdown(results, graphs, about))


if __name__ == "__main__":
    main()
