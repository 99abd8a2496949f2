"""Stages of a training iteration: collect episodes, score them, minimise a loss.

The loop calls ``collect -> score -> minimise`` and knows no algorithm. `Stages` opens each stage; an
`agentgym.algos.algorithm.Algorithm` names its stages, and most name `OUTCOME`. Another kind of algorithm
brings an object with the methods of a protocol here:

* `Collector`: where episodes begin (3SPO's begin at earlier states). Its state, such as counts of visits, is
  part of checkpoints.
* `Scorer`: advantages and their sources, such as a critic or a reward model (iStar, PRIME).
* `Minimiser`: the update, of the policy and of other models that are trained on the same steps.
"""

from agentgym.training.stages.outcome import (
    OUTCOME,
    SHARED_TOKENS,
    STEP_CRITIC,
    TOKEN_CRITIC,
    Stages,
    stages_of,
)
from agentgym.training.stages.protocols import (
    Collector,
    Minimiser,
    RolloutBatch,
    Scorer,
    Scores,
    Stateful,
    Stateless,
)

__all__ = [
    "OUTCOME",
    "SHARED_TOKENS",
    "STEP_CRITIC",
    "TOKEN_CRITIC",
    "Collector",
    "Minimiser",
    "RolloutBatch",
    "Scorer",
    "Scores",
    "Stages",
    "Stateful",
    "Stateless",
    "stages_of",
]
