"""The file of the usual shop's goal ids, which lets an id be found without generating the others.

``python -m agentgym.envs.webshop.builtin.idfile`` makes it anew where the generator has changed.
"""

from __future__ import annotations

from agentgym.core.tasks import IdTable, save_id_tables
from agentgym.envs.webshop.builtin.goals import DIFFICULTIES
from agentgym.envs.webshop.builtin.tasks import ID_FILE, SIZES, builtin_tasks, stamp


def make(split: str, difficulty: str) -> IdTable:
    """Return the table of the goals of a split and difficulty, generated in order."""
    tasks = list(builtin_tasks(split, difficulty=difficulty).without_tables())
    return IdTable.of([task.id for task in tasks], [int(task.source_id.rpartition("/")[2]) for task in tasks])


if __name__ == "__main__":
    names = [(split, difficulty) for split in SIZES for difficulty in DIFFICULTIES]
    tables = {f"{split}/{difficulty}": make(split, difficulty) for split, difficulty in names}
    save_id_tables(ID_FILE, tables, stamp())
