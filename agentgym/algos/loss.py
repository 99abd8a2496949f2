"""Policy and value losses with their clipping and KL terms, in torch.

Log-probabilities come packed, one entry per response token, or padded to (n, L) with a mask; `TokenLayout`
says which. Whatever is not a counted token is left out *before* anything is computed, so that it adds
exactly nothing to a loss or a gradient, be it infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeAlias

import torch
from torch import Tensor

from agentgym.algos.objective import KL, STEP_RATIOS, Aggregation, Objective
from agentgym.algos.tokens import Unit
from agentgym.core.options import check_choice
from agentgym.errors import UsageError

LOG_RATIO_BOUND = 20.0
"""Log-ratios are clipped to this before they are exponentiated."""


@dataclass(frozen=True, slots=True)
class TokenLayout:
    """Where the counted tokens of n responses lie in a tensor.

    Example:
        >>> layout = TokenLayout.padded(torch.tensor([[1, 1], [1, 0]]))
        >>> layout.pick(torch.tensor([[1.0, 2.0], [3.0, torch.inf]])).tolist(), layout.lengths.tolist()
        ([1.0, 2.0, 3.0], [2, 1])
    """

    shape: tuple[int, ...]
    """Shape of token tensors: (n, L), or (T,)."""
    index: Tensor
    """(c,) positions of the counted tokens in the flattened tensor."""
    row: Tensor
    """(c,) response, from 0, that each counted token belongs to."""
    lengths: Tensor
    """(n,) number of counted tokens of each response."""
    trajectory: Tensor | None = None
    """(n,) trajectory of each response, numbered from 0; needed to average over trajectories."""

    def __post_init__(self) -> None:
        """Check that each response has a trajectory, if any does.

        Raises:
            ValueError: it does not.
        """
        if self.trajectory is not None and self.trajectory.shape != self.lengths.shape:
            n = len(self.lengths)
            raise ValueError(
                f"trajectory must have shape ({n},), one per response, not {tuple(self.trajectory.shape)}"
            )

    @classmethod
    def padded(cls, mask: Tensor, trajectory: Tensor | None = None) -> Self:
        """Describe (n, L) tensors whose mask is 1 at response tokens."""
        row, column = mask.bool().nonzero(as_tuple=True)
        n, width = mask.shape
        return cls((n, width), row * width + column, row, torch.bincount(row, minlength=n), trajectory)

    @classmethod
    def packed(cls, lengths: Tensor, mask: Tensor | None = None, trajectory: Tensor | None = None) -> Self:
        """Describe (T,) tensors: the tokens of all responses one after the other.

        Args:
            lengths: (n,) number of tokens of each response; they sum to T.
            mask: (T,) 1 at the tokens that count; all by default.
            trajectory: (n,) trajectory of each response.

        Raises:
            ValueError: the mask has another shape, or as the constructor.
        """
        n = len(lengths)
        row = torch.repeat_interleave(torch.arange(n, device=lengths.device), lengths)
        if mask is not None and mask.shape != row.shape:
            raise ValueError(f"mask must have shape ({len(row)},), like the tokens, not {tuple(mask.shape)}")
        index = torch.arange(len(row), device=row.device) if mask is None else mask.nonzero().flatten()
        counted = row[index]
        return cls((len(row),), index, counted, torch.bincount(counted, minlength=n), trajectory)

    def pick(self, x: Tensor) -> Tensor:
        """Return (c,) the counted tokens' entries.

        Raises:
            ValueError: the tensor has another shape.
        """
        if tuple(x.shape) != self.shape:
            raise ValueError(
                f"token tensors must have shape {self.shape} like the mask, not {tuple(x.shape)}"
            )
        return x.reshape(-1)[self.index]

    def sums(self, x: Tensor) -> Tensor:
        """Sum (c,) entries over each response, (n,)."""
        return torch.zeros(len(self.lengths), dtype=x.dtype, device=x.device).index_add(0, self.row, x)

    def weights(self, aggregation: Aggregation, dtype: torch.dtype = torch.float32) -> Tensor:
        """Weight of each term in a loss: (c,) of tokens, (n,) of steps.

        A learner that splits a mini-batch asks the whole one's layout and hands each part its share.
        """
        check_choice("aggregation", aggregation, Aggregation)
        full = (self.lengths > 0).to(dtype)
        if aggregation == "token-mean":
            return torch.full_like(self.row, 1, dtype=dtype) / max(len(self.row), 1)
        if aggregation == "trajectory-mean":
            return self._trajectory_weights(full)
        per_response = full / full.sum().clamp(min=1)
        if aggregation == "step-mean":
            return per_response
        if aggregation == "seq-mean-token-mean":
            per_response = per_response / self.lengths.clamp(min=1)
        return per_response[self.row]

    def _trajectory_weights(self, full: Tensor) -> Tensor:
        if self.trajectory is None:
            raise ValueError(
                "trajectory is missing: give the layout the trajectory of each response, "
                'or set aggregation="step-mean"'
            )
        names, number = torch.unique(self.trajectory, return_inverse=True)
        steps = torch.zeros(len(names), dtype=full.dtype, device=full.device).index_add(0, number, full)
        return full / steps.clamp(min=1)[number] / (steps > 0).sum().clamp(min=1)


@dataclass(frozen=True, slots=True)
class PolicyLoss:
    """What `policy_loss` returns."""

    loss: Tensor
    """Scalar."""
    terms: Tensor
    """(c,) or (n,) before averaging, detached."""
    ratio: Tensor
    """(c,) or (n,) importance ratios, detached."""
    clip_fraction: Tensor
    """Scalar share of terms, weighted as in the loss, that clipping left without a gradient."""


@dataclass(frozen=True, slots=True)
class LossInput:
    """What a loss of one's own is computed from: c counted tokens of n steps.

    Terms are of tokens, or of steps where the objective's ratios are.
    """

    log_probs: Tensor
    """(c,) log-probabilities under the policy; has a gradient."""
    old_log_probs: Tensor
    """(c,) under the policy that updates start from."""
    sampled_log_probs: Tensor
    """(c,) under the policy that sampled, by the engine's own arithmetic."""
    advantages: Tensor
    """(c,) or (n,), one for each term."""
    log_ratio: Tensor
    """(c,) or (n,) log of the importance ratio to the old policy, in the objective's unit; has a gradient."""
    layout: TokenLayout
    """The step of each token, ``layout.row``, and the steps' numbers of tokens, ``layout.lengths``."""
    objective: Objective
    """Options, of which a loss may read the clipping bounds."""

    @property
    def ratio(self) -> Tensor:
        """(c,) or (n,) importance ratio, its logarithm clipped to `LOG_RATIO_BOUND`."""
        return self.log_ratio.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND).exp()


