"""Diagnostics by replay: success by golden length, and progress by true distance.

The environment's oracle (a planner or a solver) is played from the states in question: its number of steps to
success is the distance, exact where it plans shortest ways.
"""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy
from itertools import pairwise
from typing import Any

from agentgym.core.types import Request
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.evaluation.board.statistics import wilson
from agentgym.history.diagnostics.credit import progress_diagram
from agentgym.history.diagnostics.source import RunSource
from agentgym.history.diagrams import Diagram, Panel, Series
from agentgym.history.rollouts import KeptEpisode
from agentgym.registration import open_env

_BEYOND = 400
"""Steps after which an oracle counts as lost."""


class OracleDistance:
    """Steps to success from states of a run's environment, by its oracle; results are cached."""

    def __init__(self, source: RunSource):
        """Open the environment that the run was trained on."""
        settings = source.history.settings
        prefix = "env_options."
        options = {
            key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)
        }
        split = settings.get("split", "train")
        options["max_steps"] = _BEYOND  # the distance may be longer than what the run's limit left
        self._env: AgentEnv[Any] = open_env(source.history.env_id, split=split, options=options)
        self._oracle = self._env.oracle()
        self._known: dict[tuple[str, str], int | None] = {}
        self._queries = 0

    def golden(self, episode: KeptEpisode) -> int | None:
        """Return the length of the oracle's own episode; None where it does not win."""
        info = self._begin(episode)
        return self._distance(episode, info["state_hash"])

    def along(self, episode: KeptEpisode) -> list[int | None]:
        """Return the distance of every state of an episode, the last one included.

        The replay must come to the recorded states.
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

    def _begin(self, episode: KeptEpisode) -> dict[str, Any]:
        options = {"task": episode.task_id, "rollout": episode.rollout}
        _, info = self._env.reset(seed=episode.seed, options=options)
        return info

    def _distance(self, episode: KeptEpisode, state_hash: str) -> int | None:
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


def golden_length(source: RunSource) -> Diagram:
    """Share of episodes won by the length of the oracle's own, at first and at last."""
    oracle = OracleDistance(source)
    ends = list(source.rollouts)
    shown = {f"iteration {end}": source.rollouts[end] for end in dict.fromkeys((ends[0], ends[-1]))}
    table: dict[str, dict[int, list[bool]]] = {}
    lengths = {episode.task_id: oracle.golden(episode) for some in shown.values() for episode in some}
    for label, episodes in shown.items():
        table[label] = defaultdict(list)
        for episode in episodes:
            length = lengths[episode.task_id]
            if length is not None:
                table[label][length].append(episode.won)
    known = sorted({length for row in table.values() for length in row})
    if not known:
        raise UsageError("the oracle wins none of the tasks whose rollouts were kept, so they have no length")
    series = []
    for label, row in table.items():
        shares = [wilson(sum(row[n]) / len(row[n]), len(row[n])) if row[n] else None for n in known]
        series.append(
            Series(
                label=label,
                y=tuple(None if share is None else share.value for share in shares),
                low=tuple(None if share is None else share.low for share in shares),
                high=tuple(None if share is None else share.high for share in shares),
            )
        )
    counts = tuple(
        Series(label=label, y=tuple(float(len(row[n])) for n in known)) for label, row in table.items()
    )
    x = tuple(str(length) for length in known)
    return Diagram(
        name="golden-length",
        title=f"Success by golden length: {source.about}",
        panels=(
            Panel(
                title="Episodes won",
                x_label="steps of the oracle",
                x=x,
                series=tuple(series),
                kind="bars",
                percent=True,
            ),
            Panel(title="Episodes", x_label="steps of the oracle", x=x, series=counts, kind="bars"),
        ),
        remark="Lines are 95 % intervals (Wilson) that count episodes of one task as independent.",
    )


def true_progress(source: RunSource) -> Diagram:
    """Share of steps that come nearer to success by the oracle's distance, in episodes won and lost."""
    oracle = OracleDistance(source)

    def measure(episodes: list[KeptEpisode]) -> dict[int, list[bool]]:
        return {place: _nearer(oracle.along(episode)) for place, episode in enumerate(episodes)}

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
