"""Every estimator against a loop implementation that shares no code with it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.algos.table import ALGORITHMS
from benchmarks.speed import loops
from tests.algos.episodes import batches

BY_BATCH = (
    "grpo",
    "rloo",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "gigpo",
    "hgpo",
    "graphgpo",
    "steppo",
    "spo3",
)


@pytest.mark.parametrize("name", BY_BATCH)
@given(batch=batches())
def test_estimator_of_the_batch_alone(name, batch):
    result = ALGORITHMS[name].advantage(batch)
    np.testing.assert_allclose(result, getattr(loops, name)(batch), atol=1e-8)


@given(batches(), st.integers(0, 2**32 - 1))
def test_dapo(batch, seed):
    batch = batch.with_columns(tokens=np.random.default_rng(seed).integers(0, 600, size=len(batch)))
    np.testing.assert_allclose(ALGORITHMS["dapo"].advantage(batch), loops.dapo(batch), atol=1e-8)


@given(batches(), st.integers(0, 2**32 - 1))
def test_ppo(batch, seed):
    values = np.random.default_rng(seed).normal(size=batch.tokens.sum())
    result = ALGORITHMS["ppo"].advantage(batch, values=values)
    np.testing.assert_allclose(result, loops.ppo(batch, values.tolist()), atol=1e-8)


@given(batches(), st.integers(0, 2**32 - 1))
def test_istar(batch, seed):
    process = np.random.default_rng(seed).normal(size=len(batch))
    result = ALGORITHMS["istar"].advantage(batch, process)
    np.testing.assert_allclose(result, loops.istar(batch, process.tolist()), atol=1e-8)


@given(batches(), st.integers(0, 2**32 - 1))
def test_prime(batch, seed):
    batch = batch.with_columns(outcome=batch.won.astype(np.float64))
    q = np.random.default_rng(seed).normal(size=batch.tokens.sum())
    result = ALGORITHMS["prime"].advantage(batch, q)
    np.testing.assert_allclose(result, loops.prime(batch, q.tolist()), atol=1e-8)
