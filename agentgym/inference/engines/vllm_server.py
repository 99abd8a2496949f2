"""One ``vllm serve`` process: the requests of the engine over servers to its HTTP interface."""

from __future__ import annotations

import json
import os
import socket
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from selectors import EVENT_READ, DefaultSelector
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import torch

from agentgym.errors import UsageError
from agentgym.inference.models.pictures import PicturePrompt
from agentgym.io.optional import load

TIMEOUT = 3600.0
"""Longest time to an answer, in seconds: requests wait while weights arrive."""

PATIENCE = 60.0
"""Seconds without an answer after which a server's health is checked; the check may take as long."""

_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds to the first probe of a silent host, seconds between probes, and probes until it is given up."""

FLAGS = "--enable-scale-out --logprobs-mode processed_logprobs --generation-config vllm"
"""Options of every ``vllm serve``."""

LORA_SWITCH = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"
"""Environment variable with which a server, beside the options of an adapter, accepts new adapters."""

LOAD_ADAPTER, UNLOAD_ADAPTER = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"

_START = f"start it as VLLM_SERVER_DEV_MODE=1 vllm serve MODEL {FLAGS}"


class ServerLostError(Exception):
    """A server does not answer any more, or has not the weights that it was given."""


class ServerFailedError(ServerLostError):
    """A server answers that it failed."""


class ServerAbsentError(ServerLostError):
    """A server takes no request."""


class VllmServer:
    """A server; safe to ask from any thread, each time by a connection of its own."""

    def __init__(self, url: str):
        """Name the server; nothing is asked yet. ``url``: ``http://host:port``."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise UsageError(f"rollout.servers has {url!r}: give addresses such as http://localhost:8000")
        self.url = url.rstrip("/")
        self._host, self._port = parts.hostname, parts.port
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self.requests = 0
        """Open."""
        self.adapter = ""
        """Name of the adapter that responses are drawn with; empty for none."""

    def check(self, vocabulary: int) -> int:
        """Return the server's context in tokens; `UsageError` where it cannot sample for a learner."""
        try:
            (model, *_) = self.ask("/v1/models", method="GET")["data"]
            if self.ask("/is_paused", method="GET")["is_paused"]:
                self.ask("/resume")  # a run that was killed during a weight transfer leaves the server paused
            only = {"temperature": 1.0, "max_tokens": 1, "logprobs": 0, "allowed_token_ids": [0]}
            ids, logprobs, _ = read_sample(self.generate([vocabulary - 1], only))
        except ServerLostError as error:
            raise UsageError(f"{error}: {_START}") from error
        if ids != [0] or not abs(logprobs[0]) < 1e-6:  # the only allowed token must have probability 1
            raise UsageError(f"{self.url} reports log-probabilities of another distribution: {_START}")
        return int(model["max_model_len"])

    def generate(
        self, ids: list[int], sampling: dict[str, Any], *, session: str = "", features: Any = None
    ) -> dict[str, Any]:
        """Continue one prompt; ``session`` keeps an episode at one of a server's data-parallel engines.

        ``sampling``: fields of vLLM's ``SamplingParams``; ``features``: of `picture_features`.
        """
        body: dict[str, Any] = {"token_ids": ids, "sampling_params": sampling | {"detokenize": False}}
        body |= {"features": features} if features else {}
        body |= {"model": self.adapter} if self.adapter else {}
        answer: dict[str, Any] = self.ask("/inference/v1/generate", body, session=session)
        return answer

    def ask(self, path: str, body: Any = None, *, method: str = "POST", session: str = "") -> Any:
        """Return the answer to a request, as JSON; None for an empty one.

        `ServerLostError` without an answer, or where the server failed; `UsageError` where it refuses.
        """
        headers = {"Content-Type": "application/json"}
        headers |= {"X-Session-ID": session} if session else {}
        if key := os.environ.get("VLLM_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        with closing(self._connected(TIMEOUT)) as connection:
            try:
                connection.request(method, path, None if body is None else json.dumps(body), headers)
                self._await(connection.sock)
                response = connection.getresponse()
                status, text = response.status, response.read().decode("utf-8", "replace")
            except (OSError, HTTPException) as error:
                raise ServerLostError(self._silence(error)) from error
        if status >= 500:
            raise ServerFailedError(f"{self.url} failed at {path} ({_short(text) or status})")
        if status in (403, 404):
            switch = f", with {LORA_SWITCH}=1 and --enable-lora" if path == LOAD_ADAPTER else ""
            raise UsageError(f"{self.url} does not offer {path.partition('?')[0]}: {_START}{switch}")
        if status >= 400:
            raise UsageError(f"{self.url} refuses {path.partition('?')[0]}: {_short(text) or status}")
        try:
            return (
                json.loads(text) if text and path not in (LOAD_ADAPTER, UNLOAD_ADAPTER) else None
            )  # these two answer in words, not in JSON
        except ValueError as error:
            raise UsageError(f"{self.url} answers {path} as vLLM does not: {_START}") from error

    # ---- inside -----------------------------------------------------------------------------

    def _connected(self, timeout: float) -> HTTPConnection:
        connection = self._kind(self._host, self._port, timeout=timeout)
        try:
            connection.connect()
        except OSError as error:
            raise ServerAbsentError(self._silence(error)) from error
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):
                connection.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return connection

    def _await(self, answering: socket.socket) -> None:
        """Wait until an answer begins; `OSError` where none comes and the health check fails."""
        until = monotonic() + TIMEOUT
        with DefaultSelector() as selector:
            selector.register(answering, EVENT_READ)
            while not selector.select(PATIENCE):
                if monotonic() > until:
                    raise TimeoutError(f"no answer in {TIMEOUT:.0f} s")
                with closing(self._connected(PATIENCE)) as connection:  # a stopped process accepts them, too
                    connection.request("GET", "/health")
                    connection.getresponse()

    def _silence(self, error: Exception) -> str:
        return f"{self.url} does not answer ({type(error).__name__}: {error})"


