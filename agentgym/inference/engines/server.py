"""The engine over ``vllm serve`` processes: sampling apart from the learner, on any number of machines.

A response is one request to one server, whose schedulers batch them; a choice is one for each token that has
an alternative. An episode stays with a server, which has the beginnings of its prompts in its cache; one
that begins goes to the server with the fewest open requests. What a lost server had open is asked again of
the others, with the same seed.
"""

from __future__ import annotations

import copy
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

import torch
from torch import Tensor

from agentgym.core.rng import TurnRng
from agentgym.errors import UsageError
from agentgym.inference.engines.responses import SampledResponse
from agentgym.inference.engines.server_weights import FileSender, WeightSender
from agentgym.inference.engines.stepping import SteppingEngine
from agentgym.inference.engines.sync_check import CanaryError, SyncCheck
from agentgym.inference.engines.types import Generation, GenerationRequest
from agentgym.inference.engines.vllm_process import VllmProcess
from agentgym.inference.engines.vllm_server import (
    ServerAbsentError,
    ServerFailedError,
    ServerLostError,
    VllmServer,
    picture_features,
    read_sample,
)
from agentgym.inference.engines.weights import matched
from agentgym.inference.models.lora import Adapter

HOMES = 16_384
"""Most episodes whose server is remembered."""

MAX_LOST = 2
"""Most servers that may fail while they sample one response: after more, the response itself is at fault."""

COLDEST = 0.01
"""Lowest temperature above 0 that vLLM does not raise."""

WHOLE = {"top_p": 1.0, "top_k": -1, "logprobs": 0, "ignore_eos": True}
"""Parameters of vLLM that leave the distribution as it is."""

_WAIT = 0.005
"""Seconds that a step waits for an answer before it checks for new requests."""


