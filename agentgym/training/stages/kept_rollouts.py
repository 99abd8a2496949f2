"""Recorded rollouts of an iteration: episodes with advantages, values and process rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.core.types import Trajectory
from agentgym.rollout.stored_episode import KeptEpisode, StepCredit, timeless
from agentgym.training.collect.rollout_batch import Collected
from agentgym.training.stages.protocols import RolloutBatch, Scores


def kept_episodes(
    collected: Collected, rollouts: RolloutBatch, scores: Scores, *, iteration: int, version: int
) -> list[KeptEpisode]:
    """Return the records of an iteration's episodes.

    ``iteration`` counts from 1; ``version``: of the weights that were updated.
    """
    credit, notes = iter(_credit(rollouts, scores)), iter(collected.notes or ())
    episodes = []
    for number, group in enumerate(collected.groups):
        for member in group.trajectories:
            episodes.append(
                KeptEpisode(
                    group=str(number),
                    size=len(group.trajectories),
                    labels=(),
                    trainable=True,
                    trajectory=_slim(member),
                    iteration=iteration,
                    version=version,
                    credit=tuple(islice(credit, len(member.steps))),
                    notes=next(notes, {}),
                )
            )
    return episodes


def _slim(member: Trajectory) -> Trajectory:
    """Leave out what a replay shows again, and what is large: the same in a run that is resumed."""
    steps = tuple(
        replace(
            step,
            observation="",
            completion=replace(step.completion, prompt_ids=(), logprobs=(), versions=()),
        )
        for step in member.steps
    )
    return timeless(replace(member, steps=steps, final_observation="", unplayed=None))


def _credit(rollouts: RolloutBatch, scores: Scores) -> list[StepCredit]:
    """Return the values of all steps; of a step's tokens mean advantage, first value and sum of rewards."""
    counts = [len(row.response_ids) for row in rollouts.rows]
    of_steps, of_tokens = np.arange(1, len(counts)), np.cumsum(counts)[:-1]

    def parts(column: Floats | None) -> Sequence[Floats | None]:
        if column is None:
            return [None] * len(counts)
        return np.split(column, of_steps if len(column) == len(counts) else of_tokens)

    advantages = np.split(scores.advantages, of_steps if scores.unit == "step" else of_tokens)
    computed = advantages, parts(scores.values), parts(scores.process_rewards)
    return [
        StepCredit(
            advantage=float(own.mean()) if len(own) else 0.0,
            token_advantages=() if scores.unit == "step" else tuple(own.tolist()),
            value=float(value[0]) if value is not None and len(value) else None,
            process_reward=None if process is None else float(process.sum()),
        )
        for own, value, process in zip(*computed, strict=True)
    ]
