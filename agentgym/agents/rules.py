"""Rule-based baselines, one for each environment, with an agent's view and without learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from agentgym.core.types import Policy
from agentgym.errors import UnsupportedEnvError, UsageError
from agentgym.io.optional import load_reference
from agentgym.vector.core import AgentVectorEnv

RULES_VERSION = 2
"""Version of the rules, part of a run's identity: it rises when any suite's rules play otherwise. 1 played at
random where a suite had no rules."""


def make_rules(envs: AgentVectorEnv, version: int = RULES_VERSION) -> Policy:
    """Make the agent ``rules`` of the suite's `SuiteSpec.rules`; `UnsupportedEnvError` where it has none.

    ``version`` must be `RULES_VERSION`; runs record it.
    """
    if version != RULES_VERSION:
        raise UsageError(
            f"the agent 'rules' is of version {RULES_VERSION} here, not {version!r}: leave its option "
            "version out, or install the agentgym that has it"
        )
    game = envs.prototype
    if game.suite_spec.rules is None:
        raise UnsupportedEnvError(
            f"the suite {game.suite!r} has no rules: name them in its SuiteSpec, or use the agent 'random'"
        )
    return cast(Callable[[AgentVectorEnv], Policy], load_reference(game.suite_spec.rules))(envs)
