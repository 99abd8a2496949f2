"""Diagnostics of credit: rewards of steps and episodes, progressing steps, and values along an episode."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from agentgym.errors import UsageError
from agentgym.history.diagnostics.run_source import (
    RunSource,
    by_kept_iteration,
    mean,
    steps_of,
    won_and_lost,
)
from agentgym.history.diagrams import Diagram, Panel, Series
from agentgym.rollout.stored_episode import KeptEpisode

MAX_SHOWN_STEPS = 50
"""Most steps of an episode in the picture."""

_SUCCESS = "success"
"""Name of the node that wins lead to; no state hash is so short."""

ProgressMeasure: TypeAlias = Callable[[list[KeptEpisode]], dict[int, list[bool]]]
"""Function from episodes to a list of flags for each, by its index: whether a step made progress."""


def rewards(source: RunSource) -> Diagram:
    """Mean rewards of an episode and of a step: a reward model's if there is one, else the environment's."""
    x = tuple(float(metrics.iteration) for metrics in source.iterations)
    iterations = tuple(float(iteration) for iteration in source.rollouts)
    process = any(credit.process_reward is not None for *_, credit in steps_of(source.episodes))

    def of_steps(episodes: list[KeptEpisode]) -> float | None:
        return mean(
            [
                credit.process_reward or 0.0 if process else step.reward
                for _, step, credit in steps_of(episodes)
            ]
        )

    title = "Mean process reward of a step" if process else "Mean reward of a step"
    outcome = tuple(metrics.mean_return for metrics in source.iterations)
    return Diagram(
        name="rewards",
        title=f"Rewards: {source.about}",
        panels=(
            Panel(
                title="Mean reward of an episode",
                x_label="iteration",
                x=x,
                series=(Series(label="return", y=outcome),),
            ),
            Panel(
                title=title,
                x_label="iteration",
                x=iterations,
                series=(Series(label=title, y=by_kept_iteration(source, of_steps)),),
            ),
        ),
    )


def progress(source: RunSource) -> Diagram:
    """Share of steps that come nearer to success in the graph of their group, in episodes won and lost."""
    remark = (
        "Distances are those in the graph of a group's own episodes (GraphGPO's); groups without a success "
        "have none."
    )
    return progress_diagram(source, graph_progress, name="progress", title="Progressing steps", remark=remark)


def graph_progress(episodes: list[KeptEpisode]) -> dict[int, list[bool]]:
    """Return whether each step came nearer to SUCCESS in its group's graph, by the place of its episode."""
    solved = {(episode.iteration, episode.group) for episode in episodes if episode.trajectory.won}
    left = {key: _distances([each for each in episodes if _group(each) == key]) for key in solved}
    found: dict[int, list[bool]] = {}
    for place, episode in enumerate(episodes):
        if _group(episode) in left:
            known = left[_group(episode)]
            away = [known.get(name, math.inf) for name in _path(episode)]
            found[place] = [after < here for here, after in pairwise(away)]
    return found


def _group(episode: KeptEpisode) -> tuple[int, str]:
    return episode.iteration, episode.group


def _path(episode: KeptEpisode) -> list[str]:
    """Return the states of an episode; after the last step of one that was won, SUCCESS."""
    *states, last = episode.trajectory.state_hashes
    return [*states, _SUCCESS if episode.trajectory.won else last]


def _distances(episodes: list[KeptEpisode]) -> dict[str, int]:
    """Return the number of steps from each state to SUCCESS; states that do not lead there are left out."""
    before: dict[str, set[str]] = {}
    for episode in episodes:
        for here, after in pairwise(_path(episode)):
            before.setdefault(after, set()).add(here)
    left = {_SUCCESS: 0}
    reached = deque([_SUCCESS])
    while reached:
        state = reached.popleft()
        for earlier in before.get(state, set()) - left.keys():
            left[earlier] = left[state] + 1
            reached.append(earlier)
    return left


def progress_diagram(
    source: RunSource, measure: ProgressMeasure, *, name: str, title: str, remark: str
) -> Diagram:
    """Return the diagram of a measure of progress over iterations, in episodes won and lost.

    ``measure``: from episodes to whether each step progressed, by the place of the episode; ``remark``: how
    to read the diagram.
    """
    rows: dict[str, list[float | None]] = {"won": [], "lost": []}
    for episodes in source.rollouts.values():
        steps = measure(episodes)
        for label in rows:
            own = [
                float(each)
                for place, some in steps.items()
                if episodes[place].trajectory.won == (label == "won")
                for each in some
            ]
            rows[label].append(mean(own))
    if all(value is None for values in rows.values() for value in values):
        raise UsageError(
            f"no group whose rollouts {source.folder} has kept was won: train longer, or keep more "
            "(--set keep_rollouts=1)"
        )
    panel = Panel(
        title="Steps that come nearer to success",
        x_label="iteration",
        x=tuple(float(iteration) for iteration in source.rollouts),
        series=tuple(Series(label=f"episodes {label}", y=tuple(values)) for label, values in rows.items()),
        percent=True,
    )
    return Diagram(name=name, title=f"{title}: {source.about}", panels=(panel,), remark=remark)


def values(source: RunSource) -> Diagram:
    """The critic's values along an episode, won and lost, at first and at last."""
    ends = list(source.rollouts)
    panels = []
    for iteration in dict.fromkeys((ends[0], ends[-1])):
        split = won_and_lost(source.rollouts[iteration])
        length = max(len(episode.credit) for episode in source.rollouts[iteration])
        series = tuple(
            _profile(f"episodes {label}", own, min(length, MAX_SHOWN_STEPS))
            for label, own in split.items()
            if own
        )
        panels.append(
            Panel(
                title=f"Iteration {iteration}",
                x_label="step of the episode",
                x=tuple(float(place + 1) for place in range(min(length, MAX_SHOWN_STEPS))),
                series=series,
            )
        )
    if all(value is None for panel in panels for series in panel.series for value in series.y):
        raise UsageError(
            f"{source.folder} has no values of steps: the algorithm has no critic; train by ppo or steppo"
        )
    return Diagram(
        name="values",
        title=f"Values along an episode: {source.about}",
        panels=tuple(panels),
        remark="Mean of V(s) before the update over the episodes that are as long; bands are from the lower "
        "to the upper quartile.",
    )


def _profile(label: str, episodes: list[KeptEpisode], length: int) -> Series:
    columns = []
    for place in range(length):
        credit = [episode.credit[place] for episode in episodes if place < len(episode.credit)]
        columns.append([each.value for each in credit if each.value is not None])
    quartiles = [
        tuple(float(each) for each in np.quantile(own, (0.25, 0.75))) if own else (None, None)
        for own in columns
    ]
    return Series(
        label=label,
        y=tuple(mean(own) for own in columns),
        low=tuple(low for low, _ in quartiles),
        high=tuple(high for _, high in quartiles),
    )
