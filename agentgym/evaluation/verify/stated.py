"""Checks of a run's statements against its files and its suite, without opening any data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace

from agentgym.agents import AGENTS
from agentgym.agents.imported import IMPORTED
from agentgym.core.hashing import canonical_json, sha256_json
from agentgym.evaluation.log.results import EPISODES_FILE, RUN_FILE, RunEnv, new_run, result_id
from agentgym.evaluation.log.runfiles import check_chain, check_measures
from agentgym.evaluation.log.stored_run import StoredRun
from agentgym.evaluation.suites.agent_metadata import complete, contradictions, has_metadata
from agentgym.evaluation.suites.suite import Suite, SuiteAgent
from agentgym.evaluation.verify.verdicts import Mismatch


def repeatable(agent: SuiteAgent) -> bool:
    """Return whether verification lets an agent of this kind play again."""
    return agent.kind in AGENTS and AGENTS[agent.kind].repeatable


def check_agent(agent: SuiteAgent, suite: Suite) -> Iterator[Mismatch]:
    """Compare the agent that played with the suite's agent of that name, and with what its kind can be."""
    if agent.kind == IMPORTED and agent.options.get("mismatches"):
        count, first = agent.options["mismatches"], agent.options.get("first_mismatch")
        yield Mismatch("agent", agent.name, f"{count} of its log's values differ here: {first}")
    for listed in suite.agent:
        if has_metadata(listed.kind):  # the run may add metadata to the suite's agent
            seeds = (None, agent.model.training_seed)
            if listed.name == agent.name and listed.model.training_seed in seeds:
                for name, ours, theirs in contradictions(listed, agent):
                    yield Mismatch("agent", agent.name, f"{name} is {theirs!r}, in the suite {ours!r}")
            continue
        ours = complete(listed, suite.env)
        if ours.name == agent.name and ours.identity != agent.identity:
            yield Mismatch("agent", agent.name, "differs from the suite's agent of that name")
        elif ours.name != agent.name and replace(ours, name=agent.name).identity == agent.identity:
            yield Mismatch("agent", agent.name, f"is the suite's agent {ours.name!r} under another name")
    if repeatable(agent):
        plain = SuiteAgent(agent.name, agent.kind, agent.options)
        if plain.identity != agent.identity:
            yield Mismatch(
                "agent", agent.name, f"an agent {agent.kind!r} has no model, prompt, parser or sampling"
            )


def check_stated(run: StoredRun) -> Iterator[Mismatch]:
    """Compare digests, the suite's settings and the number of episodes, which needs no data."""
    log, suite = run.log, run.suite
    expected = new_run(suite, log.agent, map(RunEnv.of, suite.env))
    if log.request_id != sha256_json(log.request):
        yield Mismatch("request", RUN_FILE, "request_id does not follow from the request")
    if log.suite_sha256 != expected.suite_sha256 or log.suite != expected.suite:
        yield Mismatch("suite", RUN_FILE, f"made for another suite than {suite.name} {suite.version}")
    ours = {env.env.label: env for env in expected.envs}
    theirs = [env.env.label for env in log.envs]
    for env in log.envs:
        label, stated = env.env.label, replace(env, manifest_sha256="", answers=())
        if label not in ours:
            yield Mismatch("environment", label, "the suite has no such environment")
        elif canonical_json(asdict(stated)) != canonical_json(asdict(ours[label])):  # text: -0.0 equals 0.0
            yield Mismatch("environment", label, "specification differs from the suite's")
    if theirs != [label for label in ours if label in theirs]:
        yield Mismatch("environment", RUN_FILE, "environments are not in the suite's order, each once")
    for label in ours.keys() ^ {*theirs, *(gap.label for gap in log.left_out)}:
        yield Mismatch("environment", label, "neither played nor said to be left out, or unknown")
    yield from _check_files(run)
    counts = Counter(label for label, _, _ in {episode.key for episode in run.lines.samples})
    for label in (found.env.label for found in log.played):
        wanted = ours[label].env.count * suite.attempts if label in ours else 0
        if counts[label] < wanted:
            yield Mismatch("missing", label, f"{counts[label]:,} of {wanted:,} episodes are in the file")
    yield from check_agent(log.agent, suite)


def _check_files(run: StoredRun) -> Iterator[Mismatch]:
    log, lines = run.log, run.lines
    for number, problem in lines.malformed.items():
        yield Mismatch("malformed", f"{EPISODES_FILE} line {number}", problem)
    for problem in check_chain(log, lines):
        yield Mismatch("chain", EPISODES_FILE, problem)
    for problem in check_measures(lines.samples):
        yield Mismatch("malformed", EPISODES_FILE, problem)
    if log.result_id is None or log.episodes_sha256 is None or log.record_id is None:
        yield Mismatch("unfinished", RUN_FILE, "the run is not complete; run the same bench command again")
        return
    if log.episodes_sha256 != lines.sha256:
        yield Mismatch("file", EPISODES_FILE, "its sha256 is not the one in run.json")
    if log.result_id != result_id(log.request_id, lines.samples):
        yield Mismatch("result", RUN_FILE, "result_id does not follow from the episodes")
    if log.record_id != log.record_digest:
        yield Mismatch("record", RUN_FILE, "record_id does not follow from the rest of the file")
