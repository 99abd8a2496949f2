"""``vllm serve`` beside a run's learner: on its devices, or on those of its machine that do not learn."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from agentgym.errors import UsageError
from agentgym.inference.engines.vllm_process import VllmProcess, serve_options
from agentgym.inference.models.language_model import LanguageModel, save_model
from agentgym.training.config import ResolvedConfig, TrainConfig
from agentgym.training.learner.distributed import Ranks

LOG = "vllm-serve.log"
"""File for the server's output, in the folder of the run."""


@dataclass(frozen=True, slots=True)
class RolloutServer:
    """The server that a rank samples from."""

    url: str
    sends: bool
    """Whether this rank sends it the weights."""
    process: VllmProcess | None
    """Its process, on the rank that started it."""


def parse_devices(text: str) -> list[int]:
    """Return device numbers.

    Example:
        >>> parse_devices("0-2,5")
        [0, 1, 2, 5]
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match is None:
            raise UsageError(f"devices are numbers and ranges such as 0-5 or 6,7, not {text!r}")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return found


def take_devices(config: TrainConfig) -> str:
    """Let this process see the devices that learn alone; return the others as ``CUDA_VISIBLE_DEVICES``.

    To be called before CUDA is. Numbers are of the devices that are visible.
    """
    if not config.devices:
        return ""
    learner, rollout = parse_devices(config.devices), parse_devices(config.rollout.devices)
    if both := sorted({*learner} & {*rollout}):
        raise UsageError(f"device {both[0]} cannot both learn and sample: leave it out of one of the two")
    if os.environ.get("WORLD_SIZE") != os.environ.get("LOCAL_WORLD_SIZE"):
        raise UsageError("--learner and --rollout divide one machine: start servers and set rollout.servers")
    outer = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = outer.split(",") if outer else [str(number) for number in range(max(learner + rollout) + 1)]
    if max(learner + rollout) >= len(names):
        raise UsageError(
            f"there is no device {max(learner + rollout)} among the visible {outer}: name others"
        )
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(names[number] for number in learner)
    return ",".join(names[number] for number in rollout)


def start_server(
    config: ResolvedConfig, language_model: LanguageModel, ranks: Ranks, *, devices: str, log: Path | None
) -> RolloutServer:
    """Serve the model on devices, by default on the learner's; all ranks call, and one a machine starts.

    ``devices``: of `take_devices`, empty for the learner's own, with a part of the server on each rank's;
    ``log``: file of the server's output, by default a temporary one.
    """
    rollout, adapter, process = config.rollout, config.learner.adapter, None
    machine, place, size = ranks.here
    sends = ranks.is_first if devices else place == 0
    if sends:
        own: dict[str, Any] = {} if devices else {"gpu_memory_utilization": rollout.vllm_memory}
        if language_model.pictures is not None:
            own["mm_device_do_normalize"] = False  # they arrive normalised
        if rollout.weight_transfer == "nccl":
            own["weight_transfer_config"] = {"backend": "nccl"}
        if rollout.vllm_sleep:
            own["enable_sleep_mode"] = True
        options = serve_options(
            rollout.vllm_options,
            dtype=getattr(torch, config.learner.dtype),
            device=config.device,
            context_length=min(config.prompting.context_length, _longest(language_model)),
            adapter=adapter,
            devices=len(devices.split(",")) if devices else size,
            **own,
        )
        with ExitStack() as stack:
            if language_model.weights is None:  # it was made here
                directory = Path(stack.enter_context(TemporaryDirectory(prefix="agentgym-")))
                save_model(directory, language_model)
            else:
                directory = language_model.weights.directory
            if log is not None and machine:  # machines may share the folder
                log = log.with_stem(f"{log.stem}-{machine}")
            process = VllmProcess(directory, options, devices=devices, log=log)
    found = dict(ranks.gather([(machine, process.url)] if process is not None else []))
    return RolloutServer(found[machine if not devices else min(found)], sends, process)


def _longest(language_model: LanguageModel) -> int:
    return int(language_model.model.config.get_text_config().max_position_embeddings)
