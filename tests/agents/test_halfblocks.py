import io

import numpy as np
import pytest
from rich.console import Console

from agentgym.agents.halfblocks import half_blocks, shows_pictures
from agentgym.agents.screen import show_state
from agentgym.core.suite_spec import ScreenHints, Symbol


def colours(lines):
    """Return (upper, lower) colours of each character."""
    return [
        [(tuple(span.style.color.triplet), tuple(span.style.bgcolor.triplet)) for span in line.spans]
        for line in lines
    ]


def test_a_character_is_two_pixels():
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    lines = half_blocks(image, 2, 1)
    assert [line.plain for line in lines] == ["▀▀"]
    assert colours(lines) == [[((0, 1, 2), (6, 7, 8)), ((3, 4, 5), (9, 10, 11))]]


@pytest.mark.parametrize(
    ("height", "width", "columns", "rows", "size"),
    [
        (96, 96, 56, 16, (16, 32)),  # thirds
        (96, 96, 10, 50, (5, 10)),  # as narrow as the room is
        (6, 6, 80, 20, (18, 36)),  # enlarged sixfold
        (1, 1, 80, 20, (4, 8)),  # at most eightfold
        (3, 3, 3, 2, (2, 3)),  # an odd row
        (7, 5, 3, 2, (2, 3)),  # no multiple
        (10, 10, 0, 0, (1, 1)),  # no room at all
    ],
)
def test_pictures_fit(height, width, columns, rows, size):
    lines = half_blocks(np.full((height, width, 3), 9, np.uint8), columns, rows)
    assert (len(lines), {line.cell_len for line in lines}) == (size[0], {size[1]})


def test_shrinking_averages():
    image = np.zeros((4, 2, 3), np.uint8)
    image[0, 0] = 200
    assert colours(half_blocks(image, 1, 1)) == [[((50, 50, 50), (0, 0, 0))]]


@pytest.mark.parametrize(
    ("system", "terminal", "shown"),
    [("truecolor", True, True), ("256", True, True), ("standard", True, False), (None, False, False)],
)
def test_pictures_need_colours(system, terminal, shown):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, color_system=system, width=80, height=24)
    assert shows_pictures(console) == shown
    observation = {"text": "a b", "image": np.zeros((8, 8, 3), np.uint8)}
    show_state(console, "title", observation, (), "0" * 32)
    assert ("▀" in file.getvalue()) == shown
    assert ("[image, 8 x 8]" in file.getvalue()) != shown


def test_only_lines_of_symbols_are_coloured():
    hints = ScreenHints(symbols={"a": Symbol("letter", "red"), "n": Symbol("other", "")})
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="standard", width=80)
    show_state(console, "title", "a n\nan apple", (), "0" * 32, hints=hints)
    assert "\x1b[31ma\x1b[0m n\nan apple" in file.getvalue()


def test_a_line_is_kept():
    hints = ScreenHints(keeps="Your task")
    assert hints.pinned_line("Hello.\n Your task is x.\nBye.") == "Your task is x."
    assert hints.pinned_line("Hello.") == ScreenHints().pinned_line("Hello.") == ""
