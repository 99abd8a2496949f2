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
from typing import Any, TypeAlias

from agentgym.core.hashing import HashChain, canonical_json, sha256_json
from agentgym.core.types import EndReason, Trajectory
from agentgym.evaluation.log.recorded_answers import AnswerPin
from agentgym.evaluation.suites.suite import PlayedEnv, Suite, SuiteAgent, SuiteEnv
from agentgym.io.provenance import Provenance

SCHEMA = 4
"""Version of the two files' format."""

REQUEST_SCHEMA = 1
"""Version of the JSON that request ids are digests of."""

RUN_FILE = "run.json"
EPISODES_FILE = "episodes.jsonl"
VERIFY_FILE = "verify.json"

ABORTED: tuple[EndReason, ...] = ("context_limit", "parse_error", "agent_error", "env_error")
"""Ends without a result: the episode stays in the denominator with score 0, its measures as
`agentgym.core.suite_spec.SuiteSpec.counted` has them."""

RETRIED: tuple[EndReason, ...] = ("agent_error", "env_error")
"""Ends that are a machine's fault: a resumed run plays these episodes again."""

_UNREPEATABLE = ("env_seconds", "model_seconds", "attempt", "previous", "format_errors", "transcript")
"""Keys of an episode that differ between equal runs, or tell how it was recorded."""

AGENT = "agent"
"""What asks an endpoint, where no environment does."""

STATED = {"stated": True}
"""Metadata of fields that are the submitter's word; ``stated_among`` has the values among which one is."""


EpisodeKey: TypeAlias = tuple[str, str, int]
"""Environment's label, task id and rollout: unique within a run but for attempts."""


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
    """The T actions sent to the environment."""
    rewards: tuple[float, ...]
    """The T rewards."""
    hash_chain: tuple[str, ...]
    """T + 1 links, see `agentgym.core.hashing.HashChain`."""
    episode_return: float
    score: float
    won: bool
    progress: float
    length: int
    """T."""
    invalid_count: int
    end_reason: EndReason = field(metadata={"stated_among": ABORTED})
    """Which of `ABORTED` it is, is the submitter's word."""
    prompt_tokens: int = field(metadata=STATED)
    completion_tokens: int = field(metadata=STATED)
    env_seconds: float = field(metadata=STATED)
    model_seconds: float = field(metadata=STATED)
    cost: float = field(metadata=STATED)
    """US dollars."""
    attempt: int = 1
    """1 for the first line of this episode; earlier ones ended for a reason of `RETRIED`."""
    previous: str = ""
    """sha256 of the line before, of the first line the request id."""
    format_errors: int = field(default=0, metadata=STATED)
    """Responses that the parser could not read."""
    transcript: str = ""
    """sha256 of the episode's line in ``transcripts.jsonl``; empty without one."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """The environment's measures at the end, by name: where an error ended it the worse bound, but what was
    spent as it was spent."""

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
        """JSON of what an equal run would repeat: all but timings."""
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
    """`PlayedEnv.spec`: id and options as JSON."""
    manifest_sha256: str
    """Pins the task ids of the split."""
    answers: tuple[AnswerPin, ...] = ()
    """What answers the environment's questions, where the package itself does not."""

    @property
    def request(self) -> dict[str, Any]:
        """JSON that the request id covers: without answers where there are none."""
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
    """Without credentials."""
    model: str
    """As the server names it."""
    asked_by: tuple[str, ...]
    """`AGENT`, or the label of an environment and what asks there, such as ``SOTOPIA: judge``."""
    probe: Mapping[str, Any]
    """`agentgym.endpoint.EndpointProbe` as a table; empty where nothing was asked but the cache."""


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
    """sha256 of the request: suite, environments, manifests, agent. Names the folder."""
    result_id: str | None
    """sha256 of the request id and each episode's result without timings; None until the run is complete."""
    episodes_sha256: str | None
    """sha256 of the complete ``episodes.jsonl``."""
    suite: EvalSpec
    suite_sha256: str
    envs: tuple[RunEnv, ...]
    left_out: tuple[Excluded, ...]
    """Environments without episodes: of those that are not in `envs` the data was missing, those that are the
    agent does not play."""
    agent: SuiteAgent = field(metadata=STATED)
    """Who played: proven only where verification lets the agent play again."""
    provenance: tuple[Provenance, ...] = field(metadata=STATED)
    """Every machine and version that played a part of it, in order."""
    transcripts_sha256: str | None = None
    """sha256 of the complete ``transcripts.jsonl``; None without one."""
    answers_sha256: str | None = None
    """sha256 of the complete ``answers.jsonl``; None without one."""
    endpoints: tuple[RunEndpoint, ...] = field(default=(), metadata=STATED)
    """Models behind endpoints that were asked, by the agent and by environments."""
    record_id: str | None = None
    """sha256 of all else in this file, so of every line, attempt, date and version; None until the run is
    complete."""

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
        """The environments at hand that the agent does not play."""
        found = {env.env.label for env in self.envs}
        return tuple(gap for gap in self.left_out if gap.label in found)

    @property
    def missing(self) -> tuple[Excluded, ...]:
        """The environments that were not at hand."""
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
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @property
    def record_digest(self) -> str:
        """The expected `record_id`."""
        return sha256_json({**asdict(self), "record_id": None})


def new_run(
    suite: Suite,
    agent: SuiteAgent,
    envs: Iterable[tuple[SuiteEnv, str, tuple[AnswerPin, ...]]],
    left_out: Iterable[Excluded] = (),
    provenance: tuple[Provenance, ...] = (),
) -> EvalLog:
    """Return the record of a run that begins now.

    ``envs``: the environments at hand, each with the sha256 of its split's manifest and its answer sources;
    ``left_out``: the others, and those that the agent does not play.
    """
    found = tuple(RunEnv(env.played, env.spec, manifest, answers) for env, manifest, answers in envs)
    draft = EvalLog(
        schema=SCHEMA,
        request_id="",
        result_id=None,
        episodes_sha256=None,
        suite=EvalSpec(**suite.header),
        suite_sha256=suite.sha256,
        envs=found,
        left_out=tuple(left_out),
        agent=agent,
        provenance=provenance,
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
        cost=float(sum(c.cost for c in completions)),
        format_errors=sum(c.format_error != "" for c in completions),
        measures=dict(trajectory.measures),
    )


def closed(
    run: EvalLog,
    episodes: Sequence[EvalSample],
    transcripts_sha256: str | None,
    answers_sha256: str | None = None,
) -> EvalLog:
    """Return the record of a complete run, with every digest."""
    complete = replace(
        run,
        result_id=result_id(run.request_id, episodes),
        episodes_sha256=hashlib.sha256(episode_lines(episodes)).hexdigest(),
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
