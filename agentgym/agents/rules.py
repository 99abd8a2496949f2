"""The rule-based baseline of each environment: it sees what every agent sees, and learns nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from agentgym.agents.random import make_random
from agentgym.extras import load_reference
from agentgym.types import Policy
from agentgym.vector.core import AgentVectorEnv


def make_rules(envs: AgentVectorEnv) -> Policy:
    """Make the agent ``rules``: uniform over the admissible actions where the suite has no rules."""
    reference = envs.prototype.suite_spec.rules
    if reference is None:
        return make_random(envs)
    return cast(Callable[[AgentVectorEnv], Policy], load_reference(reference))(envs)
