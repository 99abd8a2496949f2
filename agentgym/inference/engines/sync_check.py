"""The check after a weight sync: the engine's log-probabilities against the learner's.

An engine with weights of its own can go wrong without any error: a tensor that was packed when the model
was loaded and is not packed again, a tied weight that one of its two users kept, a cache of old keys and
values. All of these show in the log-probabilities of one fixed sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from hashlib import sha256

import torch
from torch import Tensor
from torch.func import functional_call
from transformers import PreTrainedModel

from agentgym.core.rng import TurnRng
from agentgym.errors import UsageError
from agentgym.inference.models.lora import Adapter

LENGTH = 64
"""Most tokens of the test sequence, drawn from the whole vocabulary; less where the context is shorter."""

TOLERANCE, HALF_TOLERANCE = 1e-3, 0.1
"""Least bound of the mean absolute difference in float32 and in half precision: on a CPU tiny models were
off by 3e-7 and 3e-3."""

FLOORS = 4
"""Bound in half precision, in the model's own rounding: vLLM's bfloat16 was off by 0.05 to 0.19 on sequences
of SmolLM2-135M where that of `transformers` was off by 0.05 to 0.11 from float32."""

MOVED = 1e-3
"""Mean change of the learner's log-probabilities that an engine's cannot stay the same under, to the bit."""


SYNCS = 3
"""First syncs of an engine at which checksums are compared: hashing 14 GiB at each would take seconds."""

_FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
"""Layers that vLLM makes of several."""


class CanaryError(UsageError):
    """An engine's weights are not those it was given."""


