"""The gradients of a mini-batch, pack by pack.

Each pack, on whichever rank, gets its share of the whole mini-batch's weights, so that gradients add up to
the same update however it was cut and dealt out.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel

from agentgym.algos.loss import TokenLayout, importance_weights, kl_loss, kl_terms, policy_loss, value_loss
from agentgym.algos.objective import STEP_RATIOS, Objective
from agentgym.algos.own_loss import find_loss
from agentgym.algos.tokens import Batch, Unit
from agentgym.core.arrays import Floats
from agentgym.errors import UsageError
from agentgym.inference.engines.sampling import SamplerFunction
from agentgym.training.learner.attention import FLASH, NAME, attend
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.critic import Critic
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.logprobs import hidden_states, response_log_probs
from agentgym.training.learner.packing import Pack, on_device

_CHANGES = ("gaps", "fresh", "drift", "stale")
"""Sums and numbers of log-probability changes since sampling, for tokens of these and of older weights."""

WIDE = 0.5
"""Nats from which on a token's gap between engine and learner is wide."""

_EDGES = WIDE * 10 ** (torch.arange(-80, 21) / 10)
"""Upper edges of the bins of gaps, ten a decade; one more bin has the larger ones."""


class Actor(torch.nn.Module):
    """Wraps the policy so that FSDP sees one forward call."""

    def __init__(self, model: PreTrainedModel, config: LearnerConfig, sampler: SamplerFunction | None = None):
        """Bind a model, how it is read, and a sampler of one's own."""
        super().__init__()
        self.model = model
        self.config = config
        self.sampler = sampler

    def forward(self, pack: Pack, *, embeds: bool = False, entropies: bool = True) -> tuple[Tensor, Tensor]:
        """Return (R,) log-probabilities and entropies of the pack's response tokens.

        ``embeds`` returns (r, d) last hidden states at the ends of prompts, and (r,) lengths. Without
        ``entropies``, which cost as much as the log-probabilities, they have size 0.
        """
        settings = self.config
        if embeds:
            states = hidden_states(self.model.base_model, pack)[pack.prompt_ends].float()
            return states, states.norm(dim=1)
        return response_log_probs(
            self.model,
            pack,
            temperature=settings.temperature,
            chunk_logits=settings.chunk_logits,
            entropies=entropies,
            compiled=settings.compile,
            sampler=self.sampler,
        )


@dataclass(frozen=True, slots=True)
class _Share:
    """A pack, with its part of the mini-batch."""

    pack: Pack
    columns: Mapping[str, Tensor]
    """Columns of its steps and tokens, by the names in `Batch`."""
    layout: TokenLayout
    term_weights: Tensor
    """Weights of the surrogate's terms."""
    token_weights: Tensor
    """Weights (c,) of counted tokens in averages."""
    counts: bool
    """Whether this rank is the one that counts the pack."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Gap to the log-probabilities at sampling time, before any update."""

    largest: float = 0.0
    """Largest gap of tokens that these weights have sampled, an error of computation alone."""
    mean: float | None = None
    tail: float | None = None
    """99.9th percentile of these gaps, the upper edge of its bin."""
    wide: float | None = None
    """Share of these gaps above `WIDE`."""
    drift: float | None = None
    """Mean gap of tokens that older weights have sampled; None without any."""


def policy_gradient(
    actor: Actor,
    packs: list[tuple[Pack, bool]],
    batch: Batch,
    objective: Objective,
    ranks: Ranks,
    *,
    own_ratios: bool = False,
) -> tuple[dict[str, float], Gap]:
    """Add the gradient of a mini-batch's loss to the policy's.

    ``packs``: this rank's of the mini-batch, and whether each counts; ``batch``: the whole mini-batch's;
    ``own_ratios``: whether ratios are to the log-probabilities of this very pass, not the batch's old ones.
    Returns averages by the names in `UpdateMetrics`, and the gap to log-probabilities at sampling time.
    """
    sums = dict.fromkeys(
        ("loss", "kl", "clip_fraction", "entropy", "terms", "weighted", "tokens", *_CHANGES), 0.0
    )
    difference, found, bins = 0.0, [], np.zeros(len(_EDGES) + 1)
    actor.train(bool(actor.config.gradient_checkpointing))
    for share in _shares(actor, packs, batch, objective):
        loss, parts, moved, gaps = _policy_loss(actor, share, batch.credit, objective, own_ratios=own_ratios)
        loss.backward()  # type: ignore[no-untyped-call]
        found.append(torch.cat([torch.stack([*parts.values(), moved]), gaps]))
    actor.train(False)
    for numbers in torch.stack(found).tolist():  # synchronises with the device, once for all packs
        for name, number in zip(parts, numbers, strict=False):
            sums[name] = sums.get(name, 0.0) + number
        difference = max(difference, numbers[len(parts)])
        bins += numbers[len(parts) + 1 :]
    sums, bins = ranks.sum(sums), ranks.total(bins)
    # weights of sums over responses add up to more than 1
    terms, weighted, tokens = (sums.pop(name) or 1.0 for name in ("terms", "weighted", "tokens"))
    total, fresh, drift, stale = (sums.pop(name) for name in _CHANGES)
    averaged = {"kl": tokens, "entropy": tokens, "clip_fraction": weighted}
    averaged |= {"importance": terms, "truncated": terms}
    means = {name: value / averaged.get(name, 1.0) for name, value in sums.items()}
    return means, Gap(
        ranks.largest(difference),
        total / fresh if fresh else None,
        _percentile(bins, 0.999),
        float(bins[81:].sum() / fresh) if fresh else None,  # those above the 81st edge, which is `WIDE`
        drift / stale if stale else None,
    )


