"""StepPO without step GAE by the name that the committed sweeps have it by."""

from __future__ import annotations

from agentgym.algos.steppo import WITHOUT_STEP_GAE as ALGORITHM

__all__ = ["ALGORITHM", "WITHOUT_STEP_GAE"]

WITHOUT_STEP_GAE = "benchmarks.algorithms.ablations:ALGORITHM"
