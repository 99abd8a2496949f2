"""Doctor: a machine's training checked path by path, as a report that can be sent in.

Every learner path takes two iterations of a small task with what `agentgym.training.machine.resources`
chooses here. A check that fails is reported, and the others go on.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from agentgym.algos.batch import StepBatch
from agentgym.algos.table import find_algorithm
from agentgym.algos.tokens import Batch
from agentgym.inference.engines.sync_check import HALF_TOLERANCE, TOLERANCE
from agentgym.io.provenance import here_and_now
from agentgym.training.config import ResolvedConfig, TrainConfig, override
from agentgym.training.learner.packing import sampled_log_probs, step_rows
from agentgym.training.learner.update import Learner
from agentgym.training.loop import Trainer
from agentgym.training.machine.memory import ModelSize, plan_memory
from agentgym.training.machine.resources import Machine, described, model_size, resolve
from agentgym.training.setup import TrainingSetup

ENV = "agentgym/EZPoints-v0"

PATHS: Mapping[str, str] = {
    "policy, reference": "grpo",
    "policy, critic of steps": "steppo",
    "policy, critic of tokens": "ppo",
    "policy, reward model": "istar",
}
"""Learner paths, each with an algorithm that uses it."""

GRADIENT_TOLERANCE = 0.25
"""Largest relative difference between a gradient's norm in bfloat16 and in float32."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check."""

    name: str
    ok: bool
    seconds: float
    numbers: Mapping[str, float]
    error: str = ""


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """Report on a machine's training."""

    model: str
    device: str
    resources: Mapping[str, str]
    provenance: Mapping[str, Any]
    checks: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return asdict(self)


def examine(
    model: str,
    *,
    device: str,
    tasks: int = 8,
    group_size: int = 8,
    report: Callable[[CheckResult], None] = lambda _: None,
) -> DoctorReport:
    """Run every check and ``report`` each result; ``model`` is ``tiny:SIZE`` or a model directory.

    ``tasks`` and ``group_size`` are an iteration's.
    """
    machine = Machine.here(device)
    config = _config("grpo", model, device, tasks, group_size)
    size = model_size(config)
    resolved = resolve(config, machine, size)
    checks: list[CheckResult] = []

    def run(name: str, check: Callable[[], tuple[bool, dict[str, float]]]) -> None:
        began, error, ok, numbers = perf_counter(), "", False, dict[str, float]()
        try:
            ok, numbers = check()
        except Exception as caught:  # noqa: BLE001 (what goes wrong on a card is what the report is for)
            error = f"{type(caught).__name__}: {next(iter(str(caught).splitlines()), '')}"
        checks.append(CheckResult(name, bool(ok), perf_counter() - began, numbers, error))
        report(checks[-1])

    for name, algorithm in PATHS.items():
        if find_algorithm(algorithm).trainable:
            own = resolve(_config(algorithm, model, device, tasks, group_size), machine, size)
            run(name, lambda own=own: _iterate(own, machine, size))  # type: ignore[misc]
    run("bfloat16 against float32", lambda: _compare_types(resolved))
    resources = dict(described(resolved, machine))
    return DoctorReport(model, machine.name, resources, asdict(here_and_now()), tuple(checks))


def _config(algorithm: str, model: str, device: str, tasks: int, group_size: int) -> TrainConfig:
    plain = TrainConfig(algorithm=algorithm, env_id=ENV, model=model)
    changes: dict[str, Any] = {
        "device": device,
        "rollout.tasks": tasks,
        "rollout.group_size": group_size,
        "evaluation.every": 0,
        "prompting.max_tokens": 128,
    }
    if algorithm == "grpo":
        changes["objective.kl_coefficient"] = 0.01
    return override(plain, changes)


def _iterate(
    config: ResolvedConfig, machine: Machine, size: ModelSize | None
) -> tuple[bool, dict[str, float]]:
    """Take two iterations; the second samples with weights that were handed over."""
    setup = TrainingSetup.open(config)
    trainer = None
    try:
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(setup, Path(folder))
            trainer.iterate()
            metrics = trainer.iterate()
        size = size or ModelSize.of(setup.language_model.model)
    finally:
        if trainer is not None:
            trainer.close()
        setup.close()
    plan = plan_memory(size, config, device_memory=machine.memory)
    numbers = {
        name: value
        for name, value in metrics.scalars().items()
        if name.startswith("seconds/") or name in _TOLD
    }
    numbers["planned_memory"] = float(plan.peak)
    gap = metrics.logp_diff if metrics.logp_diff_mean is None else metrics.logp_diff_mean
    tolerance = TOLERANCE if config.learner.dtype == "float32" else HALF_TOLERANCE
    finite = all(np.isfinite(value) for value in numbers.values())
    return bool(finite and gap <= tolerance and metrics.version == 2), numbers


_TOLD = (
    "logp_diff",
    "logp_diff_mean",
    "tokens_per_second",
    "learner_tokens",
    "peak_memory",
    "mfu",
    "grad_norm",
    "critic_grad_norm",
    "clip_fraction",
    "response_length",
    "response_cut",
)


def _compare_types(config: TrainConfig) -> tuple[bool, dict[str, float]]:
    """Compare log-probabilities and the gradient's length of one batch in both types."""
    single = override(config, {"learner.dtype": "float32", "rollout.engine": "hf"})
    setup = TrainingSetup.open(resolve(single))
    try:
        listed = setup.worker.envs.tasks
        tasks = [listed[number].id for number in range(min(2, len(listed)))]
        groups = setup.worker.collect(tasks, group_size=2, seed=0)
    finally:
        setup.close()
    rows, steps = step_rows(groups, setup.speller), StepBatch.from_groups(groups)
    advantages = np.cos(np.arange(len(steps), dtype=np.float64))
    batch = Batch.of(steps, advantages, credit="step", old_log_probs=sampled_log_probs(groups))
    objective = replace(config.loss, kl_coefficient=0.0)
    found = {}
    for dtype in ("float32", "bfloat16"):
        own = replace(setup.learner.config, dtype=dtype, max_grad_norm=None, old_log_probs="recompute")
        # the batch has no log-probabilities of an engine of another precision to weight by
        own = replace(own, minibatches=1, minibatch_steps=None, epochs=1, importance_cap=None)
        learner = Learner(copy.deepcopy(setup.language_model.model), objective, own, ranks=setup.ranks)
        log_probs = learner.log_probs(rows)
        found[dtype] = log_probs, learner.update(rows, batch, seed=0).grad_norm
    (exact, length), (rounded, low) = found["float32"], found["bfloat16"]
    gap = np.abs(exact - rounded)
    numbers = {
        "log_prob_gap_mean": float(gap.mean()),
        "log_prob_gap_max": float(gap.max()),
        "grad_norm_float32": length,
        "grad_norm_bfloat16": low,
    }
    return bool(abs(low / length - 1) <= GRADIENT_TOLERANCE and gap.mean() <= HALF_TOLERANCE), numbers