class ServerEngine(SteppingEngine):
    """Engine that samples from ``vllm serve`` processes; the first sync gives them the learner's weights.

    New weights are sent to all servers while they are paused; open requests wait, and with updates in flight
    continue under the new weights, which read them anew. A server reports for each token which weights drew
    it. After a sync, a check of each server confirms that the weights have arrived.
    """

    def __init__(
        self,
        servers: Sequence[str],
        model: Any,
        *,
        version: int = 0,
        dtype: torch.dtype = torch.bfloat16,
        tolerance: float | None = None,
        context_length: int | None = None,
        seeds: bool = True,
        adapter: Adapter | None = None,
        sender: WeightSender | None = None,
        first: bool = True,
        agree: Callable[[str], str] = str,
        sleep_level: int = 0,
        process: VllmProcess | None = None,
    ):
        """Look at the servers; nothing is sampled before the first sync. Only the form of ``model`` counts.

        ``tolerance`` is as `SyncCheck`'s; with ``seeds`` each request draws by its own; without ``sender``
        weights go by files on this machine; ``first``: whether this rank sends to these servers, and
        ``agree`` waits for all ranks; ``sleep_level``: what `rest` frees, 0 nothing, 1 the cache (weights
        move to main memory), 2 both; ``process``: a server that `close` ends.
        """
        super().__init__(version)
        form = copy.deepcopy(model)
        self._sync_check = SyncCheck(form, tolerance=tolerance, dtype=dtype, adapter=adapter)
        vocabulary = int(model.config.get_text_config().vocab_size)
        self._servers = [VllmServer(url) for url in servers]
        contexts = {server.url: server.check(vocabulary) for server in self._servers}
        shortest = min(contexts, key=contexts.__getitem__)
        needed = max(context_length or 0, len(self._sync_check.ids) + 1)
        if contexts[shortest] < needed:
            raise UsageError(
                f"{shortest} reads {contexts[shortest]:,} tokens, and {needed:,} are needed: start it with "
                f"--max-model-len {needed}"
            )
        self._context_length = contexts[shortest]
        self._dtype, self._seeds, self._adapter = dtype, seeds, adapter
        self._sender = sender or FileSender("", adapter)
        self._first, self._agree, self._whole = first, agree, False
        self._sleep_level, self._asleep, self._process = sleep_level, False, process
        self._lock = Lock()
        """Guards the servers and where episodes are at home."""
        self._homes: OrderedDict[int, VllmServer] = OrderedDict()
        self._pending: set[SampledResponse] = set()
        self._answers: SimpleQueue[tuple[SampledResponse, Any]] = SimpleQueue()
        self._lost = ""
        """Why the last server was lost."""

    @property
    def context_length(self) -> int:
        """Most tokens that a prompt and its response may have together."""
        return self._context_length

    def adopt(self) -> None:
        """Sample from the weights that the servers were started with."""
        self._to_all("/update_weight_version", {"new_version": str(self._version)})
        self._whole = True

    def rest(self) -> None:
        """Free the servers' memory until the next sync, as far as they were started to sleep."""
        if self._sleep_level:
            with self._paused():
                self._whole, self._asleep = False, True
                if self._first:
                    self._to_all(f"/sleep?level={self._sleep_level}")

    def close(self) -> None:
        """End the server that was started for this engine."""
        if self._process is not None:
            self._process.close()

    # ---- responses -------------------------------------------------------------------------

    def _begin(self, request: GenerationRequest) -> SampledResponse:
        if not self._whole:
            raise UsageError("the servers' weights are not known: sync first, or again where it failed")
        return begun(request, self.context_length)

    def _generate(self, responses: list[SampledResponse]) -> list[Generation]:
        waiting = deque(response for response in responses if response.finish is None)
        try:
            while waiting or self._pending:
                self._step(waiting)
        except BaseException:
            self._drop()
            raise
        return [response.generation(self._version) for response in responses]

    def _step(self, waiting: deque[SampledResponse]) -> list[SampledResponse]:
        while waiting:
            self._ask(waiting.popleft())
        try:
            response, answer = self._answers.get(timeout=_WAIT)
        except Empty:
            return []
        if response not in self._pending:  # the response was dropped
            return []
        self._pending.remove(response)
        if isinstance(answer, Exception):
            raise answer
        for token, logprob, version in zip(*answer, strict=True):
            response.take(token, logprob)
            response.mark(version)
        if response.finish is not None:
            return [response]
        self._ask(response)
        return []

    def _drop(self) -> list[SampledResponse]:
        dropped, self._pending = list(self._pending), set()
        return dropped

    def _interrupt(self) -> None:
        """Do nothing: the servers themselves pause the requests in flight."""

    def _ask(self, response: SampledResponse) -> None:
        self._pending.add(response)
        Thread(target=self._fetch, args=(response, self._version), name="request", daemon=True).start()

    def _fetch(self, response: SampledResponse, version: int) -> None:
        """Queue an answer or its error for the next step; the weights are of ``version`` or newer."""
        answer: Any = None
        lost = 0
        while answer is None:
            try:
                answer = self._answer(response, version)
            except ServerLostError as error:  # the loop tries another server
                lost += not isinstance(error, ServerAbsentError)
                if lost >= MAX_LOST:
                    answer = UsageError(
                        f"{lost} servers were lost while they drew the same response, to a prompt of "
                        f"{len(response.request.prompt_ids):,} tokens; the last one: {error}: see the "
                        "servers' logs, and --resume the run"
                    )
            except Exception as error:  # noqa: BLE001 (the step raises it)
                answer = error
        self._answers.put((response, answer))

    def _answer(self, response: SampledResponse, version: int) -> tuple[list[int], list[float], list[int]]:
        request = response.request
        ids = [*request.prompt_ids, *response.ids]
        sampling = WHOLE | next_tokens(response, seeds=self._seeds)
        shown = None if request.shown is None else picture_features(request.shown)
        server = self._home(request.episode)
        try:
            answer = server.generate(ids, sampling, session=str(request.episode), features=shown)
            drawn, logprobs, names = read_sample(answer)
            versions = [int(name) if name.isdecimal() else -1 for name in names]
            if min(versions) < version:
                raise ServerLostError(
                    f"{server.url} samples from weights of version {names[0]}, not {version}: it was started "
                    "anew, or asked by others"
                )
        except ServerLostError as error:
            self._lose(server, error)
            raise
        finally:
            with self._lock:
                server.requests -= 1
        return drawn, logprobs, versions

    # ---- servers ---------------------------------------------------------------------------

    def _home(self, episode: int) -> VllmServer:
        """Return the server of an episode, after counting the request; `UsageError` with no server left."""
        with self._lock:
            if not self._servers:
                raise UsageError(f"no server is left: {self._lost}; start them again and --resume the run")
            server = self._homes.pop(episode, None)
            if server not in self._servers:
                homes = list(self._homes.values())
                server = min(self._servers, key=lambda each: (each.requests, homes.count(each)))
            self._homes[episode] = server
            if len(self._homes) > HOMES:
                self._homes.popitem(last=False)
            server.requests += 1
            return server

    def _lose(self, server: VllmServer, error: ServerLostError) -> None:
        with self._lock:
            self._lost = str(error)
            self._servers = [each for each in self._servers if each is not server]

    def _to_all(self, path: str, body: Any = None) -> None:
        """Post to every server, side by side; those that do not answer are lost."""
        servers = self._servers
        with ThreadPoolExecutor(max(len(servers), 1)) as pool:
            futures = [(server, pool.submit(server.ask, path, body)) for server in servers]
        for server, future in futures:
            try:
                future.result()
            except ServerFailedError:
                raise
            except ServerLostError as error:
                self._lose(server, error)
        if not self._servers:
            raise UsageError(f"no server is left: {self._lost}; start them again and --resume the run")

    # ---- weights ---------------------------------------------------------------------------

    def _sync(self, state: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Give all servers the weights, and check that they have them; `CanaryError` where one has not."""
        place = self._sender.device
        if self._first:
            moved = state if place is None else ((name, tensor.to(place)) for name, tensor in state)
            new = matched(self._sync_check.own, moved, self._dtype)
        else:
            for _ in state:  # every rank iterates, since sharded tensors are gathered collectively
                pass
        self._agree("")  # a barrier: no rank sends weights while another has requests in flight
        self._whole = False
        problem: UsageError | None = None
        if self._first:
            try:
                self._send(new, version)
            except UsageError as error:
                problem = error
        if line := self._agree(str(problem or "")):
            raise problem or UsageError(line)
        self._whole = True

    def _send(self, weights: Mapping[str, Tensor], version: int) -> None:
        try:
            if self._asleep:
                self._to_all("/wake_up?tags=weights")
            self._to_all("/pause?mode=keep")
            try:
                self._sender.send(self._servers, self._to_all, weights)
                self._to_all("/reset_prefix_cache?reset_running_requests=true")
                self._to_all("/update_weight_version", {"new_version": str(version)})
                if self._asleep:
                    self._to_all("/wake_up?tags=kv_cache")
                    self._asleep = False
            finally:
                self._to_all("/resume")
            self._check(weights)
        except ServerLostError as error:
            raise UsageError(f"weights did not come to all servers: {error}") from error

    def _check(self, weights: Mapping[str, Tensor]) -> None:
        """Compare log-probabilities of each server and, at its first syncs, checksums."""
        ids = list(self._sync_check.ids)
        sampling = WHOLE | {"temperature": 1.0, "max_tokens": 1, "prompt_logprobs": 0}
        for server in self._servers:
            places = server.generate(ids, sampling)["prompt_logprobs"][1:]
            measured = [
                float(place[str(token)]["logprob"]) for place, token in zip(places, ids[1:], strict=True)
            ]
            try:
                self._sync_check.check(weights, measured, engine=server.url)
                if self._adapter is None and self._sync_check.wants_sums(server.url):
                    found = server.ask("/weight_checker", {"action": "checksum"})["checksums"]
                    self._sync_check.check_sums(weights, found, engine=server.url)
            except CanaryError as error:
                raise CanaryError(f"{server.url}: {error}") from error


def begun(request: GenerationRequest, context_length: int) -> SampledResponse:
    """Begin a response; `UsageError` as `SampledResponse.to`, and for temperatures that vLLM would change."""
    if 0 < request.sampling.temperature < COLDEST:
        raise UsageError(
            f"vLLM draws at temperature {COLDEST} instead of {request.sampling.temperature}: use 0, "
            f"or at least {COLDEST}"
        )
    return SampledResponse.to(request, context_length)


def next_tokens(response: SampledResponse, *, seeds: bool) -> dict[str, Any]:
    """Return vLLM's parameters of the next sample: the rest of a response, or a token of a choice."""
    sampling, trie = response.request.sampling, response.request.allowed
    # vLLM's generators take 63 bits; each token of a choice is a request with a seed of its own
    seed = TurnRng(response.request.seed, len(response.ids)).below(1 << 63) if seeds else None
    if trie is not None:
        allowed = list(trie.allowed(response.node))
        return {
            "temperature": sampling.temperature, "seed": seed, "max_tokens": 1, "allowed_token_ids": allowed
        }  # fmt: skip
    return {
        "temperature": sampling.temperature,
        "seed": seed,
        "max_tokens": response.limit - len(response.ids),
        "stop_token_ids": list(sampling.stop_ids),
    }