def _short(text: str) -> str:
    """Return the message of an error on one line."""
    try:
        found = json.loads(text)
        error = found.get("error", found.get("detail", found))
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError):
        pass
    return " ".join(text.split())[:300]


def read_sample(answer: dict[str, Any]) -> tuple[list[int], list[float], list[str]]:
    """Return the tokens of an answer, their log-probabilities, and versions of the weights that drew each."""
    (choice,) = answer["choices"]
    if choice["finish_reason"] not in ("stop", "length"):
        raise ServerFailedError(f"a server gave up on a response ({choice['finish_reason']})")
    ids = [int(token) for token in choice["token_ids"]]
    logprobs = [float(place["logprob"]) for place in choice["logprobs"]["content"]]
    spans = choice.get("weight_versions") or ()
    versions = [str(span["version"]) for span in spans for _ in range(span["end"] - span["start"])]
    if not len(ids) == len(logprobs) == len(versions):
        raise UsageError("a server does not say which weights drew a token: vLLM must be 0.32 or later")
    return ids, logprobs, versions


def picture_features(shown: PicturePrompt) -> dict[str, Any]:
    """Return a prompt's pictures as vLLM's requests take them: as patches, cut as for the learner."""
    purpose = "sending pictures to vLLM"
    parts = load("vllm.multimodal.inputs", "vllm", purpose)
    serde = load("vllm.entrypoints.scale_out.token_in_token_out.mm_serde", "vllm", purpose)
    grids = torch.tensor([picture.grid for picture in shown.pictures])
    values = {
        "pixel_values": torch.cat([picture.patches for picture in shown.pictures]),
        "image_grid_thw": grids,
    }
    fields = {
        "pixel_values": parts.MultiModalFieldConfig.flat_from_sizes("image", grids.prod(-1)),
        "image_grid_thw": parts.MultiModalFieldConfig.batched("image", keep_on_cpu=True),
    }
    items = parts.MultiModalKwargsItems.from_hf_inputs(values, fields)["image"]
    places = zip(shown.starts, shown.pictures, strict=True)
    return {
        "mm_hashes": {"image": [picture.sha256 for picture in shown.pictures]},
        "mm_placeholders": {"image": [{"offset": int(at), "length": each.tokens} for at, each in places]},
        "kwargs_data": {"image": [serde.encode_mm_kwargs_item(item) for item in items]},
    }
