"""The checklist of a single environment."""

from __future__ import annotations

from typing import Any

from agentgym.checking import interface, states, steps
from agentgym.checking.evidence import Make, factory, run
from agentgym.env import AgentEnv


def check_agent_env(subject: str | AgentEnv[Any] | Make) -> None:
    """Check every promise of the environment contract.

    Args:
        subject: a registered id, an environment, or a class or function that takes the constructor's
            keyword arguments and returns one.

    Raises:
        ContractError: a promise is broken; the message is one line that says which, and how.
    """
    run((*states.CHECKS, *steps.CHECKS, *interface.CHECKS), factory(subject))
