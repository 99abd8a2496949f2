"""Tasks: a scenario and the side that is played, or both sides of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from agentgym.core.hashing import content_id, sha256_json
from agentgym.core.tasks import Task, TaskSet
from agentgym.envs.sotopia.builtin.scenarios import BuiltinScenarios
from agentgym.envs.sotopia.scenarios import Scenario, Side
from agentgym.errors import UsageError

SeatMode: TypeAlias = Literal["partner", "self-chat"]
"""Whether a policy plays one side, against a partner, or both."""

SUITE_NAME = "sotopia"

_SIDES: Mapping[SeatMode, tuple[Side | None, ...]] = {"partner": (0, 1), "self-chat": (None,)}


class Seat(NamedTuple):
    """A task: a scenario, and the played sides."""

    scenario: Scenario
    side: Side | None
    """The side that is played; None for both."""


class ScenarioList:
    """The scenarios of a split that are in memory, in order."""

    def __init__(self, split: str, dataset: str, scenarios: Sequence[Scenario]):
        """Hold scenarios in order; equal ones get different numbers."""
        if not scenarios:
            raise UsageError(
                f"{SUITE_NAME}: split {split!r} of {dataset} holds no scenario; name another split"
            )
        self.split = split
        self.dataset = dataset
        self._scenarios = tuple(scenarios)
        self._places = {scenario.id: place for place, scenario in enumerate(scenarios)}

    @cached_property
    def ids(self) -> Sequence[str]:
        """Content ids in order; the n-th of equal ones has the suffix ``-n``."""
        seen: dict[str, int] = {}
        ids = []
        for scenario in self._scenarios:
            name = scenario_id(scenario)
            count = seen[name] = seen.get(name, 0) + 1
            ids.append(name if count == 1 else f"{name}-{count}")
        return ids

    def __len__(self) -> int:
        """Number of scenarios."""
        return len(self._scenarios)

    def __getitem__(self, index: int) -> Scenario:
        """Return a scenario by its place."""
        return self._scenarios[index]

    def position(self, name: str) -> int | None:
        """Return the place of a scenario by its own id; None where there is none."""
        return self._places.get(name)


class SeatTasks(TaskSet):
    """The tasks of a split, scenario by scenario; a task's content is its `Seat`.

    Source ids are those of scenarios, with ``#0`` or ``#1`` for the side that is played.
    """

    def __init__(self, pool: ScenarioList | BuiltinScenarios, mode: SeatMode):
        """Describe the tasks."""
        self.pool = pool
        self.mode = mode
        self._sides = _SIDES[mode]
        manifest = {
            "suite": SUITE_NAME,
            "dataset": pool.dataset,
            "split": pool.split,
            "mode": mode,
            "scenarios_sha256": sha256_json(list(pool.ids)),
            "n": len(self),
        }
        super().__init__(pool.split, manifest)

    def __len__(self) -> int:
        """Number of tasks."""
        return len(self.pool) * len(self._sides)

    @property
    def ids(self) -> Sequence[str]:
        """The task ids in order."""
        return self._ids

    @cached_property
    def _ids(self) -> list[str]:
        return [content_id((name, side)) for name in self.pool.ids for side in self._sides]

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {task_id: place for place, task_id in enumerate(self._ids)}

    def _make(self, index: int) -> Task:
        place, turn = divmod(index, len(self._sides))
        scenario, side = self.pool[place], self._sides[turn]
        return Task(
            id=self._ids[index],
            content=Seat(scenario, side),
            source_id=scenario.id if side is None else f"{scenario.id}#{side}",
            type=scenario.kind if scenario.terms is not None else scenario.source,
            metadata={"relationship": scenario.relationship, "kind": scenario.kind},
        )

    def _index(self, key: str) -> int | None:
        if key in self._places:
            return self._places[key]
        if self.mode == "self-chat":
            return self.pool.position(key)
        name, _, side = key.rpartition("#")
        place = self.pool.position(name)
        return None if place is None or side not in ("0", "1") else 2 * place + int(side)

    def verify(self) -> None:
        """Recompute every id from the content."""
        for place, name in enumerate(self.pool.ids):
            scenario = self.pool[place]
            if scenario.terms is None and scenario_id(scenario) != name.partition("-")[0]:
                raise UsageError(f"scenario {scenario.id} is not the one its id {name} says: import it again")
        super().verify()


def scenario_id(scenario: Scenario) -> str:
    """Return the content id of a scenario: of all that it plays, and nothing that only names it."""
    characters = [
        {key: value for key, value in asdict(character).items() if key != "id"}
        for character in scenario.characters
    ]
    return content_id((scenario.text, scenario.goals, scenario.relationship, characters))
