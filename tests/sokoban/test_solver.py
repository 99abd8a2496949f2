import os
from collections import deque
from pathlib import Path

import pytest

from agentgym.envs.sokoban.builtin.generator import Config, generate
from agentgym.envs.sokoban.data.files import read
from agentgym.envs.sokoban.engine import ACTIONS, play
from agentgym.envs.sokoban.level import Level
from agentgym.envs.sokoban.solver import solve

SOON = 2_000
"""Nodes that half of the published levels are solved within."""


def shortest(board):
    """Fewest moves by plain breadth-first search over the engine, or None."""
    stride = board.find(b"\n") + 1
    deltas = [a.rows * stride + a.columns for a in ACTIONS["agent"]]
    start = Level.of_board(board)
    queue = deque([(bytes(board), start.player, 0)])
    seen = {bytes(board)}
    while queue:
        text, player, depth = queue.popleft()
        if b"$" not in text:
            return depth
        for delta in deltas:
            cells = bytearray(text)
            move = play(cells, player, delta, True)
            if bytes(cells) not in seen:
                seen.add(bytes(cells))
                queue.append((bytes(cells), move.player, depth + 1))
    return None


def final_board(board, moves):
    stride = board.find(b"\n") + 1
    deltas = {a.name: a.rows * stride + a.columns for a in ACTIONS["agent"]}
    cells, player = bytearray(board), Level.of_board(board).player
    for name in moves:
        move = play(cells, player, deltas[name], True)
        assert move.moved, "a solution holds no idle move"
        player = move.player
    return bytes(cells)


@pytest.mark.parametrize("config", [Config(6, 6, 1), Config(6, 6, 2), Config(7, 6, 3)], ids=lambda c: c.name)
def test_solutions_have_fewest_moves(config):
    levels = [level for c in range(40) if (level := generate(config, c))]
    assert len(levels) > 15
    for level in levels:
        moves = solve(level.board)
        assert len(moves) == shortest(level.board)
        assert b"$" not in final_board(level.board, moves)


def test_a_weight_bounds_how_much_longer_a_solution_is():
    for candidate in range(60):
        level = generate(Config(7, 7, 3), candidate)
        if level is not None:
            best, quick = solve(level.board), solve(level.board, weight=2.0)
            assert len(best) <= len(quick) <= 2 * len(best)
            assert b"$" not in final_board(level.board, quick)


def test_lost_boards_have_no_solution():
    assert solve(b"######\n#$ @.#\n#    #\n######") is None
    assert solve(b"########\n#@ $#. #\n########") is None


def test_search_gives_up_at_its_limit():
    board = generate(Config(7, 7, 3), 1).board
    assert solve(board) is not None
    assert solve(board, max_nodes=1) is None


@pytest.mark.assets
@pytest.mark.parametrize("name", ["unfiltered/test", "medium/valid"])
def test_boxoban_is_solved_quickly(name):
    folder = Path(os.environ["AGENTGYM_DATA"]) / "sokoban" / name
    solved_soon = 0
    for _, level in list(read(folder))[:40]:
        moves = solve(level.board, weight=2.0)
        assert b"$" not in final_board(level.board, moves)
        assert len(moves) <= 120
        solved_soon += solve(level.board, weight=2.0, max_nodes=SOON) == moves
    assert solved_soon >= 20
