"""Board of estimators: how near each comes to the truth on suites whose states can all be listed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from agentgym.algos.table import ALGORITHMS, find_algorithm
from agentgym.core.options import check_choice
from agentgym.credit.behaviour import UnreachableSuccessError, mixture, strength_for
from agentgym.credit.continuations import UNLIMITED, Sample, SampledTask, sample
from agentgym.credit.estimators import estimator
from agentgym.credit.graph import WIN_REWARD, StateGraph, explore
from agentgym.credit.measures import CreditAgreement, agreement, reliability
from agentgym.credit.truth import Truth
from agentgym.env import AgentEnv
from agentgym.registration import open_env

TASKS = 5
"""Tasks of a seed; no two seeds share one."""

DRAWS = 20
"""Draws of groups of all tasks of a seed."""

REJECTED_RATE, PENALTY = 0.1, 0.1
"""Rate of rejected actions where they are punished, and the cost of one; a win earns 10."""

ITERATIONS = (1, 10, 100)
"""Draws of groups that critics and reward models learn from."""

TRUE, CONTINUED = "exact", "continuations"
"""Names of the row of the true advantage: listed, and estimated from as many continuations."""

Matching: TypeAlias = Literal["state", "text"]


@dataclass(frozen=True, slots=True)
class CreditSuite:
    """A suite whose states can all be listed, or are played on from.

    Suites whose states are listed have 1,000 and more a task, in the median of the first 50 tasks.
    """

    env_id: str
    options: Mapping[str, Any] = field(default_factory=dict)
    continuations: int = 0
    """Continuations of each state with as many steps left; 0 where states are listed."""
    tasks: int = TASKS
    """Tasks of a seed."""
    draws: int = DRAWS
    """Draws of groups of all tasks of a seed."""
    iterations: tuple[int, ...] = ITERATIONS
    """Draws of groups that critics and reward models learn from."""

    def graphs(self, numbers: Sequence[int], *, rejected: bool = True) -> list[StateGraph]:
        """Return the states of tasks of the train split, by numbers; ``rejected`` as for `explore`."""
        env = self._env()
        try:
            return [explore(env, env.tasks[number].id, rejected=rejected) for number in numbers]
        finally:
            env.close()

    def sampled(self, numbers: Sequence[int]) -> list[SampledTask]:
        """Return tasks of the train split, by their numbers, to be played on from snapshots."""
        env = open_env(self.env_id, split="train", options={**self.options, "max_steps": UNLIMITED})
        oracle, horizon = env.oracle(), self.horizon
        return [SampledTask(env.spawn(), oracle, env.tasks[number].id, horizon=horizon) for number in numbers]

    @property
    def horizon(self) -> int:
        """Step limit."""
        return self._env().max_steps

    @property
    def max_seeds(self) -> int:
        """Number of seeds that the train split has tasks for."""
        return len(self._env().tasks) // self.tasks

    def _env(self) -> AgentEnv[Any]:
        return open_env(self.env_id, split="train", options=self.options)


SUITES: Mapping[str, CreditSuite] = {
    "sokoban": CreditSuite(
        "agentgym/Sokoban-v0", {"dim_room": (8, 8), "num_boxes": 2, "max_optimal": 12, "max_steps": 20}
    ),
    "ezpoints": CreditSuite("agentgym/EZPoints-v0"),
    "alfworld": CreditSuite("agentgym/ALFWorld-v0", {"difficulty": "easy", "max_steps": 8}),
    "hotpotqa": CreditSuite(
        "agentgym/HotpotQA-v0", {"actions": "candidates", "k": 2, "corpus": "own", "max_steps": 4}
    ),
    "sotopia": CreditSuite("agentgym/Sotopia-v0", {"actions": "candidates", "view": "lite", "max_turns": 6}),
    "alfworld-50": CreditSuite(
        "agentgym/ALFWorld-v0", continuations=16, tasks=1, draws=2, iterations=(1, 10)
    ),
    "webshop": CreditSuite("agentgym/WebShop-v0", continuations=16, draws=10, iterations=(1, 10)),
    "papersearch": CreditSuite("agentgym/PaperSearch-v0", continuations=16),
}
"""Suites by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditCell:
    """Conditions under which estimators are compared."""

    suite: str
    success: float = 0.6
    """Share of episodes that the policy wins, on average over the tasks of a seed."""
    group_size: int = 8
    penalty: bool = False
    """Whether the policy sends rejected actions, which are punished."""
    match: Matching = "state"
    """Criterion by which estimators compare states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditRow:
    """One estimator in one cell, of one seed."""

    cell: CreditCell
    seed: int
    algorithm: str
    """Name of the algorithm, or `TRUE`."""
    iterations: int
    """Draws of groups that its critic or reward model learned from; 0 where it has none."""
    agreement: CreditAgreement

    def record(self) -> dict[str, Any]:
        """Return the row as one flat record; measures that are nan are None there."""
        measures = asdict(self.agreement).items()
        return {
            **asdict(self.cell),
            "seed": self.seed,
            "algorithm": self.algorithm,
            "iterations": self.iterations,
            **{name: None if math.isnan(value) else value for name, value in measures},
        }


def default_algorithms() -> tuple[str, ...]:
    """Return the algorithms that estimate advantages of given episodes, by name."""
    return tuple(name for name, algorithm in ALGORITHMS.items() if not algorithm.snapshot)


def measure(
    suite: str,
    cells: Sequence[CreditCell],
    seed: int,
    *,
    algorithms: Sequence[str] = (),
    tasks: int | None = None,
    draws: int | None = None,
    iterations: Sequence[int] | None = None,
    skip: bool = False,
) -> Iterator[CreditRow]:
    """Yield the rows of one seed in each of a suite's cells, whose states are listed once.

    Args:
        suite: key of `SUITES`.
        cells: conditions, all of this suite.
        seed: picks the tasks and seeds the draws.
        algorithms: names as `agentgym.algos.table.find_algorithm` takes them; by default all that need no
            episodes of their own.
        tasks: tasks of a seed; by default the suite's.
        draws: draws of groups; likewise.
        iterations: draws of groups that critics and reward models learn from, a row each; likewise.
        skip: whether cells whose share of wins no policy reaches have no rows, instead of being refused.

    Raises:
        UsageError: there is no such suite or algorithm, or no policy wins as often as a cell states.
    """
    check_choice("suite", suite, tuple(SUITES))
    spent = contestants(algorithms, iterations or SUITES[suite].iterations)
    most = max(max(each) for each in spent.values())
    size = tasks or SUITES[suite].tasks
    numbers, punished = range(seed * size, (seed + 1) * size), any(cell.penalty for cell in cells)
    sampler = _sampler(SUITES[suite], numbers, rejected=punished)
    for number, cell in enumerate(cells):
        rng = np.random.default_rng((seed, number))
        try:
            sampled = sampler(cell, draws or SUITES[suite].draws, most, rng)
        except UnreachableSuccessError:
            if skip:
                continue
            raise
        yield from compare(sampled, cell, seed, spent)


def contestants(algorithms: Sequence[str], iterations: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Return the draws of groups that each algorithm learns from, a row each; (0,) where it learns nothing.

    Args:
        algorithms: by name; by default `default_algorithms`.
        iterations: draws for critics and reward models.
    """
    names = tuple(algorithms) or default_algorithms()
    return {name: tuple(iterations) if learns(name) else (0,) for name in names}


