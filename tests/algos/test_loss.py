import itertools
import math
from functools import partial

import pytest
import torch

from agentgym.algos.loss import (
    TokenLayout,
    clipped_surrogate,
    entropy,
    kl_loss,
    kl_terms,
    policy_loss,
    value_loss,
)
from agentgym.algos.objective import Objective

tensor = partial(torch.tensor, dtype=torch.float64)

LOG_PROBS = tensor([[-1.0, -2.0], [-0.5, -0.7]])
OLD = tensor([[-1.1, -1.8], [-0.9, -0.7]])
MASK = torch.tensor([[1, 1], [1, 0]])

RATIOS = ("token", "sequence", "step_product", "step_geomean")
TOKEN_AGGREGATIONS = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum")
STEP_AGGREGATIONS = ("step-mean", "trajectory-mean")
SWITCHES = [
    *itertools.product(RATIOS[:2], TOKEN_AGGREGATIONS),
    *itertools.product(RATIOS[2:], STEP_AGGREGATIONS),
]


def gradient(function, at):
    """Return the gradient of a function at a point."""
    at = at.clone().requires_grad_()
    return torch.autograd.grad(function(at), at)[0]


def finite_differences(function, at, width=1e-6):
    """Return central differences of a function at a point."""
    result = torch.zeros_like(at)
    for index in range(at.numel()):
        step = torch.zeros(at.numel(), dtype=at.dtype)
        step[index] = width
        step = step.reshape(at.shape)
        result.view(-1)[index] = (function(at + step) - function(at - step)) / (2 * width)
    return result


def responses(seed=0, lengths=(3, 1, 0, 4, 2)):
    """Draw padded log-probabilities near each other, advantages of both signs, and a layout."""
    generator = torch.Generator().manual_seed(seed)
    draw = partial(torch.randn, generator=generator, dtype=torch.float64)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    log_probs = -draw(mask.shape).abs()
    old = log_probs + 0.3 * draw(mask.shape)
    layout = TokenLayout.padded(mask, trajectory=torch.tensor([0, 0, 0, 1, 1]))
    return log_probs, old, draw(len(lengths)), layout


# ---- published numbers ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("advantages", "options", "expected"),
    [
        ((1, -1), {}, -0.14402566),
        ((1, -1), {"clip_high": 0.28}, -0.14402566),
        ((1, -1), {"aggregation": "seq-mean-token-mean"}, 0.26493693),
        ((2, 2), {}, -2.08260111),
        ((2, 2), {"clip_high": 0.28}, -2.13593445),
        ((2, 2), {"aggregation": "seq-mean-token-mean"}, -2.16195084),
    ],
)
def test_published_losses_of_tokens(advantages, options, expected):
    result = policy_loss(LOG_PROBS, OLD, tensor(advantages), TokenLayout.padded(MASK), Objective(**options))
    assert float(result.loss) == pytest.approx(expected, abs=1e-8)


def test_published_terms():
    result = policy_loss(LOG_PROBS, OLD, tensor([1, -1]), TokenLayout.padded(MASK), Objective())
    torch.testing.assert_close(result.terms, tensor([-1.10517092, -0.81873075, 1.4918247]))
    clipped = policy_loss(LOG_PROBS, OLD, tensor([2, 2]), TokenLayout.padded(MASK), Objective(clip_high=0.28))
    torch.testing.assert_close(clipped.terms, tensor([-2.21034184, -1.63746151, -2.56]))


@pytest.mark.parametrize(("advantages", "expected"), [((1, -1), 0.27029764), ((2, 2), -1.95162942)])
def test_published_losses_of_sequences(advantages, expected):
    objective = Objective(ratio="sequence", aggregation="seq-mean-token-mean", clip_low=3e-4, clip_high=4e-4)
    result = policy_loss(LOG_PROBS, OLD, tensor(advantages), TokenLayout.padded(MASK), objective)
    assert float(result.loss) == pytest.approx(expected, abs=1e-8)
    torch.testing.assert_close(result.ratio, tensor([0.95122942, 0.95122942, 1.4918247]))


