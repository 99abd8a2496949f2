"""The agents that suites and the command line know by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from agentgym.tasks import nearest
from agentgym.types import Policy, UsageError
from agentgym.vector.core import AgentVectorEnv


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """One line of `AGENTS`."""

    factory: str
    """``module:function``; the function takes the environment and the agent's options."""
    about: str
    """One line for ``--help``."""


AGENTS: Mapping[str, AgentEntry] = {
    "random": AgentEntry("agentgym.agents.random:make_random", "uniform over the admissible actions"),
    "random-strings": AgentEntry("agentgym.agents.random:make_random_strings", "any Unicode; a fuzz test"),
    "oracle": AgentEntry("agentgym.agents.oracle:make_oracle", "the environment's solver or gold policy"),
    "scripted": AgentEntry(
        "agentgym.agents.scripted:make_scripted", "plays the actions of a file (path=FILE)"
    ),
    "human": AgentEntry("agentgym.agents.human:make_human", "asks you in the terminal"),
}
"""By name. An agent is imported when it is made."""


def make_agent(kind: str, envs: AgentVectorEnv, **options: Any) -> Policy:
    """Make an agent for an environment.

    Args:
        kind: a key of `AGENTS`.
        envs: the environment it will play.
        **options: the agent's own; ``scripted`` needs ``path``.

    Raises:
        UsageError: unknown agent or option, or a missing option.
    """
    if kind not in AGENTS:
        raise UsageError(f"unknown agent {kind!r}{nearest(kind, AGENTS)}; choose one of {', '.join(AGENTS)}")
    module, _, name = AGENTS[kind].factory.partition(":")
    factory = getattr(import_module(module), name)
    known = list(inspect.signature(factory).parameters)[1:]
    for option in options:
        if option not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise UsageError(f"agent {kind!r} has no option {option!r}{nearest(option, known)}; {takes}")
    for option, parameter in list(inspect.signature(factory).parameters.items())[1:]:
        if parameter.default is inspect.Parameter.empty and option not in options:
            raise UsageError(f"agent {kind!r} needs the option {option!r}: {AGENTS[kind].about}")
    return cast(Policy, factory(envs, **options))
