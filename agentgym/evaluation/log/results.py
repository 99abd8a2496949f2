"""Records of a run: ``run.json``, the request, and ``episodes.jsonl``, the results.

Lines of ``episodes.jsonl`` are chained: each holds the sha256 of the line before it, the first one the
request's. An episode that is played again after an error keeps its earlier line; the last one counts.

Fields whose metadata say ``stated`` are the submitter's word: neither a replay nor a digest proves them. They
are shown as such, and no rank depends on them.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from agentgym.core.arrays import sum_in_order
from agentgym.core.hashing import HashChain, canonical_json, sha256_json
from agentgym.core.types import EndReason, Trajectory
from agentgym.evaluation.log.recorded_answers import AnswerPin
from agentgym.evaluation.suites.suite import PlayedEnv, Suite, SuiteAgent, SuiteEnv
from agentgym.io.provenance import Provenance

SCHEMA = 5
"""Version of the two files' format; files of version 4, which are read too, have no `state_schemas`."""

REQUEST_SCHEMA = 1
"""Version of the JSON whose digest is the request id."""

RUN_FILE = "run.json"
EPISODES_FILE = "episodes.jsonl"
VERIFY_FILE = "verify.json"

ABORTED: tuple[EndReason, ...] = ("context_limit", "parse_error", "agent_error", "env_error")
"""End reasons without a result: the episode counts with score 0, and with measures from
`agentgym.core.suite_spec.SuiteSpec.counted`."""

RETRIED: tuple[EndReason, ...] = ("agent_error", "env_error")
"""End reasons that are a machine's fault: a resumed run repeats these episodes."""

_UNREPEATABLE = ("env_seconds", "model_seconds", "attempt", "previous", "format_errors", "transcript")
"""Keys of an episode that differ between equal runs, or describe its recording."""

AGENT = "agent"
"""Name for the agent in `RunEndpoint.asked_by`, in place of an environment's label."""

STATED = {"stated": True}
"""Metadata of fields that the submitter claims; ``stated_among`` lists the values for which that holds."""


EpisodeKey: TypeAlias = tuple[str, str, int]
"""Environment's label, task id and rollout: unique within a run except for repeated attempts."""


@dataclass(frozen=True, slots=True)
class EvalSample:
    """One episode: enough to play it again and to see that it comes out the same."""

    env: str
    """Label of the environment in the suite."""
    task_id: str
    task_type: str
    seed: int
    rollout: int
    actions: tuple[str, ...]
    """Actions sent to the environment, T of them."""
    rewards: tuple[float, ...]
    """Rewards of the T steps."""
    hash_chain: tuple[str, ...]
    """Links of the hash chain, T + 1 of them, see `agentgym.core.hashing.HashChain`."""
    episode_return: float
    score: float
    won: bool
    progress: float
    length: int
    """Number of steps, T."""
    invalid_count: int
    end_reason: EndReason = field(metadata={"stated_among": ABORTED})
    """Reason for the end; among those of `ABORTED`, the submitter claims it."""
    prompt_tokens: int = field(metadata=STATED)
    completion_tokens: int = field(metadata=STATED)
    env_seconds: float = field(metadata=STATED)
    model_seconds: float = field(metadata=STATED)
    cost: float = field(metadata=STATED)
    """Cost in US dollars."""
    attempt: int = 1
    """Number of the attempt, from 1; the earlier ones ended for a reason of `RETRIED`."""
    previous: str = ""
    """sha256 of the previous line; in the first line the request id."""
    format_errors: int = field(default=0, metadata=STATED)
    """Number of responses that the parser could not read."""
    transcript: str = ""
    """sha256 of the episode's line in ``transcripts.jsonl``; empty without one."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """Measures of the environment at the end, by name: where an error ended the episode the worse bound,
    except that costs are the actual ones."""

    @property
    def key(self) -> EpisodeKey:
        """Environment, task and rollout: unique within a run."""
        return self.env, self.task_id, self.rollout

    @property
    def id(self) -> str:
        """The key as one word, for the command line."""
        return f"{self.env}/{self.task_id}/{self.rollout}"

    @property
    def repeatable(self) -> dict[str, Any]:
        """Fields that an equal run repeats, as JSON: all but timings."""
        return {key: getattr(self, key) for key in _SAMPLE_FIELDS if key not in _UNREPEATABLE}

    @property
    def line(self) -> str:
        """JSON on one line."""
        return canonical_json({key: getattr(self, key) for key in _SAMPLE_FIELDS})

    def measured_as(self, other: EvalSample) -> EvalSample:
        """Return this episode with those measures only that another record of it names.

        A run keeps the measures that its environment had when it was played; later ones are not held
        against it.
        """
        shared = {name: value for name, value in self.measures.items() if name in other.measures}
        return replace(self, measures=shared)

    @property
    def line_sha256(self) -> str:
        """The next line's `previous`."""
        return hashlib.sha256(self.line.encode()).hexdigest()


_SAMPLE_FIELDS = tuple(each.name for each in fields(EvalSample))


