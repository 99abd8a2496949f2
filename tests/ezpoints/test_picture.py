"""The picture: every card, formula and place tells itself apart, and batches equal single frames."""

import itertools

import numpy as np

from agentgym.envs.ezpoints.cards import RANKS, SUITS, PlayingCard
from agentgym.envs.ezpoints.formula import TOKENS
from agentgym.envs.ezpoints.picture import HEIGHT, NO_TILE, TILES_PER_ROW, WIDTH, card_index, paint
from agentgym.envs.ezpoints.strokes import suit, write

CARDS = [PlayingCard(rank, sign) for rank in RANKS for sign in range(len(SUITS))]
EMPTY = [NO_TILE] * TILES_PER_ROW


def frame(left, right, tiles=EMPTY):
    (image,) = paint(np.array([card_index(left)]), np.array([card_index(right)]), np.array([tiles]))
    return image


def difference(one, other):
    """Return the number of pixels that differ clearly."""
    return int((np.abs(one.astype(int) - other).max(axis=-1) > 60).sum())


def test_cards_are_indexed_in_order():
    assert [card_index(card) for card in CARDS] == list(range(48))


def test_every_two_cards_look_different():
    images = [frame(card, CARDS[0])[12:138, 16:106] for card in CARDS]
    for one, other in itertools.combinations(images, 2):
        assert difference(one, other) > 40


def test_left_and_right_are_told_apart():
    one, other = frame(CARDS[5], CARDS[9]), frame(CARDS[9], CARDS[5])
    assert difference(one, other) > 100


def test_every_formula_looks_different():
    rows = [[tile, *EMPTY[1:]] for tile in range(NO_TILE + 1)]
    images = [frame(CARDS[0], CARDS[0], row) for row in rows]
    for one, other in itertools.combinations(images, 2):
        assert difference(one, other) > 10
    for place in range(TILES_PER_ROW):
        row = list(EMPTY)
        row[place] = TOKENS.index("+")
        assert difference(frame(CARDS[0], CARDS[0], row), frame(CARDS[0], CARDS[0])) > 10


def test_hearts_and_diamonds_are_red():
    for card in CARDS:
        image = frame(card, card).astype(int)
        red = ((image[..., 0] > 150) & (image[..., 1] < 90)).sum()
        assert (red > 300) == (SUITS[card.suit] in ("hearts", "diamonds"))


def test_batches_equal_single_frames():
    rng = np.random.Generator(np.random.PCG64(0))
    left, right = rng.integers(48, size=(2, 9))
    tiles = rng.integers(NO_TILE + 1, size=(9, TILES_PER_ROW))
    images = paint(left, right, tiles)
    assert images.shape == (9, HEIGHT, WIDTH, 3)
    for k, image in enumerate(images):
        assert np.array_equal(image, frame(CARDS[left[k]], CARDS[right[k]], tiles[k]))


def test_frames_are_the_callers():
    image = frame(CARDS[0], CARDS[1])
    expected = image.copy()
    image[:] = 0
    assert np.array_equal(frame(CARDS[0], CARDS[1]), expected)


def test_masks_cover_from_none_to_all():
    for mask in (write("Q", 40, 30, size=24, weight=3.0), *(suit(name, 20) for name in SUITS)):
        assert mask.min() == 0.0
        assert mask.max() == 1.0
        assert 0.05 < mask.mean() < 0.7
