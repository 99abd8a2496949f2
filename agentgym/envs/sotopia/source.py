"""Sources of tasks: the built-in scenarios, the official ones, and folders of others."""

from __future__ import annotations

from functools import lru_cache

from agentgym.core.tasks import TaskSet, check_split
from agentgym.envs.sotopia.builtin.scenarios import SIZES, scenarios
from agentgym.envs.sotopia.data.folders import SPLITS, ProfileFolder
from agentgym.envs.sotopia.data.importer import open_profiles
from agentgym.envs.sotopia.tasks import ScenarioList, SeatMode, SeatTasks

BUILTIN = "builtin"

BUILTIN_SIZES = {split: 2 * size for split, size in SIZES.items()}
"""Tasks of the built-in scenarios: one for each side."""


def open_tasks(dataset: str, split: str, mode: SeatMode) -> TaskSet:
    """Return the tasks of a data set's split; the same object while the data stays.

    Args:
        dataset: ``builtin``, or as `agentgym.envs.sotopia.data.importer.open_profiles` takes it.
        split: a split of the built-in scenarios; for others ``all``, ``hard``, or ``train``, which
            refuses scenarios that SOTOPIA evaluates on.
        mode: each scenario from each side, or, in self-chat, each scenario.

    Raises:
        MissingDataError: the data is not on this machine; the message says what to run.
        UsageError: unknown split, or files that cannot be read.
    """
    if dataset == BUILTIN:
        return _of_builtin(split, mode)
    check_split(split, SPLITS)
    return _of_files(open_profiles(dataset), dataset, split, mode)


@lru_cache(maxsize=16)
def _of_builtin(split: str, mode: SeatMode) -> TaskSet:
    return SeatTasks(scenarios(split), mode)


@lru_cache(maxsize=16)
def _of_files(folder: ProfileFolder, dataset: str, split: str, mode: SeatMode) -> TaskSet:
    return SeatTasks(ScenarioList(split, dataset, folder.scenarios(split)), mode)
