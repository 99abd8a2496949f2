"""Diagnostics of states: sizes of step groups, distinct states, and the share still worth rollouts."""

from __future__ import annotations

from collections import Counter

from agentgym.history.diagnostics.source import RunSource, by_kept_iteration
from agentgym.history.diagrams import Diagram, Panel, Series
from agentgym.history.rollouts import KeptEpisode

BUCKETS = (
    ("1", 1, 1),
    ("2-5", 2, 5),
    ("6-8", 6, 8),
    ("9", 9, 9),
    ("10-49", 10, 49),
    (">= 50", 50, 1 << 60),
)
"""Sizes of step groups: name, least and greatest; the last two as GiGPO's section 5.4 has them."""


def group_sizes(episodes: list[KeptEpisode]) -> list[int]:
    """Return the number of steps in each state, where those of a group are compared."""
    counts = Counter(
        (episode.iteration, episode.group, step.state_hash) for episode in episodes for step in episode.steps
    )
    return list(counts.values())


def step_groups(source: RunSource) -> Diagram:
    """Sizes of step groups, as shares of states and of steps: at first and at last, or as chosen."""
    kept = list(source.rollouts)
    numbers = kept if source.chosen else dict.fromkeys((kept[0], kept[-1]))
    shown = {f"iteration {number}": source.rollouts[number] for number in numbers}
    panels = []
    for title, weighted in (("Share of states", False), ("Share of steps", True)):
        series = []
        for label, episodes in shown.items():
            sizes = group_sizes(episodes)
            weights = {size: size if weighted else 1 for size in sizes}
            total = sum(weights[size] for size in sizes)
            shares = tuple(
                sum(weights[size] for size in sizes if low <= size <= high) / max(total, 1)
                for _, low, high in BUCKETS
            )
            series.append(Series(label=label, y=shares))
        panels.append(
            Panel(
                title=title,
                x_label="steps taken in one state",
                x=tuple(name for name, _, _ in BUCKETS),
                series=tuple(series),
                kind="bars",
                percent=True,
            )
        )
    remark = (
        "Steps of a group's episodes in the same state are compared; one that is alone in its state is not."
    )
    return Diagram(
        name="step-groups", title=f"Step groups: {source.about}", panels=tuple(panels), remark=remark
    )


def unique_states(source: RunSource) -> Diagram:
    """Distinct states of each task, and the share of states whose score is high (3SPO's S above a half)."""
    x = tuple(float(iteration) for iteration in source.rollouts)

    def per_task(episodes: list[KeptEpisode]) -> float | None:
        return len(group_sizes(episodes)) / max(len({episode.group for episode in episodes}), 1)

    def per_step(episodes: list[KeptEpisode]) -> float | None:
        return len(group_sizes(episodes)) / max(sum(len(episode.steps) for episode in episodes), 1)

    panels = [
        Panel(
            title="Distinct states of a group",
            x_label="iteration",
            x=x,
            series=(Series(label="states", y=by_kept_iteration(source, per_task)),),
        ),
        Panel(
            title="Distinct states per step",
            x_label="iteration",
            x=x,
            series=(Series(label="states per step", y=by_kept_iteration(source, per_step)),),
            percent=True,
        ),
    ]
    return Diagram(name="unique-states", title=f"Distinct states: {source.about}", panels=tuple(panels))


def high_score(source: RunSource) -> Diagram:
    """3SPO's high-score ratio, and the distinct states it has been in by hash and by text."""
    missing = "only runs of 3SPO score states; train by spo3"
    ratio = source.column("diagnostics/states/high_score", missing=missing)
    x = tuple(float(metrics.iteration) for metrics in source.iterations)
    counts = tuple(
        Series(label=label, y=source.column(f"diagnostics/states/{key}", missing=missing))
        for label, key in (("by hash", "by_hash"), ("by text", "by_text"), ("actions sampled", "samples"))
    )
    return Diagram(
        name="high-score",
        title=f"States worth rollouts: {source.about}",
        panels=(
            Panel(
                title="States with S > 0.5",
                x_label="iteration",
                x=x,
                series=(Series(label="share", y=ratio),),
                percent=True,
            ),
            Panel(title="Distinct states up to now", x_label="iteration", x=x, series=counts),
        ),
    )
