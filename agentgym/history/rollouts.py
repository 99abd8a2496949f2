"""Recorded rollouts of single iterations of a training run, with the algorithm's values for each step.

A run with ``keep_rollouts=10`` writes the episodes of every tenth iteration: ``rollouts/000010.jsonl`` and so
on, a line per episode, each file whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agentgym.errors import UsageError
from agentgym.io.files import make_folder
from agentgym.io.untrusted import MAX_LINES_SIZE
from agentgym.rollout.stored_episode import KeptEpisode, read_records, write_records

FOLDER = "rollouts"


def rollouts_file(folder: Path, iteration: int) -> Path:
    """Return the path of an iteration's rollouts in a run's folder."""
    return folder / FOLDER / f"{iteration:06d}.jsonl"


def write_rollouts(folder: Path, iteration: int, episodes: Iterable[KeptEpisode]) -> None:
    """Write the rollouts of an iteration, all at once."""
    path = rollouts_file(folder, iteration)
    make_folder(path.parent)
    write_records(path, episodes)


def kept_iterations(folder: Path) -> list[int]:
    """Return the iterations of a run with recorded rollouts, ascending."""
    return sorted(int(path.stem) for path in (folder / FOLDER).glob("*.jsonl") if path.stem.isdecimal())


def drop_rollouts(folder: Path, after: int) -> None:
    """Remove the rollouts of iterations after one: a resumed run plays them again."""
    for iteration in kept_iterations(folder):
        if iteration > after:
            rollouts_file(folder, iteration).unlink()


def read_rollouts(folder: Path, iteration: int) -> list[KeptEpisode]:
    """Read the rollouts of an iteration, group by group.

    Raises:
        UsageError: they were not kept, or a line is malformed; the message has its number.
    """
    path = rollouts_file(folder, iteration)
    known = ", ".join(map(str, kept_iterations(folder))) or "none; train with --set keep_rollouts=10"
    remedy = f"iterations kept: {known}"
    episodes = list(read_records(KeptEpisode, path, remedy, largest=MAX_LINES_SIZE))
    if other := next((each.iteration for each in episodes if each.iteration != iteration), None):
        raise UsageError(f"{path} has an episode of iteration {other}: get it again")
    return episodes
