"""Scoring: the result of one agent in one environment, from its episodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.core.suite_spec import ATTEMPT_MEASURES, FIRST_SUCCESS, Measure
from agentgym.evaluation.board.statistics import (
    Estimate,
    mean_score,
    over_runs,
    ratio_of_sums,
    t_interval,
)
from agentgym.evaluation.log.results import ABORTED, RETRIED, EvalSample
from agentgym.evaluation.suites.suite import PlayedEnv

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class EndpointUse:
    """Calls to an agent's model behind an endpoint in one environment; stated by the submitter."""

    answers: int
    """Number of answers over all episodes."""
    prompt_tokens: int
    completion_tokens: int
    cost: float
    """Cost in US dollars; 0 where no prices were given."""
    median_seconds: float
    """Seconds of an answer: the median over episodes of their means."""
    slow_seconds: float
    """Seconds of an answer: the 95th percentile over episodes of their means."""


@dataclass(frozen=True, slots=True)
class EnvResult:
    """Result of an agent in one environment."""

    score: Estimate
    """Mean of the ranked metric, `PlayedEnv.metric`."""
    success: Estimate
    """Share of episodes won."""
    invalid: Estimate
    """Share of an episode's actions that were rejected."""
    steps: Estimate
    """Steps of an episode."""
    tokens_per_success: Estimate | None
    """Tokens of all episodes, prompts included, divided by episodes won; None without either."""
    cost_per_success: Estimate | None
    """US dollars of all episodes divided by episodes won; None without cost or success."""
    ends: Mapping[str, int]
    """Number of episodes by end reason."""
    format_errors: Estimate
    """Share of an episode's responses that the parser could not read."""
    errors: int
    """Episodes whose last attempt ended in a machine's fault; they count with score 0."""
    retries: int | None
    """Earlier attempts of all episodes, which a machine's fault ended; None where runs record none."""
    by_type: Mapping[str, Estimate]
    """The score by task type; empty unless the suite asks for it."""
    measures: Mapping[str, Estimate]
    """Value of each chosen column that all its episodes have: the mean, or the sum over the episodes of a
    training seed."""
    endpoint: EndpointUse | None = None
    """Calls to endpoints; None for agents without any."""


