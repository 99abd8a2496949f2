"""Diagnostics of cost: seconds by stage, tokens and tool calls, and the critic's loss."""

from __future__ import annotations

from itertools import pairwise

from agentgym.history.diagnostics.run_source import RunSource
from agentgym.history.diagrams import Diagram, Panel, Series

STAGES = (
    ("sampling", "model"),
    ("environment", "env"),
    ("old log-probs", "old_log_probs"),
    ("reference", "reference"),
    ("grouping", "grouping"),
    ("advantage", "advantage"),
    ("critic", "critic"),
    ("actor", "actor"),
    ("weights to the engine", "sync"),
    ("evaluation", "evaluate"),
)
"""Stages with the metrics that they sum; a run without the fine ones has those of `_COARSE`."""

_SMALL = 0.01
"""Share of the time below which stages are drawn together."""

_COARSE = (
    ("sampling", "model"),
    ("environment", "env"),
    ("credit", "credit"),
    ("update", "update"),
    ("weights to the engine", "sync"),
    ("evaluation", "evaluate"),
)


def stage_seconds(source: RunSource) -> Diagram:
    """Seconds of each iteration by stage, and their shares of the whole run."""
    x = tuple(float(metrics.iteration) for metrics in source.iterations)
    fine = any(metrics.seconds.actor is not None for metrics in source.iterations)
    found: list[tuple[str, tuple[float, ...]]] = []
    for label, name in STAGES if fine else _COARSE:
        seconds = tuple(float(getattr(metrics.seconds, name) or 0.0) for metrics in source.iterations)
        if sum(seconds) > 0:
            found.append((label, seconds))
    total = sum(sum(seconds) for _, seconds in found)
    small = [seconds for _, seconds in found if sum(seconds) < _SMALL * total]
    found = [(label, seconds) for label, seconds in found if sum(seconds) >= _SMALL * total]
    if small:
        found.append(("other", tuple(map(sum, zip(*small, strict=True)))))
    shares = tuple(sum(seconds) / total for _, seconds in found)
    return Diagram(
        name="stage-seconds",
        title=f"Seconds by stage: {source.about}",
        panels=(
            Panel(
                title="Seconds of an iteration",
                x_label="iteration",
                x=x,
                series=tuple(Series(label=label, y=seconds) for label, seconds in found),
                kind="areas",
            ),
            Panel(
                title="Share of the run",
                x_label="",
                x=tuple(label for label, _ in found),
                series=(Series(label="share", y=shares),),
                kind="bars",
                percent=True,
            ),
        ),
    )


def tokens(source: RunSource) -> Diagram:
    """Tool calls, sampled and read tokens of an episode, and tokens of a response."""
    x = tuple(float(metrics.iteration) for metrics in source.iterations)
    before = [0, *(metrics.episodes for metrics in source.iterations)]
    played = [now - then for then, now in pairwise(before)]
    rows = list(zip(source.iterations, played, strict=True))
    calls = tuple(metrics.steps_per_episode for metrics in source.iterations)
    sampled = tuple(metrics.tokens_out / max(episodes, 1) for metrics, episodes in rows)
    read = tuple(metrics.tokens_in / max(episodes, 1) for metrics, episodes in rows)
    each = tuple(own / max(steps, 1e-9) for own, steps in zip(sampled, calls, strict=True))
    series = (
        ("Tool calls of an episode", calls),
        ("Tokens sampled, of an episode", sampled),
        ("Prompt tokens read, of an episode", read),
        ("Tokens of a response", each),
    )
    panels = tuple(
        Panel(title=title, x_label="iteration", x=x, series=(Series(label=title, y=values),))
        for title, values in series
    )
    remark = "A tool call is a step: one response, one action. Episodes are those played to their ends."
    return Diagram(
        name="tokens", title=f"Tool calls and tokens: {source.about}", panels=panels, remark=remark
    )


def critic(source: RunSource) -> Diagram:
    """The critic's loss, and the share of the returns' variance that its values explain."""
    missing = "the algorithm has no critic; train by ppo or steppo"
    x = tuple(float(metrics.iteration) for metrics in source.iterations)
    loss = source.column("value_loss", missing=missing)
    explained = source.column("explained_variance", missing=missing)
    return Diagram(
        name="critic",
        title=f"Critic: {source.about}",
        panels=(
            Panel(title="Critic loss", x_label="iteration", x=x, series=(Series(label="loss", y=loss),)),
            Panel(
                title="Explained variance",
                x_label="iteration",
                x=x,
                series=(Series(label="explained variance", y=explained),),
            ),
        ),
    )
