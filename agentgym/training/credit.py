"""Credit: from an iteration's episodes to the advantages of their steps or tokens.

What an algorithm needs beside its advantage (values of a critic; one day a reward model that learns along)
lives behind `CreditAssigner`, so that the loop is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from agentgym.algos.batch import StepBatch
from agentgym.algos.table import ALGORITHMS, Algorithm, Unit
from agentgym.arrays import Floats
from agentgym.errors import UsageError
from agentgym.training.learner.critic import Valued
from agentgym.training.learner.learner import Learner
from agentgym.training.learner.packing import StepRow


@dataclass(frozen=True, slots=True)
class Experience:
    """The steps that an iteration trains on, in one order."""

    steps: StepBatch
    rows: list[StepRow]
    """n, the tokens of each step."""
    log_probs: Floats
    """(T,) that response tokens were sampled with."""


@dataclass(frozen=True, slots=True)
class Credit:
    """What a learner is told about an experience."""

    advantages: Floats
    """(n,) of steps or (T,) of tokens."""
    of: Unit
    """Which of the two."""
    values: Floats | None = None
    """(n,) or (T,) of the critic before the update; what it values is its own matter."""
    returns: Floats | None = None
    """(n,) or (T,) that the critic should predict."""


class CreditAssigner(Protocol):
    """Anything that says what was good in an experience."""

    def assign(self, experience: Experience, learner: Learner) -> Credit:
        """Return the credit of every step or token."""
        ...


@dataclass(frozen=True, slots=True)
class OutcomeCredit:
    """Credit that follows from the episodes alone."""

    advantage: Callable[..., Floats]
    of: Unit

    def assign(self, experience: Experience, learner: Learner) -> Credit:
        """Return the algorithm's advantage."""
        return Credit(self.advantage(experience.steps), self.of)


@dataclass(frozen=True, slots=True)
class StepCriticCredit:
    """Credit from a critic that values steps at their last prompt token (StepPO)."""

    advantage: Callable[..., Floats]
    whiten: bool
    """Whether the policy's advantages are whitened; the critic's targets never are."""

    def assign(self, experience: Experience, learner: Learner) -> Credit:
        """Return advantages, and ``A + V`` as what the critic should predict."""
        values = _values(experience, learner, "step")
        steps = experience.steps.with_columns(values=values, next_values=values)
        raw = self.advantage(steps, whiten=False)
        shown = self.advantage(steps, whiten=True) if self.whiten else raw
        return Credit(shown, "step", values, raw + values)


@dataclass(frozen=True, slots=True)
class TokenCriticCredit:
    """Credit from a critic that values response tokens (PPO)."""

    advantage: Callable[..., Floats]
    whiten: bool
    """As in `StepCriticCredit`."""

    def assign(self, experience: Experience, learner: Learner) -> Credit:
        """Return advantages, and ``A + V`` as what the critic should predict."""
        values = _values(experience, learner, "token")
        steps = experience.steps
        if steps.truncated.any():
            steps = steps.with_columns(next_values=_values(experience, learner, "step"))
        raw = self.advantage(steps, values=values, whiten=False)
        shown = self.advantage(steps, values=values, whiten=True) if self.whiten else raw
        return Credit(shown, "token", values, raw + values)


def _values(experience: Experience, learner: Learner, valued: Valued) -> Floats:
    """Return the critic's values.

    An episode that the step limit ended is followed by a state whose possible actions nobody was told, so
    that there is no prompt to value it at: the last state that was acted in stands for it.
    """
    return learner.values(experience.rows, valued)


def credit_assigner(name: str, switches: Mapping[str, Any]) -> CreditAssigner:
    """Return what assigns an algorithm's credit.

    Args:
        name: a key of `agentgym.algos.table.ALGORITHMS`.
        switches: keyword arguments of its advantage.

    Raises:
        UsageError: the algorithm needs rollouts or models that this trainer does not have yet, or a switch
            has a value that it cannot have.
    """
    algorithm: Algorithm = ALGORITHMS[name]
    if algorithm.snapshot or algorithm.reward_model:
        needs = "rollouts that return to earlier states" if algorithm.snapshot else "a reward model"
        trained = [key for key, other in ALGORITHMS.items() if not (other.snapshot or other.reward_model)]
        raise UsageError(
            f"{name} needs {needs}, which the trainer does not have: choose one of {', '.join(trained)}"
        )
    _try_out(name, algorithm, switches)
    if algorithm.critic is None:
        return OutcomeCredit(partial(algorithm.advantage, **switches), algorithm.unit)
    options = {**algorithm.defaults, **switches}
    advantage = partial(algorithm.advantage, **{k: v for k, v in switches.items() if k != "whiten"})
    kind = StepCriticCredit if algorithm.critic == "step" else TokenCriticCredit
    return kind(advantage, whiten=bool(options["whiten"]))


def _try_out(name: str, algorithm: Algorithm, switches: Mapping[str, Any]) -> None:
    """Compute advantages of two episodes of a step, so that a bad switch is met before anything is played.

    Raises:
        UsageError: says what is wrong with it.
    """
    nothing = np.zeros(2)
    steps = StepBatch.of(
        group=[0, 0],
        trajectory=[0, 1],
        state="aa",
        reward=[0, 1],
        tokens=[1, 1],
        texts=("a", "a"),
        actions=("b", "c"),
        values=nothing,
        next_values=nothing,
    )
    columns = {"values": nothing} if algorithm.critic == "token" else {}
    try:
        algorithm.advantage(steps, **columns, **switches)
    except (ValueError, TypeError) as error:
        raise UsageError(f"a switch of {name} has a value that does not fit: {error}") from error


STATE_GROUPS = (("1", 1), ("2", 2), ("3-4", 4), ("5-8", 8), ("9-16", 16), ("17+", None))
"""Names of the classes that sizes of step groups fall into, and the largest size of each."""


def step_group_sizes(steps: StepBatch) -> dict[str, int]:
    """Count steps by how many steps of their task were taken in the same state (GiGPO, Figure 5).

    Example:
        >>> steps = StepBatch.of(group=[0, 0, 0], trajectory=[0, 0, 1], state="aba", reward=[0, 0, 0])
        >>> step_group_sizes(steps)
        {'1': 1, '2': 2, '3-4': 0, '5-8': 0, '9-16': 0, '17+': 0}
    """
    key = np.stack([steps.group, steps.state])
    _, index, count = np.unique(key, axis=1, return_inverse=True, return_counts=True)
    sizes = count[index.reshape(-1)]
    result, least = {}, 0
    for name, most in STATE_GROUPS:
        result[name] = int(((sizes > least) & (sizes <= (most or sizes.max(initial=0)))).sum())
        least = most or least
    return result