@dataclass(frozen=True, slots=True)
class RunEnv:
    """An environment as it was found when the run began."""

    env: PlayedEnv
    spec: str
    """Id and options as JSON, `PlayedEnv.spec`."""
    manifest_sha256: str
    """Digest of the manifest, which fixes the task ids of the split."""
    answers: tuple[AnswerPin, ...] = ()
    """Backends that answer the environment's queries, unless the package itself does."""

    @classmethod
    def of(cls, env: SuiteEnv, manifest_sha256: str = "", answers: tuple[AnswerPin, ...] = ()) -> RunEnv:
        """Return an environment of a suite, with what was found of its tasks and its answer sources."""
        return cls(env.played, env.spec, manifest_sha256, answers)

    @property
    def request(self) -> dict[str, Any]:
        """JSON that the request id covers; ``answers`` only where there are any."""
        table = asdict(self)
        if not self.answers:
            del table["answers"]
        return table


@dataclass(frozen=True, slots=True)
class Excluded:
    """An environment of the suite without episodes: its data is missing, or the agent does not play it."""

    label: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunEndpoint:
    """A model behind a run's endpoint, and the capabilities of its server."""

    url: str
    """Address without credentials."""
    model: str
    """Name of the model on the server."""
    asked_by: tuple[str, ...]
    """Users of the endpoint: `AGENT`, or an environment's label and backend, such as ``SOTOPIA: judge``."""
    probe: Mapping[str, Any]
    """Table of the `agentgym.endpoint.EndpointProbe`; empty where the cache answered everything."""


@dataclass(frozen=True, slots=True)
class EvalSpec:
    """The suite's own settings, as in `Suite.header`."""

    name: str
    version: str
    seed: int
    attempts: int
    floor: str
    oracle: str