class EnvEpisodes:
    """An agent's episodes in one environment as arrays over seeds, tasks and attempts."""

    def __init__(
        self,
        env: PlayedEnv,
        attempts: int,
        runs: Sequence[Sequence[EvalSample]],
        columns: Sequence[Measure] = (),
        *,
        asks_endpoint: bool = False,
    ):
        """Arrange the T x k episodes of each of S training seeds; `ValueError` where one is not complete."""
        self.env = env
        self._columns = columns
        self._asks_endpoint = asks_endpoint
        ordered = [sorted(episodes, key=lambda episode: episode.key) for episodes in runs]
        for episodes in ordered:
            keys = {episode.key for episode in episodes}
            if not len(keys) == len(episodes) == env.count * attempts:
                raise ValueError(f"{env.label}: {len(episodes)} episodes are not {env.count} x {attempts}")
        self._ordered = ordered
        self._shape = (len(runs), env.count, attempts)
        self.types = tuple(episode.task_type for episode in ordered[0][::attempts])

    def values(self, number: Callable[[EvalSample], float]) -> Floats:
        """Return a number of every episode as float64[S, T, k]."""
        flat = [number(episode) for episodes in self._ordered for episode in episodes]
        return np.array(flat, dtype=np.float64).reshape(self._shape)

    @property
    def scores(self) -> Floats:
        """The ranked number of every episode as float64[S, T, k]."""
        if self.env.metric == "success":
            return self.values(lambda episode: float(episode.won))
        return self.values(lambda episode: episode.score)

    @property
    def bounds(self) -> Bounds:
        """Least and greatest possible value of `scores`."""
        return (0.0, 1.0) if self.env.metric == "success" else self.env.bounds

    def result(self, rng: np.random.Generator) -> EnvResult:
        """Return everything the tables say about these episodes."""
        scores = self.scores
        won = self.values(lambda episode: float(episode.won))
        tokens = self.values(lambda episode: float(episode.prompt_tokens + episode.completion_tokens))
        cost = self.values(lambda episode: episode.cost)
        rejected = self.values(lambda episode: episode.invalid_count / max(1, episode.length))
        unread = self.values(lambda episode: min(1.0, episode.format_errors / max(1, episode.length)))
        episodes = [episode for run in self._ordered for episode in run]
        steps = self.values(lambda episode: float(episode.length))
        ends = Counter(episode.end_reason for episode in episodes)
        counted = all(episode.previous for episode in episodes)
        return EnvResult(
            score=mean_over_seeds(scores, self.bounds),
            success=mean_over_seeds(won, (0.0, 1.0)),
            invalid=mean_over_seeds(rejected, (0.0, 1.0)),
            steps=mean_over_seeds(steps, (0.0, np.inf)),
            tokens_per_success=_per_success(tokens, won, rng),
            cost_per_success=_per_success(cost, won, rng),
            ends=dict(sorted(ends.items())),
            format_errors=mean_over_seeds(unread, (0.0, 1.0)),
            errors=sum(ends[reason] for reason in RETRIED),
            retries=sum(episode.attempt - 1 for episode in episodes) if counted else None,
            by_type=self._by_type(scores) if self.env.by_type else {},
            measures=self._measures(),
            endpoint=_endpoint_use(episodes) if self._asks_endpoint else None,
        )

    def _measures(self) -> dict[str, Estimate]:
        episodes = [episode for run in self._ordered for episode in run]
        return {
            column.name: self._over_attempts(column)
            if column.name in ATTEMPT_MEASURES
            else self._measure(column)
            for column in self._columns
            if column.name in ATTEMPT_MEASURES or all(column.name in episode.measures for episode in episodes)
        }

    def _over_attempts(self, column: Measure) -> Estimate:
        """Return the share of tasks won at once, or within all attempts: one number a task."""
        won = self.values(lambda episode: float(episode.won))
        chosen = won[:, :, :1] if column == FIRST_SUCCESS else won.max(axis=2, keepdims=True)
        return mean_over_seeds(chosen, column.bounds)

    def _measure(self, column: Measure) -> Estimate:
        values = self.values(lambda episode: episode.measures[column.name])
        estimate = mean_over_seeds(values, column.bounds)
        if not column.total:
            return estimate
        _, tasks, attempts = self._shape
        return estimate.scaled(tasks * attempts)

    def _by_type(self, scores: Floats) -> dict[str, Estimate]:
        types = np.array(self.types)
        return {
            str(kind): mean_over_seeds(scores[:, types == kind], self.bounds) for kind in np.unique(types)
        }


def mean_over_seeds(scores: Floats, bounds: Bounds) -> Estimate:
    """Mean of float64[S, T, k] scores with its interval, over one training seed or several."""
    if len(scores) > 1:
        return over_runs([scores.mean(axis=2)], bounds)
    if not np.isfinite(bounds).all():  # no proportion of a scale
        return t_interval(scores.mean(axis=(0, 2)), bounds)
    return mean_score(scores[0], bounds)


def _endpoint_use(episodes: Sequence[EvalSample]) -> EndpointUse:
    # an answer whose error ends the episode counts, too: it cost money and time
    answers = [episode.length + (episode.end_reason in ABORTED) for episode in episodes]
    seconds = [
        episode.model_seconds / count for episode, count in zip(episodes, answers, strict=True) if count
    ]
    middle, slow = np.percentile(seconds or [0.0], (50, 95))
    return EndpointUse(
        answers=sum(answers),
        prompt_tokens=sum(episode.prompt_tokens for episode in episodes),
        completion_tokens=sum(episode.completion_tokens for episode in episodes),
        cost=math.fsum(episode.cost for episode in episodes),
        median_seconds=float(middle),
        slow_seconds=float(slow),
    )


def _per_success(spent: Floats, won: Floats, rng: np.random.Generator) -> Estimate | None:
    """Cost of all episodes over the number won; None without any cost.

    Tasks are resampled for one training seed; over several, the ratio is linear in its two means.
    """
    if spent.sum() == 0.0 or won.sum() == 0.0:
        return None
    if len(spent) == 1:
        return ratio_of_sums(spent.sum(axis=(0, 2)), won.sum(axis=(0, 2)), rng)
    ratio = float(spent.sum() / won.sum())
    excess = over_runs([(spent - ratio * won).mean(axis=2) / won.mean()], (-math.inf, math.inf))
    return Estimate(ratio, max(0.0, ratio + excess.low), ratio + excess.high, "runs")
