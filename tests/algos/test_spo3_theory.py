"""3SPO's Appendix A on random trees, by the code's own counts and scores; and where it does not hold.

The statements are of the actions of one state, each of a rate p of eventual success, in iteration t:

    A.1  the good event, |p_hat - p| <= sqrt(ln t / N) for all actions A, fails with at most 2 |A| t^-2
    A.2  in it, with N >= 16 ln t / gap^2 of two actions, their S are lambda gap exp(-lambda) / 2 apart
    A.3  the share of rollouts of an action that is gap better than the worst is at most exp(-lambda gap / 2)
    A.4  regret, gap x rollouts of all but the worst: sum of gap (16 ln T / gap^2 + constants) to T

The text at hand has lost the constants of A.1 and the threshold. These are the ones that its proofs need: the
radius is that whose bounds sum over t, and with the threshold it is gap / 4, so the estimates are at least
gap / 2 apart. No state is given up (xi is infinite), as there.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest

from agentgym.algos import spo3
from agentgym.algos.state_score import Allotment, Visits

NEVER = 10**9
"""xi that gives nothing up."""


@dataclass
class RandomTree:
    """States by name with their depths and rates of success, under a policy that chooses alike."""

    rng: np.random.Generator
    depth: dict[str, int] = field(default_factory=dict)
    rate: dict[str, float] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self):
        self.grow("s", 1, int(self.rng.integers(2, 5)))

    def grow(self, name, depth, levels):
        self.depth[name] = depth
        if levels == 0:
            self.rate[name], self.children[name] = float(self.rng.beta(0.5, 0.5)), []
        else:
            names = [f"{name}{n}" for n in range(self.rng.integers(2, 4))]
            self.children[name] = names
            self.rate[name] = float(np.mean([self.grow(each, depth + 1, levels - 1) for each in names]))
        return self.rate[name]

    def played(self, trajectories):
        """Return the visits after so many episodes."""
        visits = Visits()
        for _ in range(trajectories):
            path = ["s"]
            while self.children[path[-1]]:
                path.append(self.rng.choice(self.children[path[-1]]))
            visits.add("task", path, bool(self.rng.random() < self.rate[path[-1]]))
        return visits

    def gaps(self, name="s"):
        """Return by how much the actions of a state but the worst are better than it, ascending."""
        rates = np.sort([self.rate[each] for each in self.children[name]])
        return rates[1:] - rates[0]


TREES = [RandomTree(np.random.default_rng(seed)) for seed in range(12)]
WIDE = sorted(TREES, key=lambda tree: -tree.gaps()[0])[:4]
"""Those whose first actions lie furthest apart, so that a few thousand rounds tell them."""
PLAYED = [tree.played(3_000) for tree in TREES]


def families(alpha):
    """Yield, of each state's actions: depth, rates, counts, estimates and scores by the code."""
    own = Allotment(alpha=alpha, xi=NEVER)
    for tree, visits in zip(TREES, PLAYED, strict=True):
        for names in filter(None, tree.children.values()):
            counts = [visits.of("task", name) for name in names]
            depth = tree.depth[names[0]]
            scores = np.array([float(own.score(*count, depth)) for count in counts])
            rates = np.array([tree.rate[name] for name in names])
            seen = np.array([total for _, total in counts])
            yield depth, rates, seen, np.array([won for won, _ in counts]) / np.maximum(seen, 1), scores


def separable(rates, seen, estimates, t):
    """Return the pairs (better, worse) in the good event whose samples suffice for their gap."""
    good = np.abs(estimates - rates) <= np.sqrt(np.log(t) / np.maximum(seen, 1e-9))
    gaps = rates[:, None] - rates[None, :]
    with np.errstate(divide="ignore"):
        enough = np.minimum(seen[:, None], seen[None, :]) >= 16 * np.log(t) / gaps**2
    return np.argwhere((gaps > 0) & enough & good[:, None] & good[None, :])


@pytest.mark.parametrize("t", [5, 12, 40])
def test_a1_the_good_event_fails_seldom(t):
    rng, trials, alpha, depth = np.random.default_rng(t), 20_000, 2.0, 3
    for tree in TREES[:6]:
        names = tree.children["s"]
        bad = np.zeros(trials, bool)
        for name in names:
            n = int(rng.integers(3, 60))
            won = rng.binomial(n, tree.rate[name], trials)
            scores = spo3.score(won, np.full(trials, n), depth, alpha=alpha, xi=NEVER)
            estimate = -np.log(scores) / (alpha * np.log(depth))
            bad |= np.abs(estimate - tree.rate[name]) > np.sqrt(np.log(t) / n) + 1e-6
        assert bad.mean() <= 2 * len(names) / t**2


def test_a1_estimates_converge_in_every_state():
    radius = np.sqrt(np.log(3_000))
    for _, rates, seen, estimates, _ in families(1.0):
        assert (np.abs(estimates - rates) * np.sqrt(seen) <= radius).all()


@pytest.mark.parametrize("alpha", [0.5, 1.0, 4.0, 50.0])
def test_a2_scores_of_actions_are_apart(alpha):
    pairs = 0
    for depth, rates, seen, estimates, scores in families(alpha):
        lam = alpha * np.log(depth)
        for better, worse in separable(rates, seen, estimates, t=20):
            bound = lam * (rates[better] - rates[worse]) / 2 * np.exp(-lam)
            assert scores[worse] - scores[better] >= bound * (1 - 1e-5)
            pairs += 1
    assert pairs > 40


