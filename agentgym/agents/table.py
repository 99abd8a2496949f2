"""The agents that suites and the command line know by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from agentgym.agents.rules import RULES_VERSION
from agentgym.errors import UsageError, nearest
from agentgym.types import Policy
from agentgym.vector.core import AgentVectorEnv


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """One line of `AGENTS`."""

    factory: str
    """``module:function``; the function takes the environment and the agent's options."""
    about: str
    """One line for ``--help``."""
    facts: str = ""
    """``module:function`` that takes the agent's options and returns what its files say about it, an
    `agentgym.evaluation.agent_metadata.AgentMetadata`; empty where there are no such files."""
    version: int = 0
    """Recorded as the option ``version`` of its runs, so that those of another version are told apart; 0 for
    an agent that has none."""


AGENTS: Mapping[str, AgentEntry] = {
    "random": AgentEntry("agentgym.agents.random:make_random", "uniform over the admissible actions"),
    "random-strings": AgentEntry("agentgym.agents.random:make_random_strings", "any Unicode; a fuzz test"),
    "oracle": AgentEntry("agentgym.agents.oracle:make_oracle", "the environment's solver or gold policy"),
    "shopper": AgentEntry(
        "agentgym.envs.webshop.rules:make_shopper", "shops by rule: search, open the first hit, choose, buy"
    ),
    "rules": AgentEntry(
        "agentgym.agents.rules:make_rules", "the environment's rule-based baseline", version=RULES_VERSION
    ),
    "walkthrough": AgentEntry(
        "agentgym.agents.walkthrough:make_walkthrough", "plays what was recorded with each task"
    ),
    "scripted": AgentEntry(
        "agentgym.agents.scripted:make_scripted", "plays the actions of a file (path=FILE)"
    ),
    "model": AgentEntry(
        "agentgym.training.policy.agent:make_model_agent",
        "a language model (path=FOLDER), asked as its agent.json says",
        facts="agentgym.training.policy.agent:model_facts",
    ),
    "human": AgentEntry("agentgym.agents.human:make_human", "asks you in the terminal"),
}
"""By name. An agent is imported when it is made."""


def check_agent(kind: str, options: Mapping[str, Any]) -> None:
    """Check that an agent exists and takes these options.

    Raises:
        UsageError: unknown agent or option, or a missing option.
    """
    if kind not in AGENTS:
        raise UsageError(f"unknown agent {kind!r}{nearest(kind, AGENTS)}; choose one of {', '.join(AGENTS)}")
    _, *parameters = inspect.signature(_factory(kind)).parameters.values()
    known = [parameter.name for parameter in parameters]
    for option in options:
        if option not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise UsageError(f"agent {kind!r} has no option {option!r}{nearest(option, known)}; {takes}")
    for parameter in parameters:
        if parameter.default is inspect.Parameter.empty and parameter.name not in options:
            raise UsageError(f"agent {kind!r} needs the option {parameter.name!r}: {AGENTS[kind].about}")


def make_agent(kind: str, envs: AgentVectorEnv, **options: Any) -> Policy:
    """Make an agent for an environment.

    Args:
        kind: a key of `AGENTS`.
        envs: the environment it will play.
        **options: the agent's own; ``scripted`` needs ``path``.

    Raises:
        UnsupportedEnvError: the agent does not play this environment.
        UsageError: unknown agent or option, or a missing option.
    """
    check_agent(kind, options)
    return _factory(kind)(envs, **options)


def load(reference: str) -> Callable[..., Any]:
    """Import the function that ``module:function`` names."""
    module, _, name = reference.partition(":")
    return cast(Callable[..., Any], getattr(import_module(module), name))


def _factory(kind: str) -> Callable[..., Policy]:
    return load(AGENTS[kind].factory)
