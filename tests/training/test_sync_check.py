"""The check after a sync: its bound is the model's own rounding, and an absent sync is noticed."""

import copy

import pytest
import torch

from agentgym.inference.engines.sync_check import FLOORS, HALF_TOLERANCE, CanaryError, SyncCheck


@pytest.fixture
def weights(language_model):
    return {name: weight.detach().clone() for name, weight in language_model.model.named_parameters()}


def moved(weights, by):
    draws = torch.Generator().manual_seed(0)
    return {name: x + by * torch.randn(x.shape, generator=draws) for name, x in weights.items()}


def check_of(language_model, **options):
    return SyncCheck(copy.deepcopy(language_model.model), **options)


def test_in_half_precision_the_bound_is_the_models_own_rounding(language_model, weights):
    loud = {name: 6 * weight for name, weight in weights.items()}
    check = check_of(language_model, dtype=torch.bfloat16)
    assert check.tolerance == HALF_TOLERANCE
    known = check.log_probs(loud).tolist()
    halved = {name: weight.bfloat16() for name, weight in loud.items()}
    rounded, exact = (
        check.log_probs({n: w.to(t) for n, w in halved.items()}) for t in (torch.bfloat16, torch.float32)
    )
    assert (rounded - exact).abs().mean() > HALF_TOLERANCE / FLOORS
    off = 1.5 * HALF_TOLERANCE
    assert check.check(loud, [x + off for x in known]) == pytest.approx(off, abs=1e-4)
    first = check.tolerance
    check.check(weights, check.log_probs(weights).tolist())
    assert check.tolerance == first  # measured once
    with pytest.raises(CanaryError, match="are off by"):
        check.check(loud, [x + 10 * first for x in known])


def test_a_bound_that_is_given_and_that_of_float32_stay(language_model, weights):
    for options in ({"dtype": torch.bfloat16, "tolerance": 0.02}, {}):
        check = check_of(language_model, **options)
        before = check.tolerance
        check.check(weights, check.log_probs(weights).tolist())
        assert check.tolerance == before


def test_an_engine_that_got_no_new_weights_is_noticed(language_model, weights):
    check = check_of(language_model, dtype=torch.bfloat16)
    measured = check.log_probs(weights).tolist()
    for engine in ("one", "two"):
        check.check(weights, measured, engine=engine)
        check.check(weights, measured, engine=engine)  # nothing has moved
    newer = moved(weights, 1e-3)
    assert check.check(newer, check.log_probs(newer).tolist(), engine="one") < 1e-6
    with pytest.raises(CanaryError, match=r"moved by 0\.0.* the same to the bit"):
        check.check(newer, measured, engine="two")


def test_small_steps_add_up_until_they_are_noticed(language_model, weights):
    check = check_of(language_model, dtype=torch.bfloat16)
    measured, steps = check.log_probs(weights).tolist(), 0
    while steps < 200:
        newer = moved(weights, 1e-5 * steps)
        if (check.log_probs(newer) - torch.tensor(measured)).abs().mean() > 1e-3:
            break
        check.check(newer, measured)
        steps += 1
    assert 1 < steps < 200
    with pytest.raises(CanaryError, match="got no new weights"):
        check.check(newer, measured)
