"""Model checks: whether a run's weights reproduce its transcripts.

Replaying shows that a score belongs to the actions, not that a model chose them. Where the weights are at
hand and the transcripts have token ids, that can be computed. The episodes are played again up to the
responses that are looked at, so that prompts, admissible actions and random seeds come from the environment
and the suite; then the model reads each prompt with its recorded response once (teacher forcing). The
response must be the one that the seed draws from the model's distribution, at the recorded log-probabilities.
Where an engine draws by numbers of its own, the responses together must be as likely as samples are instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import randbits
from typing import Protocol, cast

import numpy as np

from agentgym.agents.table import AGENTS
from agentgym.core.options import PositiveInt, check_fields
from agentgym.core.types import Completion, Request
from agentgym.errors import UsageError
from agentgym.evaluation.log.results import EvalLog, EvalSample
from agentgym.evaluation.log.stored_run import StoredRun
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE, TranscriptRecord, check_transcript
from agentgym.evaluation.suites.agent_metadata import contradictions, with_facts
from agentgym.evaluation.suites.plan import open_slots
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.io.optional import load_reference
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.vector.core import AgentVectorEnv

DEFAULT_SAMPLE = 200
"""Number of responses that are recomputed."""

MAX_DEVIATIONS = 5.0
"""Standard deviations by which the log-probability of samples may be off its expectation; chance exceeds them
once in 1.7 million checks."""


@dataclass(frozen=True, slots=True)
class ModelSample:
    """Weights and sample size of a model check."""

    directory: Path
    """Directory of the model."""
    sample: PositiveInt = DEFAULT_SAMPLE
    """Number of responses to recompute."""
    seed: int = field(default_factory=lambda: randbits(32))
    """Seed of the sample; by default a random one, so that no submitter can know it in advance."""

    def __post_init__(self) -> None:
        """Check the number."""
        check_fields(self, "--")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Tolerance of recomputed log-probabilities, per dtype."""

    logprob: float
    """Largest difference in a token's log-probability, in nats."""
    mean: float
    """Largest mean absolute difference over the sample, in nats."""
    draw: float
    """Largest distance, as a probability, of a token's random number from the token's interval; 1 where the
    engine drew by numbers of its own, so that any is as good."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A recomputed response."""

    problem: str = ""
    """Error in the recorded tokens; empty without one."""
    differences: tuple[float, ...] = ()
    """Recomputed minus recorded log-probability of each token."""
    draw: float = 0.0
    """Largest miss of its tokens, as in `Tolerance.draw`."""
    surprise: float = 0.0
    """Sum over its tokens of negative log-probability less entropy, in nats."""
    variance: float = 0.0
    """Variance of that sum where the tokens are samples."""


class ResponseChecker(Protocol):
    """Recomputation of one environment's responses with a local model."""

    @property
    def tolerance(self) -> Tolerance:
        """Tolerance for the weights' type."""

    def recorded(self, request: Request, record: TranscriptRecord, number: int) -> Completion:
        """Return a recorded answer in the form that later prompts contain."""

    def recompute(self, request: Request, record: TranscriptRecord, number: int) -> Recomputed:
        """Recompute a response of the episode, from its question made anew by replay."""


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """Result of recomputing a model's responses."""

    ok: bool
    weights_sha256: str
    """sha256 of the weights in the checked model directory."""
    responses: int
    """Number of responses in the run."""
    sampled: int
    """Number of recomputed responses."""
    seed: int
    """Seed that drew the sample."""
    tokens: int
    """Number of tokens of the sampled responses."""
    mean_difference: float
    """Mean absolute difference of their log-probabilities, in nats."""
    largest_difference: float
    """Largest absolute difference of their log-probabilities, in nats."""
    largest_draw: float
    """Largest miss of a draw, as in `Tolerance.draw`."""
    tolerance: Tolerance
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Sampled:
    """An episode, and which of its responses are looked at."""

    episode: EvalSample
    record: TranscriptRecord
    steps: tuple[int, ...]


