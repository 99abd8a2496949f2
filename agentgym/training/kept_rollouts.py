"""Recorded rollouts of an iteration: steps with advantages, values and process rewards."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import numpy as np

from agentgym.core.arrays import Floats, Ints
from agentgym.core.types import Trajectory
from agentgym.history.rollouts import KeptEpisode, KeptStep
from agentgym.training.rollout_batch import Collected
from agentgym.training.stages import RolloutBatch, Scores


def kept_episodes(
    collected: Collected, rollouts: RolloutBatch, scores: Scores, *, iteration: int, version: int
) -> list[KeptEpisode]:
    """Return the records of an iteration's episodes.

    ``iteration`` counts from 1; ``version``: of the weights that were updated.
    """
    columns = _Columns(rollouts, scores)
    notes = iter(collected.notes or ())
    episodes, row = [], 0
    for number, group in enumerate(collected.groups):
        for member in group.trajectories:
            kept = _episode(member, columns, row, number, iteration, version)
            episodes.append(replace(kept, notes=next(notes, {})))
            row += len(member.steps)
    return episodes


class _Columns:
    """Computed values of each step, of steps or of their tokens."""

    def __init__(self, rollouts: RolloutBatch, scores: Scores):
        counts = np.array([len(row.response_ids) for row in rollouts.rows], dtype=np.int64)
        self._ends: Ints = np.concatenate([np.zeros(1, np.int64), counts.cumsum()])
        self._steps = len(rollouts.rows)
        self._scores = scores

    def credit(self, row: int) -> tuple[float, tuple[float, ...]]:
        """Return a step's advantage and, where the algorithm credits tokens, theirs."""
        advantages = self._scores.advantages
        if self._scores.unit == "step":
            return float(advantages[row]), ()
        own = self._of_tokens(advantages, row)
        return float(own.mean()) if len(own) else 0.0, tuple(own.tolist())

    def value(self, row: int) -> float | None:
        """Return the critic's value of a state: where it values tokens, that of the first one."""
        own = self._own(self._scores.values, row)
        return None if own is None or not len(own) else float(own[0])

    def process_reward(self, row: int) -> float | None:
        """Return a step's process reward: where tokens have rewards, their sum."""
        own = self._own(self._scores.process_rewards, row)
        return None if own is None else float(own.sum())

    def _own(self, column: Floats | None, row: int) -> Floats | None:
        if column is None:
            return None
        return column[row : row + 1] if len(column) == self._steps else self._of_tokens(column, row)

    def _of_tokens(self, column: Floats, row: int) -> Floats:
        return column[self._ends[row] : self._ends[row + 1]]


def _episode(
    member: Trajectory, columns: _Columns, row: int, group: int, iteration: int, version: int
) -> KeptEpisode:
    lists: dict[tuple[str, ...], int] = {}
    backwards = accumulate(float(step.reward) for step in reversed(member.steps))
    returns = list(backwards)[::-1]
    steps = []
    for place, step in enumerate(member.steps):
        advantage, of_tokens = columns.credit(row + place)
        steps.append(
            KeptStep(
                state_hash=step.state_hash,
                admissible=lists.setdefault(tuple(step.admissible_actions), len(lists)),
                action=step.action,
                response=step.completion.text,
                response_ids=tuple(step.completion.response_ids),
                valid=step.valid,
                reward=float(step.reward),
                return_to_go=returns[place],
                advantage=advantage,
                token_advantages=of_tokens,
                value=columns.value(row + place),
                process_reward=columns.process_reward(row + place),
                version=step.completion.version,
            )
        )
    return KeptEpisode(
        iteration=iteration,
        version=version,
        group=group,
        task_id=member.task_id,
        task_type=member.task_type,
        seed=member.seed,
        rollout=member.rollout,
        won=member.won,
        score=float(member.score),
        end_reason=member.end_reason,
        final_hash=member.state_hashes[-1],
        admissible_actions=tuple(lists),
        steps=tuple(steps),
    )
