"""The deals: complete, each once, with the probabilities of the original's dealing, split by content."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from agentgym import UsageError
from agentgym.core.hashing import content_id
from agentgym.envs.ezpoints.cards import (
    SPLITS,
    SUITS,
    UNSEEN_PAIRS,
    Deals,
    PlayingCard,
    deals,
    every_deal,
    operation_of,
    pair_of,
    probability,
)


def deal_by_hand():
    """Follow the dealing branch by branch; return each ordered deal's probability."""
    chances = Counter()
    suits = range(len(SUITS))
    for rank in range(2, 14):
        value = min(rank, 10)
        seconds = [12 // value, 12 - value] if value in (2, 3, 4, 6) else [12 - value]
        for second in seconds:
            for suit in suits:
                for second_suit in suits:
                    chance = Fraction(1, 12 * len(seconds) * 16 * 2)
                    cards = (PlayingCard(rank, suit), PlayingCard(second, second_suit))
                    chances[cards] += chance
                    chances[cards[::-1]] += chance
    return chances


def test_every_deal_has_the_probability_of_the_dealing():
    expected = deal_by_hand()
    assert sum(expected.values()) == 1
    assert {deal: probability(deal) for deal in every_deal()} == expected
    assert len(expected) == 304


def test_every_deal_makes_twelve_in_one_way():
    assert len({pair_of(deal) for deal in every_deal()}) == 7
    for deal in every_deal():
        left, right = (card.value for card in deal)
        assert [left + right == 12, left * right == 12] == [
            operation_of(deal) == kind for kind in ("sum", "product")
        ]


def test_probability_is_zero_elsewhere():
    assert probability((PlayingCard(2, 0), PlayingCard(3, 0))) == 0
    assert probability((PlayingCard(11, 0), PlayingCard(13, 0))) == 0


def test_splits_share_nothing_and_leave_nothing_out():
    found = [task.content for split in SPLITS for task in deals(split)]
    assert sorted(found) == sorted(every_deal())


def test_unseen_pairs_are_unseen():
    for split in SPLITS:
        pairs = {pair_of(task.content) for task in deals(split)}
        if split == "unseen_pairs":
            assert pairs == set(UNSEEN_PAIRS) == {(3, 4), (3, 9)}
            assert len(deals(split)) == 64
        else:
            assert pairs == {(2, 6), (2, 10), (4, 8), (5, 7), (6, 6)}


def test_tasks_are_named_by_their_cards():
    task = deals("train").find("KS 2H")
    assert task.content == (PlayingCard(13, 3), PlayingCard(2, 2))
    assert task.id == content_id(((13, 3), (2, 2)))
    assert task.type == "sum"
    assert deals("unseen_pairs").find("4C 3D").type == "product"


def test_manifests_are_pinned():
    """A change of these is a change of the task sets, and so of the environment's version."""
    assert {split: deals(split).manifest_sha256[:16] for split in SPLITS} == {
        "train": "562d97b7842d7a8e",
        "valid": "f5ee3009ba188578",
        "test": "132894514d4ce9d7",
        "unseen_pairs": "d5dcf6dc8f6cef15",
    }


def test_draws_follow_the_dealing():
    tasks, draws = deals("train"), 20_000
    rng = np.random.Generator(np.random.PCG64(3))
    seen = Counter(pair_of(tasks.draw(rng).content) for _ in range(draws))
    weights = Counter()
    for task in tasks:
        weights[pair_of(task.content)] += task.metadata["probability"]
    for pair, weight in weights.items():
        share = weight / sum(weights.values())
        assert abs(seen[pair] / draws - share) < 5 * np.sqrt(share * (1 - share) / draws)


def test_every_task_is_drawn():
    tasks = deals("test")
    rng = np.random.Generator(np.random.PCG64(3))
    assert {tasks.draw(rng).id for _ in range(5_000)} == set(tasks.ids)


def test_unknown_split():
    with pytest.raises(UsageError, match=r"did you mean 'unseen_pairs'"):
        deals("unseen_pair")


def test_verification_deals_anew():
    deals("test").verify()
    swapped = Deals("test", deals("valid")[:17])
    with pytest.raises(UsageError, match="does not hold the deals it should"):
        swapped.verify()
