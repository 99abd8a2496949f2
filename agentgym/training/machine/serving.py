"""``vllm serve`` on those devices of this machine that do not learn, started and ended with a run."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from socket import create_server
from time import monotonic, sleep
from typing import Any

from agentgym.errors import UsageError
from agentgym.inference.engines.sync_check import LENGTH
from agentgym.inference.engines.vllm import lora_options
from agentgym.inference.engines.vllm_server import FLAGS, LORA_SWITCH, ServerLostError, VllmServer
from agentgym.inference.models.tiny_names import tiny_size
from agentgym.io.files import make_folder, writing
from agentgym.io.hub import model_directory
from agentgym.training.config import ResolvedConfig, TrainConfig
from agentgym.training.learner.distributed import Ranks

START_SECONDS = 1800.0
"""Longest time to a server's readiness, in seconds."""

LOG = "vllm-serve.log"
"""File for the server's output, in the folder of the run."""

_OF_TORCHRUN = re.compile(
    r"(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|GROUP_.*|ROLE_.*|MASTER_.*|TORCHELASTIC_.*|VLLM_ENABLE_V1.*"
)


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


@contextmanager
def rollout_servers(
    config: ResolvedConfig, devices: str, folder: Path, ranks: Ranks
) -> Iterator[ResolvedConfig]:
    """Serve the model on devices, if there are any, while in the context; yield the servers' addresses."""
    with ExitStack() as stack:
        if devices:
            url = stack.enter_context(_vllm_serve(config, devices, folder)) if ranks.is_first else ""
            config = replace(config, rollout=replace(config.rollout, servers=(ranks.from_first(url),)))
        yield config


def serve_command(config: ResolvedConfig, devices: int, port: int) -> list[str]:
    """Return the command that serves a run's model on this many devices."""
    if tiny_size(config.model) is not None:
        raise UsageError(f"{config.model} is made with the run: to be served, --model must be a directory")
    options = dict(config.rollout.vllm_options)
    parallel = int(options.get("tensor_parallel_size", 1))
    if devices % parallel:
        raise UsageError(f"{devices} devices cannot be cut into tensor-parallel groups of {parallel}")
    context = max(config.prompting.context_length, LENGTH + 1)
    own: dict[str, Any] = {"data_parallel_size": devices // parallel, "max_model_len": context}
    if config.rollout.weight_transfer == "nccl":
        own["weight_transfer_config"] = {"backend": "nccl"}
    if (adapter := config.learner.adapter) is not None:
        own |= lora_options(adapter) | {"api_server_count": 1}  # several would each hold their own adapters
    command = [
        "vllm",
        "serve",
        str(model_directory(config.model)),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    command += [*FLAGS.split(), "--dtype", config.learner.dtype]
    for name, value in (own | options).items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            command.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            command += [f"--{flag}", value if isinstance(value, str) else json.dumps(value)]
    return command


@contextmanager
def _vllm_serve(config: ResolvedConfig, devices: str, folder: Path) -> Iterator[str]:
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = serve_command(config, len(devices.split(",")), port)
    environment = {name: value for name, value in os.environ.items() if not _OF_TORCHRUN.fullmatch(name)}
    environment |= {"CUDA_VISIBLE_DEVICES": devices, "VLLM_SERVER_DEV_MODE": "1"}
    environment |= {} if config.learner.lora_rank is None else {LORA_SWITCH: "1"}
    library = ctypes.CDLL(None)
    make_folder(folder)
    log = folder / LOG
    with writing(log), log.open("wb") as file:
        try:
            process = subprocess.Popen(
                command,
                env=environment,
                stdout=file,
                stderr=file,
                start_new_session=True,
                preexec_fn=lambda: library.prctl(1, signal.SIGTERM),
            )
        except FileNotFoundError as error:
            raise UsageError("there is no command vllm to serve with: pip install vllm") from error
    try:
        server = VllmServer(f"http://127.0.0.1:{port}")
        _wait(server, process, log)
        yield server.url
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            os.killpg(process.pid, signal.SIGKILL)  # workers may outlive the server, and hold devices


def _wait(server: VllmServer, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when the server is ready; `UsageError` with its last line where it has ended."""
    deadline = monotonic() + START_SECONDS
    while True:
        with suppress(ServerLostError):
            server.ask("/health", method="GET")
            return
        if process.poll() is not None or monotonic() > deadline:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise UsageError(f"vllm serve did not start: {' '.join(lines[-1:])[:200]} (all of it in {log})")
        sleep(0.2)
