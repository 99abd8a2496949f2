"""Diagnostics of 3SPO's trees: rollouts K by difficulty, S over training, and one state over its visits."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym.errors import UsageError
from agentgym.history.diagnostics.run_source import RunSource, joined_panel, mean
from agentgym.history.diagrams import Diagram, Panel, Series

RATES = ("new", "0", "0-0.25", "0.25-0.5", "0.5-0.75", "0.75-1", "1")
"""Classes of states by the rate of success of the trajectories through them, the hardest first."""

_BATCH = "batch of whole trees (epoch)"


def k_by_difficulty(source: RunSource) -> Diagram:
    """Mean K of states by their rate of success, and how states got which K over the run."""
    rows = [metrics.diagnostics for metrics in source.iterations if "k" in metrics.diagnostics]
    if not rows:
        raise _no_trees(source)
    known = [name for name in RATES if any(name in row.get("k_by_success", {}) for row in rows)]
    ks = tuple(_weighted(rows, name) for name in known)
    counts = tuple(sum(row.get("states_by_success", {}).get(name, 0.0) for row in rows) for name in known)
    total = max(sum(counts), 1.0)
    largest = sorted({int(k) for row in rows for k in row["k"]})
    shares = [sum(row["k"].get(str(k), 0.0) for row in rows) for k in largest]
    return Diagram(
        name="k-by-difficulty",
        title=f"Rollouts of a state: {source.about}",
        panels=(
            Panel(
                title="Mean K",
                x_label="rate of success of the trajectories through it",
                x=tuple(known),
                series=(Series(label="K", y=ks),),
                kind="bars",
            ),
            Panel(
                title="Share of states",
                x_label="rate of success of the trajectories through it",
                x=tuple(known),
                series=(Series(label="states", y=tuple(count / total for count in counts)),),
                kind="bars",
                percent=True,
            ),
            Panel(
                title="Distribution of K",
                x_label="K",
                x=tuple(str(k) for k in largest),
                series=(Series(label="states", y=tuple(each / max(sum(shares), 1.0) for each in shares)),),
                kind="bars",
                percent=True,
            ),
        ),
    )


def state_score(*sources: RunSource) -> Diagram:
    """Mean S over batches of whole trees, and S by the type of the task (3SPO's Figure 3b and c)."""
    mean_score, by_type = {}, []
    for number, source in enumerate(sources, start=1):
        means: dict[str, dict[int, list[float]]] = {}
        types: dict[str, dict[int, list[float]]] = {}
        for metrics in source.iterations:
            tables = metrics.diagnostics
            if "score_by_task_type" in tables:
                batch = int(tables["trees"]["batches"]) + 1
                means.setdefault("S", {}).setdefault(batch, []).append(tables["states"]["score"])
                for name, score in tables["score_by_task_type"].items():
                    types.setdefault(name or "all tasks", {}).setdefault(batch, []).append(score)
        if not means:
            raise _no_trees(source)
        label = source.about if source.about not in mean_score else f"{source.about} ({number})"
        mean_score[label] = _averaged(means)["S"]
        title = "S by task type" if len(sources) == 1 else f"S by task type: {label}"
        by_type.append(joined_panel(title, _BATCH, _averaged(types), percent=True))
    title = "State score" + (f": {sources[0].about}" if len(sources) == 1 else "")
    panels = joined_panel("Mean S of the states looked at", _BATCH, mean_score, percent=True), *by_type
    return Diagram(name="state-score", title=title, panels=panels)


def _averaged(found: Mapping[str, Mapping[int, list[float]]]) -> dict[str, dict[float, float | None]]:
    """Return the means of each batch's iterations, by name in alphabetical order."""
    return {name: {float(batch): mean(each) for batch, each in found[name].items()} for name in sorted(found)}


def one_state(source: RunSource) -> Diagram:
    """S, K and the rate of success of the one state that a run follows, over its visits."""
    rows = [metrics.diagnostics["state"] for metrics in source.iterations if "state" in metrics.diagnostics]
    rows = sorted(rows, key=lambda row: row["visits"])
    if not rows:
        raise _no_trees(source)
    x = tuple(row["visits"] for row in rows)
    rate = tuple(row["successes"] / row["visits"] if row["visits"] else None for row in rows)
    return Diagram(
        name="one-state",
        title=f"One state over its visits: {source.about}",
        panels=(
            Panel(
                title="Score S and rate of success",
                x_label="finished trajectories through the state",
                x=x,
                series=(
                    Series(label="S", y=tuple(row["score"] for row in rows)),
                    Series(label="rate of success", y=rate),
                ),
                percent=True,
            ),
            Panel(
                title="Rollouts K",
                x_label="finished trajectories through the state",
                x=x,
                series=(Series(label="K", y=tuple(row["k"] for row in rows)),),
            ),
        ),
    )


def _weighted(rows: list[Mapping[str, Mapping[str, float]]], name: str) -> float | None:
    weights = [row.get("states_by_success", {}).get(name, 0.0) for row in rows]
    means = [row.get("k_by_success", {}).get(name, 0.0) for row in rows]
    total = sum(weights)
    if not total:
        return None
    return sum(weight * value for weight, value in zip(weights, means, strict=True)) / total


def _no_trees(source: RunSource) -> UsageError:
    return UsageError(f"{source.folder} has no rollouts of single states: train by spo3 to draw this")
