"""Oracle agent (upper bound)."""

from __future__ import annotations

from agentgym.core.types import Policy
from agentgym.vector.core import AgentVectorEnv


def make_oracle(envs: AgentVectorEnv) -> Policy:
    """Make the agent ``oracle``: the environment's own solver, planner or gold policy."""
    return envs.oracle()
