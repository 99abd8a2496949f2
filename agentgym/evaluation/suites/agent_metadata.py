"""Agent metadata: a suite's claims about an agent, checked against the agent's files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from typing import Any, cast

from agentgym.agents.metadata import FILE_OPTIONS, AgentMetadata, Model
from agentgym.agents.table import AGENTS, check_agent
from agentgym.errors import UsageError
from agentgym.evaluation.suites.suite import PlayedEnv, SuiteAgent
from agentgym.io.hub import pinned
from agentgym.io.optional import load_reference


def has_metadata(kind: str) -> bool:
    """Return whether agents of a kind have metadata in their files.

    For an agent of another package only its reference and its options are known.
    """
    return kind in AGENTS and bool(AGENTS[kind].facts)


def complete(agent: SuiteAgent, environments: Iterable[PlayedEnv] = ()) -> SuiteAgent:
    """Fill in a suite's agent from its files: its version, and its description."""
    if not has_metadata(agent.kind):
        version = AGENTS[agent.kind].version if agent.kind in AGENTS else 0
        return replace(agent, options={"version": version, **agent.options}) if version else agent
    given = ((key, agent.options.get(key)) for key in FILE_OPTIONS)
    pins = {key: pinned(name) for key, name in given if isinstance(name, str)}
    agent = replace(agent, options={**agent.options, **pins})
    true = with_facts(agent, environments)
    for name, given, found in contradictions(agent, true):
        raise UsageError(
            f"agent {agent.name!r}: {name} is {given!r} in the suite, but {found!r} by its files"
        )
    return true


def with_facts(agent: SuiteAgent, environments: Iterable[PlayedEnv] = ()) -> SuiteAgent:
    """Return an agent of a kind that `has_metadata` as its files describe it, whatever the suite claims."""
    options = options_as_played(agent)
    check_agent(agent.kind, options)
    facts_of = cast(Callable[..., AgentMetadata], load_reference(AGENTS[agent.kind].facts))
    played = [(env.id, env.options) for env in environments]
    further = {"environments": played} if AGENTS[agent.kind].by_environment else {}
    facts = facts_of(**further, **options)
    model = {}
    for field in fields(Model):
        given, true = getattr(agent.model, field.name), getattr(facts.model, field.name)
        model[field.name] = given if true == field.default else true
    return replace(
        agent,
        sampling={**agent.sampling, **facts.sampling},
        parser=facts.parser,
        prompt_sha256=facts.prompt_sha256,
        model=Model(**model),
    )


def options_as_played(agent: SuiteAgent) -> dict[str, Any]:
    """Return an agent's options; ``history`` is ``all`` in runs from before it was an option."""
    given = {"history": "all"} if agent.sampling.get("history") == "all" else {}
    return {**given, **agent.options}


def contradictions(given: SuiteAgent, recorded: SuiteAgent) -> Iterator[tuple[str, Any, Any]]:
    """Yield contradictions between a suite's agent and a record: field, claimed value, recorded value.

    Fields that the suite leaves at their default do not count.
    """
    if given.kind != recorded.kind:
        yield "kind", given.kind, recorded.kind
    for key in sorted({*given.options, *recorded.options} - {*FILE_OPTIONS}):  # paths may differ
        ours, theirs = given.options.get(key), recorded.options.get(key)
        if ours != theirs:
            yield f"options.{key}", ours, theirs
    for key, value in given.sampling.items():
        if recorded.sampling.get(key) != value:
            yield f"sampling.{key}", value, recorded.sampling.get(key)
    for name in ("parser", "prompt_sha256"):
        ours, theirs = getattr(given, name), getattr(recorded, name)
        if ours not in ("", theirs):
            yield name, ours, theirs
    for field in fields(Model):
        ours, theirs = getattr(given.model, field.name), getattr(recorded.model, field.name)
        if ours not in (field.default, theirs):
            yield field.name, ours, theirs
