"""From episodes to numbers: one row of the table in one environment."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.core.suite_spec import ATTEMPT_MEASURES, FIRST_SUCCESS, Measure
from agentgym.evaluation.board.aggregates import hierarchical_bootstrap
from agentgym.evaluation.board.statistics import (
    Estimate,
    mean_score,
    percentile_interval,
    ratio_of_sums,
    t_interval,
    wilson,
)
from agentgym.evaluation.log.results import ABORTED, RETRIED, EvalSample
from agentgym.evaluation.suites.suite import PlayedEnv

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class EndpointUse:
    """Calls to an agent's model behind an endpoint in one environment; stated by the submitter."""

    answers: int
    """Over all episodes."""
    prompt_tokens: int
    completion_tokens: int
    cost: float
    """US dollars; 0 where no prices were given."""
    median_seconds: float
    """Of an answer: the median over episodes of their means."""
    slow_seconds: float
    """The 95th percentile of the same."""


@dataclass(frozen=True, slots=True)
class EnvResult:
    """Result of an agent in one environment."""

    score: Estimate
    """What is ranked: `PlayedEnv.metric`."""
    success: Estimate
    """Share of episodes won."""
    invalid: Estimate
    """Share of an episode's actions that were rejected."""
    steps: Estimate
    """Length of an episode."""
    tokens_per_success: Estimate | None
    """Prompt and completion tokens of all episodes over episodes won; None without tokens or success."""
    cost_per_success: Estimate | None
    """US dollars of all episodes over episodes won; None without cost or success."""
    ends: Mapping[str, int]
    """How many episodes ended for each reason."""
    format_errors: Estimate
    """Share of an episode's responses that the parser could not read."""
    errors: int
    """Episodes whose last attempt a machine's fault ended; they count with score 0."""
    retries: int | None
    """Earlier attempts of all episodes, which a machine's fault ended; None where runs do not say."""
    by_type: Mapping[str, Estimate]
    """The score by task type; empty unless the suite asks for it."""
    measures: Mapping[str, Estimate]
    """Of each chosen column that all its episodes have: the mean, or the sum over the episodes of a training
    seed."""
    endpoint: EndpointUse | None = None
    """None for agents that ask no endpoint."""


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
        """Arrange complete runs.

        ``runs``: the T x k episodes of each of S training seeds; `ValueError` where one is not complete.
        """
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
            score=mean_over_seeds(scores, self.bounds, rng),
            success=mean_over_seeds(won, (0.0, 1.0), rng),
            invalid=mean_over_seeds(rejected, (0.0, 1.0), rng),
            steps=t_interval(steps.mean(axis=(0, 2)), (0.0, np.inf)),
            tokens_per_success=_per_success(tokens, won, rng),
            cost_per_success=_per_success(cost, won, rng),
            ends=dict(sorted(ends.items())),
            format_errors=mean_over_seeds(unread, (0.0, 1.0), rng),
            errors=sum(ends[reason] for reason in RETRIED),
            retries=sum(episode.attempt - 1 for episode in episodes) if counted else None,
            by_type=self._by_type(scores, rng) if self.env.by_type else {},
            measures=self._measures(rng),
            endpoint=_endpoint_use(episodes) if self._asks_endpoint else None,
        )

    def _measures(self, rng: np.random.Generator) -> dict[str, Estimate]:
        episodes = [episode for run in self._ordered for episode in run]
        return {
            column.name: self._over_attempts(column, rng)
            if column.name in ATTEMPT_MEASURES
            else self._measure(column, rng)
            for column in self._columns
            if column.name in ATTEMPT_MEASURES or all(column.name in episode.measures for episode in episodes)
        }

    def _over_attempts(self, column: Measure, rng: np.random.Generator) -> Estimate:
        """Return the share of tasks won at once, or within all attempts: one number a task."""
        won = self.values(lambda episode: float(episode.won))
        chosen = won[:, :, :1] if column == FIRST_SUCCESS else won.max(axis=2, keepdims=True)
        return mean_over_seeds(chosen, column.bounds, rng)

    def _measure(self, column: Measure, rng: np.random.Generator) -> Estimate:
        values = self.values(lambda episode: episode.measures[column.name])
        if math.isinf(column.bounds[1]):
            estimate = t_interval(values.mean(axis=(0, 2)), column.bounds)
        else:
            estimate = mean_over_seeds(values, column.bounds, rng)
        if not column.total:
            return estimate
        _, tasks, attempts = self._shape
        return estimate.scaled(tasks * attempts)

    def _by_type(self, scores: Floats, rng: np.random.Generator) -> dict[str, Estimate]:
        types = np.array(self.types)
        return {
            str(kind): mean_over_seeds(scores[:, types == kind], self.bounds, rng)
            for kind in np.unique(types)
        }


def mean_over_seeds(scores: Floats, bounds: Bounds, rng: np.random.Generator) -> Estimate:
    """Mean score with its interval, over one training seed or several.

    ``scores``: float64[S, T, k]; ``bounds``: least and greatest possible score.
    """
    if len(scores) == 1:
        return mean_score(scores[0], bounds)
    means = scores.mean(axis=2)
    value = float(means.mean())
    if np.ptp(means) == 0.0:
        return wilson(min(bounds[1], max(bounds[0], value)), scores.shape[1], bounds)
    return percentile_interval(value, hierarchical_bootstrap([means], rng)[:, :, 0].mean(axis=1))


def _endpoint_use(episodes: Sequence[EvalSample]) -> EndpointUse:
    # an error that ends an episode is an answer, too: paid for, and waited for
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
    """Cost of all episodes over the number won, tasks resampled; None without any cost."""
    if spent.sum() == 0.0:
        return None
    return ratio_of_sums(spent.sum(axis=(0, 2)), won.sum(axis=(0, 2)), rng)
