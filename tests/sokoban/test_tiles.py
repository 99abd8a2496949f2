import numpy as np
import pytest

from agentgym.envs.sokoban.env import SokobanEnv
from agentgym.envs.sokoban.level import SYMBOLS
from agentgym.envs.sokoban.tiles import TINY_COLOURS, draw, grid
from agentgym.errors import UsageError

BOARD = b"####\n# .*\n#$@+"


def test_tiny_is_one_pixel_a_cell_in_gym_sokobans_colours():
    (picture,) = draw(grid(BOARD, 4, (3, 4))[None], "tiny")
    rows = BOARD.decode().split("\n")
    assert picture.tolist() == [[list(TINY_COLOURS[symbol]) for symbol in row] for row in rows]


def test_every_cell_shows_the_tile_of_its_symbol():
    alone = {s: draw(np.array([[[ord(s)]]], dtype=np.uint8), 16)[0] for s in SYMBOLS}
    assert len({tile.tobytes() for tile in alone.values()}) == len(SYMBOLS)
    (picture,) = draw(grid(BOARD, 4, (3, 4))[None], 16)
    assert (picture.shape, picture.dtype) == ((48, 64, 3), np.uint8)
    for r, row in enumerate(BOARD.decode().split("\n")):
        for c, symbol in enumerate(row):
            cell = picture[16 * r : 16 * (r + 1), 16 * c : 16 * (c + 1)]
            assert np.array_equal(cell, alone[symbol])


def test_tiles_can_be_told_apart():
    tiles = {s: draw(np.array([[[ord(s)]]], dtype=np.uint8), 16)[0].astype(int) for s in SYMBOLS}
    for a in SYMBOLS:
        for b in SYMBOLS:
            if a < b:
                clearly = (np.abs(tiles[a] - tiles[b]).sum(axis=-1) > 60).mean()
                assert clearly > 0.15, (a, b)


def test_smaller_boards_are_filled_up_with_wall():
    assert grid(b"# #\n@.#", 3, (3, 5)).tobytes() == b"# ###@.########"


@pytest.mark.parametrize("size", [8, 0, "small", None])
def test_other_sizes_are_refused(size):
    with pytest.raises(UsageError, match=r"unknown tile_size .*choose one of 16, tiny"):
        SokobanEnv(tile_size=size)
