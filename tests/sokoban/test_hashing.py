import os
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest

from agentgym.core.hashing import StateHasher, canonical
from agentgym.envs.sokoban.env import SokobanEnv
from agentgym.envs.sokoban.vector import SokobanVectorEnv


def states_of(board):
    """All boards that differ from ``board`` by where two boxes and the player stand, and whether it ended."""
    floor = [i for i, cell in enumerate(board) if cell in b" .@$+*"]
    for first in floor:
        for second in floor:
            for player in floor:
                if first < second and player not in (first, second):
                    cells = bytearray(board.translate(bytes.maketrans(b"@$+*", b"  ..")))
                    for at, symbol in ((first, b"$*"), (second, b"$*"), (player, b"@+")):
                        cells[at] = symbol[cells[at] == ord(".")]
                    yield bytes(cells)


def all_states(tasks):
    for task in tasks:
        hasher = StateHasher("sokoban", 1, task.id)
        for board in states_of(task.content.board):
            for over in (False, True):
                yield hasher.hash(canonical(board), over)


@pytest.mark.parametrize("count", [100_000, pytest.param(1_500_000, marks=pytest.mark.slow)])
def test_different_states_hash_differently(count):
    tasks = SokobanEnv(dim_room=(7, 7), num_boxes=2).tasks
    hashes = set(islice(all_states(tasks), count))
    assert len(hashes) == count


def test_the_hashes_are_the_environments():
    env = SokobanEnv(dim_room=(7, 7), num_boxes=2)
    rng = np.random.default_rng(0)
    for seed in range(5):
        _, info = env.reset(seed=seed)
        hasher = StateHasher("sokoban", 1, info["task_id"])
        for k in rng.integers(4, size=20):
            text, _, terminated, _, info = env.step(env.names[k])
            assert info["state_hash"] == hasher.hash(canonical(text.encode()), terminated)
            if terminated:
                break


PROGRAM = """
import numpy as np
from agentgym.envs.sokoban.vector import SokobanVectorEnv
envs = SokobanVectorEnv(3, num_boxes=2)
_, info = envs.reset(seed=0)
print(*info["state_hash"])
for row in np.random.default_rng(0).integers(4, size=(40, 3)):
    *_, info = envs.step([("up", "down", "left", "right")[k] for k in row])
    print(*info["state_hash"])
"""


def test_other_processes_and_hash_seeds_agree():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert len(next(iter(outputs)).split()) == 41 * 3


def test_the_same_state_hashes_alike_whatever_the_path():
    env = SokobanEnv()
    _, start = env.reset(seed=4)
    hashes = {start["state_hash"]}
    for there, back in (("up", "down"), ("down", "up"), ("left", "right"), ("right", "left")):
        text, *_ = env.step(there)
        moved = text.count("$") and env.state_hash() != start["state_hash"]
        text, *_, info = env.step(back)
        if moved and text == env.task.content.text:
            hashes.add(info["state_hash"])
        env.reset(options={"task": start["task_id"]})
    envs = SokobanVectorEnv(2)
    _, infos = envs.reset(options={"tasks": [start["task_id"]] * 2})
    assert hashes | set(infos["state_hash"]) == {start["state_hash"]}
