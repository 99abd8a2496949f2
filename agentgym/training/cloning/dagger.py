"""DAgger: the expert relabels the states that the student visits.

A clone has seen the states of its teacher's episodes alone, and does not know what to do where a mistake
leads. So the pupil plays, the teacher gives its own action for every step, and the pupil learns from these
as from demonstrations (Ross et al. 2011, arXiv:1011.0686). The teacher has to answer from a request,
which has the history of an episode that another agent played.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym.core.types import Completion, Policy, Request
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.cloning.demonstrations import Demonstrator
from agentgym.training.learner.packing import StepRow
from agentgym.vector.core import AgentVectorEnv


@dataclass(frozen=True, slots=True)
class Corrections:
    """A teacher's actions in a student's episodes."""

    rows: tuple[StepRow, ...]
    """Tokens of every step."""
    agreed: int
    """Number of steps at which the pupil's action was the teacher's."""
    won: int
    """Number of episodes that the pupil won."""
    played: int


class CorrectedPupil:
    """A policy that acts as the student, and records the teacher's action in each state."""

    def __init__(self, pupil: Policy, teacher: Demonstrator):
        """Bind a policy that acts and a teacher that writes answers in its tokens."""
        self._pupil, self._teacher = pupil, teacher
        self.rows: list[StepRow] = []
        self.agreed = 0

    def act(self, requests: Sequence[Request]) -> Sequence[Completion]:
        """Answer as the pupil does."""
        done, shown = self._pupil.act(requests), self._teacher.act(requests)
        for request, own, better in zip(requests, done, shown, strict=True):
            if better.error is None:
                self.rows.append(self._teacher.row(request, better))
                self.agreed += own.error is None and own.action == better.action
        return done


def correct(
    envs: AgentVectorEnv, pupil: Policy, teacher: Demonstrator, tasks: Sequence[str], *, seed: int
) -> Corrections:
    """Roll out the student once per task; the expert relabels each state.

    ``envs`` in autoreset mode DISABLED; ``tasks``: their ids; ``seed``: of the episodes.
    """
    corrected = CorrectedPupil(pupil, teacher)
    groups = RolloutWorker(envs, corrected, env_id="").collect(tasks, group_size=1, seed=seed)
    won = sum(group.trajectories[0].won for group in groups)
    return Corrections(tuple(corrected.rows), corrected.agreed, won, len(groups))
