"""Registry of agents: names for suites and the command line, and entry points of other packages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from agentgym.agents.rules import RULES_VERSION
from agentgym.core.options import check_choice, options_of
from agentgym.core.types import Policy
from agentgym.env import AgentEnv
from agentgym.errors import UnsupportedEnvError, UsageError, nearest
from agentgym.io.optional import load_plugin, load_reference, plugins
from agentgym.vector.core import AgentVectorEnv

ENTRY_POINTS = "agentgym.agents"
"""Group of the entry points by which other packages add agents."""

_VARIADIC = inspect.Parameter.VAR_POSITIONAL
_ANY_OPTION = inspect.Parameter.VAR_KEYWORD
_KEYWORDS = (inspect.Parameter.KEYWORD_ONLY, _ANY_OPTION)


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """One line of `AGENTS`."""

    factory: str
    """``module:function``; the function takes the environment and the agent's options."""
    about: str
    """Description for ``--help``, one line."""
    facts: str = ""
    """``module:function`` that takes the agent's options and returns what its files say about it, an
    `agentgym.agents.metadata.AgentMetadata`; empty where there are no such files."""
    by_environment: bool = False
    """Whether ``facts`` also takes ``environments``, ids and options of those that are played: its prompts
    have their words."""
    check: str = ""
    """``module:function`` that takes the environment and the agent's options and returns what recomputes its
    responses, an `agentgym.evaluation.verify.model_check.ResponseChecker`; empty where the weights are not
    open."""
    unplayable: str = ""
    """``module:function`` that takes an environment and the sampling that a run states, and raises an
    `UnsupportedEnvError` where agents of this kind do not play it; empty where they play all, or are
    `repeatable` and so made to find out."""
    version: int = 0
    """Version of the agent, which its runs record as the option ``version``, so that those of different
    versions differ; 0 for an agent that has none."""
    repeatable: bool = False
    """Whether what it does follows from the environment, the task and the episode's seed alone: verification
    lets it play again, and nothing else can pass for it."""
    sequential: bool = False
    """Whether it learns from earlier attempts at a task: rollout k is played when those before have ended,
    which it is told (`agentgym.core.types.EpisodeListener`), and is won where one of the first k + 1 is."""


AGENTS: Mapping[str, AgentEntry] = {
    "random": AgentEntry(
        "agentgym.agents.random:make_random", "uniform over the admissible actions", repeatable=True
    ),
    "random-strings": AgentEntry(
        "agentgym.agents.random:make_random_strings", "any Unicode; a fuzz test", repeatable=True
    ),
    "oracle": AgentEntry(
        "agentgym.agents.oracle:make_oracle", "the environment's solver or gold policy", repeatable=True
    ),
    "shopper": AgentEntry(
        "agentgym.envs.webshop.rules:make_shopper",
        "shops by rule: search, open the first hit, choose, buy",
        repeatable=True,
    ),
    "rules": AgentEntry(
        "agentgym.agents.rules:make_rules",
        "the environment's rule-based baseline",
        version=RULES_VERSION,
        repeatable=True,
    ),
    "walkthrough": AgentEntry(
        "agentgym.agents.walkthrough:make_walkthrough",
        "plays the walkthrough recorded with each task",
        repeatable=True,
    ),
    "scripted": AgentEntry(
        "agentgym.agents.scripted:make_scripted", "plays the actions of a file (path=FILE)"
    ),
    "model": AgentEntry(
        "agentgym.inference.policy.agent:make_model_agent",
        "a language model (path=FOLDER), prompted as its agent.json says",
        facts="agentgym.inference.policy.agent:model_facts",
        check="agentgym.inference.policy.recomputation:open_checker",
        unplayable="agentgym.agents.table:refuse_slots",
    ),
    "prompting": AgentEntry(
        "agentgym.agents.language.making:make_prompting",
        "a language model behind an endpoint (endpoint=URL, model=NAME), a new prompt every turn",
        facts="agentgym.agents.language.making:prompting_facts",
        by_environment=True,
    ),
    "react": AgentEntry(
        "agentgym.agents.language.making:make_react",
        "the same, with a thought and an action every turn, in one conversation",
        facts="agentgym.agents.language.making:react_facts",
        by_environment=True,
    ),
    "reflexion": AgentEntry(
        "agentgym.agents.language.making:make_reflexion",
        "react, with reflections passed on between the attempts at a task",
        facts="agentgym.agents.language.making:reflexion_facts",
        by_environment=True,
        unplayable="agentgym.agents.table:refuse_sides",
        sequential=True,
    ),
    "imported": AgentEntry(
        "agentgym.agents.imported:make_imported",
        "somebody else's run, from its log (`agentgym import`); plays nothing",
    ),
    "human": AgentEntry("agentgym.agents.human:make_human", "you, in the terminal; not for suites"),
}
"""Agents by name. An agent's module is imported when the agent is made."""


