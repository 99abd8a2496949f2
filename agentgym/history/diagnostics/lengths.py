"""True distances: steps to success by an environment's oracle, and progress by them.

The environment's oracle (a planner or a solver) is played from the states in question: its number of steps to
success is the distance, exact where it plans shortest ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from itertools import pairwise
from typing import Any

from agentgym.core.types import Request, Trajectory
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.evaluation.log.results import EvalSample
from agentgym.history.diagnostics.credit import progress_diagram
from agentgym.history.diagnostics.run_source import RunSource
from agentgym.history.diagrams import Diagram
from agentgym.registration import open_env
from agentgym.rollout.stored_episode import KeptEpisode

_BEYOND = 400
"""Most steps of an oracle; after them it counts as lost."""


def trained_on(source: RunSource) -> tuple[str, str, dict[str, Any]]:
    """Return id, split and options of the environment that a run was trained on."""
    settings, prefix = source.history.settings, "env_options."
    options = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
    return source.history.env_id, settings.get("split", "train"), options


class OracleDistance:
    """Steps to success from states of an environment, by its oracle; results are cached."""

    def __init__(self, env_id: str, split: str, options: Mapping[str, Any]):
        """Open the environment, with more steps than a run's own limit: the distance may be longer."""
        self._env: AgentEnv[Any] = open_env(env_id, split=split, options={**options, "max_steps": _BEYOND})
        self._oracle = self._env.oracle()
        self._known: dict[tuple[str, str], int | None] = {}
        self._lengths: dict[str, int | None] = {}
        self._queries = 0

    def golden(self, episode: Trajectory | EvalSample) -> int | None:
        """Return the length of the oracle's own episode; None where it does not win."""
        if episode.task_id not in self._lengths:
            info = self._begin(episode)
            self._lengths[episode.task_id] = self._distance(episode, info["state_hash"])
        return self._lengths[episode.task_id]

    def along(self, episode: Trajectory) -> list[int | None]:
        """Return the distance of every state of an episode, the last one included.

        The replay must reach the recorded states.
        """
        info = self._begin(episode)
        distances = [self._distance(episode, info["state_hash"])]
        for number, step in enumerate(episode.steps):
            if info["state_hash"] != step.state_hash:
                raise UsageError(
                    f"step {number} of task {episode.task_id} was taken in another state: the environment or "
                    "its data have changed since the run"
                )
            _, _, terminated, _, info = self._env.step(step.action)
            ended = 0 if info["won"] else None
            distances.append(ended if terminated else self._distance(episode, info["state_hash"]))
        return distances

    def _begin(self, episode: Trajectory | EvalSample) -> dict[str, Any]:
        options = {"task": episode.task_id, "rollout": episode.rollout}
        _, info = self._env.reset(seed=episode.seed, options=options)
        return info

    def _distance(self, episode: Trajectory | EvalSample, state_hash: str) -> int | None:
        key = (episode.task_id, state_hash)
        if key not in self._known:
            self._known[key] = self._play(deepcopy(self._env))
        return self._known[key]

    def _play(self, env: AgentEnv[Any]) -> int | None:
        """Let the oracle play on; return its steps, None where it does not win."""
        self._queries += 1
        for steps in range(_BEYOND):
            info = env._info()
            if info["won"]:
                return steps
            request = Request(
                episode=self._queries,
                task_id=info["task_id"],
                task_type=info["task_type"],
                turn=info["turn"],
                observation=env._observe(),
                admissible_actions=tuple(info["admissible_actions"]),
                state_hash=info["state_hash"],
                seed=0,
                snapshot=env.snapshot,
            )
            (completion,) = self._oracle.act([request])
            _, _, terminated, truncated, info = env.step(completion.action)
            if terminated or truncated:
                return steps + 1 if info["won"] else None
        return None


def true_progress(source: RunSource) -> Diagram:
    """Share of steps that come nearer to success by the oracle's distance, in episodes won and lost."""
    oracle = OracleDistance(*trained_on(source))

    def measure(episodes: list[KeptEpisode]) -> dict[int, list[bool]]:
        return {place: _nearer(oracle.along(episode.trajectory)) for place, episode in enumerate(episodes)}

    return progress_diagram(
        source,
        measure,
        name="true-progress",
        title="Progressing steps by true distance",
        remark="A step progresses where the environment's oracle (planner or solver) needs fewer steps after "
        "it; one into a state from which it does not win does not.",
    )


def _nearer(distances: list[int | None]) -> list[bool]:
    pairs = pairwise(distances)
    return [after is not None and (here is None or after < here) for here, after in pairs]
