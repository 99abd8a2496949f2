"""Where scenarios come from: the built-in ones, the official ones, and folders of others."""

from __future__ import annotations

from functools import lru_cache

from agentgym.envs.sotopia.data.folders import SPLITS, ProfileFolder
from agentgym.envs.sotopia.data.importer import open_profiles
from agentgym.envs.sotopia.scenarios import Scenario
from agentgym.envs.sotopia.tasks import Mode, ScenarioList, ScenarioPool, SeatTasks
from agentgym.tasks import Task, TaskSet, check_split

BUILTIN = "builtin"


class ScenarioSource:
    """The scenarios of a data set's split."""

    def __init__(self, pool: ScenarioPool):
        """Hold the scenarios."""
        self.pool = pool
        self._tasks: dict[Mode, TaskSet] = {}

    def tasks(self, mode: Mode) -> TaskSet:
        """Return the tasks: each scenario from each side, or, in self-chat, each scenario."""
        if mode not in self._tasks:
            self._tasks[mode] = SeatTasks(self.pool, mode)
        return self._tasks[mode]

    def scenario(self, task: Task) -> Scenario:
        """Return the scenario of a task."""
        scenario: Scenario = task.content.scenario
        return scenario


def open_source(dataset: str, split: str) -> ScenarioSource:
    """Return the scenarios of a data set's split; the same object while the data stays.

    Args:
        dataset: ``builtin``, or as `agentgym.envs.sotopia.data.importer.open_profiles` takes it.
        split: of the built-in scenarios, one of theirs; of others, ``all``, ``hard``, or ``train``, which
            refuses scenarios that SOTOPIA evaluates on.

    Raises:
        MissingDataError: the data is not on this machine; the message says what to run.
        UsageError: unknown split, or files that cannot be read.
    """
    if dataset == BUILTIN:
        return _builtin(split)
    check_split(split, SPLITS)
    return _of_files(open_profiles(dataset), dataset, split)


@lru_cache(maxsize=16)
def _builtin(split: str) -> ScenarioSource:
    from agentgym.envs.sotopia.builtin.scenarios import scenarios

    return ScenarioSource(scenarios(split))


@lru_cache(maxsize=16)
def _of_files(folder: ProfileFolder, dataset: str, split: str) -> ScenarioSource:
    return ScenarioSource(ScenarioList(split, dataset, folder.scenarios(split)))
