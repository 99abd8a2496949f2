"""Every estimator that has a loop form in `benchmarks.speed.loops`, against it; the two share no code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.algos.table import ALGORITHMS
from benchmarks.speed import loops
from tests.algos.episodes import batches

SEEDS = st.integers(0, 2**32 - 1)

NEED_COLUMNS = ("dapo", "ppo", "istar", "prime")
"""Estimators that read more than a drawn batch has; each has a test of its own."""

OPTIONS = {
    "gigpo": {"gamma": st.sampled_from([0.0, 0.5, 1.0]), "weight": st.just(0.7), "std": st.booleans()},
    "g2po": {
        "gamma": st.sampled_from([0.0, 0.5, 1.0]),
        "weight": st.just(0.8),
        "edge_weight": st.sampled_from([0.0, 1.0]),
        "std": st.booleans(),
        "success_reward": st.sampled_from([None, 10.0]),
    },
    "rtmc": {
        "gamma": st.sampled_from([0.0, 0.5, 1.0]),
        "prior": st.sampled_from([0.0, 0.5, 2.0]),
        "std": st.booleans(),
    },
    "gagpo": {
        "gamma": st.sampled_from([0.0, 0.5, 1.0]),
        "lam": st.sampled_from([0.0, 0.5, 1.0]),
        "norm": st.sampled_from(["group", "batch", "none"]),
    },
    "hgpo": {
        "history": st.integers(0, 4),
        "alpha": st.sampled_from([0.0, 1.0, 2.0]),
        "std": st.booleans(),
        "base_group": st.booleans(),
    },
}
"""Options that a loop form has too."""


@pytest.mark.parametrize("name", [n for n in ALGORITHMS if hasattr(loops, n) and n not in NEED_COLUMNS])
@given(batch=batches())
def test_defaults(name, batch):
    result = ALGORITHMS[name].advantage(batch)
    np.testing.assert_allclose(result, getattr(loops, name)(batch), atol=1e-8)


@pytest.mark.parametrize("name", OPTIONS)
@given(batch=batches(states=3), data=st.data())
def test_options(name, batch, data):
    options = data.draw(st.fixed_dictionaries(OPTIONS[name]))
    result = ALGORITHMS[name].advantage(batch, **options)
    # Returns equal but for rounding are a group whose deviation is rounding: eps turns that into 1e-9.
    np.testing.assert_allclose(result, getattr(loops, name)(batch, **options), atol=1e-7)


@given(batches(), SEEDS)
def test_dapo(batch, seed):
    batch = batch.with_columns(tokens=np.random.default_rng(seed).integers(0, 600, size=len(batch)))
    np.testing.assert_allclose(ALGORITHMS["dapo"].advantage(batch), loops.dapo(batch), atol=1e-8)


@given(batches(), SEEDS)
def test_ppo(batch, seed):
    values = np.random.default_rng(seed).normal(size=batch.tokens.sum())
    result = ALGORITHMS["ppo"].advantage(batch, values=values)
    np.testing.assert_allclose(result, loops.ppo(batch, values.tolist()), atol=1e-8)


@given(batches(), SEEDS, st.sampled_from([0.0, 1.0, 1.5]), st.booleans())
def test_istar(batch, seed, alpha, std):
    process = np.random.default_rng(seed).normal(size=len(batch))
    result = ALGORITHMS["istar"].advantage(batch, process, alpha=alpha, std=std)
    np.testing.assert_allclose(result, loops.istar(batch, process.tolist(), alpha=alpha, std=std), atol=1e-8)


@given(batches(), SEEDS)
def test_prime(batch, seed):
    batch = batch.with_columns(outcome=batch.won.astype(np.float64))
    q = np.random.default_rng(seed).normal(size=batch.tokens.sum())
    result = ALGORITHMS["prime"].advantage(batch, q)
    np.testing.assert_allclose(result, loops.prime(batch, q.tolist()), atol=1e-8)
