"""The agent that plays each environment by the rule that has been written for it, if one has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentgym.agents.random import make_random
from agentgym.agents.shopper import SUITE as WEBSHOP
from agentgym.agents.shopper import make_shopper
from agentgym.types import Policy
from agentgym.vector.core import AgentVectorEnv

RULES: Mapping[str, Callable[[AgentVectorEnv], Policy]] = {WEBSHOP: make_shopper}
"""By suite: agents that see what everybody sees, and learn nothing."""


def make_rules(envs: AgentVectorEnv) -> Policy:
    """Make the agent ``rules``: uniform over the admissible actions where there is no rule."""
    return RULES.get(envs.prototype.suite, make_random)(envs)