def test_a2_does_not_hold_where_states_are_given_up():
    """The gate turns the order around: the action that never succeeds has S = 0 after xi failures."""
    gated = Allotment(alpha=1.0)
    hopeless, better = (float(gated.score(won, 1_000, depth=3)) for won in (0, 500))
    assert hopeless == 0.0 < better
    assert float(Allotment(alpha=1.0, xi=NEVER).score(0, 1_000, depth=3)) > better


def test_a2_does_not_hold_where_lambda_is_of_the_state_s_own_visits():
    """With ``schedule="visits"`` siblings have each their lambda: the one seen less has the higher S."""
    own = Allotment(alpha=1.0, xi=NEVER, schedule="visits")
    worse, better = float(own.score(300, 1_000, depth=3)), float(own.score(20, 40, depth=3))
    assert better > worse


@pytest.mark.parametrize("alpha", [0.5, 1.0, 4.0, 50.0])
def test_a3_a_better_action_has_a_small_share_of_the_scores(alpha):
    pairs = 0
    for depth, rates, seen, estimates, scores in families(alpha):
        worst = int(rates.argmin())
        for better, worse in separable(rates, seen, estimates, t=20):
            if worse == worst:
                bound = np.exp(-alpha * np.log(depth) * (rates[better] - rates[worse]) / 2)
                assert scores[better] / scores.sum() <= bound * (1 + 1e-5)
                pairs += 1
    assert pairs > 20


def test_a3_does_not_hold_for_rollouts_since_their_number_is_rounded_up():
    """K is 1 at least: of two actions the better has a ninth of the rollouts, however small its S."""
    own, depth = Allotment(xi=NEVER), 9
    scores = own.score(0, 1_000, depth), own.score(600, 1_000, depth)
    k = [own.samples(each) for each in scores]
    assert k == [8, 1]
    assert k[1] / sum(k) > 0.1 > 1e6 * np.exp(-50 * np.log(depth) * 0.6 / 2)


def regret(rates, rounds, *, alpha, depth=None, refreshed=True, runs=200):
    """Return the mean regret after each round, in which a rollout is divided by the actions' shares of S.

    lambda grows with the rounds; with ``depth`` it is that of a depth. Estimates are of one sample of every
    action a round, as K >= 1 gives them, or of the one rollout where they are not ``refreshed``.
    """
    rng, rates = np.random.default_rng(0), np.asarray(rates)
    won, seen = np.zeros((2, runs, len(rates)), np.int64)
    lost = np.zeros(rounds)
    for t in range(1, rounds + 1):
        scores = spo3.score(won, seen, depth or t, alpha=alpha, xi=NEVER)
        shares = scores / scores.sum(1, keepdims=True)
        lost[t - 1] = (shares @ (rates - rates.min())).mean()
        drawn = (rng.random((runs, 1)) > shares.cumsum(1)[:, :-1]).sum(1)
        sampled = np.ones_like(seen) if refreshed else np.arange(len(rates)) == drawn[:, None]
        won += sampled & (rng.random(won.shape) < rates)
        seen += sampled
    return lost.cumsum()


def decades(found):
    """Return what the last decade of rounds cost, and the one before."""
    return found[2_999] - found[299], found[299] - found[29]


@pytest.mark.parametrize("tree", WIDE)
def test_a4_regret_is_logarithmic_where_lambda_grows_with_the_rounds(tree):
    rates, gaps = [tree.rate[name] for name in tree.children["s"]], tree.gaps()
    alpha = 4 / gaps.min()  # alpha gap / 2 is 2 and more, so that shares sum
    found = regret(rates, 3_000, alpha=alpha)
    for end in (10, 100, 1_000, 3_000):
        t = np.arange(1, end + 1)
        exploitation = np.array([(t ** (-alpha * gap / 2)).sum() for gap in gaps])
        bad = (2 * len(rates) / t**2).sum()
        assert found[end - 1] <= (gaps * (16 * np.log(end) / gaps**2 + exploitation + bad)).sum()
    last, before = decades(found)
    assert last <= 1.1 * before


@pytest.mark.parametrize("tree", WIDE)
def test_a4_does_not_hold_where_an_action_is_sampled_by_its_share_alone(tree):
    """Phase 2 takes for granted that the worst action has its samples. If it won early, its S is small and it
    gets no more that would mend it: regret is linear, a decade costs ten of the one before."""
    rates = [tree.rate[name] for name in tree.children["s"]]
    last, before = decades(regret(rates, 3_000, alpha=4 / tree.gaps()[0], refreshed=False))
    assert last == pytest.approx(10 * before, rel=0.2)


def test_a4_does_not_hold_at_a_fixed_depth():
    """There lambda and the shares are constant, so regret is linear."""
    rates, alpha, depth = (0.2, 0.5), 2.0, 3
    share = depth ** (-alpha * 0.5) / (depth ** (-alpha * 0.2) + depth ** (-alpha * 0.5))
    last, _ = decades(regret(rates, 3_000, alpha=alpha, depth=depth))
    assert last == pytest.approx(2_700 * 0.3 * share, rel=0.05)


def test_a4_does_not_hold_for_gaps_that_alpha_is_too_small_for():
    """With alpha gap below 1 shares fall as a power of t that does not sum: decades cost ever more."""
    last, before = decades(regret((0.2, 0.6), 3_000, alpha=1.0))
    assert last > 3 * before


def test_the_weights_are_equal_where_the_threshold_is():
    """Section 3.5: at N = ln 2 / decay both terms weigh 1/4."""
    for decay in (0.1, 0.02):
        total = np.log(2) / decay
        terms = spo3.reward([1, 0], 0, [0.0, 1.0], 0.0, total, decay=decay)
        assert terms.tolist() == pytest.approx([0.25, 0.25])
