"""The engine over vLLM, in this process (extra ``vllm``): for models that are worth its start.

It samples what the engine over `transformers` samples from, with the same log-probabilities but for
rounding; the draws are vLLM's own, so equal seeds give other tokens than there.
"""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from agentgym.core.rng import TurnRng
from agentgym.errors import UsageError
from agentgym.inference.engines.responses import SampledResponse
from agentgym.inference.engines.stepping import SteppingEngine
from agentgym.inference.engines.sync_check import SyncCheck
from agentgym.inference.engines.types import Generation, GenerationRequest
from agentgym.inference.engines.weight_transfer import register
from agentgym.inference.engines.weights import matched
from agentgym.inference.models.language_model import LanguageModel, open_directory, save_model
from agentgym.inference.models.lora import Adapter
from agentgym.inference.models.pictures import PicturePrompt
from agentgym.inference.models.weights import of_text
from agentgym.io.optional import load

COLDEST = 0.01
"""Lowest temperature above 0 that vLLM does not raise."""

WHOLE = {"top_p": 1.0, "top_k": -1, "logprobs": 0, "ignore_eos": True}
"""Parameters of vLLM that leave the distribution as it is."""

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks of adapters that vLLM supports."""

_OWN_PROCESS = "VLLM_ENABLE_V1_MULTIPROCESSING"
"""Variable that puts vLLM's engine into a process of its own, which cannot share weights by reference."""


