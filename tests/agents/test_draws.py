import pytest

from agentgym.core.rng import TurnRng, mix


def test_mix_equals_the_published_generator():
    # SplitMix64 seeded with 1234567: the first values of the reference implementation
    gamma = 0x9E3779B97F4A7C15
    outputs = [mix((1234567 + k * gamma) % 2**64) for k in range(1, 4)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_draws_are_a_function_of_seed_and_turn():
    def first(seed, turn):
        draws = TurnRng(seed, turn)
        return [draws.below(1000) for _ in range(20)]

    assert first(5, 2) == first(5, 2)
    assert len({tuple(first(seed, turn)) for seed in range(30) for turn in range(30)}) == 900


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 1000])
def test_draws_are_uniform(bound):
    n = 20_000
    counts = [0] * bound
    for seed in range(n // 10):
        draws = TurnRng(seed, 0)
        for _ in range(10):
            counts[draws.below(bound)] += 1
    expected = n / bound
    chi2 = sum((count - expected) ** 2 / expected for count in counts)
    assert chi2 <= bound - 1 + 5 * (2 * max(bound - 1, 1)) ** 0.5  # five standard deviations


def test_consecutive_turns_are_independent():
    n = 40_000
    pairs = [0] * 16
    for turn in range(n):
        pairs[4 * TurnRng(3, turn).below(4) + TurnRng(3, turn + 1).below(4)] += 1
    chi2 = sum((count - n / 16) ** 2 / (n / 16) for count in pairs)
    assert chi2 <= 15 + 5 * 30**0.5
