"""Memory plan of a training run: bytes of each rank, from a model's configuration.

Nothing is loaded. The plan counts the code's allocations: weights and moments of the `Learner`, a layer's
activations that `transformers` stores for the gradient, the head's chunk, the engine's copy and its cache. It
is an estimate; ``docs/gpu.md`` compares it with measured peaks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import torch
from transformers import AutoConfig, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from agentgym.errors import UsageError
from agentgym.inference.engines.hf import BATCH_TOKENS
from agentgym.inference.models.weights import BLOCK, family_of
from agentgym.training.config import TrainConfig
from agentgym.training.learner.attention import BLOCK as QUERIES

EXACT = 4
"""Bytes of a float32 number: trained weights, gradients and moments, whatever the models compute in."""

BYTES: Mapping[str, int] = {"float32": 4, "bfloat16": 2}

HEAD_COPIES = 5
"""Number of tensors of a chunk's logits that exist at once in the head's backward pass, in float32."""


ASLEEP = 2 << 30
"""Bytes of a device that a sleeping vLLM keeps, for its context and graphs: an assumption, not measured."""

GAPS = "allocator's gaps"
"""Memory that glibc's allocator leaves unused on a CPU: about half of the fullest phase, with an adapter as
much as the phase (benchmarks/plan.md)."""


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The sizes of a model that memory follows from."""

    parameters: int
    """Number of parameters, tied ones once."""
    layers: int
    layer_parameters: int
    """Number of parameters of the largest layer."""
    hidden: int
    intermediate: int
    queries: int
    """Size of all query heads together."""
    keys: int
    """Size of all key-value heads together."""
    vocabulary: int
    query_norms: bool = False
    """Whether queries and keys are normalised, as in Qwen3."""
    linear: tuple[tuple[int, int], ...] = ()
    """Inputs and outputs of each linear layer but the head: the layers that an adapter covers."""
    experts: int = 0
    """Number of experts in a layer; 0 for a dense model."""
    encoder: ModelSize | None = None
    """Size of the picture encoder's layers, whose tokens are patches."""
    patches: int = 0
    """Patches per picture token."""

    @classmethod
    def read(cls, directory: str | Path) -> Self:
        """Read the sizes of a model directory from its ``config.json`` alone."""
        path = Path(directory)
        if not (path / "config.json").is_file():
            raise UsageError(
                f"the model directory {path} holds no config.json: give the path of a saved model"
            )
        try:
            config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
            with torch.device("meta"):
                model: PreTrainedModel = family_of(config).from_config(config, trust_remote_code=False)
        except Exception as error:  # damaged files make `transformers` raise a dozen kinds of exceptions
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise UsageError(f"cannot read the sizes of the model in {path}: {reason}") from error
        return cls.of(model)

    @classmethod
    def of(cls, model: PreTrainedModel) -> Self:
        """Take the sizes of a model, which may be on the meta device."""
        config = model.config.get_text_config()
        heads = config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // heads
        layers = [each for each in model.modules() if isinstance(each, GradientCheckpointingLayer)]
        head = model.get_output_embeddings()  # type: ignore[no-untyped-call]
        vision, encoder = getattr(model.config, "vision_config", None), None
        if vision is not None:
            blocks = [each for each in model.base_model.get_submodule("visual").modules() if each in layers]
            width, largest = vision.hidden_size, max(map(_count, blocks))
            encoder = cls(
                len(blocks) * largest, len(blocks), largest, width, vision.intermediate_size, width, width, 0
            )
        return cls(
            parameters=sum(weight.numel() for weight in model.parameters()),
            layers=config.num_hidden_layers,
            layer_parameters=max((_count(layer) for layer in layers), default=0),
            hidden=config.hidden_size,
            intermediate=getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
            queries=heads * size,
            keys=(getattr(config, "num_key_value_heads", None) or heads) * size,
            vocabulary=config.vocab_size,
            query_norms=any(name.endswith(".q_norm") for name, _ in model.named_modules()),
            linear=tuple(
                (each.in_features, each.out_features)
                for each in model.modules()
                if isinstance(each, torch.nn.Linear) and each is not head
            ),
            experts=getattr(config, "num_experts", 0) or getattr(config, "num_local_experts", 0) or 0,
            encoder=encoder,
            patches=0 if vision is None else vision.spatial_merge_size**2,
        )

    @property
    def body(self) -> int:
        """Parameters below the head: a critic's."""
        embedding = self.vocabulary * self.hidden
        return self.parameters - (embedding if self.outside >= 2 * embedding else 0)

    @property
    def outside(self) -> int:
        """Parameters in no layer, the encoder's among them."""
        encoded = 0 if self.encoder is None else self.encoder.parameters
        return self.parameters - self.layers * self.layer_parameters - encoded

    def adapter(self, rank: int) -> int:
        """Return the parameters of an adapter of all linear layers."""
        return sum(rank * (inputs + outputs) for inputs, outputs in self.linear)

    def cached(self, number: int) -> int:
        """Return the bytes of a token in a cache of keys and values, with ``number`` bytes a number."""
        return 2 * self.layers * self.keys * number

    def held(self, number: int, *, again: bool, rank: int = 0) -> int:
        """Return the bytes that all layers hold of a token; ``again``: computed again for the gradient.

        ``rank``: of an adapter, whose inner activations are held as well; 0 for none.
        """
        layer = self.layer_bytes(number) + number * rank * len(self.linear) // max(self.layers, 1)
        if again:
            return layer + self.layers * self.hidden * number
        return self.layers * layer

    def layer_bytes(self, number: int) -> int:
        """Return the bytes that one layer stores per token for the gradient, with ``number`` bytes a number.

        Two norms: the input in float32, what is scaled, and the output. Rotated queries and keys, values,
        attention's output, and four tensors of the inner width.
        """
        norms = 2 * (EXACT + 2 * number) * self.hidden
        norms += (EXACT + number) * (self.queries + self.keys) if self.query_norms else 0
        return norms + number * (2 * self.queries + 2 * self.keys + 4 * self.intermediate)

    def in_flight(self, number: int) -> int:
        """Return the bytes per token of the gradients that exist at once within a layer."""
        return number * (3 * self.intermediate + 2 * self.hidden)