class VllmEngine(SteppingEngine):
    """Samples from a model that vLLM has loaded into this process, beside the learner's.

    Free responses are one request each, with prefixes cached. A constrained response is one request
    for each token that has an alternative, restricted to the allowed ones; the tokens before it are in
    the cache.

    With an adapter the base stays as it was loaded, and a sync brings the adapter alone, as a LoRA request.
    After a sync a sync check tells whether the weights have arrived; while they have not, nothing is sampled.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        version: int = 0,
        dtype: torch.dtype = torch.bfloat16,
        tolerance: float | None = None,
        context_length: int | None = None,
        sleep_level: int = 0,
        seeds: bool = True,
        adapter: Adapter | None = None,
        options: Mapping[str, Any] | None = None,
    ):
        """Load a Hugging Face directory with vLLM.

        ``dtype``: the learner's keeps log-probabilities closest; ``tolerance``: of the sync check, None for
        `TOLERANCE` or in half precision `HALF_TOLERANCE`; ``context_length``: most tokens of a prompt and its
        response, None for the model's, raised to the sync check's need; ``sleep_level``: what `rest` frees, 0
        nothing, 1 the cache (weights move to main memory), 2 both; ``seeds``: whether each request draws by
        its own, or all of a step by one; ``adapter``: trained instead of the weights; ``options``: more of
        ``vllm.LLM``, such as ``gpu_memory_utilization``, but for those that the engine decides on.
        """
        super().__init__(version)
        vllm = _import_vllm()
        model = open_directory(directory, dtype=dtype).model  # the sync check needs no weights
        longest = int(model.config.get_text_config().max_position_embeddings)
        self._adapter, self._lora_request = adapter, None
        self._sync_check = SyncCheck(model, tolerance=tolerance, dtype=dtype, adapter=adapter)
        self._sees = not of_text(model.config)
        shortest = len(self._sync_check.ids) + 1
        self._context_length = (
            longest if context_length is None else min(max(context_length, shortest), longest)
        )
        fixed = {
            "model": str(directory),
            "dtype": str(dtype).removeprefix("torch."),
            "max_model_len": self._context_length,
            "logprobs_mode": "processed_logprobs",
            "enable_prefix_caching": True,
            "skip_tokenizer_init": not self._sees,  # its picture processor requires one
            "generation_config": "vllm",
            "weight_transfer_config": vllm.config.WeightTransferConfig(backend=register()),
        }
        fixed |= {"mm_device_do_normalize": False} if self._sees else {}  # they arrive normalised
        fixed |= {"enable_sleep_mode": True} if sleep_level else {}
        fixed |= {} if adapter is None else lora_options(adapter, sleep_level)
        taken = sorted(fixed.keys() & (options or {}).keys())
        if taken:
            raise UsageError(f"the engine sets {', '.join(taken)} itself: leave it out of the options")
        self._llm = _start(vllm, {"seed": 0} | dict(options or {}) | fixed)
        self._llm.init_weight_transfer_engine({"init_info": {}})
        self._vllm = vllm
        self._output_kinds = load("vllm.sampling_params", "vllm", "the engine 'vllm'").RequestOutputKind
        self._dtype = dtype
        self._sleep_level, self._asleep = sleep_level, set[str]()
        self._whole, self._seeds = True, seeds
        self._latest, self._draws = 0, count()  # the latest request's seed, and draws, without own seeds
        self._numbers = count()
        self._pending: dict[str, SampledResponse] = {}
        """Responses that vLLM is sampling, by the number of the request."""

    @classmethod
    def of(
        cls,
        language_model: LanguageModel,
        *,
        dtype: torch.dtype = torch.bfloat16,
        context_length: int | None = None,
        sleep_level: int = 0,
        seeds: bool = True,
        adapter: Adapter | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Load a learner's model beside it, as it is now; arguments as the constructor.

        It is saved into a temporary directory on the way, unless its weights are in one still.
        """
        loaded = partial(
            cls,
            dtype=dtype,
            context_length=context_length,
            sleep_level=sleep_level,
            seeds=seeds,
            adapter=adapter,
            options=options,
        )
        if language_model.weights is not None:
            return loaded(language_model.weights.directory)
        with TemporaryDirectory(prefix="agentgym-") as directory:
            save_model(directory, language_model)
            return loaded(directory)

    @property
    def context_length(self) -> int:
        """Most tokens that a prompt and its response may have together."""
        return self._context_length

    def rest(self) -> None:
        """Give memory back until the next sync, as far as the engine was made to sleep."""
        if self._sleep_level:
            with self._paused():
                self._llm.sleep(level=self._sleep_level)
                self._whole = False
                self._asleep = {"weights", "kv_cache"}

    def _wake(self, part: str) -> None:
        if part in self._asleep:
            self._llm.wake_up(tags=[part])
            self._asleep.remove(part)

    def log_probs(self, ids: Sequence[int]) -> list[float]:
        """Return the log-probability of each token but the first, natural, at temperature 1.

        ``ids``: at least two tokens, and fewer than the context has.
        """
        (output,) = self._run([self._prompt(list(ids))], [self._parameters(max_tokens=1, prompt_logprobs=0)])
        places = zip(output.prompt_logprobs[1:], ids[1:], strict=True)
        return [float(place[token].logprob) for place, token in places]

    # ---- inside ----------------------------------------------------------------------------

    def _begin(self, request: GenerationRequest) -> SampledResponse:
        if not self._whole:
            raise UsageError("the engine's last sync failed, so its weights are not known: sync it again")
        return begun(request, self.context_length)

    def _generate(self, responses: list[SampledResponse]) -> list[Generation]:
        while unfinished := [response for response in responses if response.finish is None]:
            self._extend(unfinished)
        return [response.generation(self._version) for response in responses]

    def _step(self, waiting: deque[SampledResponse]) -> list[SampledResponse]:
        while waiting:  # vLLM's own scheduler decides how many fit
            self._ask(waiting.popleft())
        with self._drawing():
            outputs = self._llm.llm_engine.step()
        over = []
        for output in outputs:
            response = self._pending.get(output.request_id)
            if response is None:  # it was dropped
                continue
            _take(response, output)
            if output.finished:
                del self._pending[output.request_id]
                if response.finish is None:
                    self._ask(response)
                else:
                    over.append(response)
        return over

    def _ask(self, response: SampledResponse) -> None:
        number = str(next(self._numbers))
        self._pending[number] = response
        self._add(number, self._prompt_of(response), self._sampling(response))

    def _add(self, number: str, prompt: Any, parameters: Any) -> None:
        self._llm.llm_engine.add_request(number, prompt, parameters, lora_request=self._lora_request)

    def _drop(self) -> list[SampledResponse]:
        dropped, self._pending = self._pending, {}
        if dropped:
            self._llm.llm_engine.abort_request(list(dropped))
        return list(dropped.values())

    def _sync(self, state: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Load weights, clear the caches of the old ones, and check the sync.

        `CanaryError` where other weights have arrived; nothing is sampled from them.
        """
        new = matched(self._sync_check.own, state, self._dtype)
        self._whole = False
        self._wake("weights")
        if self._adapter is None:
            self._llm.start_weight_update()
            self._llm.update_weights({"update_info": {"weights": list(new.items())}})
            self._llm.finish_weight_update()
        else:
            self._load_adapter(self._adapter, new)
        if self._sees:
            self._llm.llm_engine.reset_encoder_cache()
        if not self._llm.reset_prefix_cache():
            raise RuntimeError("vLLM did not forget its cached prefixes: requests are still running")
        self._wake("kv_cache")
        self._sync_check.check(new, self.log_probs(self._sync_check.ids))
        self._whole = True

    def _load_adapter(self, adapter: Adapter, tensors: Mapping[str, Tensor]) -> None:
        requests = load("vllm.lora.request", "vllm", "the engine 'vllm'")
        with TemporaryDirectory(prefix="agentgym-") as folder:  # read once, by `add_lora`
            adapter.save(Path(folder), tensors)
            self._lora_request = requests.LoRARequest("policy", 1 + next(self._numbers), folder)
            self._llm.llm_engine.add_lora(self._lora_request)

    def _extend(self, responses: list[SampledResponse]) -> None:
        """Draw each response to its end, or where it is constrained, its next token."""
        outputs = self._run(
            [self._prompt_of(response) for response in responses],
            [self._sampling(response) for response in responses],
        )
        for response, output in zip(responses, outputs, strict=True):
            _take(response, output)

    def _sampling(self, response: SampledResponse) -> Any:
        self._latest = response.request.seed
        return self._parameters(**next_tokens(response, seeds=self._seeds))

    def _parameters(self, **chosen: Any) -> Any:
        """Return parameters that leave the distribution as it is."""
        return self._vllm.SamplingParams(
            **WHOLE,
            detokenize=False,
            # streamed token by token where a response may have to restart from its tokens so far
            output_kind=self._output_kinds.DELTA
            if self._updates_in_flight
            else self._output_kinds.FINAL_ONLY,
            **chosen,
        )

    def _run(self, prompts: list[Any], parameters: list[Any]) -> list[Any]:
        """Return vLLM's final outputs of requests that are all that it steps."""
        core = self._llm.llm_engine
        numbers = [str(next(self._numbers)) for _ in prompts]
        outputs: dict[str, Any] = {}
        for entry in zip(numbers, prompts, parameters, strict=True):
            self._add(*entry)
        try:
            while len(outputs) < len(numbers):
                with self._drawing():
                    outputs |= {each.request_id: each for each in core.step() if each.finished}
        finally:
            core.abort_request([number for number in numbers if number not in outputs])
        return [outputs[number] for number in numbers]

    def _prompt_of(self, response: SampledResponse) -> Any:
        return self._prompt([*response.request.prompt_ids, *response.ids], response.request.shown)

    def _prompt(self, ids: list[int], shown: PicturePrompt | None = None) -> Any:
        """Return a prompt as vLLM takes it, with its pictures as patches: cut as for the learner."""
        if shown is None:
            return self._vllm.TokensPrompt(prompt_token_ids=ids)
        parts = load("vllm.multimodal.inputs", "vllm", "the engine 'vllm'")
        grids = torch.tensor([picture.grid for picture in shown.pictures])
        values = {
            "pixel_values": torch.cat([picture.patches for picture in shown.pictures]),
            "image_grid_thw": grids,
        }
        fields = {
            "pixel_values": parts.MultiModalFieldConfig.flat_from_sizes("image", grids.prod(-1)),
            "image_grid_thw": parts.MultiModalFieldConfig.batched("image", keep_on_cpu=True),
        }
        places = zip(shown.starts, shown.pictures, strict=True)
        return {
            "type": "multimodal",
            "prompt_token_ids": ids,
            "mm_kwargs": parts.MultiModalKwargsItems.from_hf_inputs(values, fields),
            "mm_hashes": {"image": [picture.sha256 for picture in shown.pictures]},
            "mm_placeholders": {
                "image": [parts.PlaceholderRange(offset=at, length=each.tokens) for at, each in places]
            },
        }

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """Leave the process's generators alone: greedy rows draw from them, and those without a seed."""
        with torch.random.fork_rng(_devices()):
            if not self._seeds:  # another seed at each call and on each rank
                torch.manual_seed(TurnRng(self._latest, next(self._draws)).below(1 << 63))
            yield


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


def lora_options(adapter: Adapter, sleep_level: int = 0) -> dict[str, Any]:
    """Return vLLM's arguments for one adapter; `UsageError` for too high a rank, or without its base."""
    if sleep_level > 1:
        raise UsageError("an adapter's base stays in vLLM: set rollout.vllm_sleep to 1 or 0")
    rank = next((rank for rank in _RANKS if rank >= adapter.rank), None)
    if rank is None:
        raise UsageError(f"vLLM has adapters of rank {_RANKS[-1]} at most: lower learner.lora_rank")
    return {"enable_lora": True, "max_lora_rank": rank}


def _take(response: SampledResponse, output: Any) -> None:
    """Append what vLLM has drawn."""
    (sample,) = output.outputs
    if output.finished and sample.finish_reason not in ("stop", "length"):
        raise RuntimeError(f"vLLM gave up on a response: {sample.finish_reason}")
    for token, place in zip(sample.token_ids, sample.logprobs, strict=True):
        response.take(token, float(place[token].logprob))


def _start(vllm: Any, arguments: Mapping[str, Any]) -> Any:
    """Return ``vllm.LLM``; UsageError where it does not start."""
    with _same_generators():
        try:
            return vllm.LLM(**arguments)
        except ValueError as error:  # vLLM's form of "out of memory"
            reason = " ".join(str(error).split())
            raise UsageError(f"vLLM does not start: {reason} (here: rollout.vllm_memory)") from error


def _import_vllm() -> Any:
    """Import vLLM."""
    if os.environ.setdefault(_OWN_PROCESS, "0") != "0":
        raise UsageError(f"weights are handed to vLLM in this process: set {_OWN_PROCESS}=0, or unset it")
    load("vllm.config", "vllm", "the engine 'vllm'")
    return load("vllm", "vllm", "the engine 'vllm'")


@contextmanager
def _same_generators() -> Iterator[None]:
    """Give the process's generators back as they were: vLLM seeds them all while it loads a model."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (to put it back)
    try:
        with torch.random.fork_rng(_devices()):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def _devices() -> list[int]:
    """Return the devices whose generators are in use."""
    return [torch.cuda.current_device()] if torch.cuda.is_available() else []