STEPS = (tensor([0.1, 0.2, -0.3, 0.05, 0.05, 0.05]), tensor([1.0, -1.0, 2.0]))
STEP_LAYOUT = TokenLayout.packed(torch.tensor([2, 1, 3]), trajectory=torch.tensor([0, 0, 1]))


@pytest.mark.parametrize(
    ("ratio", "clip", "aggregation", "expected"),
    [
        ("step_geomean", (0.2, 0.2), "trajectory-mean", -1.14172966),
        ("step_geomean", (0.2, 0.2), "step-mean", -0.82145881),
        ("step_geomean", (3e-4, 4e-4), "trajectory-mean", -1.000575),
        ("step_geomean", (3e-4, 4e-4), "step-mean", -0.66716667),
        ("step_product", (0.2, 0.2), "step-mean", -0.9078895),
    ],
)
def test_published_losses_of_steps(ratio, clip, aggregation, expected):
    objective = Objective(ratio=ratio, aggregation=aggregation, clip_low=clip[0], clip_high=clip[1])
    log_ratio, advantages = STEPS
    result = policy_loss(log_ratio, torch.zeros_like(log_ratio), advantages, STEP_LAYOUT, objective)
    assert float(result.loss) == pytest.approx(expected, abs=1e-8)


def test_dual_clip_bounds_the_loss_of_bad_actions():
    log_ratio, advantages = tensor([5.0, 5.0]).log(), tensor([-1.0, 1.0])
    terms = clipped_surrogate(log_ratio, advantages, Objective(dual_clip=3.0))
    assert terms.tolist() == [3.0, -1.2]
    torch.testing.assert_close(clipped_surrogate(log_ratio, advantages, Objective()), tensor([5.0, -1.2]))


@pytest.mark.parametrize(
    ("log_prob", "ref", "expected"), [(-1.0, -1.5, 0.10653066), (-2.0, -1.0, 0.71828183)]
)
def test_published_k3(log_prob, ref, expected):
    assert float(kl_terms(tensor([log_prob]), tensor([ref]), "k3")) == pytest.approx(expected, abs=1e-8)


def test_other_estimators_of_the_divergence():
    assert kl_terms(tensor([-1.0]), tensor([-1.5]), "k1").tolist() == [0.5]
    assert kl_terms(tensor([-1.0]), tensor([-1.5]), "k2").tolist() == [0.125]
    assert kl_terms(tensor([-30.0]), tensor([-1.0]), "k3").tolist() == [10.0]


# ---- gradients -----------------------------------------------------------------------------


@pytest.mark.parametrize(("ratio", "aggregation"), SWITCHES)
@pytest.mark.parametrize("dual_clip", [None, 1.1])
@pytest.mark.parametrize("seed", range(3))
def test_gradient_of_the_policy_loss(ratio, aggregation, dual_clip, seed):
    if ratio == "sequence":
        return check_sequence_gradient(aggregation, dual_clip, seed)
    log_probs, old, advantages, layout = responses(seed)
    objective = Objective(ratio=ratio, aggregation=aggregation, dual_clip=dual_clip)

    def loss(at):
        return policy_loss(at, old, advantages, layout, objective).loss

    torch.testing.assert_close(
        gradient(loss, log_probs), finite_differences(loss, log_probs), atol=1e-8, rtol=1e-6
    )


def check_sequence_gradient(aggregation, dual_clip, seed):
    """Compare with differences of what stopped gradients stand for: s_i frozen, times each token's own."""
    log_probs, old, advantages, layout = responses(seed)
    objective = Objective(ratio="sequence", aggregation=aggregation, dual_clip=dual_clip)
    lengths = layout.lengths.clamp(min=1)
    sequence = layout.sums(layout.pick(log_probs - old)) / lengths
    frozen = (sequence[:, None] - log_probs).detach()

    def stopped(at):
        terms = clipped_surrogate(layout.pick(frozen + at), advantages[layout.row], objective)
        return (terms * layout.weights(aggregation, torch.float64)).sum()

    def loss(at):
        return policy_loss(at, old, advantages, layout, objective).loss

    torch.testing.assert_close(loss(log_probs), stopped(log_probs))
    torch.testing.assert_close(
        gradient(loss, log_probs), finite_differences(stopped, log_probs), atol=1e-8, rtol=1e-6
    )


