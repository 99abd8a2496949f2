"""Settings that follow from the machine, chosen once at start: device, arithmetic, engine, sizes of batches.

A configuration may leave them open ("auto", 0 or None). `resolve` fills them in from the device that is
there, its memory, the number of ranks, the algorithm and the model; a run's ``config.json`` holds what was
chosen. On a CPU sizes of batches are the same for every machine and model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from typing import Any, Literal, Self

import torch

from agentgym.algos.own_loss import with_source
from agentgym.errors import UsageError
from agentgym.inference.engines.sampling import find_sampler
from agentgym.inference.models.tiny_names import tiny_size
from agentgym.inference.policy.saved import default_prompting
from agentgym.io.hub import model_directory, pinned
from agentgym.io.optional import source_sha256
from agentgym.training.collect.config import EngineName, RolloutConfig
from agentgym.training.config import ResolvedConfig, TrainConfig
from agentgym.training.machine.memory import ModelSize, plan_memory

CPU_ENVS = 128
"""Default number of episodes played side by side on a CPU."""

MAX_ENVS = 1024
"""Most episodes played side by side on a GPU."""

VLLM_MIN_PARAMETERS = 500_000_000
"""Least parameters of a model for which vLLM's start pays."""

CPU_MAX_PARAMETERS = 1_000_000_000
"""Most parameters of a model that a single CPU thread can reasonably train."""

MAX_PARAMETERS = 15_000_000_000
"""Parameters of a dense model above which a plan says where to train it."""

MAX_MEMORY_FRACTION = 0.9
"""Share of a device's memory that a plan may fill."""

HEAD_ROWS = 256
"""Fewest rows of a product with the head: with fewer, reading its weights takes longer than computing."""

PLAIN_TOKENS = 8_192
"""Fewest tokens a pass without computing layers again, a third more work than larger passes save."""

_BUDGETS = (65_536, 49_152, 32_768, 24_576, 16_384, 12_288, 8_192, 4_096, 2_048)

DATA_SHEET: Mapping[str, tuple[float, float]] = {
    "B200": (2250e12, 8.0e12),
    "H200": (989e12, 4.8e12),
    "H100 PCIe": (756e12, 2.0e12),
    "H100": (989e12, 3.35e12),
    "A100": (312e12, 2.04e12),
    "L40S": (362e12, 0.864e12),
    "L4": (121e12, 0.3e12),
    "RTX 4090": (165e12, 1.01e12),
    "RTX 3090": (71e12, 0.936e12),
}
"""Dense bfloat16 operations and bytes of memory a second by part of a device's name, from the vendor's data
sheets; the first matching part counts."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Resources of a run's machine."""

    device: Literal["cpu", "cuda"]
    name: str
    """Name of the device."""
    memory: int
    """Memory of a device in bytes; on a CPU, the main memory."""
    ranks: int = 1
    has_vllm: bool = False
    cores: int = 1
    """Cores of the processor for each of its ranks."""

    @classmethod
    def here(cls, device: str = "auto") -> Self:
        """Describe this machine; ``device`` is "auto", "cpu" or "cuda"."""
        ranks = int(os.environ.get("WORLD_SIZE", "1")) if "LOCAL_RANK" in os.environ else 1
        if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
            pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            return cls("cpu", "CPU", pages, ranks)
        if not torch.cuda.is_available():
            raise UsageError("there is no CUDA device here, or torch was built without CUDA: use device=cpu")
        number = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
        found = torch.cuda.get_device_properties(number)
        cores = len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        has_vllm = find_spec("vllm") is not None
        return cls("cuda", found.name, found.total_memory, ranks, has_vllm, max(cores, 1))

    @property
    def peak_flops(self) -> float | None:
        """Operations a second in bfloat16; None where they are not known."""
        return None if self.part is None else DATA_SHEET[self.part][0]

    @property
    def part(self) -> str | None:
        """Part of a GPU's name that `DATA_SHEET` has; None without one."""
        found = (part for part in DATA_SHEET if part.replace(" ", "") in self.name.replace(" ", ""))
        return next(found, None) if self.device == "cuda" else None