LossFunction: TypeAlias = Callable[[LossInput], Tensor | tuple[Tensor, Tensor]]
"""Loss of one's own: terms to be minimised, as many as advantages; or these, and which of them it clips."""


def own_terms(loss: LossFunction, given: LossInput) -> tuple[Tensor, Tensor]:
    """Return a loss's terms and which are clipped; `UsageError` where their shape is not the advantages'."""
    found = loss(given)
    terms, clipped = found if isinstance(found, tuple) else (found, torch.zeros_like(found, dtype=torch.bool))
    for name, tensor in (("terms", terms), ("clipped", clipped)):
        if tensor.shape != given.advantages.shape:
            unit = "step" if given.objective.ratio in STEP_RATIOS else "token"
            raise UsageError(
                f"the loss returned {name} of shape {tuple(tensor.shape)}, not "
                f"{tuple(given.advantages.shape)}: return one per {unit}, before any average"
            )
    return terms, clipped.bool()


def clipped_surrogate(log_ratio: Tensor, advantages: Tensor, objective: Objective) -> Tensor:
    """PPO's term (Schulman et al., 2017, Eq. 7), to be minimised: ``max(-A rho, -A clip(rho))``.

    With ``dual_clip`` c it is at most ``-A c`` where A < 0 (Ye et al., 2020, Eq. 5).

    Args:
        log_ratio: any shape.
        advantages: same shape.
        objective: the clipping bounds.
    """
    ratio = log_ratio.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND).exp()
    clipped = ratio.clamp(1 - objective.clip_low, 1 + objective.clip_high)
    terms = torch.maximum(-advantages * ratio, -advantages * clipped)
    if objective.dual_clip is not None:
        terms = torch.where(advantages < 0, torch.minimum(terms, -advantages * objective.dual_clip), terms)
    return terms


