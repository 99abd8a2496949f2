"""The files of a run: ``run.json`` says what was asked, ``episodes.jsonl`` what happened."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agentgym.errors import UsageError, nearest
from agentgym.evaluation.suite import Suite, SuiteAgent, SuiteEnv
from agentgym.files import replace_file
from agentgym.hashing import HashChain, canonical_json, sha256_json
from agentgym.provenance import Provenance
from agentgym.records import parse
from agentgym.types import EndReason, Trajectory

SCHEMA = 1
"""Version of the two files' format."""

RUN_FILE = "run.json"
EPISODES_FILE = "episodes.jsonl"
VERIFY_FILE = "verify.json"

ABORTED: tuple[EndReason, ...] = ("context_limit", "parse_error", "agent_error", "env_error")
"""Ends without a result: the episode stays in the denominator with score 0."""

RETRIED: tuple[EndReason, ...] = ("agent_error", "env_error")
"""Ends that are a machine's fault: a resumed run plays these episodes again."""

_UNREPEATABLE = ("env_seconds", "model_seconds")
"""Keys of an episode that differ between equal runs."""

_SPENT = ("prompt_tokens", "completion_tokens", "env_seconds", "model_seconds", "cost")
"""Keys of an episode that no replay can check, so that at least they must be possible."""

_MOST_SPENT = 1e15
"""No episode spends more of anything; sums of such numbers stay exact."""


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
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
    """T + 1 links, see `agentgym.hashing.HashChain`."""
    episode_return: float
    score: float
    won: bool
    progress: float
    length: int
    """T."""
    invalid_count: int
    end_reason: EndReason
    prompt_tokens: int
    completion_tokens: int
    env_seconds: float
    model_seconds: float
    cost: float
    """US dollars."""

    @property
    def key(self) -> tuple[str, str, int]:
        """Environment, task and rollout: unique within a run."""
        return self.env, self.task_id, self.rollout

    @property
    def id(self) -> str:
        """The key as one word, for the command line."""
        return f"{self.env}/{self.task_id}/{self.rollout}"

    @property
    def repeatable(self) -> dict[str, Any]:
        """JSON of what an equal run would repeat: all but timings."""
        table = asdict(self)
        for key in _UNREPEATABLE:
            del table[key]
        return table

    @property
    def line(self) -> str:
        """JSON on one line."""
        return canonical_json(asdict(self))


@dataclass(frozen=True, slots=True)
class RunEnv:
    """An environment as it was found when the run began."""

    env: SuiteEnv
    spec: str
    """`SuiteEnv.spec`: id and options as JSON."""
    manifest_sha256: str
    """Pins the task ids of the split."""


@dataclass(frozen=True, slots=True)
class Excluded:
    """An environment of the suite without episodes: its data is missing, or the agent does not play it."""

    label: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunHeader:
    """The suite's own settings, as in `Suite.header`."""

    name: str
    version: str
    seed: int
    attempts: int
    floor: str
    oracle: str


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What ``run.json`` holds: one agent over a whole suite."""

    schema: int
    request_id: str
    """sha256 of the request: suite, environments, manifests, agent. Names the folder."""
    result_id: str | None
    """sha256 of the request id and all episodes without timings; None until the run is complete."""
    episodes_sha256: str | None
    """sha256 of the complete ``episodes.jsonl``."""
    suite: RunHeader
    suite_sha256: str
    envs: tuple[RunEnv, ...]
    left_out: tuple[Excluded, ...]
    """Environments without episodes: of those that are not in `envs` the data was missing, those that are the
    agent does not play."""
    agent: SuiteAgent
    provenance: tuple[Provenance, ...]
    """Every machine and version that played a part of it, in order."""

    @property
    def request(self) -> dict[str, Any]:
        """JSON that `request_id` is the sha256 of."""
        return {**self.arena, "agent": self.agent.identity}

    @property
    def arena(self) -> dict[str, Any]:
        """JSON of what runs must share to be compared: suite, environments, tasks and seeds."""
        return {
            "schema": self.schema,
            "suite": asdict(self.suite),
            "suite_sha256": self.suite_sha256,
            "envs": [asdict(env) for env in self.envs],
        }

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
        """Where it lives within the results of its suite."""
        return f"{self.agent.display_name}-{self.request_id[:12]}"

    @property
    def text(self) -> str:
        """The file's content."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def new_run(
    suite: Suite,
    agent: SuiteAgent,
    envs: Iterable[tuple[SuiteEnv, str]],
    left_out: Iterable[Excluded] = (),
    provenance: tuple[Provenance, ...] = (),
) -> RunRecord:
    """Return the record of a run that begins now.

    Args:
        suite: what is played.
        agent: who plays.
        envs: the environments at hand, each with the sha256 of its split's manifest.
        left_out: the others, and those at hand that the agent does not play.
        provenance: where it is played.
    """
    found = tuple(RunEnv(env, env.spec, manifest) for env, manifest in envs)
    draft = RunRecord(
        schema=SCHEMA,
        request_id="",
        result_id=None,
        episodes_sha256=None,
        suite=RunHeader(**suite.header),
        suite_sha256=suite.sha256,
        envs=found,
        left_out=tuple(left_out),
        agent=agent,
        provenance=provenance,
    )
    return replace(draft, request_id=sha256_json(draft.request))