def _count(module: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Memory of one rank, in bytes, by purpose."""

    always: Mapping[str, int]
    """Bytes in use throughout an iteration, by purpose."""
    sampling: Mapping[str, int]
    """Bytes in use while responses are sampled."""
    update: Mapping[str, int]
    """Bytes in use while gradients are computed."""
    sync: Mapping[str, int] = field(default_factory=dict)
    """Bytes in use while new weights are sent to the engine."""
    start: int = 0
    """Peak bytes while a run is opened."""
    overlaps: bool = False
    """Whether sampling and update happen at once."""
    main: Mapping[str, int] = field(default_factory=dict)
    """Bytes in main memory beside a device, by purpose."""
    cache_tokens: int = 0
    """Most tokens in the cache of vLLM on this device; 0 where another engine samples."""

    @property
    def peak(self) -> int:
        """Bytes at the fullest moment."""
        phases = (self.always, self.sampling, self.update, self.sync)
        held, drawn, updated, synced = (sum(part.values()) for part in phases)
        trained = max(updated, synced)
        return max(self.start, held + (drawn + trained if self.overlaps else max(drawn, trained)))

    def rows(self) -> list[tuple[str, str, int]]:
        """Return phase, purpose and bytes, without empty entries."""
        parts = (
            ("always", self.always),
            ("sampling", self.sampling),
            ("update", self.update),
            ("sync", self.sync),
        )
        return [(when, what, size) for when, part in parts for what, size in part.items() if size]


def plan_memory(
    size: ModelSize, config: TrainConfig, *, ranks: int = 1, device_memory: int = 0
) -> MemoryPlan:
    """Return the memory plan of a run's rank, in bytes; the configuration has nothing left to choose.

    ``device_memory``: of a device, of which vLLM takes its share.
    """
    learner, rollout, number = config.learner, config.rollout, BYTES[config.learner.dtype]
    rank = learner.lora_rank
    trained = size.parameters if rank is None else size.adapter(rank)
    frozen = 0 if rank is None else size.parameters
    critic = size.body if config.spec.critic is not None else 0
    has_reference = config.loss.kl_coefficient > 0 and rank is None
    shards = ranks > 1 or number < EXACT or learner.offload
    away = learner.offload and config.device != "cpu"
    held = 0 if away else EXACT
    always = {
        "weights": (held * trained + number * frozen) // ranks,
        "gradients": held * trained // ranks,
        "moments": 2 * held * trained // ranks,
        "reference": number * size.parameters // ranks if has_reference else 0,
        "critic": 4 * held * critic // ranks,
        "reward model": _reward_model(size, config, number, held) // ranks,
    }
    # the critic's gradients and moments come later, weights that wait in main memory are not the device's
    read = always["weights"] + always["reference"] + held * critic // ranks + always["reward model"]
    overlaps = rollout.plays_ahead
    vllm = rollout.engine == "vllm"
    copies = overlaps or shards or learner.compile or vllm
    adapter = number * (0 if rank is None else trained)
    sleeps = vllm and bool(rollout.vllm_sleep)
    used, sampling = _engine(size, config, number, adapter if copies else None, device_memory)
    (sampling if sleeps else always)["engine"] = used
    cache = max(used - number * size.parameters, 0) // max(size.cached(number), 1) if vllm and used else 0
    update = _update(size, config, number, shards=shards) | {"sleeping engine": ASLEEP if sleeps else 0}
    # each rank first reads the head in float32 for a check of the model, and then its part of the weights
    start = used + max(read, EXACT * size.outside) + BLOCK
    held_at_once = vllm and (rollout.weight_transfer == "nccl" or config.device == "cpu")
    sync = {
        "a whole tensor": EXACT * size.vocabulary * size.hidden if copies else 0,
        "new weights": (adapter or number * size.parameters) if copies and held_at_once else 0,
        "engine's weights": number * size.parameters if sleeps else 0,  # woken before its cache is
    }
    if config.device == "cpu":
        always[GAPS] = max(sum(sampling.values()), sum(update.values())) // (2 if rank is None else 1)
    # weights, gradients and both moments, of a critic and a reward model too
    offloaded = 4 * EXACT * (trained + critic) + _reward_model(size, config, 0, EXACT)
    main = {
        "offloaded": offloaded // ranks if away else 0,
        "sleeping engine": number * size.parameters if sleeps and rollout.vllm_sleep == 1 else 0,
        "new weights": (adapter or number * size.parameters) if vllm and not held_at_once else 0,
    }
    return MemoryPlan(always, sampling, update, sync, start, overlaps, main, cache)


def _engine(
    size: ModelSize, config: TrainConfig, number: int, adapter: int | None, device_memory: int
) -> tuple[int, dict[str, int]]:
    """Return the bytes of an engine, and what it takes beside them while it samples.

    ``adapter``: bytes of the adapter in the engine's own copy; None for an engine on the learner's weights.
    """
    rollout = config.rollout
    if rollout.engine == "vllm":
        shared = int(rollout.vllm_memory * device_memory) or number * size.parameters
        return 0 if rollout.apart else shared, {}
    tokens = min(BATCH_TOKENS, rollout.num_envs * _row(config))
    return 0 if adapter is None else number * size.parameters + adapter, {
        "key-value cache": tokens * size.cached(number),
        "prompt cache": rollout.prompt_cache * size.cached(number),
        "prefill": tokens * number * (3 * size.intermediate + 4 * size.hidden),
        "logits": 2 * EXACT * rollout.num_envs * size.vocabulary,
    }


def _reward_model(size: ModelSize, config: TrainConfig, number: int, held: int) -> int:
    """Return the bytes of a reward model of the policy's size, with its reference and optimiser."""
    if not config.trains_reward_model:
        return 0
    rank = config.reward_settings.lora_rank
    if rank is not None:
        return 4 * held * size.adapter(rank) + number * size.parameters
    return (4 * held + (number if config.spec.scored_by_reference else 0)) * size.parameters


def _update(size: ModelSize, config: TrainConfig, number: int, *, shards: bool) -> dict[str, int]:
    """Return the bytes of a pack while its gradients are computed, with this many bytes a number."""
    learner, tokens = config.learner, max(config.learner.token_budget, _row(config))
    again, encoder = bool(learner.gradient_checkpointing), size.encoder
    shown = config.prompting is not None and config.prompting.pictures != "none"
    rank, row = learner.lora_rank or 0, _row(config) or tokens
    responses = tokens  # trees share prompts
    if config.prompting is not None and learner.packing == "rows":
        responses = max(tokens // row, 1) * config.prompting.max_tokens
    chunk = max(min(learner.chunk_logits, responses * size.vocabulary), size.vocabulary)
    # the head's gradient, and in low precision a chunk's addition to it
    summed = 0 if learner.lora_rank else EXACT + (number if number < EXACT else 0)
    # each block of queries has a copy of its keys and values on a CPU
    met = (row + QUERIES) * size.cached(number) // (2 * QUERIES) if config.device == "cpu" else 0
    return {
        "activations": tokens * size.held(number, again=again, rank=rank),
        "keys by block": tokens * met // (size.layers if again else 1),
        "gradients of a layer": tokens * size.in_flight(number),
        # the most, reached if every token were a picture's
        "pictures": tokens * size.patches * encoder.held(number, again=again) if shown and encoder else 0,
        "head": HEAD_COPIES * EXACT * chunk + summed * size.vocabulary * size.hidden,
        "layers put together": number * (size.outside + 2 * size.layer_parameters) if shards else 0,
    }


def _row(config: TrainConfig) -> int:
    """Return the most tokens of a prompt and its response."""
    return 0 if config.prompting is None else config.prompting.context_length