def policy_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    layout: TokenLayout,
    objective: Objective,
    *,
    credit: Unit | None = None,
    weights: Tensor | None = None,
    loss: LossFunction | None = None,
    sampled_log_probs: Tensor | None = None,
) -> PolicyLoss:
    """Clipped surrogate of the objective's ratios, or a loss of one's own, averaged as it says.

    Args:
        log_probs: log-probabilities under the policy, (n, L) or (T,).
        old_log_probs: log-probabilities under the policy that updates start from, same shape.
        advantages: (n,) of steps, or same shape as ``log_probs``; ratios of steps need (n,).
        layout: layout of the tokens that count.
        objective: its options.
        credit: unit that has an advantage; needed where the shape can mean both.
        weights: weights of the terms (default: ``layout.weights(objective.aggregation)``).
        loss: function of one's own in place of the surrogate.
        sampled_log_probs: log-probabilities under the policy that sampled, which ``loss`` may read; same
            shape, by default the old ones.

    Returns:
        The loss, and what a log shows.

    Raises:
        ValueError: a shape is wrong.
    """
    now, old = layout.pick(log_probs), layout.pick(old_log_probs).detach()
    log_ratio = unit_log_ratio(now, old, layout, objective)
    advantages = _unit_advantages(advantages.detach(), layout, objective, credit)
    own_clipped: Tensor | None = None
    if loss is not None:
        sampled = old if sampled_log_probs is None else layout.pick(sampled_log_probs).detach()
        given = LossInput(now, old, sampled, advantages, log_ratio, layout, objective)
        terms, own_clipped = own_terms(loss, given)
    elif objective.ratio == "likelihood":
        terms = -advantages * now
    else:
        terms = clipped_surrogate(log_ratio, advantages, objective)
    if weights is None:
        weights = layout.weights(objective.aggregation, terms.dtype)
    with torch.no_grad():
        ratio = log_ratio.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND).exp()
        flat = _clipped(ratio, advantages, objective) if own_clipped is None else own_clipped
        clip_fraction = (flat * weights).sum() / weights.sum().clamp(min=torch.finfo(weights.dtype).tiny)
    return PolicyLoss((terms * weights).sum(), terms.detach(), ratio, clip_fraction)


def _clipped(ratio: Tensor, advantages: Tensor, objective: Objective) -> Tensor:
    """Return which terms the surrogate's clipping leaves without a gradient."""
    flat = torch.where(advantages > 0, ratio > 1 + objective.clip_high, ratio < 1 - objective.clip_low)
    if objective.dual_clip is not None:
        flat |= (advantages < 0) & (ratio > objective.dual_clip)
    return flat & (advantages != 0)


def unit_log_ratio(
    log_probs: Tensor, old_log_probs: Tensor, layout: TokenLayout, objective: Objective
) -> Tensor:
    """Log of the importance ratios.

    GSPO's token form (Zheng et al., 2025, Eqs. 13-14) has the value of the response's geometric mean and
    the gradient of the token's own log-probability.

    Args:
        log_probs: (c,) of the counted tokens.
        old_log_probs: (c,).
        layout: layout of the tokens in responses.
        objective: its options.

    Returns:
        (c,) of tokens, (n,) for ratios of steps (1 where a step has no tokens).
    """
    difference = log_probs - old_log_probs
    if objective.ratio == "token":
        return difference
    if objective.ratio == "likelihood":
        return torch.zeros_like(difference)
    total = layout.sums(difference)
    if objective.ratio == "step_product":
        return total
    mean = total / layout.lengths.clamp(min=1)
    if objective.ratio == "step_geomean":
        return mean
    return mean.detach()[layout.row] + log_probs - log_probs.detach()


def importance_weights(
    old_log_probs: Tensor, rollout_log_probs: Tensor, layout: TokenLayout, objective: Objective, cap: float
) -> Tensor:
    """Weights that correct terms for what was not sampled by the policy that updates start from.

    ``min(pi_old / pi_rollout, cap)``, of tokens or steps like the objective's ratios. Clipping stays relative
    to ``pi_old``, so responses of stale weights, or of an engine that rounds otherwise, do not narrow it: the
    decoupled PPO objective (Fu et al., 2025, arXiv:2505.24298), its weights truncated as those of V-trace are
    (Espeholt et al., 2018, arXiv:1802.01561).

    Args:
        old_log_probs: log-probabilities under the policy that updates start from, (n, L) or (T,).
        rollout_log_probs: log-probabilities under the policy that sampled, same shape.
        layout: layout of the tokens that count.
        objective: objective whose ratios are compared.
        cap: the largest weight.

    Returns:
        (c,) or (n,), without a gradient; for the ``weights`` of `policy_loss` to be multiplied with.
    """
    with torch.no_grad():
        picked = layout.pick(old_log_probs), layout.pick(rollout_log_probs)
        log_weights = unit_log_ratio(*picked, layout, objective)
        return log_weights.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND).exp().clamp(max=cap)


