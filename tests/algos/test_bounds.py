"""Bounds as tests: 3SPO's concentration, order and allotment.

What is tested is derived from the formulas of `agentgym.algos.state_score` and standard inequalities, which
each test states; a simulated share that has to stay below a bound is compared with the bound itself, so the
slack is what the inequality leaves. The statements of 3SPO's appendix are in `tests.algos.test_spo3_theory`.
"""

import numpy as np
import pytest

from agentgym.algos import spo3
from agentgym.algos.state_score import Allotment

ALPHA, DEPTH = 2.0, 5


def exponents(p, n, arms, rng):
    """Return -ln S of states whose rate p is estimated from n trajectories."""
    successes = rng.binomial(n, p, size=arms)
    return -np.log(spo3.score(successes, np.full(arms, n), DEPTH, alpha=ALPHA, xi=n + 1))


@pytest.mark.parametrize("p", [0.05, 0.3, 0.7])
@pytest.mark.parametrize("n", [10, 40, 160])
def test_scores_concentrate(p, n):
    """Hoeffding on p: with probability 1 - d, ``|ln S - ln S*| <= lambda sqrt(ln(2 / d) / 2n)``."""
    lam, delta = ALPHA * np.log(DEPTH), 0.05
    error = np.abs(exponents(p, n, 4_000, np.random.default_rng(n)) - lam * p)
    assert (error > lam * np.sqrt(np.log(2 / delta) / (2 * n)) + 1e-4).mean() <= delta


def test_scores_concentrate_with_the_root_of_the_visits():
    rng = np.random.default_rng(0)
    deviations = [exponents(0.4, n, 20_000, rng).std() for n in (25, 100, 400)]
    assert deviations[0] / deviations[1] == pytest.approx(2.0, rel=0.05)
    assert deviations[1] / deviations[2] == pytest.approx(2.0, rel=0.05)
    assert deviations[2] == pytest.approx(ALPHA * np.log(DEPTH) * np.sqrt(0.24 / 400), rel=0.03)


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.5), (0.4, 0.6)])
@pytest.mark.parametrize("n", [10, 40])
def test_scores_separate_states(low, high, n):
    """Hoeffding on the difference of two rates: the harder state has not the higher S with at most
    ``exp(-n gap^2 / 2)``; the gap of -ln S is lambda gap."""
    rng = np.random.default_rng(1)
    hard, easy = exponents(low, n, 20_000, rng), exponents(high, n, 20_000, rng)
    assert (hard >= easy).mean() <= np.exp(-n * (high - low) ** 2 / 2)
    assert (easy - hard).mean() == pytest.approx(ALPHA * np.log(DEPTH) * (high - low), rel=0.03)


@pytest.mark.parametrize("n", [20, 50])
def test_a_state_that_can_be_won_is_seldom_given_up(n):
    """A state of rate p > zeta is given up after n visits with at most ``exp(-2 n (p - zeta)^2)``."""
    p, zeta = 0.3, 0.1
    successes = np.random.default_rng(2).binomial(n, p, size=50_000)
    scores = spo3.score(successes, np.full(len(successes), n), DEPTH, xi=10, zeta=zeta)
    assert (scores == 0).mean() <= np.exp(-2 * n * (p - zeta) ** 2)
    hopeless = spo3.score(np.zeros(n), np.full(n, n), DEPTH, xi=10, zeta=zeta)
    assert (hopeless == 0).all()


@pytest.mark.parametrize("rate", [0.3, 1.0, 2.5])
def test_allotment_of_a_known_state_has_the_integrals_bounds(rate):
    """With lambda = alpha ln t and alpha p = a known, S_t = t^-a, so its sum to T is at most the integral's:

    ``T^(1 - a) / (1 - a)`` below 1, ``1 + ln T`` at 1, ``a / (a - 1)`` above.
    """
    end, trials = 5_000, 10**6
    t = np.arange(1, end + 1)
    p = 0.25
    spent = spo3.score(p * trials, trials, t, alpha=rate / p, xi=10 * trials).sum()
    bound = {0.3: end**0.7 / 0.7, 1.0: 1 + np.log(end), 2.5: 2.5 / 1.5}[rate]
    assert bound - 1 / abs(1 - rate) - 1 <= spent <= bound + 1e-3 if rate < 1 else spent <= bound + 1e-3


@pytest.mark.parametrize("rate", [0.6, 1.1, 2.5])
def test_what_the_ceiling_does_to_k(rate):
    """``G S <= K < G S + 1``, so T rounds cost at least T samples, however fast S falls.

    A state that is not given up is never left alone, but expansions that teach, K > 1, are those with
    t < G^(1 / a): finitely many.
    """
    p, largest, end = 0.25, 7, 2_000
    t = np.arange(1, end + 1)
    scores = spo3.score(p * 10**6, 10**6, t, alpha=rate / p, xi=10**8)
    k = spo3.rollouts(scores, largest=largest)
    assert (k >= largest * scores).all()
    assert (k < largest * scores + 1).all()
    assert end <= k.sum() <= largest * scores.sum() + end
    assert ((k > 1) == (t < largest ** (1 / rate))).all()


def test_the_published_constants_teach_at_depth_one_only_once_a_state_succeeds():
    """alpha p >= 5 wherever p > zeta, and 8^(1/5) < 2: K > 1 at t = 1 only, or if nothing succeeded."""
    own = Allotment()
    won, total, depth = np.meshgrid(np.arange(1, 60), np.arange(10, 60), np.arange(1, 20), indexing="ij")
    given = (won <= total) & (won / total > own.zeta)
    k = spo3.rollouts(spo3.score(won[given], total[given], depth[given]))
    assert (k[depth[given] == 1] == 8).all()
    assert (k[depth[given] > 1] == 1).all()