def _percentile(bins: Floats, share: float) -> float | None:
    """Return the upper edge of the bin below which this share of the gaps lies; None without gaps."""
    if not bins.any():
        return None
    place = int(np.searchsorted(bins.cumsum(), share * bins.sum()))
    return float(_EDGES[min(place, len(_EDGES) - 1)])


def _policy_loss(
    actor: Actor, share: _Share, credit: Unit, objective: Objective, *, own_ratios: bool
) -> tuple[Tensor, dict[str, Tensor], Tensor, Tensor]:
    """Return a pack's loss, its terms of the averages, its largest gap since sampling, and gaps by bin."""
    config, columns, layout = actor.config, share.columns, share.layout
    log_probs, entropies = actor(share.pack)
    old = log_probs.detach() if own_ratios else columns["old_log_probs"]
    weights, parts = share.term_weights, {}
    sampled = columns.get("rollout_log_probs", columns["old_log_probs"])
    if config.importance_cap is not None:
        importance = importance_weights(old, sampled, layout, objective, config.importance_cap)
        parts["importance"] = (importance * weights).sum()
        parts["truncated"] = ((importance == config.importance_cap) * weights).sum()
        weights = importance * weights
    surrogate = policy_loss(
        log_probs,
        old,
        columns["advantages"],
        layout,
        objective,
        credit=credit,
        weights=weights,
        loss=find_loss(objective.loss),
        sampled_log_probs=sampled,
    )
    entropy = (layout.pick(entropies) * share.token_weights).sum()
    loss = surrogate.loss
    if config.entropy_coefficient > 0:
        loss = loss - config.entropy_coefficient * entropy
    if objective.kl_coefficient > 0 and "ref_log_probs" in columns:
        reference = columns["ref_log_probs"]
        divergence = kl_loss(log_probs, reference, layout, objective, weights=share.token_weights)
        loss = loss + objective.kl_coefficient * divergence
        parts["ref_kl"] = divergence.detach()
    known = sampled if config.bypasses else old
    now, before, then = (layout.pick(each.detach()) for each in (log_probs, known, sampled))
    parts |= {
        "loss": loss.detach(),
        "kl": (kl_terms(now, before, "k3") * share.token_weights).sum(),
        "clip_fraction": surrogate.clip_fraction * weights.sum(),
        "entropy": entropy.detach(),
        "terms": share.term_weights.sum(),
        "weighted": weights.sum(),
        "tokens": share.token_weights.sum(),
    }
    found, largest, bins = _gaps(
        (now - then).abs(), layout.pick(columns["stale"]) if "stale" in columns else None
    )
    parts |= {name: number * share.counts for name, number in zip(_CHANGES, found, strict=True)}
    return loss, parts, largest, bins * share.counts


def _gaps(changes: Tensor, stale: Tensor | None) -> tuple[tuple[Tensor, ...], Tensor, Tensor]:
    """Return the numbers of `_CHANGES` of (c,) gaps, the largest of fresh tokens', and theirs by bin."""
    old = torch.zeros_like(changes, dtype=torch.bool) if stale is None else stale
    fresh = changes.masked_fill(old, 0.0)
    # computed, since edges that are copied to the device for each pack would hold it up
    place = (10 * (changes / WIDE).log10()).ceil().nan_to_num(21.0, 21.0, -80.0).clamp(-80, 21).long() + 80
    bins = changes.new_zeros(len(_EDGES) + 1).index_add(0, place, (~old).to(changes.dtype))
    found = (fresh.sum(), (~old).sum(), (changes - fresh).sum(), old.sum())
    return found, fresh.max() if len(fresh) else fresh.sum(), bins


_COLUMNS = ("advantages", "old_log_probs", "rollout_log_probs", "ref_log_probs")


