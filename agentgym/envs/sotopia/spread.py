"""Judge spread: the variation of repeated ratings of one conversation."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentgym.core.queries import UnansweredError
from agentgym.envs.sotopia.game import GameState
from agentgym.envs.sotopia.judgeprompt import read_rating
from agentgym.envs.sotopia.judges import ModelJudge, SocialJudge
from agentgym.envs.sotopia.modelcalls import finished
from agentgym.envs.sotopia.ratings import DIMENSIONS, Ratings
from agentgym.envs.sotopia.scenarios import Scenario
from agentgym.errors import UsageError


@dataclass(frozen=True, slots=True)
class RatingSpread:
    """Standard deviations of ratings, of both sides of all conversations that were rated each time."""

    judge: str
    """Name of the judge: `agentgym.core.queries.AnswerKind.name`."""
    conversations: int
    """Number of conversations that were rated each time."""
    unrated: int
    """Number of conversations left out, since a rating of theirs failed."""
    times: int
    deviations: Mapping[str, float]
    """Root of the mean variance between ratings of one conversation, by dimension, and ``overall``."""
    means: Mapping[str, float]
    """Mean rating by dimension, and ``overall``."""


def ratings_spread(
    judge: SocialJudge, transcripts: Sequence[tuple[Scenario, GameState]], times: int = 3
) -> RatingSpread:
    """Rate conversations several times.

    Args:
        judge: is asked anew each time; a model for another sample, whatever its temperature.
        transcripts: conversations, each with its scenario.
        times: ratings of each, at least two.

    Raises:
        UsageError: fewer than two times, or no conversation could be rated each time.
    """
    if times < 2:
        raise UsageError(f"a spread takes at least two ratings of a conversation, got times={times}")
    questions = [judge.question(scenario, state) for scenario, state in transcripts]
    rounds = [_round(judge, questions, sample) for sample in range(times)]
    rated = [ratings for ratings in zip(*rounds, strict=True) if None not in ratings]
    if not rated:
        raise UsageError("no conversation could be rated each time: give others, or another judge")
    values: dict[str, list[list[float]]] = {name: [] for name in (*DIMENSIONS, "overall")}
    for ratings in rated:
        for side in (0, 1):
            for name, rows in values.items():
                rows.append([float(getattr(pair[side], name)) for pair in ratings if pair is not None])
    return RatingSpread(
        judge=judge.kind.name,
        conversations=len(rated),
        unrated=len(transcripts) - len(rated),
        times=times,
        deviations={name: _pooled(rows) for name, rows in values.items()},
        means={name: statistics.fmean(map(statistics.fmean, rows)) for name, rows in values.items()},
    )


def _round(
    judge: SocialJudge, questions: Sequence[object], sample: int
) -> list[tuple[Ratings, Ratings] | None]:
    if isinstance(judge, ModelJudge):
        answers = [finished(each) for each in [judge.submit(one, sample=sample) for one in questions]]
    else:
        answers = list(judge.answer(questions))
    return [None if isinstance(answer, UnansweredError) else read_rating(answer) for answer in answers]


def _pooled(rows: Sequence[Sequence[float]]) -> float:
    """Return the root of the mean of the rows' variances, each of n - 1 degrees of freedom."""
    return float(statistics.fmean(statistics.variance(row) for row in rows) ** 0.5)