def _unit_advantages(
    advantages: Tensor, layout: TokenLayout, objective: Objective, credit: Unit | None
) -> Tensor:
    shape, steps = tuple(advantages.shape), (len(layout.lengths),)
    if credit is None:
        if shape == layout.shape == steps and not torch.equal(layout.row, layout.index):
            raise ValueError(
                f"advantages of shape {shape} could be of steps or of tokens, there being as many of both: "
                "give credit"
            )
        credit = "step" if shape == steps else "token"
    if objective.ratio in STEP_RATIOS and (credit == "token" or shape != steps):
        raise ValueError(
            f'advantages must have shape {steps} under ratio="{objective.ratio}", not {shape}: give one per '
            "step"
        )
    if credit == "token":
        return layout.pick(advantages)
    if shape != steps:
        raise ValueError(f"advantages must have shape {steps}, one per step, not {shape}")
    return advantages if objective.ratio in STEP_RATIOS else advantages[layout.row]


def kl_terms(log_probs: Tensor, ref_log_probs: Tensor, estimator: KL) -> Tensor:
    """Estimate a divergence from samples.

    With ``d = ref - log_prob``: k1 is ``-d``, k2 ``d^2 / 2``, k3 ``exp(d) - d - 1`` (Schulman, "Approximating
    KL divergence", 2020). As in public code d is clipped to [-20, 20] and k3 to 10 from above, so that one
    token cannot take over a loss.

    Args:
        log_probs: any shape, of tokens that the policy sampled.
        ref_log_probs: same shape.
        estimator: name of the estimator.
    """
    check_choice("kl", estimator, KL)
    difference = (ref_log_probs - log_probs).clamp(-20.0, 20.0)
    if estimator == "k1":
        return -difference
    if estimator == "k2":
        return difference.square() / 2
    return (difference.exp() - difference - 1).clamp(max=10.0)


def kl_loss(
    log_probs: Tensor,
    ref_log_probs: Tensor,
    layout: TokenLayout,
    objective: Objective,
    *,
    weights: Tensor | None = None,
) -> Tensor:
    """Divergence from the reference, averaged over tokens; without its coefficient.

    Ratios of steps have no averaging of tokens of their own: theirs is ``seq-mean-token-mean``.

    Args:
        log_probs: (n, L) or (T,).
        ref_log_probs: same shape.
        layout: layout of the tokens that count.
        objective: estimator and averaging.
        weights: (c,) of the tokens (default: the layout's).
    """
    terms = kl_terms(layout.pick(log_probs), layout.pick(ref_log_probs).detach(), objective.kl)
    if weights is None:
        steps = objective.ratio in STEP_RATIOS
        aggregation: Aggregation = "seq-mean-token-mean" if steps else objective.aggregation
        weights = layout.weights(aggregation, terms.dtype)
    return (terms * weights).sum()


def entropy(logits: Tensor) -> Tensor:
    """Entropy in nats, over the last dimension; a logit of -inf, as samplers set, adds nothing."""
    log_probs = logits.log_softmax(-1)
    return -(log_probs.exp() * log_probs.masked_fill(log_probs == -torch.inf, 0.0)).sum(-1)


def value_loss(
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    mask: Tensor | None = None,
    *,
    clip: float | None = None,
) -> Tensor:
    """Half the mean squared error, ``max((V - R)^2, (V_clipped - R)^2) / 2``.

    ``V_clipped`` keeps within ``clip`` of the value at sampling time.

    Args:
        values: any shape: of tokens (PPO), or one per step (StepPO).
        old_values: same shape, at sampling time; read only with ``clip``.
        returns: same shape.
        mask: same shape, 1 at the entries that count; all by default.
        clip: largest change of a value; None for no bound.

    Raises:
        ValueError: a shape is wrong, or the bound is negative.
    """
    given = {"old_values": old_values if clip is not None else None, "returns": returns, "mask": mask}
    for name, tensor in given.items():
        if tensor is not None and tensor.shape != values.shape:
            wanted, found = tuple(values.shape), tuple(tensor.shape)
            raise ValueError(f"{name} must have shape {wanted} like values, not {found}")
    if clip is not None and not clip >= 0:
        raise ValueError(f"clip must not be negative, or None for no bound, not {clip!r}")
    chosen = ... if mask is None else mask.bool()
    value, target = values[chosen], returns[chosen].detach()
    errors = (value - target).square()
    if clip is not None:
        old = old_values[chosen].detach()
        errors = torch.maximum(errors, (old + (value - old).clamp(-clip, clip) - target).square())
    return errors.sum() / max(errors.numel(), 1) / 2