@pytest.mark.parametrize("seed", range(5))
def test_gspos_token_form_has_the_gradient_of_the_geometric_mean(seed):
    log_probs, old, advantages, layout = responses(seed)
    tokens = Objective(ratio="sequence", aggregation="seq-mean-token-mean")
    steps = Objective(ratio="step_geomean", aggregation="step-mean")
    for objective in (tokens, steps):
        assert policy_loss(log_probs, old, advantages, layout, objective).loss.isfinite()
    torch.testing.assert_close(
        gradient(lambda at: policy_loss(at, old, advantages, layout, tokens).loss, log_probs),
        gradient(lambda at: policy_loss(at, old, advantages, layout, steps).loss, log_probs),
    )


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize("aggregation", TOKEN_AGGREGATIONS)
def test_gradient_of_the_divergence(estimator, aggregation):
    log_probs, ref, _, layout = responses()
    objective = Objective(kl=estimator, aggregation=aggregation)

    def loss(at):
        return kl_loss(at, ref, layout, objective)

    torch.testing.assert_close(
        gradient(loss, log_probs), finite_differences(loss, log_probs), atol=1e-8, rtol=1e-6
    )


def test_gradient_of_the_entropy():
    logits = torch.randn((3, 5), generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def loss(at):
        return entropy(at).mean()

    torch.testing.assert_close(gradient(loss, logits), finite_differences(loss, logits), atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("clip", [None, 0.2])
def test_gradient_of_the_value_loss(clip):
    values, old, _, layout = responses()
    returns, mask = old.flip(0), torch.zeros(layout.shape)
    mask.view(-1)[layout.index] = 1

    def loss(at):
        return value_loss(at, old, returns, mask, clip=clip)

    torch.testing.assert_close(gradient(loss, values), finite_differences(loss, values), atol=1e-8, rtol=1e-6)


# ---- masks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("junk", [1e4, torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize(("ratio", "aggregation"), SWITCHES)
def test_masked_positions_add_exactly_nothing(ratio, aggregation, junk):
    log_probs, old, advantages, layout = responses()
    objective = Objective(ratio=ratio, aggregation=aggregation)
    outside = torch.ones(layout.shape, dtype=torch.bool)
    outside.view(-1)[layout.index] = False
    spoiled, spoiled_old = log_probs.masked_fill(outside, junk), old.masked_fill(outside, -1e4)
    clean = policy_loss(log_probs, old, advantages, layout, objective).loss
    assert torch.equal(policy_loss(spoiled, spoiled_old, advantages, layout, objective).loss, clean)
    expected = gradient(lambda at: policy_loss(at, old, advantages, layout, objective).loss, log_probs)
    result = gradient(lambda at: policy_loss(at, spoiled_old, advantages, layout, objective).loss, spoiled)
    assert torch.equal(result, expected)
    assert (result[outside] == 0).all()


def test_masked_positions_add_nothing_to_the_other_losses():
    log_probs, ref, _, layout = responses()
    outside = torch.ones(layout.shape, dtype=torch.bool)
    outside.view(-1)[layout.index] = False
    spoiled = log_probs.masked_fill(outside, torch.inf)
    for loss, clean, dirty in (
        (lambda at: kl_loss(at, ref, layout, Objective()), log_probs, spoiled),
        (lambda at: value_loss(at, ref, ref, ~outside, clip=0.1), log_probs, spoiled),
    ):
        assert torch.equal(loss(dirty), loss(clean))
        assert torch.equal(gradient(loss, dirty), gradient(loss, clean))


@pytest.mark.parametrize(("ratio", "aggregation"), SWITCHES)
def test_counted_tokens_whose_ratios_overflow_stay_finite(ratio, aggregation):
    layout = TokenLayout.padded(MASK, trajectory=torch.tensor([0, 1]))
    log_probs = tensor([[-1e5, 0.0], [0.0, 0.0]])
    old = tensor([[0.0, -1e5], [-1e5, 0.0]])
    objective = Objective(ratio=ratio, aggregation=aggregation)

    def loss(at):
        return policy_loss(at, old, tensor([-1.0, -1.0]), layout, objective).loss

    assert loss(log_probs).isfinite()
    assert gradient(loss, log_probs).isfinite().all()


@pytest.mark.parametrize(("ratio", "aggregation"), SWITCHES)
def test_a_batch_without_tokens_has_loss_zero(ratio, aggregation):
    layout = TokenLayout.padded(torch.zeros(2, 3), trajectory=torch.tensor([0, 1]))
    objective = Objective(ratio=ratio, aggregation=aggregation)
    zeros = torch.zeros((2, 3), dtype=torch.float64)
    assert float(policy_loss(zeros, zeros, tensor([1.0, 2.0]), layout, objective).loss) == 0.0


def test_logits_of_minus_infinity_add_nothing_to_the_entropy():
    logits = tensor([0.0, 0.0, -torch.inf])
    assert float(entropy(logits)) == pytest.approx(math.log(2))
    assert gradient(entropy, logits).isfinite().all()


# ---- layouts -------------------------------------------------------------------------------


@pytest.mark.parametrize(("ratio", "aggregation"), SWITCHES)
def test_packed_and_padded_tokens_have_one_loss(ratio, aggregation):
    log_probs, old, advantages, layout = responses()
    packed = TokenLayout.packed(layout.lengths, trajectory=layout.trajectory)
    objective = Objective(ratio=ratio, aggregation=aggregation)
    expected = policy_loss(log_probs, old, advantages, layout, objective)
    result = policy_loss(layout.pick(log_probs), layout.pick(old), advantages, packed, objective)
    torch.testing.assert_close(result.loss, expected.loss)


def test_a_packed_mask_leaves_tokens_out():
    layout = TokenLayout.packed(torch.tensor([2, 3]), mask=torch.tensor([1, 0, 0, 0, 1]))
    assert layout.pick(torch.arange(5)).tolist() == [0, 4]
    assert layout.lengths.tolist() == [1, 1]


@pytest.mark.parametrize(("ratio", "aggregation"), SWITCHES)
def test_parts_of_a_mini_batch_add_up_to_it(ratio, aggregation):
    log_probs, old, advantages, layout = responses()
    objective = Objective(ratio=ratio, aggregation=aggregation)
    whole = policy_loss(log_probs, old, advantages, layout, objective).loss
    weights = layout.weights(aggregation, torch.float64)
    mask = torch.zeros(layout.shape)
    mask.view(-1)[layout.index] = 1
    total = tensor(0.0)
    for rows in (slice(0, 2), slice(2, 5)):
        part = TokenLayout.padded(mask[rows])
        inside = torch.zeros(len(layout.lengths), dtype=torch.bool)
        inside[rows] = True
        share = weights[inside] if len(weights) == len(advantages) else weights[inside[layout.row]]
        total += policy_loss(
            log_probs[rows], old[rows], advantages[rows], part, objective, weights=share
        ).loss
    torch.testing.assert_close(total, whole)


def test_weights_add_up_to_one_over_responses_that_have_tokens():
    *_, layout = responses()
    for aggregation in ("token-mean", "seq-mean-token-mean", "step-mean", "trajectory-mean"):
        assert float(layout.weights(aggregation, torch.float64).sum()) == pytest.approx(1.0)
    assert layout.weights("seq-mean-token-sum", torch.float64).tolist() == [0.25] * 10
    assert layout.weights("step-mean").tolist() == [0.25, 0.25, 0.0, 0.25, 0.25]
    assert layout.weights("trajectory-mean").tolist() == [0.25, 0.25, 0.0, 0.25, 0.25]


def test_advantages_of_as_many_steps_as_tokens_are_refused_where_it_matters():
    tokens = torch.zeros(2, dtype=torch.float64)
    advantages = torch.tensor([1.0, -3.0], dtype=torch.float64)
    with pytest.raises(ValueError, match="could be of steps or of tokens"):
        policy_loss(tokens, tokens, advantages, TokenLayout.packed(torch.tensor([0, 2])), Objective())
    result = policy_loss(tokens, tokens, advantages, TokenLayout.packed(torch.tensor([1, 1])), Objective())
    assert result.terms.tolist() == [-1.0, 3.0]


def test_advantages_of_as_many_steps_as_tokens_are_what_the_caller_says():
    tokens, layout = torch.zeros(2, dtype=torch.float64), TokenLayout.packed(torch.tensor([0, 2]))
    advantages = torch.tensor([1.0, -3.0], dtype=torch.float64)
    of = {
        credit: policy_loss(tokens, tokens, advantages, layout, Objective(), credit=credit).terms.tolist()
        for credit in ("step", "token")
    }
    assert of == {"step": [3.0, 3.0], "token": [-1.0, 3.0]}
    steps = Objective(ratio="step_product", aggregation="step-mean")
    with pytest.raises(ValueError, match="give one per step"):
        policy_loss(tokens, tokens, advantages, layout, steps, credit="token")
    with pytest.raises(ValueError, match=r"shape \(2,\), one per step, not \(3,\)"):
        policy_loss(tokens, tokens, torch.zeros(3), layout, Objective(), credit="step")


def test_advantages_of_tokens_are_used_as_they_are():
    log_probs, old, _, layout = responses()
    advantages = log_probs.sin()
    terms = clipped_surrogate(layout.pick(log_probs - old), layout.pick(advantages), Objective())
    torch.testing.assert_close(
        policy_loss(log_probs, old, advantages, layout, Objective()).loss, terms.mean()
    )


# ---- theory --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_a_sequences_ratio_lies_between_its_tokens_and_within_the_product(seed):
    log_probs, old, advantages, layout = responses(seed, lengths=(3, 1, 2, 4, 2))
    ratios = {
        ratio: policy_loss(
            log_probs,
            old,
            advantages,
            layout,
            Objective(ratio=ratio, aggregation="token-mean" if ratio in RATIOS[:2] else "step-mean"),
        ).ratio
        for ratio in RATIOS
    }
    for row in range(5):
        tokens = ratios["token"][layout.row == row]
        mean = ratios["step_geomean"][row]
        assert tokens.min() - 1e-12 <= mean <= tokens.max() + 1e-12
        torch.testing.assert_close(tokens.prod(), ratios["step_product"][row])
        torch.testing.assert_close(mean ** len(tokens), ratios["step_product"][row])
        torch.testing.assert_close(ratios["sequence"][layout.row == row], mean.expand(len(tokens)))


@pytest.mark.parametrize(("ratio", "aggregation"), SWITCHES)
def test_at_the_old_policy_the_gradient_is_that_of_reinforce(ratio, aggregation):
    log_probs, _, advantages, layout = responses()
    objective = Objective(ratio=ratio, aggregation=aggregation)
    result = gradient(lambda at: policy_loss(at, log_probs, advantages, layout, objective).loss, log_probs)
    weights = layout.weights(aggregation, torch.float64)
    per_token = weights if ratio in RATIOS[:2] else weights[layout.row]
    if ratio == "step_geomean":
        per_token = per_token / layout.lengths[layout.row]
    torch.testing.assert_close(layout.pick(result), -advantages[layout.row] * per_token)


def test_clip_fraction_counts_terms_without_a_gradient():
    log_ratio, advantages = tensor([1.0, 1.0, -1.0, -1.0, 0.0]), tensor([1.0, -1.0, 1.0, -1.0, 1.0])
    layout = TokenLayout.packed(torch.ones(5, dtype=torch.long))
    zeros = torch.zeros_like(log_ratio)

    def loss(objective):
        return policy_loss(log_ratio, zeros, advantages, layout, objective)

    assert float(loss(Objective()).clip_fraction) == pytest.approx(0.4)
    assert float(loss(Objective(dual_clip=2.0)).clip_fraction) == pytest.approx(0.6)
    flat = gradient(
        lambda at: policy_loss(at, zeros, advantages, layout, Objective(dual_clip=2.0)).loss, log_ratio
    )
    assert int((flat == 0).sum()) == 3


def test_value_loss_takes_the_worse_of_clipped_and_unclipped():
    values, old, returns = tensor([2.0, 0.0]), tensor([0.0, 0.0]), tensor([3.0, 1.0])
    assert float(value_loss(values, old, returns)) == pytest.approx((1.0 + 1.0) / 4)
    assert float(value_loss(values, old, returns, clip=0.5)) == pytest.approx((6.25 + 1.0) / 4)


# ---- bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": "word"}, "unknown ratio"),
        ({"aggregation": "mean"}, "unknown aggregation"),
        ({"kl": "k4"}, "unknown kl"),
        ({"ratio": "step_product"}, "one term per step: set aggregation to step-mean or trajectory-mean"),
        ({"aggregation": "step-mean"}, "one term per token: set aggregation to token-mean"),
        ({"clip_low": -0.1}, "clip_low must be a number of at least 0"),
        ({"kl_coefficient": -1.0}, "kl_coefficient must be a number of at least 0"),
        ({"dual_clip": 1.0}, "dual_clip must be a number above 1"),
        ({"clip_high": float("nan")}, "clip_high must be a number of at least 0"),
    ],
)
def test_bad_objectives_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Objective(**options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: policy_loss(LOG_PROBS[:1], OLD, tensor([1, 1]), TokenLayout.padded(MASK), Objective()),
            r"token tensors must have shape \(2, 2\) like the mask, not \(1, 2\)",
        ),
        (
            lambda: policy_loss(
                LOG_PROBS,
                OLD,
                LOG_PROBS,
                TokenLayout.padded(MASK),
                Objective(ratio="step_product", aggregation="step-mean"),
            ),
            r"advantages must have shape \(2,\) under ratio=\"step_product\"",
        ),
        (lambda: TokenLayout.padded(MASK).weights("trajectory-mean"), "trajectory is missing"),
        (lambda: TokenLayout.padded(MASK).weights("mean"), "unknown aggregation"),
        (lambda: kl_terms(LOG_PROBS, OLD, "k9"), "unknown kl"),
        (lambda: TokenLayout.packed(torch.tensor([1, 2]), MASK), r"mask must have shape \(3,\)"),
        (
            lambda: TokenLayout.padded(MASK, torch.zeros(3)),
            r"trajectory must have shape \(2,\), one per response",
        ),
        (lambda: value_loss(OLD, OLD, OLD[0]), r"returns must have shape \(2, 2\) like values, not \(2,\)"),
        (lambda: value_loss(OLD, OLD, OLD, MASK[0]), r"mask must have shape \(2, 2\) like values"),
        (lambda: value_loss(OLD, OLD[0], OLD, clip=0.2), "old_values must have shape"),
        (lambda: value_loss(OLD, OLD, OLD, clip=-0.1), "clip must not be negative"),
    ],
)
def test_bad_tensors_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_likelihood_is_of_whole_answers():
    log_probs, old, _, layout = responses()
    objective = Objective(ratio="likelihood", aggregation="seq-mean-token-sum")
    result = policy_loss(log_probs, old, torch.ones(5, dtype=torch.float64), layout, objective)
    assert result.loss == pytest.approx(-float(layout.pick(log_probs).sum()) / 4)  # one response has no token
    assert result.clip_fraction == 0
