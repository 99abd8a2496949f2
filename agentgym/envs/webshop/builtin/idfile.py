"""The file of the usual shop's goal ids, which lets an id be found without generating the others.

``python -m agentgym.envs.webshop.builtin.idfile`` makes it anew where the generator has changed.
"""

from __future__ import annotations

from agentgym.envs.webshop.builtin.catalogue import SIZE
from agentgym.envs.webshop.builtin.goals import DIFFICULTIES
from agentgym.envs.webshop.builtin.tasks import ID_FILE, SIZES, UNSEEN, goal_stream, stamp
from agentgym.tasks import IdTable, save_id_tables


def make(split: str, difficulty: str, count: int) -> IdTable:
    """Return the table of the first ``count`` goals of a split and difficulty, generated in order."""
    stream = goal_stream(difficulty, SIZE, 0, held_out=split == UNSEEN)
    tasks = [stream.task(split, place) for place in range(count)]
    return IdTable.of([task.id for task in tasks], [int(task.source_id.rpartition("/")[2]) for task in tasks])


def places(split: str) -> int:
    """Return how many goals of each difficulty a split has, or one more."""
    return -(-SIZES[split] // len(DIFFICULTIES))


if __name__ == "__main__":
    tables = {
        f"{split}/{difficulty}": make(split, difficulty, places(split))
        for split in SIZES
        for difficulty in DIFFICULTIES
    }
    save_id_tables(ID_FILE, tables, stamp())