def find_agent(kind: str) -> Callable[..., Policy]:
    """Return the function that makes an agent: ``function(envs, **options) -> Policy``. It imports the agent.

    ``kind``: a key of `AGENTS`, ``module:function``, or a name that an installed package declares as an entry
    point of the group ``agentgym.agents``.
    """
    if kind in AGENTS:
        return cast(Callable[..., Policy], load_reference(AGENTS[kind].factory))
    added = plugins(ENTRY_POINTS)
    if ":" in kind:
        factory = load_reference(kind, option=True)
    elif kind in added:
        factory = load_plugin(added[kind])
    else:
        check_choice("agent", kind, (*AGENTS, *added), ", or write module:function")
    if not callable(factory):
        raise UsageError(
            f"agent {kind!r} is not callable: name a function that takes the vector environment and the "
            "agent's options, and returns a Policy"
        )
    return cast(Callable[..., Policy], factory)


def check_agent(kind: str, options: Mapping[str, Any]) -> None:
    """Check that an agent exists and takes these options, by name and by annotated type."""
    factory = find_agent(kind)
    try:
        parameters = list(inspect.signature(factory).parameters.values())
    except ValueError:  # a builtin has none
        parameters = []
    if not parameters or parameters[0].kind in _KEYWORDS:
        raise UsageError(f"agent {kind!r} takes no vector environment: make it the first parameter")
    parameters = [parameter for parameter in parameters[1:] if parameter.kind is not _VARIADIC]
    known = [parameter.name for parameter in parameters if parameter.kind is not _ANY_OPTION]
    declared = options_of(factory, lenient=True)
    for option, value in options.items():
        if option not in known and len(known) == len(parameters):
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise UsageError(f"agent {kind!r} has no option {option!r}{nearest(option, known)}; {takes}")
        if option in known:
            declared[option].check(value, f"agent {kind!r}: option ")
    about = f": {AGENTS[kind].about}" if kind in AGENTS else ""
    for parameter in parameters:
        needed = parameter.default is parameter.empty and parameter.kind is not _ANY_OPTION
        if needed and parameter.name not in options:
            raise UsageError(f"agent {kind!r} needs the option {parameter.name!r}{about}")


def make_agent(kind: str, envs: AgentVectorEnv, **options: Any) -> Policy:
    """Make an agent for an environment.

    Args:
        kind: name of the agent, as `find_agent` takes it.
        envs: the environment it will play.
        **options: the agent's own; ``scripted`` needs ``path``.

    Raises:
        UnsupportedEnvError: the agent does not play this environment.
        UsageError: unknown agent or option, a missing option, or what was made is no `Policy`.
    """
    check_agent(kind, options)
    policy: object = find_agent(kind)(envs, **options)
    if not isinstance(policy, Policy):
        raise UsageError(
            f"agent {kind!r} returned {type(policy).__name__}, not a Policy: return an object whose method "
            "act(requests) answers each request with a Completion"
        )
    return policy


def refuse_slots(game: AgentEnv[Any], sampling: Mapping[str, Any]) -> None:
    """Refuse, for the choice ``constrained``, an environment whose actions are typed in part."""
    if sampling.get("choice") == "constrained" and game.action_kind == "template":
        raise UnsupportedEnvError(
            f"actions of {type(game).__name__} have free slots, so there is nothing to "
            "choose among: use choice 'free'"
        )


def refuse_sides(game: AgentEnv[Any], sampling: Mapping[str, Any]) -> None:
    """Refuse, for ``reflexion``, an environment with several sides."""
    if game.sides > 1:
        raise UnsupportedEnvError(
            f"reflexion has one memory for a task, and {game.suite!r} is played from both sides, whose goals "
            "are private: name the agent 'react', or mode='partner'"
        )
