import pytest

from agentgym.envs.sokoban.engine import ACTIONS, REWARDS, Move, play


@pytest.mark.parametrize(
    ("board", "delta", "pushes", "after", "move"),
    [
        ("@ #", 1, True, " @#", Move(1, True, False, 0)),
        ("@.#", 1, False, " +#", Move(1, True, False, 0)),
        ("+ #", 1, True, ".@#", Move(1, True, False, 0)),
        ("@##", 1, True, "@##", Move(0, False, False, 0)),
        ("@$ ", 1, True, " @$", Move(1, True, True, 0)),
        ("@$.", 1, True, " @*", Move(1, True, True, 1)),
        ("@* ", 1, True, " +$", Move(1, True, True, -1)),
        ("+*.", 1, True, ".+*", Move(1, True, True, 0)),
        ("@$ ", 1, False, "@$ ", Move(0, False, False, 0)),
        ("@$#", 1, True, "@$#", Move(0, False, False, 0)),
        ("@$$", 1, True, "@$$", Move(0, False, False, 0)),
        ("@$*", 1, True, "@$*", Move(0, False, False, 0)),
        ("@  ", 0, False, "@  ", Move(0, False, False, 0)),
    ],
)
def test_every_kind_of_step(board, delta, pushes, after, move):
    cells = bytearray(board.encode())
    assert play(cells, 0, delta, pushes) == move
    assert cells.decode() == after


def test_gym_sokobans_nine_actions_in_order():
    names = [action.name for action in ACTIONS["full"]]
    assert names == [
        "no operation",
        *("push up", "push down", "push left", "push right"),
        *("move up", "move down", "move left", "move right"),
    ]
    assert [action.pushes for action in ACTIONS["full"]] == [False, *[True] * 4, *[False] * 4]


def test_rewards_are_gym_sokobans_to_the_last_bit():
    def upstream(change, won):
        reward = -0.1
        if change > 0:
            reward += 1
        elif change < 0:
            reward += -1
        if won:
            reward += 10
        return reward

    for change in (-1, 0, 1):
        for won in (False, True):
            assert REWARDS["native"][2 * (change + 1) + won].hex() == upstream(change, won).hex()
            assert REWARDS["sparse"][2 * (change + 1) + won] == 10.0 * won
