import pytest

from agentgym.envs.sokoban.deadlock import frozen, is_deadlocked
from agentgym.envs.sokoban.masks import boxes, cells, walls


def board(*rows):
    return "\n".join(rows).encode()


@pytest.mark.parametrize(
    ("rows", "dead"),
    [
        (("#####", "#$  #", "# @.#", "#####"), True),  # a corner
        (("#####", "#*  #", "# @ #", "#####"), False),  # a corner that is the target
        (("######", "# $  #", "# @ .#", "######"), False),  # along a wall it can still slide
        (("######", "# $$ #", "# @..#", "######"), True),  # two along a wall hold each other
        (("######", "#    #", "# $$ #", "# $$ #", "#....#", "#  @ #", "######"), True),  # a block of four
        (("######", "# $* #", "# @. #", "######"), True),  # the one on its target holds the other
        (("######", "# ** #", "# @  #", "######"), False),
        (("######", "#    #", "# $$ #", "# @..#", "#    #", "######"), False),  # free to move up and down
    ],
)
def test_frozen_boxes_off_their_targets_lose(rows, dead):
    text = board(*rows)
    assert is_deadlocked(text, len(rows[0]) + 1) is dead


def test_a_push_can_freeze_another_box_than_the_one_pushed():
    # the box in the corner is on its target; the one beside it is held by it and the wall
    text = board("######", "#*$  #", "#  @.#", "######")
    assert cells(frozen(boxes(text), walls(text), 7)) == [8, 9]
    assert is_deadlocked(text, 7)
