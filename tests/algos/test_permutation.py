"""The order in which a batch has its trajectories decides no advantage, whatever the algorithm."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.algos.table import ALGORITHMS
from tests.algos.episodes import batches, shuffled, tokens_of

OPTIONS = {
    "hgpo": {"base_group": st.booleans()},
    "istar": {"credit": st.sampled_from(["step", "token", "merged"])},
    "steppo": {"whiten": st.booleans()},
}
"""Options on which the sums over trajectories depend."""

TOLERANCE = dict.fromkeys(("gigpo", "graphgpo", "g2po", "gagpo", "sampo", "hgpo", "prime"), 1e-7)
"""Of algorithms that divide by deviations of small groups; 1e-9 of all others."""


def columns(name, batch, by_token):
    """Return what an estimator needs besides the batch, of its tokens or of its steps."""
    size = batch.tokens.sum() if by_token else len(batch)
    column = {"ppo": "values", "istar": "process", "prime": "q"}.get(name)
    return {column: np.sin(np.arange(size))} if column else {}


@pytest.mark.parametrize("name", ALGORITHMS)
@given(data=st.data(), seed=st.integers(0, 99))
def test_permuting_trajectories_permutes_advantages(name, data, seed):
    algorithm = ALGORITHMS[name]
    batch = data.draw(batches(states=2) if name == "hgpo" else batches())
    options = data.draw(st.fixed_dictionaries(OPTIONS.get(name, {})))
    if name == "prime":
        batch = batch.with_columns(outcome=batch.won.astype(np.float64))
    other, rows = shuffled(batch, seed)
    by_token = algorithm.unit == "token" or options.get("credit") == "token"
    units = tokens_of(batch, rows) if by_token else rows
    given_columns = columns(name, batch, by_token)
    expected = algorithm.advantage(batch, **given_columns, **options)[units]
    permuted = {key: column[units] for key, column in given_columns.items()}
    result = algorithm.advantage(other, **permuted, **options)
    np.testing.assert_allclose(result, expected, atol=TOLERANCE.get(name, 1e-9))