@dataclass(frozen=True, slots=True)
class EvalLog:
    """Content of ``run.json``: one agent over a whole suite."""

    schema: int
    request_id: str
    """sha256 of the request: suite, environments, manifests, agent. It names the folder."""
    result_id: str | None
    """sha256 of the request id and each result without timings; None until the run is complete."""
    episodes_sha256: str | None
    """sha256 of the complete ``episodes.jsonl``."""
    suite: EvalSpec
    suite_sha256: str
    envs: tuple[RunEnv, ...]
    left_out: tuple[Excluded, ...]
    """Environments without episodes: those absent from `envs` lack data here, the others the agent does not
    play."""
    agent: SuiteAgent = field(metadata=STATED)
    """Agent of the run: verified only where verification lets the agent play again."""
    provenance: tuple[Provenance, ...] = field(metadata=STATED)
    """Machines and versions that played a part of it, in order."""
    transcripts_sha256: str | None = None
    """sha256 of the complete ``transcripts.jsonl``; None without one."""
    answers_sha256: str | None = None
    """sha256 of the complete ``answers.jsonl``; None without one."""
    endpoints: tuple[RunEndpoint, ...] = field(default=(), metadata=STATED)
    """Models behind endpoints that the agent or environments use."""
    state_schemas: Mapping[str, int] = field(default_factory=dict)
    """Versions of the state hashes, `AgentEnv.state_schema`, by environment's label; 1 where absent."""
    record_id: str | None = None
    """sha256 of all other fields of this file, and so of every line, attempt, date and version; None
    until the run is complete."""

    @property
    def request(self) -> dict[str, Any]:
        """JSON that `request_id` is the sha256 of."""
        return {**self.comparison_key, "agent": self.agent.identity}

    @property
    def comparison_key(self) -> dict[str, Any]:
        """JSON of what runs must share to be compared: suite, environments, tasks and seeds."""
        return {
            "schema": REQUEST_SCHEMA,
            "suite": asdict(self.suite),
            "suite_sha256": self.suite_sha256,
            "envs": [env.request for env in self.envs],
        }

    @property
    def asks(self) -> bool:
        """Whether episodes rest on answers from outside the package."""
        return any(env.answers for env in self.envs)

    @property
    def asks_endpoint(self) -> bool:
        """Whether the agent's model is behind an endpoint."""
        return any(AGENT in endpoint.asked_by for endpoint in self.endpoints)

    @property
    def unsupported(self) -> tuple[Excluded, ...]:
        """Environments with data that the agent does not play."""
        found = {env.env.label for env in self.envs}
        return tuple(gap for gap in self.left_out if gap.label in found)

    @property
    def missing(self) -> tuple[Excluded, ...]:
        """Environments whose data was missing."""
        found = {env.env.label for env in self.envs}
        return tuple(gap for gap in self.left_out if gap.label not in found)

    @property
    def played(self) -> tuple[RunEnv, ...]:
        """The environments that have episodes."""
        labels = {gap.label for gap in self.left_out}
        return tuple(env for env in self.envs if env.env.label not in labels)

    @property
    def folder_name(self) -> str:
        """Its folder within the results of its suite."""
        return f"{self.agent.display_name}-{self.request_id[:12]}"

    @property
    def text(self) -> str:
        """The file's content."""
        return json.dumps(self._table, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @property
    def record_digest(self) -> str:
        """The expected `record_id`."""
        return sha256_json({**self._table, "record_id": None})

    @property
    def _table(self) -> dict[str, Any]:
        lacking = "state_schemas" if self.schema == 4 else ""
        return {key: value for key, value in asdict(self).items() if key != lacking}


def new_run(
    suite: Suite,
    agent: SuiteAgent,
    envs: Iterable[RunEnv],
    left_out: Iterable[Excluded] = (),
    provenance: tuple[Provenance, ...] = (),
    schemas: Mapping[str, int] = MappingProxyType({}),
) -> EvalLog:
    """Return the record of a run that begins now.

    ``envs``: the environments at hand; ``left_out``: the others, and those that the agent does not play;
    ``schemas``: versions of their state hashes.
    """
    draft = EvalLog(
        schema=SCHEMA,
        request_id="",
        result_id=None,
        episodes_sha256=None,
        suite=EvalSpec(**suite.header),
        suite_sha256=suite.sha256,
        envs=tuple(envs),
        left_out=tuple(left_out),
        agent=agent,
        provenance=provenance,
        state_schemas=dict(schemas),
    )
    return replace(draft, request_id=sha256_json(draft.request))


def record_of(trajectory: Trajectory, env: PlayedEnv) -> EvalSample:
    """Return the record of a trajectory, with the measures it holds, played in an environment of a suite."""
    chain = HashChain(
        env.spec, trajectory.task_id, trajectory.seed, trajectory.rollout, trajectory.initial_hash
    )
    for step in trajectory.steps:
        chain.extend(step.next_state_hash, step.action, step.reward, step.terminated, step.truncated)
    aborted = trajectory.end_reason in ABORTED
    completions = trajectory.completions
    return EvalSample(
        env=env.label,
        task_id=trajectory.task_id,
        task_type=trajectory.task_type,
        seed=trajectory.seed,
        rollout=trajectory.rollout,
        actions=tuple(step.action for step in trajectory.steps),
        rewards=tuple(float(step.reward) for step in trajectory.steps),
        hash_chain=tuple(chain.links),
        episode_return=float(trajectory.episode_return),
        score=0.0 if aborted else float(trajectory.score),
        won=not aborted and bool(trajectory.won),
        progress=0.0 if aborted else float(trajectory.progress),
        length=len(trajectory.steps),
        invalid_count=trajectory.invalid_count,
        end_reason=trajectory.end_reason,
        prompt_tokens=sum(c.prompt_tokens for c in completions),
        completion_tokens=sum(c.completion_tokens for c in completions),
        env_seconds=trajectory.env_seconds,
        model_seconds=trajectory.model_seconds,
        cost=sum_in_order(c.cost for c in completions),
        format_errors=sum(c.format_error != "" for c in completions),
        measures=dict(trajectory.measures),
    )


def closed(
    run: EvalLog,
    episodes: Sequence[EvalSample],
    transcripts_sha256: str | None,
    answers_sha256: str | None = None,
    episodes_sha256: str | None = None,
) -> EvalLog:
    """Return the record of a complete run, with every digest; None has that of the episodes computed."""
    complete = replace(
        run,
        result_id=result_id(run.request_id, episodes),
        episodes_sha256=episodes_sha256 or hashlib.sha256(episode_lines(episodes)).hexdigest(),
        transcripts_sha256=transcripts_sha256,
        answers_sha256=answers_sha256,
    )
    return replace(complete, record_id=complete.record_digest)


def reopened(run: EvalLog) -> EvalLog:
    """Return the record of a run that is played further."""
    return replace(
        run,
        result_id=None,
        episodes_sha256=None,
        transcripts_sha256=None,
        answers_sha256=None,
        record_id=None,
    )


def episode_lines(episodes: Iterable[EvalSample]) -> bytes:
    """Return the content of ``episodes.jsonl``."""
    return "".join(f"{episode.line}\n" for episode in episodes).encode()


def chained(request_id: str, episodes: Iterable[EvalSample]) -> list[EvalSample]:
    """Number the attempts of episodes and chain their lines, in the order given."""
    linked: list[EvalSample] = []
    attempts: Counter[EpisodeKey] = Counter()
    previous = request_id
    for episode in episodes:
        attempts[episode.key] += 1
        linked.append(replace(episode, attempt=attempts[episode.key], previous=previous))
        previous = linked[-1].line_sha256
    return linked


def latest(episodes: Iterable[EvalSample]) -> list[EvalSample]:
    """Return the records that count: of every episode its last attempt."""
    return list({episode.key: episode for episode in episodes}.values())


def result_id(request_id: str, episodes: Iterable[EvalSample]) -> str:
    """Return the sha256 of a request and what counts of its episodes, by their keys, without timings."""
    ordered = sorted(latest(episodes), key=lambda episode: episode.key)
    return sha256_json([request_id, [episode.repeatable for episode in ordered]])
