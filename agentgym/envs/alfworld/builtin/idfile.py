"""The file of the generated games' ids, which lets an id be found without generating the others.

``python -m agentgym.envs.alfworld.builtin.idfile`` makes it anew, where the
generator has changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentgym.core.tasks import IdTable, Task, save_id_tables
from agentgym.envs.alfworld.builtin.tasks import ID_FILE, SIZES, attempted, stamp


def make(split: str, numbers: Iterable[int]) -> IdTable:
    """Return the table of the tasks of ``numbers``, tried from their first candidate on."""
    tasks = [_first(split, number) for number in numbers]
    return IdTable.of([task.id for task in tasks], [task.content.attempt for task in tasks])


def _first(split: str, number: int) -> Task:
    attempt = 0
    while (task := attempted(split, number, attempt)) is None:
        attempt += 1
    return task


if __name__ == "__main__":
    save_id_tables(ID_FILE, {split: make(split, range(size)) for split, size in SIZES.items()}, stamp())
