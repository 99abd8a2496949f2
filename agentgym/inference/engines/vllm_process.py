"""``vllm serve`` in a process of its own, started for a model directory and ended with this process."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from socket import create_server
from tempfile import mkstemp
from time import monotonic, sleep
from typing import Any

import torch

from agentgym.errors import UsageError
from agentgym.inference.engines.sync_check import LENGTH
from agentgym.inference.engines.vllm_server import FLAGS, LORA_SWITCH, ServerLostError, VllmServer
from agentgym.inference.engines.vllm_worker import EXTENSION
from agentgym.inference.models.lora import Adapter
from agentgym.io.files import make_folder, writing
from agentgym.io.optional import load

START_SECONDS = 1800.0
"""Longest time to a server's readiness, in seconds."""

COMMAND = (sys.executable, "-m", "vllm.entrypoints.openai.api_server")
"""Command of ``vllm serve``, in the form that vLLM's build for processors has, too."""

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks of adapters that vLLM supports."""

_OF_TORCHRUN = re.compile(
    r"(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|GROUP_.*|ROLE_.*|MASTER_.*|TORCHELASTIC_.*|VLLM_ENABLE_V1.*"
)

_CAUSE = re.compile(r"(?:\b\w*(?:Error|Exception)|\berror|\bValue error)[:,] .*")
"""Part of a log's line that names an error, as Python, argparse and pydantic write it."""

_NO_CAUSE = re.compile(r" WARNING |initialization failed|validation errors? for")
"""Part of a line that is a warning, or that points to an error before or after it."""

_MEMORY = re.compile(r"out of memory|gpu[_ -]memory[_ -]utilization|available memory", re.IGNORECASE)


class VllmProcess:
    """A ``vllm serve`` on this machine that is ready for requests; it ends with `close` or this process."""

    def __init__(
        self, directory: str | Path, options: Mapping[str, Any], *, devices: str = "", log: Path | None = None
    ):
        """Start the server and wait until it is ready.

        ``options``: of `serve_options`; ``devices``: its ``CUDA_VISIBLE_DEVICES``, by default this process's;
        ``log``: file of its output, by default a temporary one. `UsageError` where it does not start.
        """
        if find_spec("vllm") is None:
            load("vllm", "vllm", "the engine 'vllm'")
        with create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        """Address of the server."""
        environment = {name: value for name, value in os.environ.items() if not _OF_TORCHRUN.fullmatch(name)}
        environment |= {"VLLM_SERVER_DEV_MODE": "1", LORA_SWITCH: "1"}
        environment |= {"CUDA_VISIBLE_DEVICES": devices} if devices else {}
        library = ctypes.CDLL(None)
        self._temporary = log is None
        self._log = Path(mkstemp(prefix="vllm-serve-", suffix=".log")[1]) if log is None else log
        make_folder(self._log.parent)
        with writing(self._log), self._log.open("wb") as file:
            self._process = subprocess.Popen(
                serve_command(directory, port, options),
                env=environment,
                stdout=file,
                stderr=file,
                start_new_session=True,
                preexec_fn=lambda: library.prctl(1, signal.SIGTERM),
            )
        self._end = weakref.finalize(self, _end, self._process)  # exits run it, too
        self._wait()

    def close(self) -> None:
        """End the server."""
        self._end()
        if self._temporary:
            self._log.unlink(missing_ok=True)

    def _wait(self) -> None:
        server, deadline = VllmServer(self.url), monotonic() + START_SECONDS
        while True:
            with suppress(ServerLostError):
                server.ask("/health", method="GET")
                return
            if self._process.poll() is not None or monotonic() > deadline:
                self._end()
                lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
                cause = start_error(lines)
                hint = "; see rollout.vllm_memory" if _MEMORY.search(cause) else ""
                raise UsageError(f"vllm serve did not start: {cause[:300]} (all of it in {self._log}{hint})")
            sleep(0.2)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        os.killpg(process.pid, signal.SIGKILL)  # workers may outlive the server, and hold devices


def start_error(lines: list[str]) -> str:
    """Return the last line of a server's log that names a cause, or else its last line.

    Example:
        >>> start_error(["(EngineCore pid=7) ERROR [core.py:9] ValueError: No memory", "RuntimeError: Engine "
        ...     "core initialization failed. See root cause above."])
        'ValueError: No memory'
    """
    found = [match.group() for line in lines if (match := _CAUSE.search(line)) and not _NO_CAUSE.search(line)]
    return " ".join((found or lines or ["it wrote nothing"])[-1].split())


def serve_options(
    given: Mapping[str, Any],
    *,
    dtype: torch.dtype,
    device: str,
    context_length: int | None = None,
    adapter: Adapter | None = None,
    devices: int = 1,
    **fixed: Any,
) -> dict[str, Any]:
    """Return a server's options by name.

    ``given``: the user's; `UsageError` where they set what is decided here. ``dtype``: of the weights;
    ``device``: "cuda" or "cpu"; ``context_length``: most tokens of a prompt and its response, None for the
    model's; ``adapter``: trained instead of the weights; ``devices``: how many there are, each with an engine
    or a part of one; ``fixed``: further options that are decided.
    """
    parallel = int(given.get("tensor_parallel_size", 1))
    if devices % parallel:
        raise UsageError(f"{devices} devices cannot be cut into tensor-parallel groups of {parallel}")
    fixed |= {"dtype": str(dtype).removeprefix("torch."), "data_parallel_size": devices // parallel}
    if context_length is not None:
        fixed["max_model_len"] = max(context_length, LENGTH + 1)
    if device == "cpu":
        fixed |= {"enforce_eager": True, "worker_extension_cls": EXTENSION}
    if adapter is not None:
        rank = next((rank for rank in _RANKS if rank >= adapter.rank), None)
        if rank is None:
            raise UsageError(f"vLLM has adapters of rank {_RANKS[-1]} at most: lower learner.lora_rank")
        fixed |= {"enable_lora": True, "max_lora_rank": rank}
    if taken := sorted(fixed.keys() & given.keys()):
        raise UsageError(f"options of vLLM set {', '.join(taken)}, which is decided here: leave it out")
    return {"seed": 0, **given, **fixed}


def serve_command(directory: str | Path, port: int, options: Mapping[str, Any]) -> list[str]:
    """Return the command that serves a model directory with these options."""
    command = [
        *COMMAND,
        "--model",
        str(directory),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        *FLAGS.split(),
    ]
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            command.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            command += [f"--{flag}", value if isinstance(value, str) else json.dumps(value)]
    return command
