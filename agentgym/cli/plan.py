"""``agentgym train ALGORITHM --plan``: the memory of a run, before anything is loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agentgym.cli.terminal import open_console
from agentgym.errors import UsageError

if TYPE_CHECKING:
    from agentgym.training.config import TrainConfig

GIB = 1 << 30
GPU = "a GPU"
"""Name of a device of which only the memory is known."""


def show_plan(config: TrainConfig, *, devices: int, device_memory: float | None) -> int:
    """Print each rank's memory, and the settings that follow; return the exit code.

    ``devices``: ranks, one a device; ``device_memory``: GiB of a device (default: this machine's).
    """
    from agentgym.training.machine.memory import plan_memory
    from agentgym.training.machine.resources import (
        MAX_MEMORY_FRACTION,
        MAX_PARAMETERS,
        Machine,
        described,
        model_size,
        resolve,
    )
    from agentgym.training.machine.serving import parse_devices

    if devices < 1 or (device_memory is not None and device_memory <= 0):
        raise UsageError("--plan plans for at least one device, and --device-memory is above 0")
    if device_memory is None:
        machine = Machine.here(config.device)
    else:
        here = Machine.here("auto")
        machine = Machine("cuda", GPU, int(device_memory * GIB), has_vllm=here.has_vllm)
    if config.devices:
        devices = len(parse_devices(config.devices))
    machine = replace(machine, ranks=devices)
    size = model_size(config)
    if size is None:
        raise UsageError(
            f"{config.model} is made for its environment: plan for a model directory, --model PATH"
        )
    resolved = resolve(config, machine, size)
    plan = plan_memory(size, resolved, ranks=devices, device_memory=machine.memory)
    console = open_console()
    lines = [
        f"{config.model}: {size.parameters / 1e9:.2f} billion parameters, {size.layers} layers",
        *(f"{name:>8}  {value}" for name, value in described(resolved, machine)),
        "",
        *(f"{size / GIB:8.2f} GiB  {when:>8}  {what}" for when, what, size in plan.rows()),
        "",
        f"{plan.start / GIB:8.2f} GiB a rank while the run is opened",
        f"{plan.peak / GIB:8.2f} GiB a rank at most, of {machine.memory / GIB:.1f}",
    ]
    fits = plan.peak <= MAX_MEMORY_FRACTION * machine.memory
    if not fits:
        lines.append("This does not fit: use more devices, learner.lora_rank, or learner.offload=true")
    if size.parameters > MAX_PARAMETERS or size.experts:
        lines.append(
            "Above 14B dense, mixtures of experts, HSDP and context parallelism are not built here: use verl "
            "with these environments (docs/bridges.md)"
        )
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return 0 if fits else 1
