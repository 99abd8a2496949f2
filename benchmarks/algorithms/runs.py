"""Runs of the sweep: warm starts, training to a budget of environment steps, evaluation, and their files.

A finished run is one file, written at once, under a name that holds a digest of everything that decides it.
So a sweep that is stopped at any point continues where it was, and studies share what they have in common.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any, Literal, TypeAlias

import torch

from agentgym.core.hashing import content_id
from agentgym.inference.policy.prompted import make_policy
from agentgym.inference.policy.saved import weights_sha256
from agentgym.io.files import make_folder, replace_file, sole_writer
from agentgym.io.records import parse
from agentgym.io.untrusted import read_json
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.cloning.clone import SUMMARY_FILE, clone
from agentgym.training.config import TrainConfig
from agentgym.training.learner.update import DivergenceError
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup
from benchmarks.algorithms.plan import BASELINE, ENVIRONMENTS, EVALUATION_SEED, Arm, Environment, Study

RunEnd: TypeAlias = Literal["budget", "diverged", "exhausted"]
"""Why a run ended: its steps were taken, a loss was not a number, or nothing was sampled any more."""

Wins: TypeAlias = tuple[tuple[int, ...], ...]
"""Of each held-out task, of each attempt at it: 1 if it was won."""

_PATIENCE = 10
"""Iterations without a sample, after which a run has nothing left to sample."""

COMMITTED = Path(__file__).parent
"""Folder of the committed numbers, by which a sweep goes on where another machine left it."""

BEFORE = "before.json"
"""How a warm start does, in its folder."""


@dataclass(frozen=True, slots=True)
class RunKey:
    """One cell of a study."""

    environment: str
    arm: Arm
    seed: int
    budget: int | None = None
    """Environment steps; None for the environment's."""

    @property
    def steps(self) -> int:
        """The budget in environment steps."""
        return self.budget or ENVIRONMENTS[self.environment].budget


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRun:
    """A finished run."""

    environment: str
    algorithm: str
    seed: int
    digest: str
    budget: int
    end: RunEnd
    env_steps: tuple[int, ...]
    """Taken up to each iteration's end."""
    success: tuple[float, ...]
    """Share of each iteration's episodes that were won."""
    episodes: int
    cpu_seconds: float
    """Of training, without start and evaluation."""
    won: Wins
    steps_per_episode: float
    """In the evaluation."""
    tokens: int = 0
    """Number sampled in training; 0 where it was not counted."""

    @property
    def held_out_success(self) -> float:
        """Share of the held-out episodes that was won."""
        return fmean(fmean(task) for task in self.won)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPoint:
    """How a warm start does on the held-out tasks."""

    won: Wins
    steps_per_episode: float


def keys_of(
    study: Study,
    *,
    only: Sequence[str] = (),
    environments: Sequence[str] = (),
    seeds: Sequence[int] = (),
    budget: int | None = None,
) -> list[RunKey]:
    """Return the cells of a study, a seed of all arms before the next seed.

    The main table has no held-back seeds, so an arm beside a study that a claim names is trained on them.

    Args:
        study: the table.
        only: algorithms or labels of arms; empty for all.
        environments: empty for the study's.
        seeds: empty for the study's.
        budget: environment steps of each run; None for each environment's.
    """
    named = {label for claim in study.declared for label in (claim.better, claim.worse)}
    again = tuple(arm for arm in study.beside if arm.label in named)
    return [
        RunKey(environment, arm, seed, budget)
        for seed in seeds or (*study.seeds, *study.held_back)
        for environment in environments or study.environments
        for arm in (*study.arms, *(again if seed in study.held_back else ()))
        if environment in (arm.environments or study.environments)
        and (not only or arm.algorithm in only or arm.label in only)
    ]


# ---- warm starts --------------------------------------------------------------------------------


def warm_start(environment: Environment) -> StartingPoint:
    """Clone the oracle into a tiny model and evaluate it, unless that is done; return how it does."""
    folder = environment.warm_start
    make_folder(folder.parent)
    with sole_writer(folder.parent):
        if not (folder / SUMMARY_FILE).exists():
            if folder.exists():
                folder.rename(folder.with_name(f"{folder.name}-broken-{os.getpid()}"))
            clone(environment.cloning, folder)
        if not (folder / BEFORE).exists():
            config = Arm("", BASELINE).config(environment, seed=0)
            with closing(TrainingSetup.open(resolve(config))) as setup:
                won, steps = _evaluate(environment, config, setup)
            replace_file(folder / BEFORE, json.dumps(asdict(StartingPoint(won=won, steps_per_episode=steps))))
    return parse(StartingPoint, read_json(folder / BEFORE), str(folder / BEFORE))


# ---- runs ---------------------------------------------------------------------------------------


def run_file(key: RunKey) -> Path:
    """Return where a run is kept.

    Raises:
        UsageError: the arm cannot be trained.
    """
    environment = ENVIRONMENTS[key.environment]
    name = f"{key.arm.algorithm}-seed{key.seed}-{digest_of(key)[:12]}.json".replace(":", ".")
    return environment.folder / name


def read_run(key: RunKey) -> SweepRun | None:
    """Return a finished run, of this machine or committed; None where there is none yet.

    Raises:
        UsageError: the arm cannot be trained, or the file is damaged.
    """
    path = run_file(key)
    if path.exists():
        return parse(SweepRun, read_json(path), str(path))
    return committed(COMMITTED).get(digest_of(key))