def model_size(config: TrainConfig) -> ModelSize | None:
    """Read the sizes of a configuration's model; None for a tiny one, which has no directory."""
    return None if tiny_size(config.model) is not None else ModelSize.read(model_directory(config.model))


def _pinned(model: str) -> str:
    return pinned(model) if model and tiny_size(model) is None else model


def auto_engine(machine: Machine, size: ModelSize | None) -> EngineName:
    """Return the faster engine of a model: vLLM where it is installed, on a GPU, for a model worth its start.

    ``size``: of the model; None for a tiny one.
    """
    large = size is not None and size.parameters >= VLLM_MIN_PARAMETERS
    return "vllm" if machine.device == "cuda" and machine.has_vllm and large else "hf"


def _pace(rollout: RolloutConfig, engine: EngineName, *, gpu: bool) -> dict[str, Any]:
    """Return whether episodes go at their own pace, and how vLLM sleeps, where this is left open."""
    allowed = rollout.overlap or not rollout.max_staleness
    shares = engine == "vllm" and not rollout.apart and not rollout.plays_ahead
    own, level = rollout.asynchronous, rollout.vllm_sleep
    return {
        "asynchronous": gpu and allowed if own is None else own,
        "vllm_sleep": int(gpu and shares) if level is None else level,
    }