class SyncCheck:
    """A fixed sequence, and a model without weights that computes its log-probabilities with any."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        tolerance: float | None = None,
        dtype: torch.dtype = torch.float32,
        adapter: Adapter | None = None,
    ):
        """Take a model's structure; its weights are dropped, and it gets the adapter.

        ``tolerance``: largest mean absolute difference between log-probabilities, above 0; None for what
        suits the type that the engine computes in, in half precision by the rounding of the first weights.
        """
        self._floors = tolerance is None and dtype != torch.float32
        self._dtype = dtype
        self._last: dict[str, tuple[list[float], list[float]]] = {}
        """Log-probabilities of learner and engine when the engine's last changed, by its name."""
        self._sums: dict[str, tuple[int, set[str]]] = {}
        """Number of compared checksums of an engine, and the parameters that were equal at the first."""
        if adapter is not None:
            adapter.add_to(model)
        if tolerance is None:
            tolerance = TOLERANCE if dtype == torch.float32 else HALF_TOLERANCE
        if not tolerance > 0:
            raise UsageError(f"the tolerance of the sync check must be above 0, got {tolerance}")
        config, draws = model.config.get_text_config(), TurnRng(0, 0)
        length = min(LENGTH, config.max_position_embeddings - 1)
        marks = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
        pictures = {getattr(model.config, name, None) for name in marks}
        drawn = (draws.below(config.vocab_size) for _ in range(length))
        self.ids = tuple(0 if token in pictures else token for token in drawn)
        """The sequence, of text alone."""
        self.tolerance = tolerance
        self._model = model.train(False).requires_grad_(False)
        self._buffers = dict(model.named_buffers())
        shells: dict[int, torch.nn.Parameter] = {}  # weight -> parameter, so that tied weights stay tied
        for module in model.modules():
            for name, weight in module.named_parameters(recurse=False):
                shell = torch.nn.Parameter(weight.to("meta"), requires_grad=False)
                setattr(module, name, shells.setdefault(id(weight), shell))

    @property
    def own(self) -> dict[str, Tensor]:
        """Every tensor of the model's ``state_dict``, of which weights have a shape only."""
        own: dict[str, Tensor] = self._model.state_dict(keep_vars=True)
        return own

    def log_probs(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Compute the sequence's log-probabilities by one plain pass without cache, padding or batch.

        ``weights``: all of the model's, on one device; one of several tied names suffices. Returns (len(ids)
        - 1,) float32, natural: of each token but the first, given those before it.
        """
        device = next(iter(weights.values())).device
        tokens = torch.tensor([self.ids], device=device)
        finest = reduce(torch.promote_types, (weight.dtype for weight in weights.values()))
        tensors = {name: buffer.to(device) for name, buffer in self._buffers.items()}
        tensors |= {name: weight.to(finest) for name, weight in weights.items()}
        with torch.no_grad():
            output = functional_call(self._model, tensors, (tokens,), {"use_cache": False})
        logits: Tensor = output.logits[0, :-1].float()
        return logits.log_softmax(-1).gather(1, tokens[0, 1:].unsqueeze(1)).squeeze(1)

    def check(self, weights: Mapping[str, Tensor], measured: Sequence[float], *, engine: str = "") -> float:
        """Return the mean absolute difference between an engine's log-probabilities and its weights'.

        ``measured``: of each token but the first, at temperature 1; ``engine``: name of the one of several.
        `CanaryError` where the difference is above the tolerance or not a number, or where the engine's are
        to the bit those of an earlier check although the weights have moved.
        """
        known: list[float] = self.log_probs(weights).tolist()
        if self._floors:
            rounded, exact = (
                self.log_probs({name: weight.to(dtype) for name, weight in weights.items()}).tolist()
                for dtype in (self._dtype, torch.float32)
            )
            self.tolerance = max(self.tolerance, FLOORS * _distance(rounded, exact))
            self._floors = False
        off = _distance(known, measured)
        if not off <= self.tolerance:
            raise CanaryError(
                f"after the sync the engine's log-probabilities of {len(self.ids)} fixed tokens are off by "
                f"{off:.2g} on average, above {self.tolerance:g}: its weights are not those it was given; "
                "use the engine 'hf' for this model"
            )
        before, same = self._last.get(engine, (known, []))
        if same != list(measured):
            self._last[engine] = known, list(measured)
        elif (moved := _distance(known, before)) > MOVED:
            raise CanaryError(
                f"the learner's log-probabilities of {len(self.ids)} fixed tokens have moved by {moved:.2g} "
                "on average, and the engine's are the same to the bit after the sync: it got no new weights; "
                "use the engine 'hf' for this model"
            )
        return off

    def wants_sums(self, engine: str) -> bool:
        """Return whether an engine's checksums are to be compared at this sync."""
        return self._sums.get(engine, (0, set()))[0] < SYNCS

    def check_sums(self, weights: Mapping[str, Tensor], found: Mapping[str, str], *, engine: str) -> None:
        """Compare the sha256 of an engine's parameters with those of the weights that it was sent.

        ``found``: by name after a prefix of the worker, as vLLM gives them. Only parameters that were equal
        at the engine's first sync are compared: others are packed, padded or cut there. `CanaryError` where
        one differs later.
        """
        own = checksums(weights)
        equal = {name for name, sum in found.items() if own.get(name.rpartition(":")[2]) == sum}
        number, known = self._sums.get(engine, (0, equal))
        if changed := sorted(known - equal):
            raise CanaryError(
                f"after the sync {len(changed)} of {len(known)} parameters of the engine, such as "
                f"{changed[0]}, are not to the bit what it was sent; use the engine 'hf' for this model"
            )
        self._sums[engine] = number + 1, known


def checksums(weights: Mapping[str, Tensor]) -> dict[str, str]:
    """Return the sha256 of each tensor's bytes by name, and of those that vLLM makes of several."""
    found = dict(weights)
    for name in weights:
        layer, _, last = name.rpartition(".")
        path, _, kind = layer.rpartition(".")
        for fused, parts in _FUSED.items():
            names = [f"{path}.{part}.{last}" for part in parts]
            if kind == parts[0] and all(each in weights for each in names):
                found[f"{path}.{fused}.{last}"] = torch.cat([weights[each] for each in names])
    return {name: _digest(tensor) for name, tensor in found.items()}


def _digest(tensor: Tensor) -> str:
    return sha256(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data).hexdigest()


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the mean absolute difference."""
    return sum(abs(x - y) for x, y in zip(one, other, strict=True)) / len(one)
