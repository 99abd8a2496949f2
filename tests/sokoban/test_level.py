import pytest

from agentgym.envs.sokoban.level import Level
from agentgym.envs.sokoban.masks import boxes, cells, flood, loose_boxes, targets, walls
from agentgym.errors import UsageError

ROOM = ["######", "#@$. #", "#+ * #", "######"]


def level(*rows):
    return Level.parse(rows)


def test_a_level_knows_its_pieces():
    got = level("#######", "#@$.$.#", "#  *  #", "#######")
    assert (got.height, got.width, got.stride) == (4, 7, 8)
    assert (got.player, got.boxes, got.on_target) == (9, 3, 1)
    assert got.text == "#######\n#@$.$.#\n#  *  #\n#######"


def test_a_player_may_start_on_a_target():
    got = level("#####", "#+$ #", "#####")
    assert got.player == 7
    assert got.on_target == 0


def test_short_rows_are_filled_with_floor():
    got = level("###", "#@######", "#  $  .#", "########")
    assert got.text.split("\n")[0] == "###     "


def test_masks_have_bit_i_for_cell_i():
    board = b"#@ $\n+*.#"
    assert cells(walls(board)) == [0, 8]
    assert cells(boxes(board)) == [3, 6]
    assert cells(loose_boxes(board)) == [3]
    assert cells(targets(board)) == [5, 6, 7]


def test_flood_stays_within_what_is_free():
    # two rooms side by side, stride 4: cells 0 1 | 3 of the first row, 4 5 | 7 of the second
    free = sum(1 << i for i in (0, 1, 4, 5, 7, 11))
    assert cells(flood(1 << 0, free, 4)) == [0, 1, 4, 5]
    assert cells(flood(1 << 11, free, 4)) == [7, 11]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["####", "#@.#"], "at least 3 rows"),
        (["#####", "#@x.#", "#####"], "unknown symbol 'x'"),
        (["#####", "# $.#", "#####"], "one player.*has 0"),
        (["######", "#@$.@#", "######"], "one player.*has 2"),
        (["######", "#@$$.#", "######"], "as many boxes as targets.*2 and 1"),
        (["#####", "#@  #", "#####"], "at least one: this has 0 and 0"),
        (["#####", "#@ *#", "#####"], "all boxes are on targets"),
        (["#####", "#@$. ", "#####"], "not closed"),
        (["##### ", "#@$.##", "  ####", "## ###"], "not closed"),
        (["########", "#@$.##$.", "########"], "not closed"),
        (["######", "#@#$.#", "######"], "neither move nor push"),
    ],
)
def test_bad_levels_are_refused_with_the_reason(rows, message):
    with pytest.raises(UsageError, match=message) as caught:
        Level.parse(rows)
    assert "\n" not in str(caught.value)