def compare(
    sampled: Sample, cell: CreditCell, seed: int, spent: Mapping[str, Sequence[int]]
) -> Iterator[CreditRow]:
    """Yield the rows of estimators on episodes of a policy, whichever it is.

    Args:
        sampled: the episodes.
        cell: their conditions.
        seed: their seed.
        spent: the estimators, as `contestants` returns them.
    """
    truths, found = sampled.truths, sampled.draws
    options = {"match": cell.match, "penalty": PENALTY if cell.penalty else 0.0}
    estimates = {}
    if continued := SUITES[cell.suite].continuations:
        known = reliability(found)
        yield CreditRow(cell=cell, seed=seed, algorithm=CONTINUED, iterations=continued, agreement=known)
    else:
        estimates[TRUE, 0] = [draw.advantage for draw in found]
    for name, iterations in spent.items():
        for learned in iterations:
            estimate = estimator(name, truths, sampled.training[:learned], options)
            estimates[name, learned] = [estimate(draw) for draw in found]
    for (name, learned), values in estimates.items():
        known = agreement(truths, found, values)
        yield CreditRow(cell=cell, seed=seed, algorithm=name, iterations=learned, agreement=known)


def _sampler(
    suite: CreditSuite, numbers: Sequence[int], *, rejected: bool
) -> Callable[[CreditCell, int, int, np.random.Generator], Sample]:
    """Return what plays a cell's draws, and others to learn from; states are listed once for all cells."""
    graphs, horizon = [] if suite.continuations else suite.graphs(numbers, rejected=rejected), suite.horizon

    def listed(cell: CreditCell, draws: int, training: int, rng: np.random.Generator) -> Sample:
        return Sample.of(solve(graphs, cell, horizon), cell.group_size, draws, training, rng)

    def continued(cell: CreditCell, draws: int, training: int, rng: np.random.Generator) -> Sample:
        return sample(
            suite.sampled(numbers),
            cell.success,
            size=cell.group_size,
            draws=draws,
            training=training,
            continuations=suite.continuations,
            rejected=REJECTED_RATE if cell.penalty else 0.0,
            penalty=PENALTY / WIN_REWARD if cell.penalty else 0.0,
            rng=rng,
        )

    return continued if suite.continuations else listed


def solve(graphs: Sequence[StateGraph], cell: CreditCell, horizon: int) -> list[Truth]:
    """Return the truth of tasks under a cell's policy.

    Args:
        graphs: the tasks.
        cell: the conditions.
        horizon: the step limit.

    Raises:
        UnreachableSuccessError: no policy wins as often as the cell states.
    """
    rejected, penalty = (REJECTED_RATE, PENALTY / WIN_REWARD) if cell.penalty else (0.0, 0.0)
    strength = strength_for(graphs, cell.success, horizon=horizon, rejected=rejected)
    policies = [mixture(graph, strength, rejected=rejected) for graph in graphs]
    pairs = zip(graphs, policies, strict=True)
    return [Truth.of(graph, policy, horizon=horizon, penalty=penalty) for graph, policy in pairs]


def learns(name: str) -> bool:
    """Return whether an algorithm has a critic or a reward model."""
    algorithm = find_algorithm(name)
    return bool(algorithm.critic or algorithm.reward_model)
