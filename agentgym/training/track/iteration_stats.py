"""Measurements of an iteration: lengths of responses, use of the devices, seconds by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from time import perf_counter
from typing import Any

import numpy as np
import torch

from agentgym.core.arrays import Bools
from agentgym.core.types import Group
from agentgym.history.metrics import StageSeconds
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.update import UpdateMetrics

STAGES = frozenset(field.name for field in fields(StageSeconds))

OPERATIONS = 6
"""Floating-point operations per weight and token, forward and backward (Kaplan et al., 2020, 2.1)."""


def response_lengths(groups: Sequence[Group], stop_ids: Sequence[int] | None) -> dict[str, Any]:
    """Return the mean number of tokens of responses, and the share that was cut at the limit.

    ``stop_ids``: the ends of whole free responses; None for choices, which are never cut.
    """
    sampled = [
        step.completion.response_ids
        for group in groups
        for member in group.trajectories
        for step in member.steps
    ]
    free = [ids for ids in sampled if ids]
    if not free:
        return {"response_length": None, "response_cut": None}
    cut = None if stop_ids is None else sum(ids[-1] not in stop_ids for ids in free) / len(free)
    return {"response_length": sum(map(len, free)) / len(free), "response_cut": cut}


def entropy_by_phase(groups: Sequence[Group]) -> dict[str, dict[str, float]]:
    """Estimate the entropy of sampling, nats a token, in the first, middle and last third of episodes' turns.

    It is the mean of the sampled tokens' negative log-probabilities. Empty without tokens.
    """
    surprise = {"early": [0.0, 0], "middle": [0.0, 0], "late": [0.0, 0]}
    for group in groups:
        for member in group.trajectories:
            for turn, step in enumerate(member.steps):
                phase = surprise[("early", "middle", "late")[3 * turn // len(member.steps)]]
                phase[0] -= sum(step.completion.logprobs)
                phase[1] += len(step.completion.logprobs)
    found = {name: total / count for name, (total, count) in surprise.items() if count}
    return {"entropy": found} if found else {}


def utilisation(
    parameters: int, tokens: int, seconds: float, *, peak_flops: float | None, ranks: int
) -> float | None:
    """Return the model FLOPS utilisation of an update; None where the device's peak is not known.

    ``tokens``: read on all ranks; ``peak_flops``: operations a second of one device.
    """
    if peak_flops is None or seconds <= 0:
        return None
    return OPERATIONS * parameters * tokens / (seconds * peak_flops * ranks)


def peak_memory(ranks: Ranks) -> int | None:
    """Return the most bytes that a rank's device has held since the last call; None on a CPU."""
    if ranks.device.type == "cpu":
        return None
    most = torch.cuda.max_memory_allocated(ranks.device)
    torch.cuda.reset_peak_memory_stats(ranks.device)
    return int(ranks.largest(float(most)))


class StageClock:
    """Splits an iteration's time into stages."""

    def __init__(self) -> None:
        """Begin now."""
        self._began = self._last = perf_counter()
        self._laps = dict.fromkeys(("credit", "update", "sync"), 0.0)  # zero without rollouts

    def lap(self, stage: str) -> None:
        """Add the time since the last call to a stage."""
        now = perf_counter()
        self._laps[stage] = self._laps.get(stage, 0.0) + now - self._last
        self._last = now

    def lapped(self, stage: str) -> float:
        """Return the time of a stage so far."""
        return self._laps.get(stage, 0.0)

    def seconds(self, *, model: float, stages: Mapping[str, float]) -> StageSeconds:
        """Return the stages' seconds; ``model`` is the policy's part of ``env``."""
        model = min(model, self._laps["env"])  # a thread's call may have begun before the stage did
        laps = {**self._laps, "env": self._laps["env"] - model}
        parts = dict.fromkeys(STAGES - laps.keys() - {"model", "total"}, 0.0)
        parts |= {name: seconds for name, seconds in stages.items() if name in STAGES}
        return StageSeconds(**laps | parts, model=model, total=perf_counter() - self._began)


def mean(values: Sequence[float] | Bools) -> float:
    """Return the mean; 0 of nothing."""
    return float(np.mean(values)) if len(values) else 0.0


def describe_update(update: UpdateMetrics) -> dict[str, Any]:
    """Return the metrics of an update."""
    table = asdict(update)
    table["learner_tokens"] = table.pop("tokens")
    return table