def resolve(
    config: TrainConfig, machine: Machine | None = None, size: ModelSize | None = None
) -> ResolvedConfig:
    """Return a configuration without open settings; settings that are set stay.

    ``machine``: by default this one; ``size``: of the model, by default `model_size`.
    """
    machine = machine or Machine.here(config.device)
    prompting = config.prompting or default_prompting(config.model, config.env_id)
    rollout, gpu = config.rollout, machine.device == "cuda"
    size = (size or model_size(config)) if gpu else None
    engine = rollout.engine
    if engine == "auto":
        engine = "hf" if rollout.sampler else auto_engine(machine, size)
    sampler, digest = find_sampler(rollout.sampler), ""
    if sampler is not None:
        digest = source_sha256(rollout.sampler, "rollout.sampler", sampler, rollout.sampler_sha256)
    # each rank plays its share of the episodes
    wanted = -(-rollout.tasks * rollout.group_size // machine.ranks)
    num_envs = rollout.num_envs or (min(wanted, MAX_ENVS) if gpu else CPU_ENVS)
    chosen = config.learner.settled(
        machine.device, exact_engine=engine == "hf", weighted=True, temperature=prompting.temperature
    )
    rollout = replace(rollout, sampler_sha256=digest)
    values: dict[str, Any] = {entry.name: getattr(config, entry.name) for entry in fields(config)}
    reward_model = replace(config.reward_settings, model=_pinned(config.reward_settings.model))
    values |= {
        "model": _pinned(config.model),
        "encoder": pinned(config.encoder, "retrieval"),
        "device": machine.device,
        # offloading, whose optimiser steps in main memory
        "threads": max(config.threads, machine.cores if gpu and chosen.offload else 1),
        "objective": with_source(config.loss),
        "rollout": replace(rollout, engine=engine, num_envs=num_envs, **_pace(rollout, engine, gpu=gpu)),
        "learner": chosen,
        "reward_model": reward_model if config.spec.reward_model else None,
        "prompting": prompting,
    }
    result = ResolvedConfig(**values)
    return result if size is None else _fitted(config, result, machine, size)


def _fitted(
    requested: TrainConfig, resolved: ResolvedConfig, machine: Machine, size: ModelSize
) -> ResolvedConfig:
    """Return the configuration with the largest batches that fit the device; set ones stay.

    Computing layers again is dearer than a small batch down to `PLAIN_TOKENS`, and cheaper below. The
    head's chunk comes before the budget: few of its rows at once are dearer than few tokens.
    """
    own, learner = requested.learner, resolved.learner
    again = (False, True) if own.gradient_checkpointing is None else (own.gradient_checkpointing,)
    # the most is a rank's share of a mini-batch; real packs may be smaller
    steps = learner.minibatch_steps
    share = steps and -(-steps * resolved.prompting.context_length // machine.ranks)
    most = next((budget for budget in reversed(_BUDGETS) if budget >= (share or _BUDGETS[0])), _BUDGETS[0])
    budgets = (own.token_budget,) if own.token_budget else tuple(each for each in _BUDGETS if each <= most)
    least = HEAD_ROWS * size.vocabulary
    chunks = (own.chunk_logits,) if own.chunk_logits else (max(learner.chunk_logits, least), least)
    enough = min(PLAIN_TOKENS, most)
    candidates = [
        (budget >= enough, not checkpointing, chunk, budget)
        for budget in budgets
        for checkpointing in again
        for chunk in chunks
    ]
    result = resolved
    for _, plain, chunk, budget in sorted(candidates, reverse=True):
        changed = replace(learner, token_budget=budget, chunk_logits=chunk, gradient_checkpointing=not plain)
        result = replace(resolved, learner=changed)
        plan = plan_memory(size, result, ranks=machine.ranks, device_memory=machine.memory)
        if plan.peak <= MAX_MEMORY_FRACTION * machine.memory:
            break
    return result


def check_feasible(config: ResolvedConfig) -> None:
    """Refuse to train a large model on a single CPU thread, which would take days an iteration."""
    size = model_size(config) if config.device == "cpu" and config.threads == 1 else None
    if size is None or size.parameters < CPU_MAX_PARAMETERS:
        return
    raise UsageError(
        f"{config.model} has {size.parameters / 1e9:.1f} billion parameters, and there is one CPU thread to "
        "train it on: use a GPU (device=cuda), set threads, or insist by --force"
    )


def described(config: ResolvedConfig, machine: Machine) -> list[tuple[str, str]]:
    """Return the lines of a run's resources: name and value."""
    learner, rollout = config.learner, config.rollout
    where = f"{machine.name}, {machine.memory / 2**30:.0f} GiB" if config.device == "cuda" else "CPU"
    ranks = f" x {machine.ranks}" if machine.ranks > 1 else ""
    threads = (
        f", {config.threads} thread{'s' * (config.threads > 1)}"
        if config.device == "cpu" or config.threads > 1
        else ""
    )
    weights = (
        "" if learner.importance_cap is None else f", importance weights up to {learner.importance_cap:g}"
    )
    most = (rollout.max_staleness + 1) * -(-rollout.tasks * rollout.group_size // machine.ranks)
    idle = f" ({rollout.num_envs - most} slots idle)" if rollout.num_envs > most else ""
    if rollout.devices:
        ranks = f" {config.devices}{ranks}"
        idle += f", on devices {rollout.devices}"
    if rollout.engine == "vllm":
        idle += f", {config.prompting.context_length:,} tokens each"
    idle += ", each at its own pace" if rollout.asynchronous else ""
    idle += f", sleeping in updates (level {rollout.vllm_sleep})" if rollout.vllm_sleep else ""
    shares = " at most, equal packs for all ranks" if machine.ranks > 1 else ""
    again = ", layers computed again for the gradient" if learner.gradient_checkpointing else ""
    return [
        ("device", f"{where}{ranks}{threads}"),
        ("dtype", f"{learner.dtype}; old log-probabilities: {learner.old_log_probs}{weights}"),
        ("engine", f"{rollout.engine}, {min(rollout.num_envs, most)} episodes side by side{idle}"),
        (
            "update",
            f"{learner.token_budget:,} tokens a pass{shares}, {learner.chunk_logits:,} logits at once{again}",
        ),
    ]
