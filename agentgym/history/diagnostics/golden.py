"""Success, and steps beyond the oracle's, by golden length: the length of the oracle's own episode."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from agentgym.core.hashing import canonical_json
from agentgym.core.types import Trajectory
from agentgym.errors import UsageError
from agentgym.evaluation.board.statistics import Estimate, t_interval, wilson
from agentgym.evaluation.log.results import EvalSample
from agentgym.evaluation.verify.archives import open_run
from agentgym.history.diagnostics.lengths import OracleDistance, trained_on
from agentgym.history.diagnostics.run_source import RunSource
from agentgym.history.diagrams import Diagram, Panel, Series

_Episodes: TypeAlias = Sequence[Trajectory] | Sequence[EvalSample]
_Environment: TypeAlias = tuple[str, str, dict[str, Any]]
"""Id, split and options of an environment."""


@dataclass(slots=True)
class _Row:
    """Episodes of one colour, by golden length."""

    label: str
    won: dict[int, list[bool]] = field(default_factory=lambda: defaultdict(list))
    beyond: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Steps beyond the golden length, by golden length."""

    def add(self, episode: Trajectory | EvalSample, golden: int) -> None:
        """Take an episode."""
        steps = episode.length if isinstance(episode, EvalSample) else len(episode.steps)
        self.won[golden].append(episode.won)
        self.beyond[golden].append(steps - golden)

    def success(self, golden: int) -> Estimate | None:
        """Return the share that was won."""
        won = self.won[golden]
        return wilson(sum(won) / len(won), len(won)) if won else None

    def extra(self, golden: int) -> Estimate | None:
        """Return the mean number of steps beyond the golden ones."""
        return _mean(self.beyond[golden])

    def extra_of_won(self, golden: int) -> Estimate | None:
        """Return it of the episodes that were won."""
        pairs = zip(self.beyond[golden], self.won[golden], strict=True)
        return _mean([steps for steps, won in pairs if won])


def _mean(steps: Sequence[int]) -> Estimate | None:
    return t_interval(np.array(steps, np.float64)) if steps else None


def golden_length(*sources: RunSource) -> Diagram:
    """Success and steps beyond the oracle's, by the length of the oracle's own episode.

    Of one training run the first and the last iteration with kept rollouts, of several the last of each; of
    an evaluation all its episodes.
    """
    oracles: dict[str, OracleDistance] = {}
    rows, alone = [], len(sources) == 1
    for source in sources:
        for label, environment, episodes in _played(source, alone=alone):
            key = canonical_json(environment)
            oracle = oracles[key] = oracles.get(key) or OracleDistance(*environment)
            rows.append(_Row(label))
            for episode in episodes:
                golden = oracle.golden(episode)
                if golden is not None:
                    rows[-1].add(episode, golden)
    known = sorted({golden for row in rows for golden in row.won})
    if not known:
        raise UsageError("the oracle wins none of the played tasks: choose another diagnostic")

    def panel(title: str, measure: Callable[[_Row, int], Estimate | None], *, percent: bool = False) -> Panel:
        return _panel(title, known, [_estimated(row.label, row, known, measure) for row in rows], percent)

    title = "Success and steps by golden length"
    if alone and sources[0].is_training:
        title += f": {sources[0].about}"
    counts = [Series(label=row.label, y=tuple(float(len(row.won[n])) for n in known)) for row in rows]
    return Diagram(
        name="golden-length",
        title=title,
        panels=(
            panel("Episodes won", _Row.success, percent=True),
            panel("Steps beyond the oracle's", _Row.extra),
            panel("Steps beyond the oracle's, episodes won", _Row.extra_of_won),
            _panel("Episodes", known, counts, percent=False),
        ),
        remark="Lines are 95 % intervals (Wilson's, and Student's t) that count episodes of one task as "
        "independent.",
    )


def _played(source: RunSource, *, alone: bool) -> Iterator[tuple[str, _Environment, _Episodes]]:
    """Yield a run's sets of episodes: name, environment, episodes."""
    if source.is_training:
        stored = list(source.rollouts)
        shown = stored if source.chosen else dict.fromkeys((stored[0], stored[-1]) if alone else stored[-1:])
        for iteration in shown:
            label = f"iteration {iteration}"
            yield (
                label if alone else f"{source.about}, {label}",
                trained_on(source),
                [episode.trajectory for episode in source.rollouts[iteration]],
            )
        return
    run = open_run(source.folder)
    for found in run.log.played:
        env = found.env
        label = f"{run.log.agent.display_name} on {env.label}"
        episodes = [each for each in run.results if each.env == env.label]
        yield label, (env.id, env.split, dict(env.kwargs)), episodes


def _estimated(
    label: str, row: _Row, known: Sequence[int], measure: Callable[[_Row, int], Estimate | None]
) -> Series:
    found = [measure(row, golden) for golden in known]

    def ends(name: str) -> tuple[float | None, ...]:
        values = [math.nan if each is None else float(getattr(each, name)) for each in found]
        return tuple(value if math.isfinite(value) else None for value in values)

    return Series(label=label, y=ends("value"), low=ends("low"), high=ends("high"))


def _panel(title: str, known: Sequence[int], series: Sequence[Series], percent: bool) -> Panel:
    return Panel(
        title=title,
        x_label="steps of the oracle",
        x=tuple(map(str, known)),
        series=tuple(series),
        kind="bars",
        percent=percent,
    )