def record_of(trajectory: Trajectory, env: SuiteEnv) -> EpisodeRecord:
    """Return the record of a trajectory played in an environment of a suite."""
    chain = HashChain(
        env.spec, trajectory.task_id, trajectory.seed, trajectory.rollout, trajectory.initial_hash
    )
    for step in trajectory.steps:
        chain.extend(step.next_state_hash, step.action, step.reward, step.terminated, step.truncated)
    aborted = trajectory.end_reason in ABORTED
    completions = trajectory.completions
    return EpisodeRecord(
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
    )


def result_id(request_id: str, episodes: Iterable[EpisodeRecord]) -> str:
    """Return the sha256 of a request and its episodes in order of their keys, without timings."""
    ordered = sorted(episodes, key=lambda episode: episode.key)
    return sha256_json([request_id, [episode.repeatable for episode in ordered]])


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        UsageError: it is missing or malformed.
    """
    try:
        return _loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; name the folder of a run") from error
    except ValueError as error:
        raise UsageError(f"{path} is damaged: {error}") from error


def read_run(folder: Path) -> RunRecord:
    """Read a run's ``run.json``.

    Raises:
        UsageError: it is missing, malformed or of another schema.
    """
    table = read_json(folder / RUN_FILE)
    if isinstance(table, dict) and table.get("schema") != SCHEMA:
        raise UsageError(f"{folder / RUN_FILE}: schema {table.get('schema')!r} is not {SCHEMA}; run it anew")
    run = parse(RunRecord, table, str(folder / RUN_FILE))
    try:
        run.text.encode()
    except ValueError as error:  # an infinite number, or half a surrogate pair
        raise UsageError(f"{folder / RUN_FILE} is damaged: {error}") from error
    if not run.provenance:
        raise UsageError(f"{folder / RUN_FILE} is damaged: provenance names no machine")
    return run


def write_run(folder: Path, run: RunRecord) -> None:
    """Write a run's ``run.json`` at once."""
    replace_file(folder / RUN_FILE, run.text)


def read_episodes(folder: Path) -> list[EpisodeRecord]:
    """Read a run's episodes in the order in which they ended.

    Raises:
        UsageError: the file is missing, or a line is malformed or cut off; the message has its number.
    """
    episodes = []
    for number, outcome in parse_episodes(read_bytes(folder / EPISODES_FILE)):
        if isinstance(outcome, str):
            raise UsageError(f"{folder / EPISODES_FILE}, line {number}: {outcome}")
        episodes.append(outcome)
    return episodes


def read_bytes(path: Path) -> bytes:
    """Read a file whole.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; name the folder of a run") from error


def parse_episodes(data: bytes) -> Iterator[tuple[int, EpisodeRecord | str]]:
    """Yield for each line of ``episodes.jsonl`` its number and its record, or what is wrong with it."""
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        last = number == len(lines)
        if last and not line:
            return
        if last:
            yield number, "the line is cut off"
            return
        try:
            yield number, _parse_line(line)
        except ValueError as error:
            yield number, f"malformed: {error}"


def _parse_line(line: bytes) -> EpisodeRecord:
    record = parse(EpisodeRecord, _loads(line.decode("utf-8")), "episode")
    for key in _SPENT:
        if not 0 <= getattr(record, key) <= _MOST_SPENT:
            raise ValueError(f"{key} must be from 0 to {_MOST_SPENT:g}")
    # keys that come twice, infinite numbers, half surrogate pairs: two readers could see two things
    if record.line.encode() != line:
        raise ValueError("the line is not written as records are")
    return record


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def find_episode(episodes: Sequence[EpisodeRecord], key: str) -> EpisodeRecord:
    """Return the episode that a person names.

    Args:
        episodes: where to look, in the order of the file.
        key: ``LABEL/TASK/ROLLOUT``, the number of its line (from 1), or any part of the id that only
            one episode has.

    Raises:
        UsageError: no episode matches, or several do.
    """
    by_id: Mapping[str, EpisodeRecord] = {episode.id: episode for episode in episodes}
    if key in by_id:
        return by_id[key]
    if key.isascii() and key.isdigit() and 1 <= int(key) <= len(episodes):
        return episodes[int(key) - 1]
    matches = [name for name in by_id if key in name]
    if len(matches) == 1:
        return by_id[matches[0]]
    if matches:
        raise UsageError(f"{len(matches)} episodes match {key!r}; name one, for example {matches[0]!r}")
    example = nearest(key, by_id) or f"; for example {next(iter(by_id), 'none has been played')!r}"
    raise UsageError(f"no episode {key!r}{example}")


def load_episode(folder: Path, key: str) -> tuple[RunRecord, SuiteEnv, EpisodeRecord]:
    """Return a run, one of its episodes, and the environment it was played in.

    Raises:
        UsageError: the run is unreadable, or has no such episode.
    """
    run = read_run(folder)
    episode = find_episode(read_episodes(folder), key)
    for found in run.envs:
        if found.env.label == episode.env:
            return run, found.env, episode
    raise UsageError(f"episode {episode.id} is of an environment that {folder / RUN_FILE} does not name")


def _loads(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")