class _RecordedActions:
    """Plays an episode's recorded actions up to a step, and keeps the requests."""

    def __init__(self, record: TranscriptRecord, last: int, checker: ResponseChecker):
        self._record = record
        self._last = last
        self._checker = checker
        self.requests: list[Request] = []

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer the one episode that is played."""
        (request,) = requests
        self.requests.append(request)
        if request.turn < self._last:
            return [self._checker.recorded(request, self._record, request.turn)]
        return [Completion("", error="agent_error")]  # the rest of the episode is not needed


def check_checkable(run: StoredRun, model_dir: Path) -> None:
    """Refuse runs that cannot be checked, before anything takes time."""
    if not _checker_of(run.log):
        raise UsageError(
            f"{run.folder}: agents of kind {run.log.agent.kind!r} have no weights to check: leave out --model"
        )
    if not run.has_transcripts:
        raise UsageError(
            f"{run.folder} has no {TRANSCRIPTS_FILE}: bench with --transcripts, or leave out --model"
        )
    if not model_dir.is_dir():
        raise UsageError(f"the model directory {model_dir} does not exist: give the path of a saved model")


def check_model(run: StoredRun, model: ModelSample) -> ModelCheck:
    """Recompute random responses of a run; all where there are fewer than the sample.

    The sample's seed decides which: the run's author should not have been able to know it.
    """
    check_checkable(run, model.directory)
    log, episodes = run.log, run.samples
    open_checker = cast(Callable[..., ResponseChecker], load_reference(_checker_of(log)))
    agent = replace(log.agent, options={**log.agent.options, "path": str(model.directory)})
    found = with_facts(agent, (found.env for found in log.played))
    problems = [
        f"{name} is {theirs!r} by the files in {model.directory}, {ours!r} by the run"
        for name, ours, theirs in contradictions(log.agent, found)
    ]
    records = run.transcripts()
    problems += _unmatched(episodes, records)
    played = [
        (episode, records[episode.transcript])
        for episode in sorted(episodes, key=lambda episode: episode.key)
        if episode.transcript in records
    ]
    places = [
        (place, number) for place, (_, record) in enumerate(played) for number in range(len(record.steps))
    ]
    sampled = [
        _Sampled(*played[place], steps) for place, steps in _drawn(places, model.sample, model.seed).items()
    ]
    tolerance, results = Tolerance(0.0, 0.0, 0.0), []
    for env in (part.env for part in log.envs):
        mine = [one for one in sampled if one.episode.env == env.label]
        if mine:
            with closing(open_slots(env, num_envs=1)) as slots:
                checker = open_checker(slots, **agent.options)
                tolerance = checker.tolerance
                results += [one for part in mine for one in _recompute(part, slots, checker, env.id)]
    return _conclude(found, problems, results, len(places), model.seed, tolerance)


def _checker_of(run: EvalLog) -> str:
    """Return the reference of what recomputes an agent's responses; empty where nothing does."""
    entry = AGENTS.get(run.agent.kind)
    return "" if entry is None else entry.check


def _unmatched(episodes: Sequence[EvalSample], records: Mapping[str, TranscriptRecord]) -> Iterator[str]:
    """Yield the reasons why transcripts cannot be those of the episodes."""
    for episode in episodes:
        if not (episode.transcript or episode.actions or episode.completion_tokens):
            continue  # the episode ended before the model answered
        if episode.transcript not in records:
            yield f"{episode.id}: there is no transcript of this episode"
        else:
            for problem in check_transcript(records[episode.transcript], episode):
                yield f"{episode.id}: {problem}"


def _drawn(places: Sequence[tuple[int, int]], sample: int, seed: int) -> dict[int, tuple[int, ...]]:
    """Draw pairs of an episode and a step, each at most once; return the steps by episode."""
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    chosen = generator.choice(len(places), min(sample, len(places)), replace=False)
    drawn: dict[int, tuple[int, ...]] = {}
    for place in sorted(chosen.tolist()):
        episode, number = places[place]
        drawn[episode] = (*drawn.get(episode, ()), number)
    return drawn


def _recompute(
    part: _Sampled, slots: AgentVectorEnv, checker: ResponseChecker, env_id: str
) -> Iterator[Recomputed]:
    """Play an episode up to its last sampled response; yield what each is found to be."""
    replay = _RecordedActions(part.record, part.steps[-1], checker)
    spec = EpisodeSpec(part.episode.task_id, part.episode.seed, part.episode.rollout)
    for _ in RolloutWorker(slots, replay, env_id=env_id).run([spec]):
        pass
    for number in part.steps:
        where = f"{part.episode.id}, step {number}"
        if number >= len(replay.requests):
            yield Recomputed(f"{where}: the episode is over before")
            continue
        result = checker.recompute(replay.requests[number], part.record, number)
        yield replace(result, problem=f"{where}: {result.problem}") if result.problem else result


def _conclude(
    agent: SuiteAgent,
    problems: Sequence[str],
    results: Sequence[Recomputed],
    responses: int,
    seed: int,
    tolerance: Tolerance,
) -> ModelCheck:
    differences = np.abs([number for one in results for number in one.differences])
    mean = float(differences.mean()) if len(differences) else 0.0
    wrong = [*problems, *(one.problem for one in results if one.problem)]
    if not results:
        wrong.append("the run has no responses")
    if mean > tolerance.mean:
        wrong.append(f"log-probabilities differ by {mean:.2g} in the mean, more than {tolerance.mean:g}")
    surprise, deviation = sum(one.surprise for one in results), sum(one.variance for one in results) ** 0.5
    allowed = MAX_DEVIATIONS * deviation + tolerance.mean * len(differences)
    if tolerance.draw >= 1 and abs(surprise) > allowed:
        wrong.append(
            f"the responses are not sampled from the model: their log-probability is {-surprise:+.0f} nats "
            f"off the expected one, where samples are off by at most {allowed:.0f}"
        )
    return ModelCheck(
        ok=not wrong,
        weights_sha256=agent.model.weights_sha256,
        responses=responses,
        sampled=len(results),
        seed=seed,
        tokens=len(differences),
        mean_difference=mean,
        largest_difference=float(differences.max(initial=0.0)),
        largest_draw=max((one.draw for one in results), default=0.0),
        tolerance=tolerance,
        problems=tuple(wrong),
    )
