"""Diagnostics of states: sizes of step groups, distinct states, and the share still worth rollouts."""

from __future__ import annotations

from collections import Counter

from agentgym.history.diagnostics.run_source import RunSource, by_kept_iteration, joined_panel, steps_of
from agentgym.history.diagrams import Diagram, Panel, Series
from agentgym.history.rollouts import kept_iterations
from agentgym.rollout.stored_episode import KeptEpisode

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
        (episode.iteration, episode.group, step.state_hash) for episode, step, _ in steps_of(episodes)
    )
    return list(counts.values())


def step_groups(source: RunSource) -> Diagram:
    """Sizes of step groups, as shares of states and of steps: at first and at last, or as chosen."""
    stored = list(source.rollouts)
    numbers = stored if source.chosen else dict.fromkeys((stored[0], stored[-1]))
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


def unique_states(*sources: RunSource) -> Diagram:
    """Distinct states of a run so far over the actions sampled, and per action (3SPO's Table 3)."""
    count: dict[str, dict[float, float | None]] = {}
    per_action: dict[str, dict[float, float | None]] = {}
    for number, source in enumerate(sources, start=1):
        found = source.column("diagnostics/states/by_hash", missing="it was not counted then; train anew")
        label = source.about if source.about not in count else f"{source.about} ({number})"
        steps = [metrics.env_steps for metrics in source.iterations]
        count[label] = dict(zip(map(float, steps), found, strict=True))
        per_action[label] = {
            float(taken): None if states is None or not taken else states / taken
            for taken, states in zip(steps, found, strict=True)
        }
    alone = sources[0] if len(sources) == 1 else None
    return Diagram(
        name="unique-states",
        title="Distinct states" + (f": {alone.about}" if alone else ""),
        panels=(
            joined_panel("Distinct states up to now", "actions sampled", count),
            joined_panel("Distinct states per action", "actions sampled", per_action, percent=True),
            *(_of_groups(alone) if alone and kept_iterations(alone.folder) else ()),
        ),
        remark="By state hash, which is of one task, over all that was played: what was not trained on, too.",
    )


def _of_groups(source: RunSource) -> tuple[Panel, Panel]:
    """Return the distinct states of groups of kept rollouts."""
    x = tuple(float(iteration) for iteration in source.rollouts)

    def per_task(episodes: list[KeptEpisode]) -> float | None:
        return len(group_sizes(episodes)) / max(len({episode.group for episode in episodes}), 1)

    def per_step(episodes: list[KeptEpisode]) -> float | None:
        return len(group_sizes(episodes)) / max(sum(len(episode.trajectory.steps) for episode in episodes), 1)

    return (
        Panel(
            title="Distinct states of a group",
            x_label="iteration",
            x=x,
            series=(Series(label="states", y=by_kept_iteration(source, per_task)),),
        ),
        Panel(
            title="Distinct states of a group per step",
            x_label="iteration",
            x=x,
            series=(Series(label="states per step", y=by_kept_iteration(source, per_step)),),
            percent=True,
        ),
    )


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