def _shares(actor: Actor, packs: list[tuple[Pack, bool]], batch: Batch, objective: Objective) -> list[_Share]:
    """Give this rank's packs their parts of a mini-batch's columns and weights, on their device.

    What has a size that only the numbers say is computed here, where no device is waited for.
    """
    device = packs[0][0].input_ids.device  # not the weights' device, since they may be offloaded
    whole = _layout(batch)
    dtype = torch.promote_types(actor.model.dtype, torch.float32)
    steps = objective.ratio in STEP_RATIOS
    averaging = "seq-mean-token-mean" if steps else objective.aggregation
    spread = torch.zeros(whole.shape, dtype=dtype)
    spread[whole.index] = whole.weights(averaging, dtype)
    term = whole.weights(objective.aggregation, dtype) if steps else None
    shares = []
    for pack, counts in packs:
        part = batch.select(pack.rows)
        layout = _layout(part)
        tokens = layout.pick(spread[torch.from_numpy(pack.tokens)]) * counts
        terms = tokens if term is None else term[torch.from_numpy(pack.rows)] * counts
        given = {name: getattr(part, name) for name in _COLUMNS}
        columns = {
            name: _tensor(column, dtype, device) for name, column in given.items() if column is not None
        }
        if part.stale is not None:
            columns["stale"] = _tensor(part.stale, torch.bool, device)
        index, row, lengths, terms, tokens = (
            on_device(each, device) for each in (layout.index, layout.row, layout.lengths, terms, tokens)
        )
        shares.append(
            _Share(pack, columns, TokenLayout(layout.shape, index, row, lengths), terms, tokens, counts)
        )
    return shares


def value_gradient(
    critic: Critic, packs: list[tuple[Pack, bool]], batch: Batch, config: LearnerConfig, ranks: Ranks
) -> float:
    """Add the gradient of a mini-batch's value loss to the critic's; return the loss."""
    device, dtype = packs[0][0].input_ids.device, critic.head.weight.dtype
    shares = []
    for pack, counts in packs:
        part = batch.select(pack.rows)
        assert part.values is not None  # the learner checks both
        assert part.returns is not None
        entries = np.arange(len(part.values))
        if critic.unit == "token" and part.mask is not None:
            entries = entries[part.mask]
        old, returns = (_tensor(column[entries], dtype, device) for column in (part.values, part.returns))
        shares.append((pack, _tensor(entries, torch.long, device), old, returns, counts))
    own = {"entries": float(sum(len(chosen) for _, chosen, *_, counts in shares if counts))}
    whole_batch = max(ranks.sum(own)["entries"], 1.0)
    losses = []
    critic.train(bool(config.gradient_checkpointing))
    for pack, chosen, old, returns, counts in shares:
        loss = value_loss(critic(pack)[chosen], old, returns, clip=config.value_clip)
        loss = loss * (counts * len(chosen) / whole_batch)
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(loss.detach())
    critic.train(False)
    return ranks.sum({"value_loss": sum(torch.stack(losses).tolist())})["value_loss"]


def _layout(batch: Batch) -> TokenLayout:
    mask = None if batch.mask is None else torch.from_numpy(batch.mask)
    return TokenLayout.packed(torch.from_numpy(batch.lengths), mask, torch.from_numpy(batch.trajectory))


def _tensor(column: npt.NDArray[Any], dtype: torch.dtype, device: torch.device) -> Tensor:
    return on_device(torch.from_numpy(column).to(dtype), device)


def recompute_layers(model: PreTrainedModel) -> None:
    """Have a model recompute its layers for the gradient, which needs training mode without dropout."""
    settings = model.config.get_text_config().to_dict()
    for name, value in settings.items():
        if "drop" in name and isinstance(value, float) and value > 0:
            raise UsageError(
                f"the model's {name} is {value}, which gradient_checkpointing would turn on: set it to 0 in "
                "the model's config.json, or turn gradient_checkpointing off"
            )
    # newer versions deprecate the older name
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})


def compile_layers(bodies: Iterable[PreTrainedModel], device: torch.device) -> None:
    """Have models compile their layers, each apart, when they are first called; names of weights stay.

    Call it before weights are divided among ranks. Lengths are symbols, so that all layers and packs share a
    few graphs. `UsageError` without the compiler that the device's graphs need.
    """
    names = (
        [os.environ.get("CXX", "g++")] if device.type == "cpu" else [os.environ.get("CC", ""), "gcc", "clang"]
    )
    if not any(map(shutil.which, names)):
        raise UsageError(f"learner.compile needs {names[-1]}: install a C++ compiler, or set it to false")
    # a graph of attention would depend on the number of blocks; FlexAttention is compiled by itself
    for name in (NAME, FLASH):
        AttentionInterface.register(name, torch.compiler.disable(attend))  # type: ignore[no-untyped-call]
    for body in bodies:
        decoder = body.get_decoder()  # type: ignore[no-untyped-call]
        for layer in decoder.layers:
            layer.__class__ = _compiled(type(layer))  # type: ignore[arg-type]


@cache
def _compiled(kind: type[torch.nn.Module]) -> type[torch.nn.Module]:
    """Return a class of layers whose ``forward`` is compiled.

    A class, since copies of a layer must compute with their own weights. `transformers` wraps a layer's
    ``forward`` for checkpointing, the subclass's again: compiled is what the wrapper recomputes.
    """
    inner = getattr(kind.forward, "__wrapped__", kind.forward)
    return type(kind.__name__, (kind,), {"forward": torch.compile(inner, dynamic=True)})