@cache
def committed(folder: Path) -> Mapping[str, SweepRun]:
    """Return the runs of studies that are not complete yet, by digest, from their committed numbers."""
    found = {}
    for path in folder.glob("sweep-*.json"):
        for run in read_json(path).get("unfinished", ()):
            fields = {name: value for name, value in run.items() if name != "arm"}
            found[run["digest"]] = parse(SweepRun, fields, str(path))
    return found


def train(key: RunKey) -> SweepRun:
    """Train, evaluate and write the run's file, unless it is there.

    Raises:
        UsageError: the arm cannot be trained.
    """
    found = read_run(key)
    if found is not None:
        return found
    torch.set_num_threads(1)
    environment = ENVIRONMENTS[key.environment]
    config = key.arm.config(environment, key.seed)
    with tempfile.TemporaryDirectory() as folder, closing(TrainingSetup.open(resolve(config))) as setup:
        trainer = Trainer(setup, Path(folder))
        curve, end, seconds, tokens = _learn(trainer, key)
        won, steps = _evaluate(environment, config, setup)
        trainer.collector.close()
    run = SweepRun(
        environment=key.environment,
        algorithm=key.arm.algorithm,
        seed=key.seed,
        digest=digest_of(key),
        budget=key.steps,
        end=end,
        env_steps=tuple(steps for steps, _, _ in curve),
        success=tuple(success for _, success, _ in curve),
        episodes=curve[-1][2] if curve else 0,
        cpu_seconds=seconds,
        won=won,
        steps_per_episode=steps,
        tokens=tokens,
    )
    replace_file(run_file(key), json.dumps(asdict(run)) + "\n")
    return run


def _learn(trainer: Trainer, key: RunKey) -> tuple[list[tuple[int, float, int]], RunEnd, float, int]:
    """Iterate until the budget is spent.

    Return steps, success and episodes of each iteration, why it ended, processor-seconds and sampled tokens.
    """
    curve: list[tuple[int, float, int]] = []
    began = process_time()
    end: RunEnd = "budget"
    idle = tokens = 0
    spent = 0.0
    while spent < key.steps:
        if idle >= _PATIENCE:
            end = "exhausted"
            break
        try:
            metrics = trainer.iterate()
        except DivergenceError:
            end = "diverged"
            break
        before, episodes = (curve[-1][0], curve[-1][2]) if curve else (0, 0)
        # 3SPO samples nothing at states that it has given up
        idle = idle + 1 if metrics.env_steps == before and curve else 0
        tokens += metrics.tokens_out
        played = metrics.steps_per_episode * (metrics.episodes - episodes)
        spent = spent + played if key.arm.free_continuations else metrics.env_steps
        if not idle:
            curve.append((metrics.env_steps, metrics.success, metrics.episodes))
    return curve, end, process_time() - began, tokens


def _evaluate(environment: Environment, config: TrainConfig, setup: TrainingSetup) -> tuple[Wins, float]:
    """Play the held-out tasks as the policy samples in training; return wins and mean steps."""
    options = dict(environment.options)
    slots = min(64, environment.held_out * environment.attempts)
    with closing(open_vector(environment.id, slots, split=environment.validation, options=options)) as envs:
        policy = make_policy(
            setup.config.prompting, setup.language_model, setup.engine, envs, speller=setup.speller
        )
        worker = RolloutWorker(envs, policy, env_id=config.env_id)
        tasks = [task.id for task in envs.tasks[: environment.held_out]]
        groups = worker.collect(tasks, group_size=environment.attempts, seed=EVALUATION_SEED)
    won = tuple(tuple(int(member.won) for member in group.trajectories) for group in groups)
    lengths = [len(member.steps) for group in groups for member in group.trajectories]
    return won, sum(lengths) / len(lengths)


def digest_of(key: RunKey) -> str:
    """Return what tells a run from any other: settings, the warm start's weights, budget and evaluation."""
    environment, arm = ENVIRONMENTS[key.environment], key.arm
    arm.config(environment, key.seed)  # raises where it cannot be trained
    settings = sorted(arm.changes(environment).items())
    evaluation = (environment.held_out, environment.attempts, EVALUATION_SEED)
    weights = weights_sha256(environment.warm_start)
    budget: tuple[Any, ...] = (key.steps, "trained on") if arm.free_continuations else (key.steps,)
    return content_id((environment.id, arm.algorithm, settings, key.seed, weights, *budget, evaluation))


# ---- many of them -------------------------------------------------------------------------------


def finished(keys: Sequence[RunKey]) -> Iterator[tuple[RunKey, SweepRun]]:
    """Yield the cells that are there, with their runs; what cannot be trained yet has none."""
    from agentgym.errors import UsageError

    for key in keys:
        try:
            run = read_run(key) if ENVIRONMENTS[key.environment].warm_start.exists() else None
        except UsageError:
            continue
        if run is not None:
            yield key, run


def describe(key: RunKey, run: SweepRun) -> str:
    """Return a finished run as a line of progress."""
    wins: Any = [won for attempts in run.won for won in attempts]
    return (
        f"{key.environment} {key.arm.label} seed {key.seed}: {sum(wins) / len(wins):.1%} after "
        f"{len(run.success)} iterations, {run.cpu_seconds:.1f} processor-seconds"
    )
